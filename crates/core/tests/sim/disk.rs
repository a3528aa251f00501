//! What survives a crash: job records, folded from the committed events as a store would, not as the
//! World does. [`World::restore`] starts from here.

use std::collections::{BTreeMap, BTreeSet};

use nexus_core::event::{Event, Needs, NewJob, Parent, QueuePause, Requeue};
use nexus_core::ids::{ClassId, JobId, MachineId, RunId, SweepId};
use nexus_core::job::{End, Job, Place, Retries, State};
use nexus_core::learned::Learned;
use nexus_core::machine::Standing;
use nexus_core::request::{Raise, Request, Same, Target};
use nexus_core::run::{Outcome, Phase, Run};
use nexus_core::sweep::{First, InSweep, Stopped, Sweep};
use nexus_core::time::Time;
use nexus_core::world::World;

#[derive(Default)]
pub struct Disk {
    pub jobs: BTreeMap<JobId, Job>,
    /// What live jobs asked for, whatever was raised since.
    asked: BTreeMap<JobId, Request>,
    /// The jobs that live ones come after, ended or not.
    pub after: BTreeMap<JobId, Vec<Parent>>,
    pub learned: BTreeMap<Same, Learned>,
    pub ended: BTreeMap<JobId, End>,
    pub queue_pause: Option<QueuePause>,
    pub paused_gpus: BTreeSet<(MachineId, String)>,
    /// Machines that something was decided about.
    pub machines: BTreeMap<MachineId, Standing>,
    /// Sweeps, how their jobs ended, and whether the rest is held.
    sweeps: BTreeMap<SweepId, (InSweep, First, Option<Stopped>)>,
    next_turn: i64,
}

impl Disk {
    /// The first job has turn 1, as in the store.
    pub fn empty() -> Disk {
        Disk { next_turn: 1, ..Disk::default() }
    }

    pub fn world(&self) -> World {
        let world = World::restore(self.jobs.values().cloned(), self.queue_pause, self.next_turn);
        let waits = |id: &&JobId| self.jobs[id].state.waits();
        let parents = self.after.keys().filter(waits).map(|id| (*id, self.after[id].clone()));
        let learned = self.learned.iter().map(|(same, mib)| (*same, *mib));
        let sweeps = self.sweeps.iter().filter(|(id, _)| self.jobs.values().any(|job| job.sweep == Some(**id)));
        let sweeps = sweeps.map(|(id, (of, first, stopped))| {
            (*id, Sweep { first: first.clone(), stopped: stopped.clone(), ..Sweep::new(of) })
        });
        let world = world.with_paused_gpus(self.paused_gpus.iter().cloned()).with_parents(parents);
        world.with_learned(learned).with_sweeps(sweeps).with_machines(self.machines.clone())
    }

    pub fn standing(&self, machine: MachineId) -> Standing {
        self.machines.get(&machine).copied().unwrap_or_default()
    }

    /// The own host and those that were added.
    pub fn all_machines(&self) -> BTreeSet<MachineId> {
        self.machines.keys().copied().chain([MachineId::LOCAL]).collect()
    }

    /// Whether a request allows a machine that is there.
    pub fn allows(&self, request: &Request, machine: MachineId) -> bool {
        let is_there = self.all_machines().contains(&machine);
        let class = self.standing(machine).class;
        is_there
            && match request.target {
                Target::Default => class == Some(ClassId(0)),
                Target::Class(named) => class == Some(named),
                Target::Machine(named) => machine == named,
            }
    }

    fn machine_event(&mut self, event: &Event) {
        match event {
            Event::MachineAdded { machine, standing } => {
                let before = self.machines.insert(*machine, *standing);
                assert!(before.is_none() && *machine != MachineId::LOCAL, "{machine:?} is added twice");
            }
            Event::MachineMoved { machine, class } => {
                self.decided(*machine, |it| (it.class, it.set_up) = (*class, None));
            }
            Event::MachineSetUp { machine, set_up } => {
                self.decided(*machine, |it| (it.class, it.set_up) = (None, Some(*set_up)));
            }
            Event::MachinePaused { machine } => self.decided(*machine, |it| it.paused = true),
            Event::MachineResumed { machine } => self.decided(*machine, |it| {
                (it.paused, it.quarantine) = (false, None);
            }),
            Event::MachineQuarantined { machine, quarantine } => {
                self.decided(*machine, |it| it.quarantine = Some(*quarantine));
            }
            Event::MachineLeaving { machine } => self.decided(*machine, |it| it.leaving = true),
            Event::MachineRemoved { machine } => {
                assert!(self.machines.remove(machine).is_some(), "{machine:?} is removed, and was not there");
                self.paused_gpus.retain(|(on, _)| on != machine);
            }
            _ => {}
        }
    }

