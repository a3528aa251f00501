//! What must hold of every committed event, compared with the ledger and with an order of the queue of
//! its own. None of it uses the code it checks.

use std::collections::{BTreeMap, BTreeSet};

use nexus_core::event::{Event, Needs, Requeue};
use nexus_core::ids::{JobId, RunId};
use nexus_core::job::{End, Failure, Job, KillReason, State};
use nexus_core::run::{Lease, Memory, Outcome, Phase, StopCause};
use nexus_core::time::Time;

use crate::disk::Disk;
use crate::hardware::Hardware;
use crate::ledger::Ledger;

/// Smaller goes first: priority, then submission, unless it was put elsewhere.
type Rank = (i64, i64);

#[derive(Default)]
pub struct Rules {
    ranks: BTreeMap<JobId, Rank>,
    submissions: i64,
    retries: BTreeMap<JobId, (u32, u32)>,
    starts_failed: BTreeMap<JobId, u32>,
    run_ends: BTreeMap<RunId, Outcome>,
    ended: BTreeSet<JobId>,
}

impl Rules {
    /// `disk` is as it was before the event, `hardware` as it was read last.
    pub fn event(&mut self, event: &Event, disk: &Disk, ledger: &Ledger, hardware: &Hardware, now: Time) {
        if let Some(job) = job_of(event) {
            assert!(!self.ended.contains(&job), "{event:?} after the end of {job}");
        }
        match event {
            Event::Submitted(new) => {
                assert!(!disk.jobs.contains_key(&new.id), "{} was submitted twice", new.id);
                self.submissions += 1;
                self.ranks.insert(new.id, (i64::from(new.priority), self.submissions));
                self.retries.insert(new.id, (0, new.needs.retries));
            }
            Event::Moved { job, place } => {
                let rank = (place.priority, place.turn);
                let overtaken = self.ranks.iter().all(|(other, theirs)| other == job || *theirs > rank);
                assert!(overtaken, "{job} was put first and is not");
                self.ranks.insert(*job, rank);
            }
            Event::Planned { run, lease, .. } => {
                self.planned(*run, disk, now);
                may_be_leased(*run, lease, disk, hardware);
            }
            Event::Placed { job, place } => {
                self.ranks.insert(*job, (place.priority, place.turn));
            }
            Event::Edited { job, needs } => self.edited(*job, needs.as_ref(), disk),
            Event::Running { run, at, .. } => {
                let known = disk.run(*run).map(|run| run.phase);
                assert_eq!(known, Some(Phase::Starting), "{run} is said to run");
                let began = ledger.get(*run).and_then(|entry| entry.began).map(|(began, _)| began);
                assert_eq!(began, Some(*at), "{run} began at another time");
            }
            Event::RunEnded { run, outcome, .. } => self.run_ended(*run, outcome, disk, ledger),
            Event::Requeued { job, why, .. } => self.requeued(*job, *why, disk),
            Event::JobEnded { job, end, .. } => self.job_ended(*job, end, disk),
            _ => {}
        }
    }

    fn edited(&mut self, job: JobId, needs: Option<&Needs>, disk: &Disk) {
        let Some(needs) = needs else { return };
        assert!(!matches!(disk.jobs[&job].state, State::Active(_)), "{job} runs, and its needs are changed");
        self.retries.get_mut(&job).expect("submitted").1 = needs.retries;
    }

    fn planned(&self, run: RunId, disk: &Disk, now: Time) {
        assert!(disk.queue_pause.is_none(), "{run} is planned while the queue is paused");
        let job = &disk.jobs[&run.job];
        assert!(may_start(job, now), "{run} is planned in state {:?}", job.state);
        assert_eq!(run.number, job.runs + 1, "{run} follows run {}", job.runs);
        let rank = self.ranks[&run.job];
        let alike = disk.jobs.values().filter(|other| other.request == job.request && may_start(other, now));
        for other in alike {
            assert!(self.ranks[&other.id] >= rank, "{run} overtakes {}, which needs the same", other.id);
        }
    }

    fn run_ended(&mut self, run: RunId, outcome: &Outcome, disk: &Disk, ledger: &Ledger) {
        assert!(disk.run(run).is_some(), "{run} ends and is not current");
        let entry = ledger.get(run).unwrap_or_else(|| panic!("{run} is said to have ended: {outcome:?}; it never was"));
        let (_, truth) = entry.ended.as_ref().unwrap_or_else(|| panic!("{run} lives and is said to be {outcome:?}"));
        if entry.forgotten {
            assert!(matches!(outcome, Outcome::Lost { .. }), "{run} left no trace and is said to be {outcome:?}");
        } else {
            assert_eq!(outcome, truth, "{run} ended otherwise");
        }
        self.run_ends.insert(run, outcome.clone());
    }

