//! What must hold of every committed event, compared with the ledger and with an order of the queue of
//! its own. None of it uses the code it checks.

use std::collections::{BTreeMap, BTreeSet};

use nexus_core::event::{Event, Needs, Parent, QueuePause, Requeue};
use nexus_core::ids::{JobId, MachineId, RunId};
use nexus_core::job::{End, Failure, Job, KillReason, State};
use nexus_core::machine::{Machine, Obstacle};
use nexus_core::request::Raise;
use nexus_core::run::{Memory, Outcome, Phase, Run, StopCause};
use nexus_core::time::Time;

use crate::disk::Disk;
use crate::leases::{self, Reads};
use crate::ledger::Ledger;
use crate::streaks::Streaks;

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
    /// As they were read last, without what runs that ended since had.
    reads: Reads,
    streaks: Streaks,
    /// Jobs in a row that fail until the queue is paused; 0 = it never is.
    failures_allowed: u32,
    failures: u32,
    pause_is_due: bool,
}

impl Rules {
    pub fn new(failures_allowed: u32, quarantine_after: u32) -> Rules {
        Rules { failures_allowed, streaks: Streaks::new(quarantine_after), ..Rules::default() }
    }

    /// A machine was read.
    pub fn reading(&mut self, machine: &Machine, disk: &Disk) {
        if disk.all_machines().contains(&machine.id) {
            self.reads.insert(machine.id, machine.clone());
        }
    }

    /// Another process takes over: it counts failures anew, and has read nothing yet.
    pub fn began_anew(&mut self) {
        self.failures = 0;
        self.reads.clear();
        self.streaks.begin_anew();
    }

    /// All of a batch is on disk. `open`: the service starts jobs at all.
    pub fn batch_ends(&self, disk: &Disk, open: bool, now: Time) {
        assert!(!self.pause_is_due, "{} jobs failed one after another, and the queue goes on", self.failures);
        for (job, parents) in &disk.after {
            let failed = parents.iter().find(|parent| !parent.any_end && has_failed(parent.job, disk));
            assert!(failed.is_none(), "{job} lives, and {failed:?}, which comes before it, did not complete");
        }
        nobody_waits_for_itself(disk);
        for machine in disk.all_machines().into_iter().filter(|machine| disk.standing(*machine).quarantine.is_none()) {
            assert_eq!(self.streaks.too_much(machine), None, "{machine:?} is to be quarantined");
        }
        for (machine, standing) in &disk.machines {
            let last = standing.set_up.map(|set_up| set_up.last);
            let done = last.is_some_and(|last| disk.ended.get(&last) == Some(&End::Completed));
            assert!(!done, "{machine:?} is set up by {last:?}, and not in its class");
        }
        if open && disk.queue_pause.is_none() {
            let mut ready: Vec<&Job> = disk.jobs.values().filter(|job| may_start(job, disk, now)).collect();
            ready.sort_by_key(|job| (job.place, job.id));
            ready.retain(|job| !disk.is_full(job.sweep));
            // What stands behind one that does not fit may have to leave it room.
            let left = ready.first().filter(|job| leases::fits(&job.request, disk, &self.reads));
            assert!(left.is_none(), "there is room for {left:?}, and it was not planned");
        }
    }