    /// What is decided about a machine makes a difference, and it is there.
    fn decided(&mut self, machine: MachineId, decide: impl Fn(&mut Standing)) {
        assert!(self.all_machines().contains(&machine), "{machine:?} is not there");
        let standing = self.machines.entry(machine).or_default();
        let before = *standing;
        decide(standing);
        assert!(*standing != before, "{machine:?} is {before:?} already");
    }

    fn learn(&mut self, run: RunId, outcome: &Outcome, at: Time) {
        let (same, ended) = (self.jobs[&run.job].same, self.active(run));
        let took = (*outcome == Outcome::Exited { code: 0 }).then(|| at.since(ended.planned_at));
        let peak_mib = ended.peak_mib;
        if peak_mib > 0 || took.is_some() {
            self.learned.entry(same).or_default().add(peak_mib, took);
        }
    }

    /// The run, if the disk knows it as its job's current one.
    pub fn run(&self, id: RunId) -> Option<&Run> {
        match &self.jobs.get(&id.job)?.state {
            State::Active(run) if run.id == id => Some(run),
            _ => None,
        }
    }

    /// Whether as many jobs of a sweep are on as may at once.
    pub fn is_full(&self, sweep: Option<SweepId>) -> bool {
        let Some((of, ..)) = sweep.and_then(|id| self.sweeps.get(&id)) else { return false };
        let active = self.jobs.values().filter(|job| job.sweep == sweep && matches!(job.state, State::Active(_)));
        of.max_running.is_some_and(|most| active.count() >= most as usize)
    }

    pub fn write(&mut self, event: &Event) {
        match event {
            Event::Submitted(new) => self.submitted(new),
            Event::Held { job } => self.job(*job).state = State::Held,
            Event::Orphaned { job, parent } => {
                self.job(*job).state = State::Held;
                self.after.get_mut(job).expect("its parents are on disk").retain(|it| it.job != *parent);
            }
            Event::Released { job } => self.job(*job).state = State::Queued { not_before: None },
            Event::Delayed { job, until } => self.job(*job).state = State::Queued { not_before: Some(*until) },
            Event::Moved { job, place } | Event::Placed { job, place } => self.job(*job).place = *place,
            Event::Edited { job, needs: Some(needs) } => self.edited(*job, needs),
            Event::Planned { run, lease, at } => {
                let job = self.job(run.job);
                job.runs = run.number;
                let planned = Run {
                    id: *run,
                    lease: lease.clone(),
                    planned_at: *at,
                    phase: Phase::Starting,
                    stop: None,
                    peak_mib: 0,
                };
                job.state = State::Active(Box::new(planned));
            }
            Event::Running { run, pid, at } => self.active(*run).phase = Phase::Running { pid: *pid, since: *at },
            Event::StopAsked { run, cause } => self.active(*run).stop = Some(*cause),
            Event::Peaked { run, mib } => self.active(*run).peak_mib = *mib,
            Event::Requeued { job, why, not_before, raise } => self.requeued(*job, *why, *not_before, *raise),
            Event::Copying { job, at } => self.job(*job).state = State::Copying { ended_at: *at },
            Event::JobEnded { job, end, at } => {
                let gone = self.jobs.remove(job).expect("only a live job ends");
                if let Some((_, first, _)) = gone.sweep.and_then(|sweep| self.sweeps.get_mut(&sweep)) {
                    *first = first.after(end, gone.ran_until(*at));
                }
                self.forget_sweep(gone.sweep);
                self.asked.remove(job);
                self.after.remove(job);
                assert!(self.ended.insert(*job, end.clone()).is_none(), "{job} ended twice");
            }
            Event::SweepStopped { sweep, stopped: why } => {
                let (_, first, stopped) = self.sweeps.get_mut(sweep).expect("the sweep is on disk");
                (*first, *stopped) = (First::Settled, Some(why.clone()));
            }
            Event::SweepReleased { sweep } => {
                self.sweeps.get_mut(sweep).expect("the sweep is on disk").2 = None;
            }
            Event::QueuePaused(pause) => self.queue_pause = Some(*pause),
            Event::QueueResumed => self.queue_pause = None,
            Event::GpuPaused { machine, uuid, .. } => {
                assert!(self.paused_gpus.insert((*machine, uuid.clone())), "{uuid} is paused twice");
            }
            Event::GpuResumed { machine, uuid, .. } => {
                assert!(self.paused_gpus.remove(&(*machine, uuid.clone())), "{uuid} was not paused");
            }
            Event::RunEnded { run, outcome, at } => self.learn(*run, outcome, *at),
            Event::Edited { needs: None, .. } => {}
            Event::CopyStopped { .. }
            | Event::ClockSet { .. }
            | Event::MachineRead(_)
            | Event::DiskFull { .. }
            | Event::Stopping => {}
            of_machines => self.machine_event(of_machines),
        }
    }