    fn requeued(&mut self, job: JobId, why: Requeue, disk: &Disk) {
        let State::Active(run) = &disk.jobs[&job].state else { panic!("{job} is queued again without a run") };
        assert!(self.run_ends.contains_key(&run.id), "{job} is queued again while {} goes on", run.id);
        assert_eq!(run.stop, None, "{job} was asked to end and is queued again");
        let failed_starts = self.starts_failed.entry(job).or_default();
        match why {
            Requeue::Retry => {
                *failed_starts = 0;
                let (used, allowed) = self.retries.get_mut(&job).expect("submitted");
                *used += 1;
                assert!(used <= allowed, "{job} is tried again {used} times, {allowed} were allowed");
            }
            Requeue::StartFailed => {
                *failed_starts += 1;
                assert!(*failed_starts < 5, "{job} failed to start {failed_starts} times and is tried again");
            }
        }
    }

    fn job_ended(&mut self, job: JobId, end: &End, disk: &Disk) {
        let truth = match &disk.jobs[&job].state {
            State::Active(run) => {
                let outcome = self.run_ends.get(&run.id);
                true_end(outcome.unwrap_or_else(|| panic!("{job} ends while {} goes on", run.id)), run.stop)
            }
            _ => End::Killed(KillReason::Removed),
        };
        assert_eq!(*end, truth, "{job} ended otherwise");
        self.ended.insert(job);
        self.ranks.remove(&job);
    }
}

/// No lease on a GPU that is held, paused (unless that is to be ignored), or that anything is in the way of.
fn may_be_leased(run: RunId, lease: &Lease, disk: &Disk, hardware: &Hardware) {
    let forced = disk.jobs[&run.job].request.force;
    for index in lease.gpus.iter() {
        assert!(hardware.is_fine(index), "{run} is planned on GPU {index}, which takes no job");
        let paused = disk.paused_gpus.contains(&(lease.machine, hardware.uuid(index)));
        assert!(forced || !paused, "{run} is planned on GPU {index}, which is paused");
        let held = disk.jobs.values().find(|job| match &job.state {
            State::Active(other) => other.lease.machine == lease.machine && other.lease.gpus.contains(index),
            _ => false,
        });
        assert!(held.is_none(), "{run} is planned on GPU {index}, which {} holds", held.expect("found").id);
    }
}

fn may_start(job: &Job, now: Time) -> bool {
    match job.state {
        State::Queued { not_before } => not_before.is_none_or(|at| at <= now),
        _ => false,
    }
}

fn true_end(outcome: &Outcome, asked: Option<StopCause>) -> End {
    match (outcome, asked) {
        (Outcome::Exited { code: 0 }, _) => End::Completed,
        (Outcome::Exited { code }, _) => End::Failed(Failure::Exit { code: *code }),
        (Outcome::Signaled { signal }, _) => End::Failed(Failure::Signal { signal: *signal }),
        (Outcome::TimedOut { .. }, _) => End::Failed(Failure::Timeout),
        (Outcome::OutOfMemory { of: Memory::Gpu, .. }, _) => End::Failed(Failure::GpuOom),
        (Outcome::OutOfMemory { of: Memory::Host, .. }, _) => End::Failed(Failure::HostOom),
        (Outcome::SessionClosed { .. }, _) => End::Failed(Failure::SessionClosed),
        (Outcome::StartError { .. }, _) | (Outcome::MachineError { .. }, None) => End::Failed(Failure::StartError),
        (Outcome::Lost { .. }, None) => End::Failed(Failure::Lost),
        (_, Some(StopCause::User)) => End::Killed(KillReason::User),
        (_, Some(StopCause::Stopped)) => End::Killed(KillReason::Stopped),
        (Outcome::Stopped { .. } | Outcome::NeverStarted, None) => panic!("{outcome:?}, and nobody asked for it"),
    }
}

fn job_of(event: &Event) -> Option<JobId> {
    match event {
        Event::Submitted(new) => Some(new.id),
        Event::Held { job }
        | Event::Released { job }
        | Event::Moved { job, .. }
        | Event::Placed { job, .. }
        | Event::Edited { job, .. }
        | Event::Requeued { job, .. }
        | Event::JobEnded { job, .. } => Some(*job),
        Event::Planned { run, .. }
        | Event::Running { run, .. }
        | Event::StopAsked { run, .. }
        | Event::Peaked { run, .. }
        | Event::RunEnded { run, .. } => Some(run.job),
        Event::QueuePaused(_)
        | Event::QueueResumed
        | Event::GpuPaused { .. }
        | Event::GpuResumed { .. }
        | Event::MachineRead(_)
        | Event::DiskFull { .. }
        | Event::Stopping => None,
    }
}
