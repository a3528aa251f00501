//! `remove`: queued jobs.

use nexus_testkit::Nexus;

use super::{LONG, SCREEN};
use crate::NEXUS;

#[test]
fn a_queued_job_leaves_the_queue_and_stays_in_the_history() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.add_with(&["--hold"], "true");
    assert_eq!(nexus.ok(&["remove", &id]), format!("removed {id}: true"));
    let job = nexus.job(&id);
    assert_eq!((&job["state"], &job["reason"]), (&"killed".into(), &"removed".into()));
    let said = nexus.fails(1, &["remove", &id]);
    assert!(said.starts_with(&format!("error: job {id} cannot be removed\nit has ended: killed\n")), "{said}");
}

#[test]
fn a_running_job_is_sent_to_kill() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.add(LONG);
    nexus.in_state(&id, "running");
    for verb in ["remove", "hold", "first"] {
        let said = nexus.fails(1, &[verb, &id]);
        assert!(said.ends_with(&format!("\nit is running on GPU 0\nhint: nexus kill {id}\n")), "{said}");
    }
}

#[test]
fn many_at_once_need_a_yes() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.ok(&["add", "--hold", "-x", "3", "echo  x"]);
    assert!(nexus.fails(1, &["remove", "/echo +x/"]).starts_with("error: remove 3 jobs? nobody can be asked here\n"));
    nexus.on_terminal(SCREEN, "n\n", &["remove", "/echo/"]).expect_code(1);
    assert_eq!(nexus.json(&["queue", "--json"]).as_array().unwrap().len(), 3);
    assert_eq!(nexus.ok(&["remove", "-y", "/echo/"]).lines().count(), 3);
    assert_eq!(nexus.ok(&["queue", "--json"]), "[]");
}
