//! Jobs that come after others.

use nexus_testkit::Nexus;
use serde_json::json;

use super::LONG;
use crate::NEXUS;

#[test]
fn a_job_starts_when_those_before_it_have_completed() {
    let nexus = Nexus::with_gpus(NEXUS, 4);
    let (first, second) = (nexus.add("until [ -e go ]; do sleep 0.01; done; echo 1 >> order"), nexus.add("true"));
    let list = format!("{first},{second}");
    let last = nexus.add_with(&["--after", &list], "echo 2 >> order");
    nexus.ended(&second);
    assert_eq!(nexus.job(&last)["waiting"], json!({"kind": "after", "jobs": [first], "count": 1}));
    assert!(nexus.ok(&["queue"]).contains(&format!("comes after {first}")));
    assert!(nexus.ok(&["why", &last]).contains(&format!("nexus why {first}")));
    assert!(nexus.ok(&["show", &last]).contains(&format!("\nAfter:       {first} {second}\n")));
    let tried = nexus.ok(&["add", "--dry-run", "--after", &first, "true"]);
    assert_eq!(tried, format!("would be queued: comes after {first}"));
    nexus.ok(&["restart"]);
    assert_eq!(nexus.job(&last)["state"], "queued");
    nexus.file("go", "");
    assert_eq!(nexus.ended(&last)["state"], "completed");
    assert_eq!(std::fs::read_to_string(nexus.work().join("order")).unwrap(), "1\n2\n");
    let late = nexus.add_with(&["--after", &first, "--after", "last:2"], "true");
    assert_eq!(nexus.ended(&late)["state"], "completed", "they have completed already");
}

#[test]
fn one_that_does_not_complete_fails_all_that_come_after_it() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let first = nexus.add(LONG);
    let child = nexus.add_with(&["--after", &first, "--retries", "3"], "touch ran");
    let grandchild = nexus.add_with(&["--after", &child], "touch ran");
    let anyway = nexus.add_with(&["--after-any", &grandchild], "echo anyway");
    nexus.in_state(&first, "running");
    nexus.ok(&["kill", &first]);
    for (id, parent) in [(&child, &first), (&grandchild, &child)] {
        let job = nexus.ended(id);
        assert_eq!((&job["state"], &job["reason"]), (&json!("failed"), &json!("dependency")), "{job}");
        let detail = format!("job {parent}, which it was to come after, did not complete");
        assert_eq!(job["detail"], json!(detail));
        assert!(nexus.service_log().contains(&format!("Job {id} failed: {detail}")));
    }
    assert_eq!(nexus.ended(&anyway)["state"], "completed");
    assert!(!nexus.work().join("ran").exists());
    let why = nexus.ok(&["why", &child]);
    assert!(why.contains(&format!("job {first}, which it was to come after, did not complete")), "{why}");
    assert!(why.contains(&format!("nexus rerun {first} {child}")), "{why}");
    let late = nexus.run(&["add", "--after", &first, "touch ran"]).expect_code(0);
    let id = late.stdout.trim_end();
    let did_not = format!("job {first}, which it was to come after, did not complete");
    assert_eq!(late.stderr, format!("warning: {id} failed at once: {did_not}\n"), "that one failed before");
    assert_eq!(nexus.job(id)["reason"], "dependency");
    let status = nexus.ok(&["status"]);
    assert!(status.contains(&format!("dependency: {did_not}")), "{status}");
    let failed = nexus.ok(&["history", "--state", "failed"]);
    assert!(failed.contains("dependency"), "{failed}");
}

#[test]
fn what_it_comes_after_can_be_changed_but_never_into_a_circle() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    let first = nexus.add(LONG);
    let second = nexus.add_with(&["--after", &first], LONG);
    let third = nexus.add_with(&["--after", "last"], "true");
    assert_eq!(nexus.job(&third)["waiting"]["jobs"], json!([second]));
    let said = nexus.fails(1, &["edit", &second, "--after", &third]);
    assert!(said.contains("jobs that do not wait for it themselves"), "{said}");
    assert_eq!(nexus.job(&second)["waiting"]["jobs"], json!([first]));
    nexus.fails(1, &["add", "--after", "zzzzzz", "true"]);
    nexus.ok(&["edit", &second, "--after", ""]);
    nexus.in_state(&second, "running");
    nexus.ok(&["edit", &third, "--after", "", "--after-any", &first]);
    assert_eq!(nexus.job(&third)["waiting"]["jobs"], json!([first]));
    nexus.ok(&["kill", &first]);
    assert_eq!(nexus.ended(&third)["state"], "completed");
}

#[test]
fn a_group_that_is_removed_is_removed_and_not_failed() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let held = nexus.add_with(&["--hold"], "true");
    let child = nexus.add_with(&["--after", &held], "true");
    nexus.ok(&["remove", &held, &child, "-y"]);
    assert_eq!(nexus.job(&child)["reason"], "removed");
}