    /// `disk` is as it was before the event.
    pub fn event(&mut self, event: &Event, disk: &Disk, ledger: &Ledger, now: Time) {
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
                leases::may_be_leased(*run, lease, disk, &self.reads);
            }
            Event::Placed { job, place } => {
                self.ranks.insert(*job, (place.priority, place.turn));
            }
            Event::Orphaned { job, parent } => self.orphaned(*job, *parent, disk),
            Event::Edited { job, needs } => self.edited(*job, needs.as_deref(), disk),
            Event::Running { run, at, .. } => {
                let known = disk.run(*run).map(|run| run.phase);
                assert_eq!(known, Some(Phase::Starting), "{run} is said to run");
                let began = ledger.get(*run).and_then(|entry| entry.began.as_ref()).map(|(began, _)| *began);
                assert_eq!(began, Some(*at), "{run} began at another time");
            }
            Event::RunEnded { run, outcome, .. } => self.run_ended(*run, outcome, disk, ledger),
            Event::Requeued { job, why, raise, .. } => self.requeued(*job, *why, *raise, disk),
            Event::Copying { job, at } => self.copying(*job, *at, disk, ledger),
            Event::CopyStopped { job } => {
                assert!(matches!(disk.jobs[job].state, State::Copying { .. }), "{job} is not copied");
            }
            Event::JobEnded { job, end, at } => {
                if let State::Copying { ended_at } = disk.jobs[job].state {
                    assert_eq!(*at, ended_at, "{job} ended with its process");
                }
                self.job_ended(*job, end, disk);
            }
            Event::QueuePaused(QueuePause::AfterFailures(count)) => {
                assert_eq!(*count, self.failures, "so many jobs failed one after another");
                assert!(std::mem::take(&mut self.pause_is_due), "the queue is paused after {count} failures");
            }
            Event::QueueResumed => self.failures = 0,
            Event::MachineQuarantined { machine, quarantine } => self.streaks.quarantined_rightly(*machine, quarantine),
            Event::MachineResumed { machine } => self.streaks.forget(*machine),
            Event::MachineRemoved { machine } => self.removed(*machine, disk),
            Event::Peaked { run, mib } => {
                let known = disk.run(*run).expect("a run of the disk").peak_mib;
                assert!(*mib > known, "{run} is said to have had {mib} MiB, and had {known} before");
            }
            _ => {}
        }
    }

    /// Nothing runs there.
    fn removed(&mut self, machine: MachineId, disk: &Disk) {
        let mut holds =
            disk.jobs.values().filter(|job| matches!(&job.state, State::Active(run) if run.lease.machine == machine));
        assert!(holds.next().is_none(), "{machine:?} is removed under its runs");
        self.reads.remove(&machine);
        self.streaks.forget(machine);
    }

    /// Jobs that fail one after another.
    fn counted(&mut self, end: &End, disk: &Disk) {
        match end {
            End::Completed => self.failures = 0,
            End::Killed(_) | End::Failed(Failure::Dependency { .. }) => {}
            End::Failed(_) => {
                self.failures += 1;
                let enough = self.failures_allowed > 0 && self.failures >= self.failures_allowed;
                self.pause_is_due = enough && disk.queue_pause.is_none();
            }
        }
    }

    fn edited(&mut self, job: JobId, needs: Option<&Needs>, disk: &Disk) {
        let Some(needs) = needs else { return };
        assert!(disk.jobs[&job].state.waits(), "{job} runs, and its needs are changed");
        self.retries.get_mut(&job).expect("submitted").1 = needs.retries;
    }

    /// It waits for a job whose run has ended, and was asked to by a stop.
    fn orphaned(&self, job: JobId, parent: JobId, disk: &Disk) {
        assert!(disk.jobs[&job].state.waits(), "{job} runs, and is held");
        let named = disk.after[&job].iter().any(|known| known.job == parent && !known.any_end);
        assert!(named, "{job} is held with {parent}, which it does not come after");
        let State::Active(run) = &disk.jobs[&parent].state else { panic!("{parent} does not run") };
        let outcome = self.run_ends.get(&run.id).unwrap_or_else(|| panic!("{} goes on", run.id));
        assert_eq!(true_end(outcome, run.stop), End::Killed(KillReason::Stopped), "{parent} ended otherwise");
    }

    fn planned(&self, run: RunId, disk: &Disk, now: Time) {
        assert!(disk.queue_pause.is_none(), "{run} is planned while the queue is paused");
        let job = &disk.jobs[&run.job];
        assert!(
            may_start(job, disk, now),
            "{run} is planned in state {:?}, after {:?}",
            job.state,
            disk.after[&job.id]
        );
        assert_eq!(run.number, job.runs + 1, "{run} follows run {}", job.runs);
        let rank = self.ranks[&run.job];
        let alike = disk.jobs.values().filter(|other| other.request == job.request && may_start(other, disk, now));
        let longest = |job: &Job| job.limit.or_else(|| disk.learned.get(&job.same)?.longest());
        for other in alike {
            // One that is gone before another job's time may go where a longer one may not.
            let is_shorter = longest(job).is_some_and(|it| longest(other).is_none_or(|other| it < other));
            let in_order = self.ranks[&other.id] >= rank;
            assert!(in_order || is_shorter, "{run} overtakes {}, which needs the same", other.id);
        }
    }

    fn run_ended(&mut self, run: RunId, outcome: &Outcome, disk: &Disk, ledger: &Ledger) {
        let current = disk.run(run).unwrap_or_else(|| panic!("{run} ends and is not current"));
        if !self.given_up(current, outcome, disk) {
            let entry = ledger.get(run);
            let entry = entry.unwrap_or_else(|| panic!("{run} is said to have ended: {outcome:?}; it never was"));
            let truth = entry.ended.as_ref().map(|(_, truth)| truth);
            let truth = truth.unwrap_or_else(|| panic!("{run} lives and is said to be {outcome:?}"));
            if entry.forgotten {
                assert!(matches!(outcome, Outcome::Lost { .. }), "{run} left no trace and is said to be {outcome:?}");
            } else {
                assert_eq!(outcome, truth, "{run} ended otherwise");
            }
        }
        self.streaks.ended(current, outcome);
        self.run_ends.insert(run, outcome.clone());
        let lease = current.lease.clone();
        let read = self.reads.get_mut(&lease.machine).into_iter().flat_map(|read| &mut read.gpus);
        for gpu in read.filter(|gpu| lease.gpus.contains(gpu.index)) {
            if matches!(outcome, Outcome::GpuLocked { uuid, .. } if *uuid == gpu.uuid) {
                gpu.obstacle = gpu.obstacle.or(Some(Obstacle::Locked));
            }
            let had = gpu.used.iter().find(|(job, _)| *job == run.job).map_or(0, |(_, mib)| u64::from(*mib));
            gpu.free_mib = (gpu.free_mib + had).min(gpu.memory_mib);
            gpu.used.retain(|(job, _)| *job != run.job);
        }
    }

    /// Whether it went with its machine, of which nothing is to be heard any more.
    fn given_up(&self, run: &Run, outcome: &Outcome, disk: &Disk) -> bool {
        let machine = run.lease.machine;
        let unheard = self.reads.get(&machine).is_none_or(|read| !read.reachable);
        matches!(outcome, Outcome::Lost { error } if error.starts_with("its machine was removed"))
            && unheard
            && !run.lease.driver
            && run.stop.is_some()
            && disk.standing(machine).leaving
    }

    fn requeued(&mut self, job: JobId, why: Requeue, raise: Option<Raise>, disk: &Disk) {
        let State::Active(run) = &disk.jobs[&job].state else { panic!("{job} is queued again without a run") };
        let outcome = self.run_ends.get(&run.id);
        let outcome = outcome.unwrap_or_else(|| panic!("{job} is queued again while {} goes on", run.id));
        assert_eq!(raise, leases::raise_after(outcome, run, disk, &self.reads), "{job} is raised");
        let end = true_end(outcome, run.stop);
        assert_eq!(run.stop, None, "{job} was asked to end and is queued again");
        let failed_starts = self.starts_failed.entry(job).or_default();
        match why {
            Requeue::Retry => {
                *failed_starts = 0;
                let on_timeout = disk.jobs[&job].retries.on_timeout;
                assert!(is_covered(&end, on_timeout), "{job} ended as {end:?} and is tried again");
                let (used, allowed) = self.retries.get_mut(&job).expect("submitted");
                *used += 1;
                assert!(used <= allowed, "{job} is tried again {used} times, {allowed} were allowed");
            }
            Requeue::StartFailed => {
                *failed_starts += 1;
                assert!(matches!(outcome, Outcome::MachineError { .. }), "{outcome:?}, and yet no retry is used");
                assert!(*failed_starts < 5, "{job} failed to start {failed_starts} times and is tried again");
            }
            Requeue::GpuLocked => {
                assert!(matches!(outcome, Outcome::GpuLocked { .. }), "{outcome:?}, and yet no start is counted");
            }
            Requeue::Preempted => {
                *failed_starts = 0;
                assert_eq!(*outcome, Outcome::Preempted, "yet no retry is used");
            }
        }
    }

    /// Only what has succeeded is copied, if that was asked for.
    fn copying(&self, job: JobId, at: Time, disk: &Disk, ledger: &Ledger) {
        let record = &disk.jobs[&job];
        let State::Active(run) = &record.state else { panic!("{job} did not run, and is copied") };
        let outcome = self.run_ends.get(&run.id).unwrap_or_else(|| panic!("{job} is copied while it runs"));
        assert_eq!(true_end(outcome, run.stop), End::Completed, "{job} did not succeed, and is copied");
        assert!(record.copies, "{job} has nothing to copy");
        let ended = ledger.get(run.id).and_then(|entry| entry.ended.as_ref()).map(|(at, _)| *at);
        assert_eq!(ended, Some(at), "{job} ended at another time");
    }

    fn job_ended(&mut self, job: JobId, end: &End, disk: &Disk) {
        let record = &disk.jobs[&job];
        match (&record.state, end) {
            (State::Active(run), _) => {
                let outcome = self.run_ends.get(&run.id);
                let outcome = outcome.unwrap_or_else(|| panic!("{job} ends while {} goes on", run.id));
                assert_eq!(*end, true_end(outcome, run.stop), "{job} ended otherwise");
                assert!(!record.copies || *end != End::Completed, "{job} ended before its results were copied");
                let (used, allowed) = self.retries[&job];
                let covered = is_covered(end, record.retries.on_timeout) && run.stop.is_none();
                let was_locked = matches!(outcome, Outcome::GpuLocked { .. }) && run.stop.is_none();
                assert!(!was_locked, "{job} ended as {end:?} for a lock that another service held");
                let started = !matches!(outcome, Outcome::MachineError { .. });
                assert!(
                    !(covered && started && used < allowed),
                    "{job} has {used} of {allowed} retries and is {end:?}"
                );
            }
            (State::Copying { .. }, end) => assert_eq!(*end, End::Completed, "{job} had succeeded"),
            (_, End::Failed(Failure::Dependency { parent })) => {
                let named = disk.after[&job].iter().any(|known| known.job == *parent && !known.any_end);
                assert!(named && has_failed(*parent, disk), "{job} failed with {parent}, which it does not come after");
            }
            _ => assert_eq!(*end, End::Killed(KillReason::Removed), "{job} ended otherwise"),
        }
        self.counted(end, disk);
        self.ended.insert(job);
        self.ranks.remove(&job);
    }
}

