//! 7, 8, 9, 27: how a job ended is told truly, nothing of it stays behind, and it stays told.

use std::time::{Duration, Instant};

use nexus_testkit::{Nexus, alive, children_marked, proc, until};
use serde_json::{Value, json};

use super::{lines_of, wait_for};
use crate::NEXUS;

#[test]
fn r07_each_end_has_its_own_word() {
    let nexus = Nexus::with_gpus(NEXUS, 4);
    nexus.file("not-executable", "true\n");
    let shell: &[(&str, &str, Value, Value, Value)] = &[
        ("true", "completed", Value::Null, json!(0), Value::Null),
        ("false", "failed", json!("exit"), json!(1), Value::Null),
        ("exit 3", "failed", json!("exit"), json!(3), Value::Null),
        ("exit 137", "failed", json!("exit"), json!(137), Value::Null),
        ("kill -9 $$", "failed", json!("signal"), Value::Null, json!(9)),
        ("kill -TERM $$", "failed", json!("signal"), Value::Null, json!(15)),
        ("sh -c 'kill -9 $$'; true", "completed", Value::Null, json!(0), Value::Null),
        ("false; sleep 0.1", "completed", Value::Null, json!(0), Value::Null),
        ("nosuchprogram --lr 3", "failed", json!("start-error"), json!(127), Value::Null),
        ("./not-executable", "failed", json!("start-error"), json!(126), Value::Null),
    ];
    let mut expected: Vec<(String, &str, [Value; 4])> = Vec::new();
    for (command, state, reason, code, signal) in shell {
        let end = [json!(state), reason.clone(), code.clone(), signal.clone()];
        expected.push((nexus.add(command), command, end));
    }
    let start_error = || [json!("failed"), json!("start-error"), Value::Null, Value::Null];
    for program in ["nosuchprogram", "./not-executable", "/"] {
        expected.push((nexus.ok(&["add", "--", program]), program, start_error()));
    }
    // A session that vanishes is no success.
    let lost = nexus.add(&wait_for("never"));
    nexus.in_state(&lost, "running");
    nexus_testkit::kill(nexus.shim(&lost), nexus_testkit::signal::SIGKILL);
    expected.push((lost, "shim killed", [json!("failed"), json!("lost"), Value::Null, Value::Null]));

    for (id, command, end) in expected {
        let job = nexus.ended(&id);
        let told = ["state", "reason", "exit_code", "signal"].map(|name| job[name].clone());
        assert_eq!(told, end, "{command}: {job}");
        let waited = nexus.run(&["wait", &id]);
        assert_eq!(waited.code, i32::from(job["state"] != "completed"), "{waited}");
    }
}

/// Makes a program that lets no signal but KILL end it. Its command line names the test's folder.
fn stubborn(nexus: &Nexus) -> String {
    let path = nexus.file("stubborn.sh", "trap '' TERM HUP INT\nmkfifo $1; exec 3<>$1; echo ready; read -r _ <&3\n");
    path.display().to_string()
}

/// Whether a process is gone altogether, not left as a zombie either.
fn gone(pid: u32) -> bool {
    !std::path::Path::new(&format!("/proc/{pid}")).exists()
}

fn ready(nexus: &Nexus, id: &str, count: usize) {
    let log = nexus.run_dir(id, 1).join("stdout.log");
    let words = || std::fs::read_to_string(&log).unwrap_or_default().matches("ready").count();
    until("its processes are ready", || (words() == count).then_some(()));
}

/// Where the kernel can keep a job's processes together nexus lets it; both ways must hold.
const CGROUPS: [&str; 2] = ["on", "off"];

#[test]
fn r08_kill_leaves_no_descendant_and_no_zombie() {
    for cgroups in CGROUPS {
        let nexus = Nexus::fresh(NEXUS).env("NEXUS_CGROUPS", cgroups);
        nexus.start(1);
        let mark = stubborn(&nexus);
        let id = nexus.add_with(
            &["--grace", "1s"],
            // In sessions of their own, one without the job's environment, one whose parent is gone, one stopped;
            // the command itself ends when it is asked to.
            "setsid bash $PWD/stubborn.sh a & env -i PATH=$PATH setsid bash $PWD/stubborn.sh b &
             (setsid setsid bash $PWD/stubborn.sh c &) ; setsid bash -c 'kill -STOP $$; exec bash $PWD/stubborn.sh x' &
             bash $PWD/stubborn.sh d & bash -c 'exit 0' & wait",
        );
        ready(&nexus, &id, 4);
        let shim = nexus.shim(&id);
        let descends = |pid: &u32| std::iter::successors(Some(*pid), |pid| proc::parent(*pid)).any(|pid| pid == shim);
        let tree: Vec<u32> = proc::all().into_iter().filter(descends).collect();
        assert!(tree.len() > 6, "{tree:?}");

        let told = nexus.ok(&["kill", &id]);
        assert!(told.starts_with(&format!("killed {id} on GPU 0 after ")), "{told}");
        let left = tree.iter().filter(|pid| alive(**pid) && **pid != shim);
        let left: Vec<String> = left.map(|pid| proc::cmdline(*pid)).collect();
        assert!(left.is_empty(), "cgroups {cgroups}: {left:?}");
        assert_eq!(children_marked(&mark), [0; 0], "cgroups {cgroups}");
        let job = nexus.job(&id);
        assert_eq!((&job["state"], &job["reason"]), (&json!("killed"), &json!("user")));
        until("no zombie is left", || tree.iter().all(|pid| gone(*pid)).then_some(()));
    }
}

