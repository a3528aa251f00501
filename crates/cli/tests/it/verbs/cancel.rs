//! `cancel`: queued and running jobs in one step.

use nexus_testkit::Nexus;

use super::LONG;
use crate::NEXUS;

#[test]
fn whatever_state_they_are_in() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let ids = nexus.ok(&["add", "--tag", "t", "-x", "3", LONG]);
    let ids: Vec<&str> = ids.lines().collect();
    nexus.in_state(ids[0], "running");
    assert!(nexus.fails(1, &["cancel", "tag:t"]).starts_with("error: cancel 3 jobs? nobody can be asked here\n"));
    let said = nexus.ok(&["cancel", "-y", "tag:t"]);
    assert!(said.contains(&format!("killed {} on GPU 0 after ", ids[0])), "{said}");
    for id in &ids[1..] {
        assert!(said.contains(&format!("removed {id}: {LONG}")), "{said}");
        assert_eq!(nexus.job(id)["attempt"], 0, "nothing of the selection started meanwhile");
    }
    let said = nexus.fails(1, &["cancel", ids[0]]);
    assert!(said.starts_with(&format!("error: job {} cannot be cancelled\nit has ended: killed\n", ids[0])), "{said}");
}
