//! The World: live jobs, machines, and the indices decisions are made from.
//!
//! It changes by events alone ([`World::record`]); ended jobs leave it. The queue is kept in buckets of
//! equal requests, so that a decision looks at each kind of need once, however many jobs share it.

mod clock;
mod line;
mod machines;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::alike::Alike;
use crate::event::{Event, Needs, NewJob, Parent, QueuePause, Requeue};
use crate::free::Free;
use crate::ids::{JobId, MachineId, RunId, SweepId};
use crate::job::{End, Failure, Job, Place, Retries, State};
use crate::learned::Learned;
use crate::machine::Standing;
use crate::packing::Packing;
use crate::request::{GpuSet, Raise, Request, Same, Share, Vram, learned};
use crate::run::{Lease, Outcome, Phase, Run};
use crate::streak::Streaks;
use crate::sweep::{First, Sweep};
use crate::time::Time;
pub(crate) use line::{Bucket, Span};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct World {
    /// Boxed: they are large, and the map moves what it holds.
    jobs: BTreeMap<JobId, Box<Job>>,
    /// Jobs that may start, by what they need and how long they take, each in queue order.
    ready: BTreeMap<Request, Bucket>,
    /// Those among them of which nobody knows how long they take, by their command.
    unknown: Alike,
    /// Jobs that wait for a time.
    delayed: BTreeSet<(Time, JobId)>,
    /// Jobs that wait for others, and for which.
    after: BTreeMap<JobId, Vec<Parent>>,
    /// The same seen from those others.
    children: BTreeMap<JobId, BTreeSet<JobId>>,
    /// Those with live jobs.
    sweeps: BTreeMap<SweepId, Sweep>,
    held: u64,
    active: BTreeSet<JobId>,
    /// What they hold, by machine.
    on: BTreeMap<MachineId, BTreeMap<JobId, Hold>>,
    copying: BTreeSet<JobId>,
    /// Machines, and what those runs leave of them.
    free: BTreeMap<MachineId, Free>,
    /// A job may have several machines, all of each.
    joins: bool,
    packing: Packing,
    /// What happens here teaches nothing.
    is_played: bool,
    /// What was decided about machines; of one that is not named here, nothing was.
    standings: BTreeMap<MachineId, Standing>,
    /// How jobs ended on each machine lately.
    streaks: Streaks,
    /// By the card, not by its number.
    paused_gpus: BTreeSet<(MachineId, String)>,
    queue_pause: Option<QueuePause>,
    /// Jobs that failed since one completed, since the queue was resumed, or since the service began.
    failures: u32,
    /// What earlier runs of each command were like.
    learned: BTreeMap<Same, Learned>,
    disk_full: bool,
    stopping: bool,
    next_turn: i64,
    next_front_turn: i64,
}

/// What a run holds of a machine, and how long it may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    pub lease: Lease,
    pub since: Time,
    pub limit: Option<Duration>,
    pub same: Same,
}

impl World {
    /// As read back from disk. `next_turn` is larger than any turn ever given out.
    pub fn restore(jobs: impl IntoIterator<Item = Job>, queue_pause: Option<QueuePause>, next_turn: i64) -> World {
        let mut world = World { queue_pause, next_turn, ..World::default() };
        for job in jobs {
            world.next_front_turn = world.next_front_turn.min(job.place.turn.saturating_sub(1));
            world.enter(&job);
            world.jobs.insert(job.id, Box::new(job));
        }
        world
    }

    /// The same with the sweeps that its jobs belong to; how many those are is counted here.
    pub fn with_sweeps(mut self, sweeps: impl IntoIterator<Item = (SweepId, Sweep)>) -> World {
        self.sweeps.extend(sweeps);
        for job in self.jobs.values() {
            if let Some(sweep) = job.sweep.and_then(|id| self.sweeps.get_mut(&id)) {
                *sweep.counts.of(job) += 1;
            }
        }
        self
    }

    /// The same with jobs that wait for others. Others that are not live were waited for long enough.
    pub fn with_parents(mut self, parents: impl IntoIterator<Item = (JobId, Vec<Parent>)>) -> World {
        for (id, mut parents) in parents {
            parents.retain(|parent| self.jobs.contains_key(&parent.job));
            self.change(id, |_| {}, Some(parents));
        }
        self
    }

