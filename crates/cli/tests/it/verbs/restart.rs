//! `restart`: a new service, the same jobs.

use nexus_testkit::Nexus;

use super::LONG;
use crate::NEXUS;

#[test]
fn jobs_go_on() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.add(LONG);
    let pid = nexus.in_state(&id, "running")["pid"].clone();
    let before = nexus.service_pid();
    let said = nexus.run(&["restart"]).expect_code(0).stderr;
    let after = nexus.service_pid();
    assert_ne!(before, after);
    assert_eq!(said, format!("service started (pid {after}) in {}\n", nexus.home().display()));
    let job = nexus.job(&id);
    assert_eq!((&job["state"], &job["pid"], &job["attempt"]), (&"running".into(), &pid, &1.into()));
}

#[test]
fn without_a_service_it_starts_one() {
    let nexus = Nexus::fresh(NEXUS);
    assert!(nexus.run(&["restart"]).expect_code(0).stderr.starts_with("service started (pid "));
    nexus.service_pid();
}
