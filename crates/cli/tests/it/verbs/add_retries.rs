//! What is tried again, how often, and what stops a queue that only fails.

use nexus_testkit::Nexus;
use serde_json::json;

use crate::NEXUS;

/// Tries again at once.
fn hurried() -> Nexus {
    let nexus = Nexus::fresh(NEXUS);
    nexus.config("[jobs]\nretry_wait = \"0s\"\n");
    nexus.ok(&["start", "--simulate-gpus", "1"]);
    nexus
}

#[test]
fn a_timeout_is_tried_again_only_if_one_wishes() {
    let nexus = hurried();
    let once = nexus.add_with(&["--time", "1s", "--retries", "2"], "sleep 1000");
    let again = nexus
        .add_with(&["--time", "1s", "--retries", "2", "--retry-on", "timeout"], "echo $NEXUS_LAST_FAILURE; sleep 1000");
    let job = nexus.ended(&once);
    assert_eq!((&job["reason"], &job["attempt"]), (&json!("timeout"), &json!(1)));
    let job = nexus.ended(&again);
    assert_eq!((&job["reason"], &job["attempt"]), (&json!("timeout"), &json!(3)));
    assert_eq!(nexus.ok(&["logs", &again, "--attempt", "2", "--stdout"]), "timeout");
}

#[test]
fn failures_in_a_row_pause_the_queue() {
    let nexus = hurried();
    nexus.ok(&["config", "set", "queue.pause_after_failures", "2"]);
    nexus.ok(&["add", "false"]);
    nexus.ok(&["add", "true"]);
    nexus.ok(&["add", "false"]);
    let second = nexus.add("exit 3");
    let kept = nexus.add("true");
    nexus.ended(&second);
    let waiting = json!({"kind": "queue-paused", "after_failures": 2});
    assert_eq!(nexus.job(&kept)["waiting"], waiting);
    assert!(nexus.ok(&["queue"]).contains("queue paused after 2 failed jobs in a row: nexus resume"));
    assert!(nexus.service_log().contains("Queue paused after 2 failed jobs in a row"));
    assert!(nexus.ok(&["status"]).contains("[PAUSED]"));
    nexus.ok(&["restart"]);
    assert_eq!(nexus.job(&kept)["waiting"], waiting);
    nexus.ok(&["resume"]);
    assert_eq!(nexus.ended(&kept)["state"], "completed");
    let third = nexus.add("false");
    nexus.ended(&third);
    assert_eq!(nexus.ended(&nexus.add("true"))["state"], "completed", "they are counted anew");
}
