//! How much Slurm is given, and when.

use std::collections::BTreeSet;

use nexus_testkit::until;
use serde_json::Value;

use super::{Hpc, small};

#[test]
fn slurm_has_no_more_jobs_than_it_is_to_have() {
    let Some(hpc) = Hpc::start(small(1, 4), &["--max-submitted", "2"]) else { return };
    let ids = hpc.add_many(5, &[], "go", 0);
    let (mut inside, mut outside) = (BTreeSet::new(), BTreeSet::new());
    until("two run", || {
        inside = ids.iter().filter(|id| !hpc.ran(id).is_empty()).collect();
        (inside.len() == 2).then_some(())
    });
    outside.extend(ids.iter().filter(|id| !inside.contains(id)));
    assert_eq!(hpc.numbers().len(), 2);
    for id in &outside {
        let job = hpc.nexus.job(id);
        assert_eq!((&job["state"], &job["waiting"]["kind"]), (&"queued".into(), &"cluster-full".into()), "{job:#}");
        let why = hpc.nexus.ok(&["why", id]);
        assert!(why.contains("2 jobs in the cluster, which is to have 2 at most"), "{why}");
    }
    hpc.open("go");
    let live = || hpc.numbers().into_values().filter(|state| ["PENDING", "RUNNING"].contains(&state.as_str())).count();
    until("all are through", || {
        let count = live();
        assert!(count <= 2, "{count} in Slurm");
        ids.iter().all(|id| hpc.ran(id).len() == 1).then_some(())
    });
    for id in &ids {
        hpc.ends(id, "completed");
        hpc.assert_ran(id, 1);
    }
    assert_eq!(hpc.numbers().len(), 5);
}

#[test]
fn own_machines_come_first_and_the_cluster_has_the_rest() {
    let Some(hpc) = Hpc::apart(small(1, 4)) else { return };
    hpc.nexus.start(2);
    hpc.join(&[]);
    let add = || hpc.nexus.add("until [ -e go ]; do sleep 0.1; done");
    let ids: Vec<String> = (0..5).map(|_| add()).collect();
    let machine = |id: &String| hpc.nexus.job(id)["machine"].clone();
    for id in &ids {
        hpc.nexus.in_state(id, "running");
    }
    let places: Vec<Value> = ids.iter().map(machine).collect();
    assert_eq!(places, ["local", "local", "hpc", "hpc", "hpc"]);
    hpc.open("go");
    for id in &ids {
        hpc.ends(id, "completed");
    }
    // Free again: the next goes there once more. What only the cluster has goes to the cluster.
    let (next, wide) = (hpc.nexus.add("true"), hpc.nexus.add_with(&["--gpus", "3"], "true"));
    assert_eq!(hpc.ends(&next, "completed")["machine"], "local");
    assert_eq!(hpc.ends(&wide, "completed")["machine"], "hpc");
}

#[test]
fn what_is_asked_for_is_what_slurm_gives() {
    let Some(hpc) = Hpc::start(small(1, 4), &["--sbatch-arg=--nice=50"]) else { return };
    let show = "echo $SLURM_CPUS_PER_TASK $SLURM_MEM_PER_NODE $CUDA_VISIBLE_DEVICES $SLURM_JOB_PARTITION";
    let asked = ["--class", "hpc", "--gpus", "2", "--cpus", "3", "--ram", "2G", "--time", "10m"];
    let id = hpc.nexus.add_with(&asked, &format!("{show}; until [ -e go ]; do sleep 0.1; done"));
    hpc.nexus.in_state(&id, "running");
    let told = hpc.slurm.ask("scontrol", &["-o", "show", "job"]);
    for part in ["TimeLimit=00:12:00", "CPUs/Task=3", "MinMemoryNode=2G", "gpu:2", "Nice=50", "Requeue=0"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    hpc.open("go");
    hpc.ends(&id, "completed");
    assert_eq!(hpc.nexus.ok(&["logs", &id]), "3 2048 0,1 gpu");
}
