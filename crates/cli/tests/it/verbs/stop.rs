//! `stop`: the service and its jobs.

use nexus_testkit::{Nexus, alive};

use super::{LONG, SCREEN};
use crate::NEXUS;

fn with_a_running_job() -> (Nexus, String) {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.add(LONG);
    nexus.in_state(&id, "running");
    (nexus, id)
}

#[test]
fn running_jobs_need_a_yes() {
    let (nexus, id) = with_a_running_job();
    let said = nexus.fails(1, &["stop"]);
    assert_eq!(
        said,
        "error: the service was not stopped\n1 running job would be ended\nhint: nexus stop -y, or nexus stop --keep-jobs\n"
    );
    let asked = nexus.on_terminal(SCREEN, "n\n", &["--color", "never", "stop"]).expect_code(1).stdout;
    assert!(asked.contains(&format!("  {id}  running  sleep 1000")), "{asked}");
    assert!(asked.contains("1 running job would be ended. stop? [y/N]"), "{asked}");
    assert_eq!(nexus.job(&id)["state"], "running");
    nexus.on_terminal(SCREEN, "y\n", &["stop"]).expect_code(0);
    assert_eq!(nexus.service_process(), None);
}

#[test]
fn its_jobs_are_killed_and_the_queue_stays() {
    let (nexus, id) = with_a_running_job();
    nexus.ok(&["pause"]);
    let waits = nexus.add("true");
    let pid = nexus.job(&id)["pid"].as_u64().unwrap() as u32;
    let service = nexus.service_pid();
    assert_eq!(nexus.run(&["stop", "-y"]).expect_code(0).stderr, "service stopped\n");
    assert!(!alive(service) && !alive(pid));
    nexus.fails(3, &["queue"]);
    nexus.ok(&["start"]);
    let job = nexus.job(&id);
    assert_eq!((&job["state"], &job["reason"]), (&"killed".into(), &"stopped".into()));
    assert_eq!(nexus.job(&waits)["state"], "queued");
    assert!(nexus.service_log().contains(&format!("Job {id} killed on GPU 0 by stop\n")));
}

#[test]
fn those_that_come_after_a_stopped_job_are_held_and_not_lost() {
    let (nexus, id) = with_a_running_job();
    let child = nexus.add_with(&["--after", &id], "true");
    let grandchild = nexus.add_with(&["--after", &child], "true");
    let anyway = nexus.add_with(&["--after-any", &id, "--hold"], "true");
    nexus.ok(&["stop", "-y"]);
    nexus.ok(&["start"]);
    assert_eq!(nexus.job(&child)["state"], "held");
    assert!(nexus.ok(&["why", &child]).contains("held"));
    let line = format!("] Job {child} held: job {id}, which it was to come after, was ended by stop\n");
    assert!(nexus.service_log().contains(&line), "{}", nexus.service_log());
    assert_eq!(nexus.job(&grandchild)["waiting"]["jobs"], serde_json::json!([child]), "that one may still come");
    // It can be changed and let go: the parent is none of its own any more.
    nexus.ok(&["edit", &child, "--priority", "3"]);
    nexus.ok(&["release", &child, &anyway]);
    for job in [&child, &grandchild, &anyway] {
        assert_eq!(nexus.ended(job)["state"], "completed");
    }
}

#[test]
fn jobs_can_be_kept() {
    let (nexus, id) = with_a_running_job();
    let pid = nexus.job(&id)["pid"].as_u64().unwrap() as u32;
    nexus.ok(&["stop", "--keep-jobs"]);
    assert!(alive(pid));
    nexus.ok(&["start"]);
    let job = nexus.job(&id);
    assert_eq!((&job["state"], job["pid"].as_u64()), (&"running".into(), Some(pid.into())));
}

#[test]
fn without_a_service_there_is_nothing_to_stop() {
    let nexus = Nexus::fresh(NEXUS);
    assert_eq!(nexus.run(&["stop"]).expect_code(0).stderr, "no service runs in this home\n");
    assert!(!nexus.home().exists());
    nexus.start(1);
    nexus.ok(&["stop"]);
}
