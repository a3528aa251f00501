//! Nodes fail under jobs.

use nexus_testkit::until;
use serde_json::Value;

use super::{Execution, Hpc, long, small};

/// Its first run was lost with a node that is named; the second completed.
fn lost_and_done(hpc: &Hpc, id: &str, first: &Execution) -> Value {
    let job = hpc.ends(id, "completed");
    let outcome = &job["runs"][0]["outcome"];
    let told = outcome["error"].as_str().unwrap_or_default();
    assert_eq!(outcome["word"], "lost", "{}", hpc.about(id));
    assert!(told.contains("node failed") && told.contains(&first.node), "{told}");
    assert_eq!(job["attempt"], 2);
    let ran = hpc.ran(id);
    assert_eq!((ran.len(), ran[1].attempt), (2, 2), "{}", hpc.about(id));
    job
}

#[test]
fn a_node_that_loses_its_power_loses_its_job_and_another_has_it() {
    if !long() {
        return;
    }
    let Some(hpc) = Hpc::start(small(2, 1), &[]) else { return };
    let (retried, not) = (hpc.add(&["--retries", "1"], "go", 0), hpc.add(&["--cpus", "2"], "stay", 0));
    let (first, other) = (hpc.begun(&retried, 1), hpc.begun(&not, 1));
    assert_ne!(first.node, other.node);
    hpc.slurm.kill_node(&first.node, true);
    // Slurm finds out some seconds later. Nothing else is done to the one that has no more tries.
    hpc.open("go");
    hpc.open("stay");
    lost_and_done(&hpc, &retried, &first);
    hpc.assert_ran(&retried, 2);
    assert_eq!(hpc.ran(&retried)[1].node, other.node, "its own is off");
    hpc.ends(&not, "completed");
    hpc.assert_ran(&not, 1);
}

#[test]
fn a_node_that_slurm_takes_for_lost() {
    let Some(hpc) = Hpc::start(small(2, 1), &[]) else { return };
    let (retried, not) = (hpc.add(&["--retries", "1"], "go", 0), hpc.add(&["--cpus", "2"], "go", 0));
    let (first, other) = (hpc.begun(&retried, 1), hpc.begun(&not, 1));
    hpc.slurm.down(&other.node, "a test");
    let job = hpc.ends(&not, "failed");
    assert_eq!(job["reason"], "lost", "{}", hpc.about(&not));
    let why = hpc.nexus.ok(&["why", &not]);
    assert!(why.contains("its node failed") && why.contains(&other.node), "{why}");
    assert!(job["detail"].as_str().is_some_and(|told| told.contains(&other.node)), "{job:#}");
    hpc.assert_ran(&not, 1);
    hpc.slurm.down(&first.node, "a test");
    hpc.begun(&retried, 2);
    hpc.open("go");
    lost_and_done(&hpc, &retried, &first);
    hpc.assert_ran(&retried, 2);
    assert_eq!(hpc.submissions().len(), 3, "one for each, and one for the second try");
}

#[test]
fn a_node_whose_slurmd_is_gone_does_not_run_its_job_beside_the_next_try() {
    if !long() {
        return;
    }
    let Some(hpc) = Hpc::start(small(2, 1), &[]) else { return };
    let id = hpc.add(&["--retries", "1"], "go", 0);
    let first = hpc.begun(&id, 1);
    // The job itself goes on: nobody there hears Slurm any more.
    hpc.slurm.kill_node(&first.node, false);
    hpc.begun(&id, 2);
    hpc.open("go");
    lost_and_done(&hpc, &id, &first);
    hpc.assert_ran(&id, 2);
}

#[test]
fn a_cluster_that_starts_nothing_now_takes_jobs_all_the_same() {
    let Some(hpc) = Hpc::apart(small(1, 1)) else { return };
    hpc.slurm.drain("n1", "a test");
    hpc.nexus.start(0);
    hpc.join(&["--class", "hpc"]);
    let id = hpc.add(&[], "-", 0);
    hpc.pending(&id);
    let why = until("it says why", || {
        Some(hpc.nexus.ok(&["why", &id])).filter(|why| why.contains("ReqNodeNotAvail") || why.contains("DRAINED"))
    });
    assert!(why.contains("n1") || why.contains("too many nodes"), "{why}");
    // Another service finds it as it is.
    hpc.replace_service();
    hpc.pending(&id);
    hpc.slurm.resume("n1");
    hpc.ends(&id, "completed");
    hpc.assert_ran(&id, 1);
    assert_eq!(hpc.submissions().len(), 1);
}
