//! Slurm takes a job back: nexus runs it again, once, and Slurm does not.

use std::fs;

use nexus_testkit::{Cluster, until};
use serde_json::Value;

use super::{Execution, Hpc, small};

/// Its first run was taken back, its second completed; the job of Slurm that the first was did not run again.
fn ran_again_once(hpc: &Hpc, id: &str, first: &Execution) -> Value {
    let job = hpc.ends(id, "completed");
    let runs = job["runs"].as_array().expect("a list");
    let words: Vec<&str> = runs.iter().map(|run| run["outcome"]["word"].as_str().expect("a word")).collect();
    assert_eq!((words.as_slice(), &job["attempt"]), (&["preempted", "completed"][..], &2.into()), "{}", hpc.about(id));
    hpc.assert_ran(id, 2);
    let ran = hpc.ran(id);
    assert_eq!((ran[0].attempt, ran[1].attempt), (1, 2));
    assert_ne!(ran[1].number, first.number);
    assert_eq!(ran[0].end_ms, None, "the first was ended before its time: {ran:?}");
    job
}

#[test]
fn a_job_that_is_requeued_runs_again_as_another_attempt() {
    let Some(hpc) = Hpc::start(small(2, 1), &["--sbatch-arg=--requeue"]) else { return };
    let (single, array) = (hpc.add(&["--cpus", "2"], "go", 0), hpc.add_many(2, &[], "go", 0));
    // Two of the three run; whatever waits has its turn later.
    let running: Vec<(&String, Execution)> = until("two run", || {
        let running = [&single, &array[0], &array[1]].into_iter().filter_map(|id| Some((id, hpc.ran(id).pop()?)));
        Some(running.collect::<Vec<_>>()).filter(|running| running.len() == 2)
    });
    for (id, execution) in &running {
        hpc.begun(id, 1);
        hpc.slurm.ask("scontrol", &["requeue", &execution.number]);
    }
    // Slurm would hold it for some seconds and run it then. Nobody lets it.
    for (_, execution) in &running {
        hpc.number_is(&execution.number, "CANCELLED");
    }
    hpc.open("go");
    for (id, execution) in &running {
        ran_again_once(&hpc, id, execution);
    }
    let other = [&single, &array[0], &array[1]].into_iter().find(|id| running.iter().all(|(ran, _)| ran != id));
    let other = other.expect("three and not two");
    hpc.ends(other, "completed");
    hpc.assert_ran(other, 1);
    let again = |number: &str| hpc.slurm.ask("scontrol", &["-o", "show", "job", number]);
    for (_, execution) in &running {
        let told = again(&execution.number);
        assert!(told.contains("JobState=CANCELLED") && told.contains("Restarts=1"), "{told}");
    }
}

/// A job of somebody else takes the place of one of ours, by the rules of its partition.
fn preempt(options: &[&str]) {
    let lines = ["PreemptType=preempt/partition_prio", "PreemptMode=REQUEUE"].map(String::from).to_vec();
    let cluster = Cluster { extra: lines, ..small(1, 2) };
    let Some(hpc) = Hpc::start(cluster, &[&["--partition", "low"], options].concat()) else { return };
    let id = hpc.add(&["--gpus", "2"], "go", 0);
    let first = hpc.begun(&id, 1);
    let script = hpc.nexus.file("urgent.sh", "#!/bin/sh\ntouch urgent\nuntil [ -e enough ]; do sleep 0.1; done\n");
    let (work, script) = (hpc.nexus.work().display().to_string(), script.display().to_string());
    hpc.slurm.ask("sbatch", &["-p", "gpu", "--gres=gpu:2", "-D", &work, "-o", "/dev/null", &script]);
    until("the urgent one runs", || fs::exists(hpc.nexus.work().join("urgent")).expect("a folder").then_some(()));
    // The next attempt waits for the one that is in the way.
    let waiting = hpc.pending(&id);
    assert_eq!(waiting["state"], "PENDING", "{waiting}");
    assert_eq!(hpc.nexus.job(&id)["attempt"], 2);
    hpc.open("go");
    hpc.open("enough");
    ran_again_once(&hpc, &id, &first);
}

#[test]
fn a_job_that_is_preempted_and_ended_runs_again() {
    preempt(&[]);
}

#[test]
fn a_job_that_is_preempted_and_requeued_runs_again() {
    preempt(&["--sbatch-arg=--requeue"]);
}

#[test]
fn a_requeue_that_nobody_saw_runs_nothing_twice() {
    let Some(hpc) = Hpc::start(small(1, 1), &["--sbatch-arg=--requeue"]) else { return };
    let id = hpc.add(&[], "go", 0);
    let first = hpc.begun(&id, 1);
    hpc.nexus.kill_service();
    hpc.slurm.ask("scontrol", &["requeue", &first.number]);
    // Without a service nobody cancels it: it is through once more, and does not begin again.
    hpc.slurm.wait_until("it is through a second time", nexus_testkit::DEADLINE, |slurm| {
        let told = slurm.ask("scontrol", &["-o", "show", "job", &first.number]);
        told.contains("Restarts=1") && told.contains("JobState=FAILED")
    });
    assert_eq!(hpc.ran(&id).len(), 1);
    hpc.nexus.ok(&["start"]);
    hpc.open("go");
    ran_again_once(&hpc, &id, &first);
}
