//! What is typed after `add`, as it stands in the job.

use nexus_testkit::{Nexus, kill};
use serde_json::json;

use super::SCREEN;
use crate::NEXUS;

#[test]
fn every_option_stands_in_the_job() {
    let nexus = Nexus::with_gpus(NEXUS, 4);
    let id = nexus.add_with(
        &[
            "--hold",
            "--name",
            "n",
            "--project",
            "p",
            "--tag",
            "a",
            "--tag",
            "b",
            "--priority",
            "-3",
            "--gpus",
            "2",
            "--cpus",
            "1",
            "--on",
            "0-1",
            "--on",
            "3",
            "--retries",
            "2",
            "--time",
            "1h30m",
            "--signal",
            "USR1@120s",
            "--grace",
            "5s",
            "--force",
            "--cwd",
            "/",
        ],
        "true",
    );
    let job = nexus.job(&id);
    for (field, value) in [
        ("name", json!("n")),
        ("project", json!("p")),
        ("tags", json!(["a", "b"])),
        ("priority", json!(-3)),
        ("retries", json!(2)),
        ("cwd", json!("/")),
        ("state", json!("held")),
        ("command", json!("true")),
        ("argv", json!(null)),
    ] {
        assert_eq!(job[field], value, "{field}");
    }
    let request = json!({
        "gpus": 2, "cpus": 1, "on": [0, 1, 3], "time_seconds": 5400,
        "signal": {"signal": 10, "before_seconds": 120}, "grace_seconds": 5, "force": true,
    });
    assert_eq!(job["request"], request);
    let shown = nexus.ok(&["show", &id]);
    assert!(
        shown.contains(
            "Needs:       2 GPUs of 0,1,3, paused or not, 1 CPU, at most 1h30m, USR1 2m before the end, grace 5s"
        ),
        "{shown}"
    );
}

#[test]
fn several_words_are_an_argv_and_all_after_the_first_belongs_to_it() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let hold = |words: &[&str]| nexus.job(&nexus.ok(&[&["add", "--hold"], words].concat()));
    let job = hold(&["python", "train.py", "--lr", "3", "--name", "x", "-h"]);
    assert_eq!(job["argv"], json!(["python", "train.py", "--lr", "3", "--name", "x", "-h"]));
    assert_eq!(job["name"], json!(null));
    assert_eq!(job["command"], "python train.py --lr 3 --name x -h");
    assert_eq!(hold(&["--", "--odd"])["argv"], json!(["--odd"]));
    assert_eq!(hold(&["a b && c"])["argv"], json!(null));
    assert_eq!(hold(&["printf", "%s", "it's", ""])["command"], r"printf %s 'it'\''s' ''");
}

#[test]
fn ids_alone_are_printed_but_on_a_terminal() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let ids = nexus.ok(&["add", "-x", "3", "--hold", "true"]);
    let ids: Vec<&str> = ids.lines().collect();
    assert_eq!(ids.len(), 3);
    assert!(ids.iter().all(|id| id.len() == 3 && id.bytes().all(|byte| byte.is_ascii_lowercase())), "{ids:?}");
    let told = nexus.on_terminal(SCREEN, "", &["add", "--gpus", "2", "true"]).expect_code(0).stdout;
    assert!(told.contains("position 4, needs 2 GPUs, there is 1"), "{told}");
    let quiet = nexus.on_terminal(SCREEN, "", &["add", "--quiet", "--hold", "true"]).expect_code(0).stdout;
    assert_eq!(quiet.trim_end().len(), 3, "{quiet:?}");
}

#[test]
fn json_prints_the_jobs() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let answer = nexus.json(&["add", "--json", "--hold", "-x", "2", "--name", "n", "true"]);
    let jobs = answer["jobs"].as_array().expect("a list");
    assert_eq!(jobs.len(), 2);
    assert!(jobs.iter().all(|job| job["name"] == "n" && job["state"] == "held"));
}

#[test]
fn the_answer_is_what_is_there() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.ok(&["pause"]);
    for options in [
        &["--tag", "b", "--tag", "a", "--name", "n", "--project", "p"][..],
        &["--hold", "--priority", "-3", "--retries", "2"],
        &["--priority", "5", "--time", "1h", "--env", "TOKEN=secret"],
        &["-x", "3", "--gpus", "2"],
    ] {
        let mut answer = nexus.json(&[&["add", "--json"], options, &["echo", "a b"]].concat());
        for told in answer["jobs"].as_array_mut().expect("a list") {
            let there = nexus.job(told["id"].as_str().expect("its id"));
            for (field, value) in told.as_object_mut().expect("a job") {
                assert_eq!(there[field], *value, "{field} with {options:?}");
            }
        }
    }
}

#[test]
fn a_service_that_was_killed_a_moment_ago_is_started_again() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    for _ in 0..10 {
        kill(nexus.service_pid(), 9);
        let id = nexus.ok(&["add", "--hold", "true"]);
        assert_eq!(nexus.job(&id)["state"], "held");
    }
}

#[test]
fn a_dry_run_queues_nothing_and_says_what_would_be() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    assert_eq!(nexus.ok(&["add", "--dry-run", "true"]), "would start now on GPU 0");
    assert_eq!(nexus.ok(&["add", "--dry-run", "--gpus", "3", "true"]), "would be queued: needs 3 GPUs, there are 2");
    nexus.ok(&["pause"]);
    assert_eq!(nexus.ok(&["add", "--dry-run", "true"]), "would be queued: queue paused: nexus resume");
    assert_eq!(nexus.json(&["add", "--dry-run", "--json", "true"])["jobs"][0]["waiting"]["kind"], "queue-paused");
    assert_eq!(nexus.json(&["ls", "--json"]), json!([]));
}

#[test]
fn what_this_machine_does_not_have_is_said_at_once() {
    let nexus = Nexus::fresh(NEXUS);
    let said = |args: &[&str]| nexus.run(args).expect_code(0).stderr;
    nexus.start(2);
    assert_eq!(
        said(&["add", "--gpus", "4", "true"]),
        "warning: the job cannot start here: it needs 4 GPUs, there are 2\n"
    );
    assert_eq!(
        said(&["add", "--on", "7", "true"]),
        "warning: the job cannot start here: it needs 1 GPU of 7, there are none\n"
    );
    assert_eq!(said(&["add", "--gpus", "2", "true"]), "");
    nexus.start(0);
    // Where the machine under test has GPUs of its own there is nothing to say.
    if nexus.json(&["status", "--json"])["machines"][0]["gpus"] == json!([]) {
        let said = said(&["add", "true"]);
        assert_eq!(said, "warning: there is no GPU here: the job waits for one; --gpus 0 runs it on the CPU\n");
    }
}
