//! What jobs print and leave behind is here, as if they had run here.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::mpsc::channel;

use nexus_testkit::{DEADLINE, until};
use serde_json::Value;

use super::{Hpc, small};

fn hpc() -> Option<(Hpc, &'static [&'static str])> {
    Some((Hpc::start(small(1, 2), &[])?, &["--class", "hpc"]))
}

#[test]
fn a_log_is_followed_while_it_is_written() {
    let Some((hpc, there)) = hpc() else { return };
    let id = hpc.nexus.add_with(there, "for i in 1 2 3; do until [ -e $i ]; do sleep 0.05; done; echo line $i; done");
    hpc.nexus.in_state(&id, "running");
    let mut follower = hpc.nexus.command(&["logs", "-f", &id]).stdout(Stdio::piped()).spawn().expect("it runs");
    let (lines, told) = channel();
    let from = BufReader::new(follower.stdout.take().expect("a pipe"));
    let reader = std::thread::spawn(move || from.lines().for_each(|line| drop(lines.send(line.expect("text")))));
    for number in ["1", "2", "3"] {
        // Each comes before the next is written.
        hpc.open(number);
        assert_eq!(told.recv_timeout(DEADLINE).expect("a line"), format!("line {number}"));
    }
    hpc.ends(&id, "completed");
    assert!(follower.wait().expect("it ends").success());
    reader.join().expect("it read all");
    assert_eq!(told.try_iter().count(), 0);
    assert_eq!(hpc.nexus.stdout_of(&id), "line 1\nline 2\nline 3\n");
}

#[test]
fn output_and_exit_codes_are_as_if_local() {
    let Some((hpc, there)) = hpc() else { return };
    let ran = hpc.nexus.run_limited(&[&["run"], there, &["echo out; echo err >&2; exit 7"]].concat()).expect_code(7);
    assert_eq!((ran.stdout.as_str(), ran.stderr.contains("err")), ("out\n", true), "{ran}");
    let id = hpc.nexus.add_with(&[there, &["--gpus", "0"]].concat(), "seq 20000; echo side >&2; kill -9 $$");
    let job = hpc.ended(&id);
    assert_eq!((&job["reason"], &job["signal"]), (&"signal".into(), &9.into()), "{}", hpc.about(&id));
    assert_eq!(hpc.nexus.run(&["logs", "-n", "2", &id]).stdout.lines().last(), Some("side"));
    assert_eq!(hpc.nexus.stdout_of(&id).lines().count(), 20_000);
    // Where the service has it, the folder of the cluster needs it no more.
    let text = hpc.nexus.ok(&["logs", "--stderr", &id]);
    assert_eq!(text, "side");
}

#[test]
fn results_come_back() {
    let Some((hpc, there)) = hpc() else { return };
    let to = hpc.nexus.work().join("kept");
    let command = "echo model > $NEXUS_RESULTS_DIR/model.bin; mkdir -p out; echo 1 > out/a; echo 'RESULTS: out'";
    let to_text = to.display().to_string();
    let id = hpc.nexus.add_with(&[there, &["--results", &to_text]].concat(), command);
    let job = hpc.ends(&id, "completed");
    assert_eq!(job["results_state"], "copied", "{job:#}");
    let kept = |name: &str| fs::read_to_string(to.join(&id).join(name)).expect(name);
    assert_eq!((kept("model.bin").as_str(), kept("out/a").as_str()), ("model\n", "1\n"));
    // By hand, later, and what a job wrote down for its next attempt.
    let resumes = "echo $NEXUS_ATTEMPT >> $NEXUS_CHECKPOINT_DIR/seen; cat $NEXUS_CHECKPOINT_DIR/seen; \
                   echo late > $NEXUS_RESULTS_DIR/late; [ $NEXUS_ATTEMPT = 2 ]";
    let id = hpc.nexus.add_with(&[there, &["--retries", "1"]].concat(), resumes);
    hpc.ends(&id, "completed");
    assert_eq!(hpc.nexus.stdout_of(&id), "1\n2\n");
    hpc.nexus.run_limited(&["results", &id, "--to", &to_text]).expect_code(0);
    assert_eq!(fs::read_to_string(to.join(&id).join("late")).expect("it was copied"), "late\n");
}

#[test]
fn gpu_hours_are_counted_by_machine() {
    let Some((hpc, there)) = hpc() else { return };
    let ids: Vec<String> =
        ["2", "1", "0"].map(|gpus| hpc.nexus.add_with(&[there, &["--gpus", gpus]].concat(), "sleep 1.5")).to_vec();
    let jobs: Vec<Value> = ids.iter().map(|id| hpc.ends(id, "completed")).collect();
    let seconds = |job: &Value| job["runtime_seconds"].as_f64().expect("it ran");
    let expected = (2.0 * seconds(&jobs[0]) + seconds(&jobs[1])) / 3600.0;
    let sums = hpc.nexus.json(&["report", "--by", "machine", "--json"]);
    let sum = sums.as_array().expect("a list").iter().find(|sum| sum["machine"] == "hpc");
    let sum = sum.unwrap_or_else(|| panic!("{sums:#}"));
    let counted = sum["gpu_hours"].as_f64().unwrap_or_else(|| panic!("{sums:#}"));
    assert!((counted - expected).abs() < 0.02 / 3600.0 + 0.0001, "{counted} and not {expected}: {sums:#}");
}

/// What lies in a folder of the cluster's side.
fn names_in(hpc: &Hpc, folder: &str) -> Vec<String> {
    let nodes = fs::read_dir(hpc.nexus.home().join("nodes")).expect("its folder").flatten();
    let entries = nodes.flat_map(|node| fs::read_dir(node.path().join(folder)).into_iter().flatten().flatten());
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn what_is_forgotten_leaves_nothing_on_the_cluster() {
    let Some((hpc, there)) = hpc() else { return };
    let id = hpc.nexus.add_with(there, "echo here");
    hpc.ends(&id, "completed");
    assert_eq!(hpc.nexus.ok(&["logs", &id]), "here");
    hpc.nexus.ok(&["forget", "-y", &id]);
    for folder in ["logs", "slurm"] {
        until("nothing is left", || names_in(&hpc, folder).iter().all(|name| !name.contains(&id)).then_some(()));
    }
}
