//! Why a job waits in Slurm, in its words and in ours.

use nexus_testkit::until;

use super::{Hpc, small};

#[test]
fn a_job_that_slurm_keeps_waiting_says_why() {
    let Some(hpc) = Hpc::start(small(1, 1), &[]) else { return };
    let runs = hpc.add(&[], "go", 0);
    hpc.begun(&runs, 1);
    let next = hpc.add(&[], "-", 0);
    let waiting = hpc.pending(&next);
    assert_eq!((&waiting["machine"], &waiting["state"]), (&"hpc".into(), &"PENDING".into()), "{waiting}");
    // A look of Slurm's own scheduler later.
    until("it is next in line", || (hpc.pending(&next)["reason"] == "Resources").then_some(()));
    let number = hpc.pending(&next)["job"].as_str().expect("a number").to_string();
    let meaning = "every GPU, core or byte that could have it is in use";
    for words in ["why", "show"] {
        let told = hpc.nexus.ok(&[words, &next]);
        for part in ["Resources", meaning, &number, "hpc"] {
            assert!(told.contains(part), "{words} without {part:?}: {told}");
        }
    }
    // One that waits has no GPU yet, whatever else is said of it.
    let why = hpc.nexus.ok(&["why", &next]);
    assert!(!why.contains("does not wait") && !why.contains("is starting"), "{why}");
    let last = hpc.add(&[], "-", 0);
    until("it stands behind", || (hpc.pending(&last)["reason"] == "Priority").then_some(()));
    assert!(hpc.nexus.ok(&["why", &last]).contains("jobs of higher priority stand before it"));
    hpc.open("go");
    for id in [&runs, &next, &last] {
        hpc.ends(id, "completed");
        hpc.assert_ran(id, 1);
    }
    assert!(hpc.nexus.job(&next)["waiting"].is_null());
}

#[test]
fn what_waits_starts_in_the_order_of_the_queue() {
    let Some(hpc) = Hpc::start(small(1, 1), &[]) else { return };
    let runs = hpc.add(&[], "go", 0);
    hpc.begun(&runs, 1);
    // They go out together, and have names by chance. One has to come first, though it comes last.
    hpc.nexus.ok(&["pause"]);
    let mut ids: Vec<String> = (0..5).map(|_| hpc.add(&[], "-", 0)).collect();
    ids.insert(0, hpc.add(&["--priority", "-1"], "-", 0));
    hpc.nexus.ok(&["resume"]);
    for id in &ids {
        hpc.pending(id);
    }
    hpc.open("go");
    let begun_at = |id: &String| {
        hpc.ends(id, "completed");
        (hpc.ran(id)[0].begin_ms, id.clone())
    };
    let mut began: Vec<(u64, String)> = ids.iter().map(begun_at).collect();
    began.sort();
    let order: Vec<String> = began.into_iter().map(|(_, id)| id).collect();
    assert_eq!(order, ids);
}

#[test]
fn what_slurm_can_never_give_is_refused_with_its_words() {
    let Some(hpc) = Hpc::start(small(1, 1), &[]) else { return };
    hpc.nexus.ok(&["machine", "rm", "hpc"]);
    hpc.join(&["--class", "hpc", "--sbatch-arg=--constraint=nosuchfeature", "--no-wait"]);
    let told = until("it says so", || {
        let told = hpc.nexus.ok(&["machine", "show", "hpc"]);
        told.contains("Invalid feature specification").then_some(told)
    });
    assert!(told.contains("it takes no jobs like this"), "{told}");
    let waits = hpc.add(&[], "-", 0);
    assert_eq!(hpc.nexus.job(&waits)["state"], "queued");
}
