//! `pause` and `resume`: the queue.

use nexus_testkit::Nexus;

use super::LONG;
use crate::NEXUS;

#[test]
fn nothing_starts_while_paused_and_running_jobs_go_on() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    let runs = nexus.add(LONG);
    nexus.in_state(&runs, "running");
    for _ in 0..2 {
        let said = nexus.run(&["pause"]).expect_code(0).stderr;
        assert_eq!(said, "queue paused: running jobs go on, nothing new starts\n");
    }
    let waits = nexus.add("true");
    assert_eq!(nexus.job(&waits)["waiting"]["kind"], "queue-paused");
    assert_eq!(nexus.job(&runs)["state"], "running");
    nexus.ok(&["restart"]);
    assert_eq!(nexus.job(&waits)["waiting"]["kind"], "queue-paused");
    nexus.kill_service();
    nexus.start(2);
    assert_eq!(nexus.json(&["status", "--json"])["queue_paused"], true);
    for _ in 0..2 {
        assert_eq!(nexus.run(&["resume"]).expect_code(0).stderr, "queue resumed\n");
    }
    assert_eq!(nexus.ended(&waits)["state"], "completed");
    assert_eq!(nexus.service_log().matches("Queue paused by user").count(), 1, "the second changed nothing");
}

#[test]
fn a_job_is_sent_to_its_verb_and_nothing_is_done() {
    let nexus = Nexus::fresh(NEXUS);
    for (verb, hint) in [
        ("pause", "hint: nexus hold abc keeps a queued job from starting\n"),
        ("resume", "hint: nexus release abc lets a held job start\n"),
        ("stop", "hint: nexus kill abc ends a running job, nexus remove abc a queued one\n"),
        ("restart", "hint: nexus rerun abc runs a job again\n"),
    ] {
        let said = nexus.fails(2, &[verb, "abc"]);
        assert!(said.starts_with(&format!("error: {verb} takes no job, and nothing was done\n")), "{said}");
        assert!(said.ends_with(hint), "{said}");
    }
    assert!(!nexus.home().exists());
}
