//! Slurm does not answer at all, for as long as it likes.

use nexus_testkit::{Nexus, until};

use super::{Hpc, small};

/// Waits until the service says of the cluster that it does not answer.
fn is_away(nexus: &Nexus) -> String {
    let told = until("Slurm counts as away", || {
        let told = nexus.json(&["machine", "show", "hpc", "--json"]);
        (told["pool"]["state"] == "unreachable").then(|| nexus.ok(&["machine", "show", "hpc"]))
    });
    assert!(told.contains("Slurm does not answer"), "{told}");
    let list = nexus.ok(&["machine", "ls"]);
    let line = list.lines().find(|line| line.starts_with("hpc")).expect("it is there still");
    assert!(line.contains("unreachable"), "{line}");
    told
}

/// One ends while nobody answers, one runs on, one waits in Slurm, and one is new.
fn jobs_outlive_it(service_dies: bool) {
    let Some(hpc) = Hpc::start(small(1, 2), &[]) else { return };
    let ends = hpc.add(&[], "end", 0);
    hpc.begun(&ends, 1);
    let runs = hpc.add(&[], "go", 0);
    hpc.begun(&runs, 1);
    let waits = hpc.add(&[], "-", 0);
    hpc.pending(&waits);
    let submitted = hpc.submissions().len();
    hpc.slurm.stop_controller();
    if service_dies {
        hpc.replace_service();
    }
    is_away(&hpc.nexus);
    let late = hpc.add(&["--gpus", "0"], "-", 0);
    assert_eq!(hpc.nexus.job(&late)["state"], "queued");
    let told = [&waits, &late].map(|id| hpc.nexus.ok(&["why", id]));
    assert_eq!(hpc.nexus.job(&runs)["state"], "running");
    hpc.open("end");
    // By the record of its shim: Slurm cannot be asked.
    hpc.ends(&ends, "completed");
    assert_eq!(hpc.submissions().len(), submitted);
    hpc.slurm.start_controller();
    hpc.ends(&late, "completed");
    hpc.open("go");
    hpc.ends(&runs, "completed");
    // Not before: a controller that was away may count the GPU of the one that ended meanwhile as taken for a while.
    hpc.ends(&waits, "completed");
    for id in [&ends, &runs, &waits, &late] {
        hpc.assert_ran(id, 1);
        assert_eq!(hpc.nexus.job(id)["attempt"], 1, "{}", hpc.about(id));
    }
    assert_eq!(hpc.numbers().len(), 4, "{:?}", hpc.numbers());
    assert_eq!(hpc.nexus.json(&["machine", "show", "hpc", "--json"])["pool"]["state"], "ready");
    for why in told {
        assert!(why.contains("Slurm does not answer"), "{why}");
    }
}

#[test]
fn jobs_go_on_while_slurm_is_away() {
    jobs_outlive_it(false);
}

#[test]
fn jobs_go_on_while_slurm_is_away_and_the_service_dies() {
    jobs_outlive_it(true);
}

#[test]
fn a_failure_while_slurm_is_away_is_told() {
    let Some(hpc) = Hpc::start(small(1, 1), &[]) else { return };
    let id = hpc.add(&[], "go", 7);
    hpc.begun(&id, 1);
    hpc.slurm.stop_controller();
    hpc.open("go");
    assert_eq!(hpc.ends(&id, "failed")["exit_code"], 7, "{}", hpc.about(&id));
    hpc.slurm.start_controller();
    hpc.assert_ran(&id, 1);
}

#[test]
fn a_kill_while_slurm_is_away_is_done() {
    let Some(hpc) = Hpc::start(small(1, 1), &[]) else { return };
    let runs = hpc.add(&[], "never", 0);
    hpc.begun(&runs, 1);
    let waits = hpc.add(&[], "-", 0);
    hpc.pending(&waits);
    hpc.slurm.stop_controller();
    for id in [&waits, &runs] {
        hpc.nexus.run_limited(&["kill", "-y", "--no-wait", id]).expect_code(0);
    }
    // What has not begun never does, whatever Slurm has in mind.
    let job = hpc.ends(&waits, "killed");
    assert_eq!(job["reason"], "user");
    hpc.slurm.start_controller();
    assert_eq!(hpc.ends(&runs, "killed")["reason"], "user");
    hpc.assert_ran(&waits, 0);
    hpc.assert_ran(&runs, 1);
    until("Slurm has nothing of it", || {
        let over = ["CANCELLED", "COMPLETED", "FAILED"];
        hpc.numbers().values().all(|state| over.contains(&state.as_str())).then_some(())
    });
    hpc.assert_ran(&waits, 0);
}