    fn edited(&mut self, id: JobId, needs: &Needs) {
        self.keep(id, needs);
        let job = self.job(id);
        let request = Request { within: job.request.within, ..needs.request };
        (job.request, job.raise, job.same) = (request, None, needs.same);
        job.limit = needs.limit;
        (job.retries.allowed, job.retries.on_timeout) = (needs.retries, needs.retry_on_timeout);
        job.copies = needs.copies;
    }

    fn submitted(&mut self, new: &NewJob) {
        if let Some(of) = new.sweep {
            self.sweeps.entry(of.id).or_insert_with(|| (of, Sweep::new(&of).first, None));
        }
        let sweep = new.sweep.map(|of| of.id);
        let limited = sweep.filter(|id| self.sweeps[id].0.max_running.is_some());
        let job = Job {
            id: new.id,
            request: Request { within: limited, ..new.needs.request },
            raise: None,
            same: new.needs.same,
            limit: new.needs.limit,
            since: new.at,
            sweep,
            place: Place { priority: i64::from(new.priority), turn: self.next_turn },
            retries: Retries {
                allowed: new.needs.retries,
                used: 0,
                on_timeout: new.needs.retry_on_timeout,
                start_failures: 0,
            },
            copies: new.needs.copies,
            runs: 0,
            state: if new.held { State::Held } else { State::Queued { not_before: None } },
        };
        self.next_turn += 1;
        self.jobs.insert(new.id, job);
        self.keep(new.id, &new.needs);
    }

    fn requeued(&mut self, id: JobId, why: Requeue, not_before: Option<Time>, raise: Option<Raise>) {
        let asked = Request { within: self.jobs[&id].request.within, ..self.asked[&id] };
        let job = self.job(id);
        job.state = State::Queued { not_before };
        if raise.is_some() {
            (job.raise, job.request) = (raise, asked.raised(raise));
        }
        match why {
            Requeue::Retry => {
                job.retries.used += 1;
                job.retries.start_failures = 0;
            }
            Requeue::StartFailed => job.retries.start_failures += 1,
            Requeue::GpuLocked => {}
            Requeue::Preempted => job.retries.start_failures = 0,
        }
    }

    /// With its last job a sweep is over: one that is taken up again begins anew.
    fn forget_sweep(&mut self, sweep: Option<SweepId>) {
        if let Some(id) = sweep.filter(|id| self.jobs.values().all(|job| job.sweep != Some(*id))) {
            self.sweeps.remove(&id);
        }
    }

    /// What a spec says.
    fn keep(&mut self, id: JobId, needs: &Needs) {
        let failed = needs.failed_parent.map(|job| Parent { job, any_end: false });
        self.asked.insert(id, needs.request);
        self.after.insert(id, needs.after.iter().copied().chain(failed).collect());
    }

    fn job(&mut self, id: JobId) -> &mut Job {
        self.jobs.get_mut(&id).expect("the job is on disk")
    }

    fn active(&mut self, id: RunId) -> &mut Run {
        match &mut self.job(id.job).state {
            State::Active(run) if run.id == id => run,
            _ => panic!("{id} is not the run on disk"),
        }
    }
}
