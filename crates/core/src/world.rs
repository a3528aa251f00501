//! The World: live jobs, machines, and the indices decisions are made from.
//!
//! It changes by events alone ([`World::record`]); ended jobs leave it. The queue is kept in buckets of
//! equal requests, so that a decision looks at each kind of need once, however many jobs share it.

use std::collections::{BTreeMap, BTreeSet};

use crate::event::{Event, NewJob, Requeue};
use crate::free::Free;
use crate::ids::{JobId, MachineId, RunId};
use crate::job::{Job, Place, Retries, State};
use crate::machine::Machine;
use crate::request::{GpuSet, Request};
use crate::run::{Phase, Run};
use crate::time::Time;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct World {
    jobs: BTreeMap<JobId, Job>,
    /// Jobs that may start, by what they need, each bucket in queue order.
    ready: BTreeMap<Request, BTreeSet<(Place, JobId)>>,
    /// Jobs that wait for a time.
    delayed: BTreeSet<(Time, JobId)>,
    held: u64,
    active: BTreeSet<JobId>,
    machines: BTreeMap<MachineId, Machine>,
    /// By the card, not by its number.
    paused_gpus: BTreeSet<(MachineId, String)>,
    queue_paused: bool,
    disk_full: bool,
    stopping: bool,
    next_turn: i64,
    next_front_turn: i64,
}

impl World {
    /// As read back from disk. `next_turn` is larger than any turn ever given out.
    pub fn restore(jobs: impl IntoIterator<Item = Job>, queue_paused: bool, next_turn: i64) -> World {
        let mut world = World { queue_paused, next_turn, ..World::default() };
        for job in jobs {
            world.next_front_turn = world.next_front_turn.min(job.place.turn.saturating_sub(1));
            world.enter(&job);
            world.jobs.insert(job.id, job);
        }
        world
    }

    /// The same with GPUs that were paused, by machine and UUID.
    pub fn with_paused_gpus(mut self, paused: impl IntoIterator<Item = (MachineId, String)>) -> World {
        self.paused_gpus.extend(paused);
        self
    }

    pub fn job(&self, id: JobId) -> Option<&Job> {
        self.jobs.get(&id)
    }