#[test]
fn r08_five_kills_take_one_grace_and_the_queue_goes_on() {
    let nexus = Nexus::with_gpus(NEXUS, 6);
    stubborn(&nexus);
    let ids: Vec<String> =
        (0..5).map(|n| nexus.add_with(&["--grace", "2s"], &format!("bash stubborn.sh pipe{n}"))).collect();
    ids.iter().for_each(|id| ready(&nexus, id, 1));

    let start = Instant::now();
    let mut kills: Vec<_> = ids.iter().map(|id| nexus.command(&["kill", id]).spawn().unwrap()).collect();
    for id in &ids {
        until("the kill is heard", || nexus.service_log().contains(&format!("Stopping job {id}")).then_some(()));
    }
    let meanwhile = nexus.done("true");
    assert_eq!(meanwhile["state"], "completed");
    for kill in &mut kills {
        assert!(kill.wait().unwrap().success());
    }
    let took = start.elapsed();
    // Five in a row take ten seconds.
    assert!((Duration::from_secs(2)..Duration::from_secs(6)).contains(&took), "{took:?}");
    for id in &ids {
        let killed = nexus.job(id);
        assert_eq!((&killed["state"], &killed["reason"]), (&json!("killed"), &json!("user")));
        // Times of one form and zone: their text sorts.
        let (other, own) = (meanwhile["ended_at"].as_str().unwrap(), killed["ended_at"].as_str().unwrap());
        assert!(other < own, "the queue stood still: {other} {own}");
    }
}

#[test]
fn r09_an_ended_job_never_changes() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let completed = nexus.add_with(&["--tag", "t"], "true");
    let failed = nexus.add_with(&["--tag", "t"], "exit 4");
    nexus.ended(&failed);
    let killed = nexus.add_with(&["--tag", "t"], "sleep 300");
    nexus.in_state(&killed, "running");
    let removed = nexus.add_with(&["--tag", "t"], "true");
    nexus.ok(&["remove", &removed]);
    nexus.ok(&["kill", &killed]);
    let jobs = [(&completed, "completed"), (&failed, "failed"), (&killed, "killed"), (&removed, "killed")];
    let records = || jobs.map(|(id, _)| nexus.job(id));
    let before = records();
    let history = nexus.json(&["history", "--all", "--json"]);
    let service = nexus.service_pid();

    for (id, state) in jobs {
        for verb in ["remove", "kill", "cancel", "hold", "release", "first"] {
            let told = nexus.fails(1, &[verb, id]);
            assert!(told.contains(id.as_str()) && told.contains(state), "{verb} {state}: {told}");
        }
        for verb in ["restart", "stop", "pause", "resume"] {
            let told = nexus.fails(2, &[verb, id]);
            assert!(told.contains("hint: nexus ") && told.contains(id.as_str()), "{verb}: {told}");
        }
    }
    for verb in ["remove", "kill", "cancel"] {
        nexus.fails(1, &[verb, "-y", "tag:t"]);
    }
    assert_eq!(records(), before);
    assert_eq!(nexus.service_pid(), service, "the service was not meant");
    assert_eq!(nexus.json(&["status", "--json"])["queue_paused"], false);

    let again = nexus.ok(&["rerun", &failed]);
    assert_ne!(again, failed);
    assert_eq!(nexus.ended(&again)["exit_code"], 4);
    assert_eq!(records(), before, "rerun makes a new job");
    nexus.ok(&["forget", "-y", &again]);
    nexus.ok(&["restart"]);
    assert_eq!(records(), before, "after a restart");
    nexus.kill_service();
    nexus.ok(&["start"]);
    assert_eq!(records(), before, "after a crash");
    assert_eq!(nexus.json(&["history", "--all", "--json"]), history);
}