    /// The same with what is known of earlier runs.
    pub fn with_learned(mut self, learned: impl IntoIterator<Item = (Same, Learned)>) -> World {
        self.learned.extend(learned);
        let ids: Vec<JobId> = self.unknown.jobs().collect();
        self.again(ids);
        self
    }

    /// The same, where wide jobs may have several machines.
    pub fn with_joins(mut self) -> World {
        self.joins = true;
        self
    }

    /// The same, to be played on: nothing is learned of runs that are made up.
    pub(crate) fn played(mut self) -> World {
        self.is_played = true;
        self
    }

    /// The same, which knows what will be asked for and how often each.
    pub fn with_requests(mut self, requests: &BTreeMap<Request, u64>) -> World {
        self.packing = Packing::told(&self.free, requests);
        self
    }

    pub fn job(&self, id: JobId) -> Option<&Job> {
        self.jobs.get(&id).map(Box::as_ref)
    }

    pub fn jobs(&self) -> impl Iterator<Item = &Job> {
        self.jobs.values().map(Box::as_ref)
    }

    /// The run, if it is the job's current one.
    pub fn run(&self, id: RunId) -> Option<&Run> {
        match &self.jobs.get(&id.job)?.state {
            State::Active(run) if run.id == id => Some(run),
            _ => None,
        }
    }

    /// Runs that hold a lease, by job id.
    pub fn active_runs(&self) -> impl Iterator<Item = &Run> {
        self.active.iter().map(|id| match &self.jobs[id].state {
            State::Active(run) => &**run,
            other => unreachable!("{id} is listed as active and is {other:?}"),
        })
    }

    /// Of a sweep that has live jobs.
    pub fn sweep(&self, id: SweepId) -> Option<&Sweep> {
        self.sweeps.get(&id)
    }

    /// Those with live jobs.
    pub fn sweeps(&self) -> impl Iterator<Item = (SweepId, &Sweep)> {
        self.sweeps.iter().map(|(id, sweep)| (*id, sweep))
    }

    /// Jobs whose results are being copied.
    pub fn copying(&self) -> impl Iterator<Item = JobId> {
        self.copying.iter().copied()
    }

    pub(crate) fn packing(&self) -> &Packing {
        &self.packing
    }

    pub(crate) fn set_packing(&mut self, packing: Packing) {
        self.packing = packing;
    }

    /// Room for a request where the least is lost by it.
    pub(crate) fn packed(&mut self, request: &Request) -> Option<(MachineId, GpuSet)> {
        self.packing.place(&self.free, request)
    }

    /// How many jobs have not ended.
    pub fn live(&self) -> u64 {
        self.jobs.len() as u64
    }

    pub fn joins(&self) -> bool {
        self.joins
    }

    pub fn queue_pause(&self) -> Option<QueuePause> {
        self.queue_pause
    }

    pub fn queue_paused(&self) -> bool {
        self.queue_pause.is_some()
    }

    /// Jobs that failed one after another.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Jobs that a job waits for.
    pub fn parents(&self, id: JobId) -> &[Parent] {
        self.after.get(&id).map_or(&[], Vec::as_slice)
    }

    /// Jobs that wait for it, and whether any end of it will do.
    pub(crate) fn children(&self, id: JobId) -> impl Iterator<Item = (JobId, bool)> {
        let waits =
            move |child: &JobId| self.after[child].iter().filter(|parent| parent.job == id).all(|it| it.any_end);
        self.children.get(&id).into_iter().flatten().map(move |child| (*child, waits(child)))
    }

    /// The request with its memory known: learned, or all of the GPU where nothing was learned yet, or no GPU has
    /// that much.
    pub fn resolved(&self, request: &Request) -> Request {
        let Some(Share { milli, vram: Vram::Learned(same) }) = request.share else { return *request };
        let most = || self.most_memory(request);
        let mib = self.learned.get(&same).filter(|it| it.peak_mib > 0).map(|it| learned(it.peak_mib));
        let share = mib.filter(|mib| u64::from(*mib) <= most()).map(|mib| Share { milli, vram: Vram::Mib(mib) });
        Request { share, ..*request }
    }

    pub fn disk_full(&self) -> bool {
        self.disk_full
    }

    pub fn stopping(&self) -> bool {
        self.stopping
    }

    /// Waiting jobs, held ones included.
    pub fn pending(&self) -> u64 {
        (self.jobs.len() - self.active.len() - self.copying.len()) as u64
    }

    pub fn held(&self) -> u64 {
        self.held
    }

    /// Larger than the turn of any job there is.
    pub fn next_turn(&self) -> i64 {
        self.next_turn
    }

