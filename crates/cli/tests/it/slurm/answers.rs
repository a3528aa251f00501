//! Slurm's programs answer late, in part, with nonsense or not at all.

use nexus_testkit::{Fault, until};

use super::{Hpc, small};

/// All of them completed, each ran once, and Slurm had no more than them.
fn each_once(hpc: &Hpc, ids: &[String]) {
    for id in ids {
        let job = hpc.ends(id, "completed");
        assert_eq!(job["attempt"], 1, "{}", hpc.about(id));
        hpc.assert_ran(id, 1);
    }
    assert_eq!(hpc.numbers().len(), ids.len(), "{:?}", hpc.numbers());
}

#[test]
fn a_submission_that_worked_and_timed_out_is_found_again() {
    let Some(hpc) = Hpc::start(small(2, 2), &[]) else { return };
    hpc.slurm.break_next("sbatch", Fault::TimesOutButWorks, 2);
    let mut ids = hpc.add_many(5, &[], "-", 0);
    ids.push(hpc.add(&["--gpus", "0"], "-", 0));
    each_once(&hpc, &ids);
    hpc.faults_came();
    assert_eq!(hpc.submissions().len(), 2, "an array and one alone");
}

#[test]
fn a_submission_that_timed_out_is_made_again() {
    let Some(hpc) = Hpc::start(small(1, 2), &[]) else { return };
    hpc.slurm.break_next("sbatch", Fault::TimesOut, 1);
    let id = hpc.add(&[], "-", 0);
    let why = until("it says that Slurm did not answer", || {
        Some(hpc.nexus.ok(&["why", &id])).filter(|why| why.contains("timed out"))
    });
    assert!(why.contains("hpc was asked and did not answer"), "{why}");
    assert!(hpc.nexus.job(&id)["started_at"].is_null());
    each_once(&hpc, &[id]);
    assert_eq!(hpc.submissions().len(), 2);
}

#[test]
fn a_submission_without_an_answer_outlives_the_service() {
    let Some(hpc) = Hpc::start(small(1, 2), &[]) else { return };
    hpc.slurm.break_next("squeue", Fault::TimesOut, 1);
    hpc.slurm.break_next("sbatch", Fault::TimesOutButWorks, 1);
    let ids = hpc.add_many(3, &[], "-", 0);
    until("it was submitted", || (hpc.submissions().len() == 1).then_some(()));
    hpc.replace_service();
    each_once(&hpc, &ids);
    assert_eq!(hpc.submissions().len(), 1);
}

#[test]
fn an_answer_that_is_damaged_loses_nothing() {
    let Some(hpc) = Hpc::start(small(1, 2), &[]) else { return };
    let mut ids = hpc.add_many(4, &[], "go", 0);
    ids.push(hpc.add(&["--gpus", "0"], "go", 0));
    until("two and one run", || (ids.iter().filter(|id| !hpc.ran(id).is_empty()).count() == 3).then_some(()));
    // Two in a row: Slurm counts as away until the third.
    for fault in [Fault::CutOutput, Fault::Garbage] {
        hpc.slurm.break_next("squeue", fault, 1);
    }
    hpc.faults_came();
    until("Slurm answers again", || hpc.nexus.service_log().contains("Slurm answers again").then_some(()));
    for id in &ids {
        let state = hpc.nexus.job(id)["state"].clone();
        assert!(state == "running" || state == "starting" || state == "queued", "{}", hpc.about(id));
    }
    hpc.open("go");
    each_once(&hpc, &ids);
    assert_eq!(hpc.submissions().len(), 2);
    let log = hpc.nexus.service_log();
    let of_jobs: Vec<&str> = log.lines().filter(|line| line.contains("] Job ")).collect();
    assert!(of_jobs.iter().all(|line| !line.contains("lost") && !line.contains("failed")), "{log}");
}

#[test]
fn an_answer_that_takes_its_time_holds_up_nothing_else() {
    let Some(hpc) = Hpc::start(small(1, 2), &[]) else { return };
    hpc.slurm.break_next("squeue", Fault::Slow(5), 1);
    let slow = hpc.add(&[], "-", 3);
    let here = hpc.nexus.ended(&hpc.nexus.add_with(&["--machine", "local", "--gpus", "0"], "true"));
    assert_eq!(here["state"], "completed");
    let job = hpc.ends(&slow, "failed");
    assert_eq!(job["exit_code"], 3);
    hpc.assert_ran(&slow, 1);
}
