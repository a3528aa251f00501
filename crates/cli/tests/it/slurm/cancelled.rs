//! Somebody else ends a job by Slurm's own means.

use nexus_testkit::until;

use super::{Hpc, long, small};

/// It is failed, says that it was cancelled in Slurm, and is not submitted again.
fn says_so(hpc: &Hpc, id: &str, ran: usize) {
    let job = hpc.ends(id, "failed");
    let why = hpc.nexus.ok(&["why", id]);
    assert!(why.contains("cancelled in Slurm"), "{why}\n{}", hpc.about(id));
    assert_eq!(job["attempt"], 1, "{}", hpc.about(id));
    hpc.assert_ran(id, ran);
}

#[test]
fn jobs_that_run_and_jobs_that_wait_are_cancelled_by_somebody_else() {
    let Some(hpc) = Hpc::start(small(1, 2), &[]) else { return };
    // Of each pair one runs, since there are two GPUs, and one waits behind it.
    let single = hpc.add(&["--cpus", "2"], "never", 0);
    hpc.begun(&single, 1);
    let tasks = hpc.add_many(3, &[], "never", 0);
    let task = until("one of them runs", || tasks.iter().find(|id| !hpc.ran(id).is_empty()));
    let waits = hpc.add(&["--cpus", "3"], "never", 0);
    let mut waiting: Vec<&String> = tasks.iter().filter(|id| *id != task).collect();
    let number = |id: &str| hpc.pending(id)["job"].as_str().expect("a number").to_string();
    let numbers = [number(&waits), number(waiting[0])];
    assert!(numbers[1].contains('_') && !numbers[0].contains('_'), "{numbers:?}");
    let submitted = hpc.submissions().len();
    // Those that wait first: else they would have their turn.
    hpc.slurm.ask("scancel", &[&numbers[0], &numbers[1]]);
    says_so(&hpc, &waits, 0);
    says_so(&hpc, waiting[0], 0);
    for id in [&single, task] {
        hpc.begun(id, 1);
        // As people see it: what the job itself knows as its number is none to scancel where it is of an array.
        let job = hpc.nexus.job(id);
        hpc.slurm.ask("scancel", &[job["slurm"]["job"].as_str().expect("a number")]);
        says_so(&hpc, id, 1);
    }
    // What nobody cancelled has its turn.
    let rest = waiting.pop().expect("a third");
    hpc.begun(rest, 1);
    hpc.open("never");
    hpc.ends(rest, "completed");
    hpc.assert_ran(rest, 1);
    assert_eq!(hpc.submissions().len(), submitted, "nothing was submitted again");
}

#[test]
fn a_whole_array_is_cancelled_by_somebody_else() {
    let Some(hpc) = Hpc::start(small(1, 1), &[]) else { return };
    let ids = hpc.add_many(4, &[], "never", 0);
    let running = until("one runs", || ids.iter().find(|id| !hpc.ran(id).is_empty()));
    let waiting: Vec<&String> = ids.iter().filter(|id| *id != running).collect();
    let number = hpc.pending(waiting[0])["job"].as_str().expect("a number").to_string();
    let (array, _) = number.split_once('_').expect("a task of an array");
    hpc.slurm.ask("scancel", &[array]);
    for id in &waiting {
        says_so(&hpc, id, 0);
    }
    says_so(&hpc, running, 1);
    assert_eq!(hpc.submissions().len(), 1);
}

#[test]
fn slurms_own_time_limit_is_a_timeout() {
    if !long() {
        return;
    }
    let Some(hpc) = Hpc::start(small(1, 1), &["--sbatch-arg=--time=1"]) else { return };
    let id = hpc.add(&[], "never", 0);
    hpc.begun(&id, 1);
    // A minute, and what Slurm takes to look: longer than anything else here.
    hpc.slurm.wait_until("its time is over", 3 * nexus_testkit::DEADLINE, |_| hpc.nexus.job(&id)["state"] != "running");
    let job = hpc.ends(&id, "failed");
    assert_eq!(job["reason"], "timeout", "{}", hpc.about(&id));
    hpc.assert_ran(&id, 1);
}