    pub(crate) fn ready(&self) -> &BTreeMap<Request, Bucket> {
        &self.ready
    }

    /// When the next job's wait is over.
    pub fn next_wake(&self) -> Option<Time> {
        self.delayed.first().map(|(at, _)| *at)
    }

    pub fn next_front_turn(&self) -> i64 {
        self.next_front_turn
    }

    /// Lets the jobs into the queue whose wait is over.
    pub fn advance(&mut self, now: Time) {
        while let Some((at, id)) = self.delayed.first().copied().filter(|(at, _)| *at <= now) {
            self.delayed.remove(&(at, id));
            let job = self.jobs[&id].clone();
            self.line_up(&job);
        }
    }

    /// Takes an event in. Events are made by this crate from the same World: one that does not fit is a bug.
    pub fn record(&mut self, event: &Event) {
        match event {
            Event::Submitted(new) => self.submitted(new),
            Event::Held { job } => self.change(*job, |job| job.state = State::Held, None),
            Event::Orphaned { job, parent } => {
                let left = self.parents(*job).iter().filter(|it| it.job != *parent).copied().collect();
                self.change(*job, |job| job.state = State::Held, Some(left));
            }
            Event::Released { job } => self.change(*job, |job| job.state = State::Queued { not_before: None }, None),
            Event::Delayed { job, until } => {
                self.change(*job, |job| job.state = State::Queued { not_before: Some(*until) }, None);
            }
            Event::Moved { job, place } | Event::Placed { job, place } => {
                self.next_front_turn = self.next_front_turn.min(place.turn - 1);
                self.change(*job, |job| job.place = *place, None);
            }
            Event::Edited { needs: None, .. } => {}
            Event::Edited { job, needs: Some(needs) } => self.edited(*job, needs),
            Event::Planned { run, lease, at } => self.planned(*run, lease, *at),
            Event::Running { run, pid, at } => self.change_run(*run, |run| {
                run.phase = Phase::Running { pid: *pid, since: *at };
            }),
            Event::StopAsked { run, cause } => self.change_run(*run, |run| run.stop = Some(*cause)),
            Event::Peaked { run, mib } => self.change_run(*run, |run| run.peak_mib = *mib),
            // What becomes of the job follows at once, as Requeued, Copying or JobEnded.
            Event::RunEnded { run, outcome, at } => self.run_ended(*run, outcome, *at),
            Event::Requeued { job, why, not_before, raise } => self.requeued(*job, *why, *not_before, *raise),
            Event::Copying { job, at } => self.change(*job, |job| job.state = State::Copying { ended_at: *at }, None),
            Event::CopyStopped { .. } => {}
            Event::JobEnded { job, end, at } => self.job_ended(*job, end, *at),
            Event::SweepStopped { sweep, stopped } => {
                if let Some(sweep) = self.sweeps.get_mut(sweep) {
                    (sweep.stopped, sweep.first) = (Some(stopped.clone()), First::Settled);
                }
            }
            Event::SweepReleased { sweep } => {
                if let Some(sweep) = self.sweeps.get_mut(sweep) {
                    sweep.stopped = None;
                }
            }
            Event::ClockSet { by_ms, latest_start, latest_retry } => {
                self.clock_set(*by_ms, *latest_start, *latest_retry)
            }
            Event::QueuePaused(pause) => self.queue_pause = Some(*pause),
            Event::QueueResumed => (self.queue_pause, self.failures) = (None, 0),
            Event::GpuPaused { machine, uuid, .. } => self.pause_gpu(*machine, uuid, true),
            Event::GpuResumed { machine, uuid, .. } => self.pause_gpu(*machine, uuid, false),
            Event::MachineAdded { machine, standing } => self.stand(*machine, |it| *it = *standing),
            Event::MachineMoved { machine, class } => {
                self.stand(*machine, |it| (it.class, it.set_up) = (*class, None));
            }
            Event::MachineSetUp { machine, set_up } => {
                self.stand(*machine, |it| (it.class, it.set_up) = (None, Some(*set_up)));
            }
            Event::MachinePaused { machine } => self.stand(*machine, |it| it.paused = true),
            Event::MachineResumed { machine } => self.machine_resumed(*machine),
            Event::MachineQuarantined { machine, quarantine } => {
                self.stand(*machine, |it| it.quarantine = Some(*quarantine));
            }
            Event::MachineLeaving { machine } => self.stand(*machine, |it| it.leaving = true),
            Event::MachineRemoved { machine } => self.machine_removed(*machine),
            Event::MachineRead(machine) => self.see(Arc::new(machine.clone())),
            Event::DiskFull { full } => self.disk_full = *full,
            Event::Stopping => self.stopping = true,
        }
    }