/// A job that notes its signals and has children that heed none.
fn noting(nexus: &Nexus) -> (String, String) {
    let mark = stubborn(nexus);
    let note = |word: &str| format!("echo {word} $(date +%s%N) >> notes");
    let command = format!(
        "trap '{}' USR1; trap '{}; exit 0' TERM; {}; setsid bash $PWD/stubborn.sh a & setsid bash $PWD/stubborn.sh b &
         while :; do wait; done",
        note("usr1"),
        note("term"),
        note("begin"),
    );
    let options = ["--time", "2s", "--signal", "USR1@1s", "--grace", "1s"];
    (nexus.add_with(&options, &command), mark)
}

#[test]
fn r27_a_time_limit_ends_the_whole_tree_before_it_is_told() {
    let homes = CGROUPS.map(|cgroups| Nexus::fresh(NEXUS).env("NEXUS_CGROUPS", cgroups));
    homes.iter().for_each(|nexus| nexus.start(2));
    let started = homes.each_ref().map(noting);
    for (nexus, (id, _)) in homes.iter().zip(&started) {
        ready(nexus, id, 2);
    }
    for (nexus, (id, mark)) in homes.iter().zip(started) {
        let (job, left) = until("the job has ended", || {
            let job = nexus.job(&id);
            (job["ended_at"] != Value::Null).then(|| (job, children_marked(&mark)))
        });
        assert_eq!(left, [0; 0], "it was told before the tree was gone");
        assert_eq!((&job["state"], &job["reason"]), (&json!("failed"), &json!("timeout")), "{job}");
        let notes = lines_of(nexus, "notes");
        let words: Vec<&str> = notes.iter().map(|line| line.split(' ').next().unwrap()).collect();
        assert_eq!(words, ["begin", "usr1", "term"], "{notes:?}");
        let time = |line: &String| line.split(' ').nth(1).unwrap().parse::<u64>().unwrap() / 1_000_000;
        let (begin, usr1, term) = (time(&notes[0]), time(&notes[1]), time(&notes[2]));
        // The shell began a little after the clock did.
        assert!((800..1900).contains(&(usr1 - begin)), "USR1 came {} ms after the start", usr1 - begin);
        assert!((1800..2900).contains(&(term - begin)), "TERM came {} ms after the start", term - begin);
        let runtime = job["runtime_seconds"].as_f64().unwrap();
        assert!((3.0..4.5).contains(&runtime), "KILL after {runtime} s");
    }
}

#[test]
fn r27_who_ends_on_term_is_not_made_to_wait() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let quick = nexus.add_with(&["--time", "60s", "--gpus", "0"], "exit 0");
    let polite = nexus.add_with(&["--time", "1s"], "trap 'exit 0' TERM; while :; do sleep 0.02; done");
    let job = nexus.ended(&polite);
    assert_eq!((&job["state"], &job["reason"]), (&json!("failed"), &json!("timeout")), "{job}");
    let runtime = job["runtime_seconds"].as_f64().unwrap();
    assert!((1.0..2.5).contains(&runtime), "{runtime} s");
    assert_eq!(nexus.ended(&quick)["state"], "completed");
}

#[test]
fn a_full_gpu_has_a_reason_of_its_own_and_is_tried_again() {
    let nexus = Nexus::fresh(NEXUS);
    nexus.config("[jobs]\nretry_wait = \"1s\"\n");
    nexus.start(1);
    let command = "echo last=$NEXUS_LAST_FAILURE; echo 'torch.OutOfMemoryError: CUDA out of memory.' >&2; exit 7";
    let id = nexus.add_with(&["--retries", "1"], command);
    let job = nexus.ended(&id);
    assert_eq!((&job["state"], &job["reason"]), (&json!("failed"), &json!("gpu-oom")), "{job}");
    assert_eq!((&job["exit_code"], &job["signal"], &job["attempt"]), (&json!(7), &json!(null), &json!(2)));
    assert_eq!(job["detail"], "the memory of its GPU did not suffice, and it exited with code 7");
    assert_eq!(nexus.ok(&["logs", &id, "--stdout"]), "last=gpu-oom");
    assert!(nexus.service_log().contains(&format!("Job {id} failed on GPU 0: gpu-oom (exit 7); retry in 1s")));
    let why = nexus.ok(&["why", &id]);
    assert!(why.contains(": failed (gpu-oom) ") && why.contains("nexus gpus "), "{why}");
    let said = nexus.fails(7, &["run", command]);
    assert!(said.contains("failed (gpu-oom)"), "{said}");
    let made_do = nexus.done("echo 'CUDA out of memory, with a smaller batch then'");
    assert_eq!((&made_do["state"], &made_do["reason"]), (&json!("completed"), &json!(null)));
}