    pub fn jobs(&self) -> impl Iterator<Item = &Job> {
        self.jobs.values()
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
            State::Active(run) => run,
            other => unreachable!("{id} is listed as active and is {other:?}"),
        })
    }

    pub fn machines(&self) -> impl Iterator<Item = &Machine> {
        self.machines.values()
    }

    /// Indices of the paused GPUs that the machine has.
    pub fn paused_gpus(&self, machine: MachineId) -> GpuSet {
        let gpus = self.machines.get(&machine).into_iter().flat_map(|machine| &machine.gpus);
        let paused = |uuid: &String| self.paused_gpus.iter().any(|(on, card)| *on == machine && card == uuid);
        gpus.filter(|gpu| paused(&gpu.uuid)).map(|gpu| gpu.index).collect()
    }

    pub fn queue_paused(&self) -> bool {
        self.queue_paused
    }

    pub fn disk_full(&self) -> bool {
        self.disk_full
    }

    pub fn stopping(&self) -> bool {
        self.stopping
    }

    /// Waiting jobs, held ones included.
    pub fn pending(&self) -> u64 {
        (self.jobs.len() - self.active.len()) as u64
    }

    pub fn held(&self) -> u64 {
        self.held
    }

    pub(crate) fn ready(&self) -> &BTreeMap<Request, BTreeSet<(Place, JobId)>> {
        &self.ready
    }

    /// When the next job's wait is over.
    pub fn next_wake(&self) -> Option<Time> {
        self.delayed.first().map(|(at, _)| *at)
    }

    pub fn next_front_turn(&self) -> i64 {
        self.next_front_turn
    }

    /// What each machine has left.
    pub fn free(&self) -> BTreeMap<MachineId, Free> {
        let mut free: BTreeMap<MachineId, Free> = self
            .machines
            .values()
            .map(|machine| (machine.id, Free::of(machine, self.paused_gpus(machine.id))))
            .collect();
        for run in self.active_runs() {
            if let Some(free) = free.get_mut(&run.lease.machine) {
                free.take(&run.lease);
            }
        }
        free
    }

    /// Lets the jobs into the queue whose wait is over.
    pub fn advance(&mut self, now: Time) {
        while let Some((at, id)) = self.delayed.first().copied().filter(|(at, _)| *at <= now) {
            self.delayed.remove(&(at, id));
            let job = &self.jobs[&id];
            self.ready.entry(job.request).or_default().insert((job.place, id));
        }
    }

    /// Takes an event in. Events are made by this crate from the same World: one that does not fit is a bug.
    pub fn record(&mut self, event: &Event) {
        match event {
            Event::Submitted(new) => self.submitted(new),
            Event::Held { job } => self.change(*job, |job| job.state = State::Held),
            Event::Released { job } => self.change(*job, |job| job.state = State::Queued { not_before: None }),
            Event::Moved { job, place } | Event::Placed { job, place } => {
                self.next_front_turn = self.next_front_turn.min(place.turn - 1);
                self.change(*job, |job| job.place = *place);
            }
            Event::Edited { needs: None, .. } => {}
            Event::Edited { job, needs: Some(needs) } => self.change(*job, |job| {
                job.request = needs.request;
                job.retries.allowed = needs.retries;
            }),
            Event::Planned { run, lease, at } => self.change(run.job, |job| {
                job.runs = run.number;
                job.state =
                    State::Active(Run { id: *run, lease: *lease, planned_at: *at, phase: Phase::Starting, stop: None });
            }),
            Event::Running { run, pid, at } => self.change_run(*run, |run| {
                run.phase = Phase::Running { pid: *pid, since: *at };
            }),
            Event::StopAsked { run, cause } => self.change_run(*run, |run| run.stop = Some(*cause)),
            // What becomes of the job follows at once, as Requeued or JobEnded.
            Event::RunEnded { .. } => {}
            Event::Requeued { job, why, not_before } => self.change(*job, |job| {
                job.state = State::Queued { not_before: *not_before };
                match why {
                    Requeue::Retry => {
                        job.retries.used += 1;
                        job.retries.start_failures = 0;
                    }
                    Requeue::StartFailed => job.retries.start_failures += 1,
                }
            }),
            Event::JobEnded { job, .. } => {
                let job = self.jobs.remove(job).expect("only a live job ends");
                self.leave(&job);
            }
            Event::QueuePaused => self.queue_paused = true,
            Event::QueueResumed => self.queue_paused = false,
            Event::GpuPaused { machine, uuid, .. } => {
                self.paused_gpus.insert((*machine, uuid.clone()));
            }
            Event::GpuResumed { machine, uuid, .. } => {
                self.paused_gpus.remove(&(*machine, uuid.clone()));
            }
            Event::MachineRead(machine) => {
                self.machines.insert(machine.id, machine.clone());
            }
            Event::DiskFull { full } => self.disk_full = *full,
            Event::Stopping => self.stopping = true,
        }
    }

    fn submitted(&mut self, new: &NewJob) {
        let job = Job {
            id: new.id,
            request: new.request,
            place: Place { priority: i64::from(new.priority), turn: self.next_turn },
            retries: Retries { allowed: new.retries, ..Retries::default() },
            runs: 0,
            state: if new.held { State::Held } else { State::Queued { not_before: None } },
        };
        self.next_turn += 1;
        self.enter(&job);
        let before = self.jobs.insert(job.id, job);
        assert!(before.is_none(), "job {} exists twice", new.id);
    }

    /// Changes a job, keeping the indices in step.
    fn change(&mut self, id: JobId, change: impl FnOnce(&mut Job)) {
        let mut job = self.jobs.remove(&id).expect("only a live job changes");
        self.leave(&job);
        change(&mut job);
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
        match job.state {
            State::Held => self.held += 1,
            State::Queued { not_before: Some(at) } => {
                self.delayed.insert((at, job.id));
            }
            State::Queued { not_before: None } => {
                self.ready.entry(job.request).or_default().insert((job.place, job.id));
            }
            State::Active(_) => {
                self.active.insert(job.id);
            }
        }
    }

    fn leave(&mut self, job: &Job) {
        match job.state {
            State::Held => self.held -= 1,
            State::Queued { not_before } => {
                if let Some(at) = not_before {
                    self.delayed.remove(&(at, job.id));
                }
                // A delayed job whose time has come stands in the queue like any other.
                if let Some(bucket) = self.ready.get_mut(&job.request) {
                    bucket.remove(&(job.place, job.id));
                    if bucket.is_empty() {
                        self.ready.remove(&job.request);
                    }
                }
            }
            State::Active(_) => {
                self.active.remove(&job.id);
            }
        }
    }
}