/// It waits for no time, and those that come before it have ended as they should.
fn may_start(job: &Job, disk: &Disk, now: Time) -> bool {
    let over =
        |parent: &Parent| disk.ended.get(&parent.job).is_some_and(|end| parent.any_end || *end == End::Completed);
    match job.state {
        State::Queued { not_before } => not_before.is_none_or(|at| at <= now) && disk.after[&job.id].iter().all(over),
        _ => false,
    }
}

/// Those who wait for nobody alive are taken away until nobody is left.
fn nobody_waits_for_itself(disk: &Disk) {
    let mut left: BTreeSet<JobId> = disk.jobs.keys().copied().collect();
    while !left.is_empty() {
        let waits = |job: &JobId| disk.after[job].iter().any(|parent| left.contains(&parent.job));
        let (still, free): (BTreeSet<JobId>, BTreeSet<JobId>) = left.iter().copied().partition(waits);
        assert!(!free.is_empty(), "they wait for each other: {still:?}");
        left = still;
    }
}

fn has_failed(job: JobId, disk: &Disk) -> bool {
    disk.ended.get(&job).is_some_and(|end| *end != End::Completed)
}

/// What another attempt may mend.
fn is_covered(end: &End, on_timeout: bool) -> bool {
    let End::Failed(failure) = end else { return false };
    match failure {
        Failure::Timeout => on_timeout,
        Failure::SessionClosed | Failure::Dependency { .. } => false,
        _ => true,
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
        (Outcome::StartError { .. }, _) | (Outcome::MachineError { .. } | Outcome::GpuLocked { .. }, None) => {
            End::Failed(Failure::StartError)
        }
        (Outcome::Lost { .. }, None) => End::Failed(Failure::Lost),
        (Outcome::Preempted, None) => End::Failed(Failure::Preempted),
        (Outcome::Cancelled { .. }, None) => End::Failed(Failure::Cancelled),
        (_, Some(StopCause::User)) => End::Killed(KillReason::User),
        (_, Some(StopCause::Stopped)) => End::Killed(KillReason::Stopped),
        (Outcome::Stopped { .. } | Outcome::NeverStarted, None) => panic!("{outcome:?}, and nobody asked for it"),
    }
}

