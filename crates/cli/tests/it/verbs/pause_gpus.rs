//! `pause` and `resume` with GPUs, and `add --force`.

use nexus_testkit::Nexus;
use serde_json::{Value, json};

use super::LONG;
use crate::{NEXUS, said};

fn paused(nexus: &Nexus) -> Vec<bool> {
    let machines = nexus.json(&["gpus", "--json"]);
    let gpus = machines[0]["gpus"].as_array().expect("a list");
    gpus.iter().map(|gpu| gpu["paused"].as_bool().expect("yes or no")).collect()
}

#[track_caller]
fn waits_for(nexus: &Nexus, id: &str, held: u16, paused: u16) {
    let expected = json!({"kind": "gpus", "need": 1, "exist": 2, "held": held, "paused": paused});
    assert_eq!(said(&nexus.job(id)["waiting"]), said(&expected));
}

#[test]
fn a_paused_gpu_takes_no_new_job_and_the_one_on_it_runs_on() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    let first = nexus.add(LONG);
    nexus.in_state(&first, "running");
    for _ in 0..2 {
        let said = nexus.run(&["pause", "0"]).expect_code(0).stderr;
        assert_eq!(said, format!("GPU 0 paused: nothing new starts there; {first} on GPU 0 runs on\n"));
    }
    let second = nexus.add(LONG);
    assert_eq!(nexus.in_state(&second, "running")["gpus"], json!([1]));
    let third = nexus.add(LONG);
    waits_for(&nexus, &third, 2, 0);
    nexus.ok(&["kill", &first]);
    waits_for(&nexus, &third, 1, 1);
    assert!(nexus.ok(&["queue"]).contains("needs 1 GPU: 1 held by jobs, 1 paused"));
    assert!(nexus.ok(&["show", &third]).contains("\nWaiting:     needs 1 GPU: 1 held by jobs, 1 paused\n"));
    assert!(nexus.ok(&["status"]).contains("\nGPU 0 (simulated, 24GB): paused\n"));

    nexus.ok(&["restart"]);
    waits_for(&nexus, &third, 1, 1);
    nexus.kill_service();
    nexus.ok(&["start"]);
    waits_for(&nexus, &third, 1, 1);
    assert_eq!(paused(&nexus), [true, false]);

    for _ in 0..2 {
        assert_eq!(nexus.run(&["resume", "0"]).expect_code(0).stderr, "GPU 0 resumed\n");
    }
    assert_eq!(nexus.in_state(&third, "running")["gpus"], json!([0]));
    let log = nexus.service_log();
    for line in ["GPU 0 paused by user", "GPU 0 resumed by user"] {
        assert_eq!(log.matches(line).count(), 1, "{line}: the second changed nothing\n{log}");
    }
}

#[test]
fn force_is_for_paused_gpus_and_for_nothing_else() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    let said = nexus.run(&["pause", "0", "local:1"]).expect_code(0).stderr;
    assert_eq!(said, "GPUs 0,1 paused: nothing new starts there\n");
    let waits = nexus.add(LONG);
    waits_for(&nexus, &waits, 0, 2);
    assert_eq!(nexus.ok(&["add", "--dry-run", "true"]), "would be queued: needs 1 GPU: 2 paused");
    assert_eq!(nexus.ok(&["add", "--dry-run", "--force", "true"]), "would start now on GPU 0");
    let forced: Vec<String> = (0..2).map(|_| nexus.add_with(&["--force"], LONG)).collect();
    let on: Vec<Value> = forced.iter().map(|id| nexus.in_state(id, "running")["gpus"].clone()).collect();
    assert_eq!(on, [json!([0]), json!([1])]);
    assert!(nexus.ok(&["show", &forced[0]]).contains("\nNeeds:       1 GPU, paused or not\n"));
    let more = nexus.add_with(&["--force"], LONG);
    waits_for(&nexus, &more, 2, 0);
    nexus.ok(&["pause"]);
    assert_eq!(nexus.job(&more)["waiting"]["kind"], "queue-paused", "the queue's pause is another thing");
    // A job that is run again may do what it might before.
    nexus.ok(&["kill", &forced[0]]);
    let again = nexus.ok(&["rerun", &forced[0]]);
    assert_eq!(nexus.job(&again)["request"]["force"], true, "{again}");
}

#[test]
fn gpus_that_do_not_exist_are_named_and_nothing_is_done() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    for verb in ["pause", "resume"] {
        let said = nexus.fails(1, &[verb, "0,7-8"]);
        assert_eq!(said, "error: there is no GPU 7,8\nthere are GPUs 0,1\nhint: nexus gpus\n");
        let said = nexus.fails(1, &[verb, "box:0"]);
        assert_eq!(said, "error: there is no machine box\nhint: nexus machine ls, nexus machine add [user@]host\n");
        for bad in ["0,", "1-", "3-1", "128"] {
            let said = nexus.fails(2, &[verb, bad]);
            assert!(said.starts_with(&format!("error: nexus {verb} {bad} is no list of GPUs\n")), "{said}");
        }
        let said = nexus.fails(2, &[verb, "0", "abc"]);
        assert!(said.starts_with(&format!("error: {verb} takes no job, and nothing was done\n")), "{said}");
    }
    assert_eq!(paused(&nexus), [false, false]);
    assert_eq!(nexus.json(&["status", "--json"])["queue_paused"], false);
}