    fn planned(&mut self, id: RunId, lease: &Lease, at: Time) {
        let lease = lease.clone();
        let run = Run { id, lease, planned_at: at, phase: Phase::Starting, stop: None, peak_mib: 0 };
        let plan = |job: &mut Job| {
            job.runs = id.number;
            job.state = State::Active(Box::new(run));
        };
        self.change(id.job, plan, None);
    }

    fn requeued(&mut self, job: JobId, why: Requeue, not_before: Option<Time>, raise: Option<Raise>) {
        let requeue = |job: &mut Job| {
            job.state = State::Queued { not_before };
            job.raise = raise.or(job.raise);
            job.request = job.request.raised(raise);
            match why {
                Requeue::Retry => {
                    job.retries.used += 1;
                    job.retries.start_failures = 0;
                }
                Requeue::StartFailed => job.retries.start_failures += 1,
                Requeue::GpuLocked => {}
                Requeue::Preempted => job.retries.start_failures = 0,
            }
        };
        self.change(job, requeue, None);
    }

    fn submitted(&mut self, new: &NewJob) {
        let Needs { request, same, limit, retries, retry_on_timeout, copies, .. } = *new.needs;
        if let Some(sweep) = &new.sweep {
            self.sweeps.entry(sweep.id).or_insert_with(|| Sweep::new(sweep));
        }
        let sweep = new.sweep.map(|sweep| sweep.id);
        let job = Job {
            id: new.id,
            request: self.limited(request, sweep),
            raise: None,
            same,
            limit,
            since: new.at,
            sweep,
            place: Place { priority: i64::from(new.priority), turn: self.next_turn },
            retries: Retries { allowed: retries, on_timeout: retry_on_timeout, ..Retries::default() },
            copies,
            runs: 0,
            state: if new.held { State::Held } else { State::Queued { not_before: None } },
        };
        self.next_turn += 1;
        self.link(new.id, new.needs.after.clone());
        self.enter(&job);
        let before = self.jobs.insert(job.id, Box::new(job));
        assert!(before.is_none(), "job {} exists twice", new.id);
    }

    fn edited(&mut self, job: JobId, needs: &Needs) {
        let request = self.limited(needs.request, self.jobs.get(&job).and_then(|job| job.sweep));
        self.change(
            job,
            |job| {
                (job.request, job.raise, job.same) = (request, None, needs.same);
                job.limit = needs.limit;
                job.retries.allowed = needs.retries;
                job.retries.on_timeout = needs.retry_on_timeout;
                job.copies = needs.copies;
            },
            Some(needs.after.clone()),
        );
    }

    /// The request of a job of this sweep, which may have a limit.
    fn limited(&self, request: Request, sweep: Option<SweepId>) -> Request {
        let limit = |id: &SweepId| self.sweeps.get(id).is_some_and(|sweep| sweep.max_running.is_some());
        Request { within: sweep.filter(limit), ..request }
    }

    /// Its processes are gone: what they had is free, before the next reading says so. What it holds is given back when
    /// its job has left.
    fn run_ended(&mut self, id: RunId, outcome: &Outcome, at: Time) {
        let Some(run) = self.run(id) else { unreachable!("{id} is not the current run") };
        let (machine, gpus, same) = (run.lease.machine, run.lease.gpus, self.jobs[&id.job].same);
        let took = (*outcome == Outcome::Exited { code: 0 }).then(|| at.since(run.planned_at));
        let (peak_mib, stop) = (run.peak_mib, run.stop);
        self.learn(same, peak_mib, took);
        self.streaks.ended(machine, id.job, outcome, stop);
        let read = self.free.get_mut(&machine).into_iter().flat_map(|free| {
            let has_some = free.machine.gpus.iter().any(|gpu| gpu.used_by(id.job) > 0);
            has_some.then(|| &mut Arc::make_mut(&mut free.machine).gpus)
        });
        for gpu in read.flatten().filter(|gpu| gpus.contains(gpu.index)) {
            gpu.free_mib = (gpu.free_mib + u64::from(gpu.used_by(id.job))).min(gpu.memory_mib);
            gpu.used.retain(|(user, _)| *user != id.job);
        }
    }

