//! Many jobs at once are few calls.

use std::time::Duration;

use nexus_testkit::{Call, until};

use super::{Hpc, small};

const ASKS: [&str; 4] = ["squeue", "sinfo", "scontrol", "sacct"];

fn questions(calls: &[Call]) -> Vec<&Call> {
    calls.iter().filter(|call| ASKS.contains(&call.program.as_str())).collect()
}

#[test]
fn a_thousand_jobs_are_few_calls_and_a_question_a_second_at_most() {
    let Some(hpc) = Hpc::start(small(1, 0), &[]) else { return };
    hpc.slurm.drain("n1", "a test");
    let sweep = ["sweep", "--class", "hpc", "--gpus", "0", "--name", "many", "true {i}", "i=1..1000"];
    hpc.nexus.run_limited(&sweep).expect_code(0);
    let pending = || hpc.numbers().values().filter(|state| *state == "PENDING").count();
    until("Slurm has them all", || (pending() == 1000).then_some(()));
    let submissions = hpc.submissions();
    assert!(submissions.len() <= 3, "{submissions:#?}");
    // Ten seconds of waiting, counted by what is looked at.
    let begin = hpc.slurm.calls().last().expect("a call").at_ms;
    let lasted = |calls: &[Call]| calls.last().is_some_and(|last| last.at_ms >= begin + 10_000);
    until("ten seconds", || lasted(&hpc.slurm.calls()).then_some(()));
    let calls = hpc.slurm.calls();
    let asked = questions(&calls);
    for pair in asked.windows(2) {
        assert!(pair[1].at_ms >= pair[0].at_ms + 900, "{pair:#?}");
    }
    let late = asked.iter().filter(|call| call.at_ms >= begin).count();
    assert!((2..=11).contains(&late), "{late} questions in ten seconds");
    // All of it goes again, as it came.
    let before = calls.len();
    hpc.nexus.run_limited(&["cancel", "-y", "sweep:many"]).expect_code(0);
    until("Slurm has none", || (pending() == 0).then_some(()));
    let ended: Vec<Call> =
        hpc.slurm.calls().into_iter().skip(before).filter(|call| call.program == "scancel").collect();
    assert!(ended.len() <= 3, "{} calls of scancel", ended.len());
    let killed = hpc.nexus.json(&["history", "--all", "--sweep", "many", "--json"]);
    let killed = killed.as_array().expect("a list").iter().filter(|job| job["state"] == "killed").count();
    assert_eq!(killed, 1000);
    assert!(hpc.submissions().len() <= 3);
}

#[test]
fn nothing_is_asked_while_there_is_nothing_to_know() {
    let Some(hpc) = Hpc::start(small(1, 1), &[]) else { return };
    let id = hpc.add(&[], "-", 0);
    hpc.ends(&id, "completed");
    // Slurm is done with it when it says so; then there is nothing of ours.
    hpc.number_is(&hpc.ran(&id)[0].number, "COMPLETED");
    let quiet = until("nothing more is asked", || {
        let before = hpc.slurm.calls().len();
        std::thread::sleep(Duration::from_secs(5));
        (hpc.slurm.calls().len() == before).then_some(before)
    });
    assert!(quiet > 0);
}