fn job_of(event: &Event) -> Option<JobId> {
    match event {
        Event::Submitted(new) => Some(new.id),
        Event::Held { job }
        | Event::Orphaned { job, .. }
        | Event::Released { job }
        | Event::Delayed { job, .. }
        | Event::Moved { job, .. }
        | Event::Placed { job, .. }
        | Event::Edited { job, .. }
        | Event::Requeued { job, .. }
        | Event::Copying { job, .. }
        | Event::CopyStopped { job }
        | Event::JobEnded { job, .. } => Some(*job),
        Event::Planned { run, .. }
        | Event::Running { run, .. }
        | Event::StopAsked { run, .. }
        | Event::Peaked { run, .. }
        | Event::RunEnded { run, .. } => Some(run.job),
        Event::SweepStopped { .. }
        | Event::SweepReleased { .. }
        | Event::QueuePaused(_)
        | Event::QueueResumed
        | Event::GpuPaused { .. }
        | Event::GpuResumed { .. }
        | Event::MachineAdded { .. }
        | Event::MachineMoved { .. }
        | Event::MachineSetUp { .. }
        | Event::MachinePaused { .. }
        | Event::MachineResumed { .. }
        | Event::MachineQuarantined { .. }
        | Event::MachineLeaving { .. }
        | Event::MachineRemoved { .. }
        | Event::ClockSet { .. }
        | Event::MachineRead(_)
        | Event::DiskFull { .. }
        | Event::Stopping => None,
    }
}