    /// The job leaves; those that waited for it are one step nearer. Those that it fails have ended before.
    fn job_ended(&mut self, id: JobId, end: &End, at: Time) {
        let job = self.jobs.remove(&id).expect("only a live job ends");
        self.leave(&job);
        if let Some((sweep, known)) = job.sweep.and_then(|sweep| Some((sweep, self.sweeps.get_mut(&sweep)?))) {
            known.first = known.first.after(end, job.ran_until(at));
            if known.counts.live() == 0 {
                self.sweeps.remove(&sweep);
            }
        }
        self.unlink(id);
        match end {
            End::Completed => self.failures = 0,
            End::Failed(Failure::Dependency { .. }) | End::Killed(_) => {}
            End::Failed(_) => self.failures = self.failures.saturating_add(1),
        }
        for child in self.children.remove(&id).unwrap_or_default() {
            let left = self.after[&child].iter().filter(|parent| parent.job != id).copied().collect();
            self.change(child, |_| {}, Some(left));
        }
    }

    /// Sets the jobs that a job waits for, on both sides.
    fn link(&mut self, id: JobId, parents: Vec<Parent>) {
        for parent in &parents {
            self.children.entry(parent.job).or_default().insert(id);
        }
        if !parents.is_empty() {
            self.after.insert(id, parents);
        }
    }

    fn unlink(&mut self, id: JobId) {
        for parent in self.after.remove(&id).unwrap_or_default() {
            if let Some(children) = self.children.get_mut(&parent.job) {
                children.remove(&id);
                if children.is_empty() {
                    self.children.remove(&parent.job);
                }
            }
        }
    }

    /// Changes a job, and the jobs it waits for if some are given, keeping the indices in step.
    fn change(&mut self, id: JobId, change: impl FnOnce(&mut Job), parents: Option<Vec<Parent>>) {
        let mut job = self.jobs.remove(&id).expect("only a live job changes");
        self.leave(&job);
        change(&mut job);
        if let Some(parents) = parents {
            self.unlink(id);
            self.link(id, parents);
        }
        self.enter(&job);
        self.jobs.insert(id, job);
    }

    fn change_run(&mut self, id: RunId, change: impl FnOnce(&mut Run)) {
        match self.jobs.get_mut(&id.job).map(|job| &mut job.state) {
            Some(State::Active(run)) if run.id == id => change(run),
            other => unreachable!("{id} is not the current run: {other:?}"),
        }
    }

    fn enter(&mut self, job: &Job) {
        if let Some(sweep) = job.sweep.and_then(|id| self.sweeps.get_mut(&id)) {
            *sweep.counts.of(job) += 1;
        }
        match job.state {
            State::Held => self.held += 1,
            // The end of the last job that it waits for lets it in.
            State::Queued { .. } if self.after.contains_key(&job.id) => {}
            State::Queued { not_before: Some(at) } => {
                self.delayed.insert((at, job.id));
            }
            State::Queued { not_before: None } => self.line_up(job),
            State::Active(ref run) => {
                self.active.insert(job.id);
                for machine in run.lease.machines() {
                    let hold =
                        Hold { lease: run.lease.clone(), since: run.planned_at, limit: job.limit, same: job.same };
                    self.on.entry(machine).or_default().insert(job.id, hold);
                    if let Some(free) = self.free.get_mut(&machine) {
                        free.take(&run.lease, job.id);
                        self.packing.changed(free);
                    }
                }
            }
            State::Copying { .. } => {
                self.copying.insert(job.id);
            }
        }
    }

    fn leave(&mut self, job: &Job) {
        if let Some(sweep) = job.sweep.and_then(|id| self.sweeps.get_mut(&id)) {
            *sweep.counts.of(job) -= 1;
        }
        match job.state {
            State::Held => self.held -= 1,
            State::Queued { not_before } => {
                if let Some(at) = not_before {
                    self.delayed.remove(&(at, job.id));
                }
                // A delayed job whose time has come stands in the queue like any other.
                self.drop_from(job, self.span(job));
            }
            State::Active(ref run) => {
                self.active.remove(&job.id);
                for machine in run.lease.machines() {
                    if let Some(jobs) = self.on.get_mut(&machine) {
                        jobs.remove(&job.id);
                    }
                    self.look_again(machine);
                }
            }
            State::Copying { .. } => {
                self.copying.remove(&job.id);
            }
        }
    }
}
