//! Applies inputs: commands of users and reports of backends become events.
//!
//! A command is met as a whole or refused as a whole. A report about a run that is not its job's
//! current one, or that is known already, is no event at all: reports may be lost, late and repeated.

mod machines;
mod revise;
mod sweeps;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::event::{Event, NewJob, Parent, PausedBy, QueuePause, Requeue};
use crate::ids::{ClassId, JobId, MachineId, RunId};
use crate::job::{End, Failure, Job, KillReason, Place, State};
use crate::machine::{Machine, SetUp, Standing};
use crate::policy::Policy;
use crate::request::{GpuSet, Raise};
use crate::run::{Outcome, Phase, Run, StopCause};
use crate::time::Time;
use crate::world::World;

pub use revise::{Edit, Revision, unmoved};

/// How far in the future a machine may say that a run started there: the clocks of machines differ.
pub const MAX_CLOCK_SKEW: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    Submit(Vec<NewJob>),
    /// End running jobs.
    Kill(Vec<JobId>),
    /// Take waiting jobs out.
    Remove(Vec<JobId>),
    /// Whichever of the two fits each.
    Cancel(Vec<JobId>),
    Hold(Vec<JobId>),
    Release(Vec<JobId>),
    First(Vec<JobId>),
    /// Changes of the queue that belong together.
    Revise(Revision),
    PauseQueue,
    ResumeQueue,
    /// Give these GPUs no new job; what runs there goes on.
    PauseGpus {
        machine: MachineId,
        gpus: GpuSet,
    },
    ResumeGpus {
        machine: MachineId,
        gpus: GpuSet,
    },
    /// What somebody changed in the state file: all of it or nothing.
    FilePauses {
        machine: MachineId,
        pause: GpuSet,
        resume: GpuSet,
    },
    AddMachine {
        machine: MachineId,
        standing: Standing,
    },
    /// To another class, or to none. What runs there goes on.
    MoveMachines {
        machines: Vec<MachineId>,
        class: Option<ClassId>,
    },
    /// Jobs that are in the queue make a machine ready for a class. `begin`: the first of them, and when it may start.
    SetUpMachine {
        machine: MachineId,
        set_up: SetUp,
        begin: Option<(JobId, Time)>,
    },
    /// Give these machines no new job; what runs there goes on.
    PauseMachines {
        machines: Vec<MachineId>,
    },
    /// An end to pause and quarantine.
    ResumeMachines {
        machines: Vec<MachineId>,
    },
    /// At once if nothing runs there; with `drain` when its last run has ended, with `kill` these are ended.
    RemoveMachine {
        machine: MachineId,
        drain: bool,
        kill: bool,
    },
    /// Start nothing more; with `kill`, end what runs.
    Stop {
        kill: bool,
    },
}

impl Command {
    /// The jobs it names.
    pub fn jobs(&self) -> &[JobId] {
        match self {
            Command::Kill(ids)
            | Command::Remove(ids)
            | Command::Cancel(ids)
            | Command::Hold(ids)
            | Command::Release(ids)
            | Command::First(ids) => ids,
            Command::Submit(_)
            | Command::Revise(_)
            | Command::PauseQueue
            | Command::ResumeQueue
            | Command::PauseGpus { .. }
            | Command::ResumeGpus { .. }
            | Command::FilePauses { .. }
            | Command::AddMachine { .. }
            | Command::MoveMachines { .. }
            | Command::SetUpMachine { .. }
            | Command::PauseMachines { .. }
            | Command::ResumeMachines { .. }
            | Command::RemoveMachine { .. }
            | Command::Stop { .. } => &[],
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    Started {
        run: RunId,
        pid: u32,
        at: Time,
    },
    Ended {
        run: RunId,
        outcome: Outcome,
        at: Time,
    },
    /// Nothing of it began, and it may at any time without being started again.
    Underway {
        run: RunId,
    },
    /// Nothing was found of the run. `ran` as in the `Observe` that this answers.
    NotStarted {
        run: RunId,
        ran: bool,
    },
    /// The copy of what a job left behind has come to its end, in whichever way.
    CopyEnded {
        job: JobId,
    },
    Machine(Machine),
    /// Whether there is too little room on disk to start anything.
    Disk {
        full: bool,
    },
}

/// Why a command was refused: the first job that stands in its way, or what does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Ended, or never existed: the World does not know it.
    NotLive(JobId),
    WrongState(JobId),
    /// It would wait for itself.
    Circular(JobId),
    /// GPUs that the machine does not have.
    NoSuchGpus {
        machine: MachineId,
        missing: GpuSet,
    },
    NoSuchMachine(MachineId),
    /// So many runs hold something of it.
    MachineBusy {
        machine: MachineId,
        runs: usize,
    },
    /// The service's own host stays.
    OwnMachine,
}

/// Events a command makes, already recorded in the World. Refused: nothing happened.
pub fn command(world: &mut World, command: Command, now: Time) -> Result<Vec<Event>, Refusal> {
    let events = match command {
        Command::Submit(jobs) => jobs.into_iter().map(Event::Submitted).collect(),
        Command::Kill(ids) => each(world, &ids, |job| match &job.state {
            State::Active(run) => Some(stop(run.id, run.stop)),
            State::Copying { ended_at } => Some(copy_stopped(job.id, *ended_at)),
            State::Held | State::Queued { .. } => None,
        })?,
        Command::Remove(ids) => each(world, &ids, |job| job.state.waits().then(|| removed(job.id, now)))?,
        Command::Cancel(ids) => each(world, &ids, |job| match &job.state {
            State::Active(run) => Some(stop(run.id, run.stop)),
            State::Copying { ended_at } => Some(copy_stopped(job.id, *ended_at)),
            State::Held | State::Queued { .. } => Some(removed(job.id, now)),
        })?,
        Command::Hold(ids) => each(world, &ids, |job| match job.state {
            State::Held => Some(vec![]),
            State::Queued { .. } => Some(vec![Event::Held { job: job.id }]),
            State::Active(_) | State::Copying { .. } => None,
        })?,
        Command::Release(ids) => {
            let events = each(world, &ids, |job| match job.state {
                State::Held => Some(vec![Event::Released { job: job.id }]),
                State::Queued { .. } => Some(vec![]),
                State::Active(_) | State::Copying { .. } => None,
            })?;
            sweeps::released(world, &ids).chain(events).collect()
        }
        Command::First(ids) => first(world, &ids)?,
        Command::Revise(revision) => return revise::revise(world, revision, now),
        Command::PauseQueue if world.queue_paused() => vec![],
        Command::PauseQueue => vec![Event::QueuePaused(QueuePause::ByUser)],
        Command::ResumeQueue if !world.queue_paused() => vec![],
        Command::ResumeQueue => vec![Event::QueueResumed],
        Command::PauseGpus { machine, gpus } => pause(world, machine, gpus, GpuSet::EMPTY, PausedBy::User)?,
        Command::ResumeGpus { machine, gpus } => pause(world, machine, GpuSet::EMPTY, gpus, PausedBy::User)?,
        Command::FilePauses { machine, pause: paused, resume } => {
            pause(world, machine, paused, resume, PausedBy::StateFile)?
        }
        Command::AddMachine { machine, standing } => machines::add(world, machine, standing),
        Command::MoveMachines { machines, class } => machines::moved(world, &machines, class)?,
        Command::SetUpMachine { machine, set_up, begin } => machines::set_up(world, machine, set_up, begin)?,
        Command::PauseMachines { machines } => machines::pause(world, &machines)?,
        Command::ResumeMachines { machines } => machines::resume(world, &machines)?,
        Command::RemoveMachine { machine, drain, kill } => machines::remove(world, machine, drain || kill, kill, now)?,
        Command::Stop { kill } => {
            let stops = world.active_runs().filter(|run| kill && run.stop.is_none());
            let stops = stops.map(|run| Event::StopAsked { run: run.id, cause: StopCause::Stopped });
            std::iter::once(Event::Stopping).chain(stops).collect()
        }
    };
    Ok(record(world, events, now))
}

/// The wall clock was set by so much. The event is recorded in the World already; `now` is by the new clock.
pub fn clock_set(world: &mut World, by_ms: i64, policy: &Policy, now: Time) -> Vec<Event> {
    let (latest_start, latest_retry) = (now.after(MAX_CLOCK_SKEW), now.after(policy.retry_wait_max));
    record(world, vec![Event::ClockSet { by_ms, latest_start, latest_retry }], now)
}

/// Events a report makes, already recorded in the World.
pub fn report(world: &mut World, report: Report, policy: &Policy, now: Time) -> Vec<Event> {
    let events = match report {
        Report::Started { run, pid, at } => match world.run(run).map(|run| run.phase) {
            Some(Phase::Starting) => vec![Event::Running { run, pid, at }],
            // Its start was taken for granted when the database was put back to an older copy.
            Some(Phase::Running { pid: 0, .. }) if pid != 0 => vec![Event::Running { run, pid, at }],
            _ => vec![],
        },
        Report::Ended { run, outcome, at } => run_ended(world, run, outcome, at, policy, now),
        // It did run, so it must not run again: somebody removed its folder.
        Report::NotStarted { run, ran: true } => {
            let error = "its run directory is gone".to_string();
            run_ended(world, run, Outcome::Lost { error }, now, policy, now)
        }
        // It may start still, or has meanwhile: a launch was on its way when one looked.
        Report::NotStarted { ran: false, .. } => vec![],
        Report::Underway { .. } => vec![],
        // A late one, of a machine that was removed.
        Report::Machine(machine) if !world.has_machine(machine.id) => vec![],
        Report::Machine(machine) => match world.machines().find(|known| **known == machine) {
            Some(_) => vec![],
            None => peaks(world, &machine).chain([Event::MachineRead(machine.clone())]).collect(),
        },
        Report::CopyEnded { job } => match world.job(job).map(|job| &job.state) {
            Some(State::Copying { ended_at }) => vec![Event::JobEnded { job, end: End::Completed, at: *ended_at }],
            _ => vec![],
        },
        Report::Disk { full } if full != world.disk_full() => vec![Event::DiskFull { full }],
        Report::Disk { .. } => vec![],
    };
    let has_ended = events.iter().any(|event| matches!(event, Event::RunEnded { .. }));
    let locked = events.iter().find_map(|event| locked_gpu(world, event));
    let mut happened = record(world, events, now);
    if let Some((machine, uuid)) = locked {
        let read = machines::locked(world, machine, &uuid);
        happened.extend(record(world, read.into_iter().collect(), now));
    }
    if has_ended {
        let quarantined = machines::quarantined(world, policy, now);
        happened.extend(record(world, quarantined, now));
    }
    happened
}

/// The GPU that a run did not get, since another service holds its lock, and the machine it is in.
fn locked_gpu(world: &World, event: &Event) -> Option<(MachineId, String)> {
    match event {
        Event::RunEnded { run, outcome: Outcome::GpuLocked { uuid, .. }, .. } => {
            Some((world.run(*run)?.lease.machine, uuid.clone()))
        }
        _ => None,
    }
}

/// The command with only those jobs that it fits now: for jobs named as a group, of which one may have
/// ended since.
pub fn narrowed(world: &World, command: Command) -> Command {
    let waits = |id: &JobId| world.job(*id).is_some_and(|job| job.state.waits());
    let is_live = |id: &JobId| world.job(*id).is_some();
    let only = |ids: Vec<JobId>, fits: &dyn Fn(&JobId) -> bool| ids.into_iter().filter(fits).collect();
    match command {
        Command::Kill(ids) => Command::Kill(only(ids, &|id| is_live(id) && !waits(id))),
        Command::Cancel(ids) => Command::Cancel(only(ids, &is_live)),
        Command::Remove(ids) => Command::Remove(only(ids, &waits)),
        Command::Hold(ids) => Command::Hold(only(ids, &waits)),
        Command::Release(ids) => Command::Release(only(ids, &waits)),
        Command::First(ids) => Command::First(only(ids, &waits)),
        other => other,
    }
}

fn run_ended(world: &World, id: RunId, outcome: Outcome, at: Time, policy: &Policy, now: Time) -> Vec<Event> {
    let Some(run) = world.run(id) else { return vec![] };
    let job = world.job(id.job).expect("a run has a job");
    let end = End::of(&outcome, run.stop);
    let nobody_asked = run.stop.is_none();
    let next = if let (Outcome::MachineError { .. }, true) = (&outcome, nobody_asked) {
        let failures = job.retries.start_failures + 1;
        (failures < policy.start_attempts).then(|| (Requeue::StartFailed, Some(policy.wait_before_retry(failures))))
    } else if nobody_asked && outcome == Outcome::Preempted {
        Some((Requeue::Preempted, Some(policy.retry_wait)))
    } else if let (Outcome::GpuLocked { .. }, true) = (&outcome, nobody_asked) {
        Some((Requeue::GpuLocked, None))
    } else if nobody_asked && end.may_be_retried(&job.retries) && job.retries.used < job.retries.allowed {
        Some((Requeue::Retry, Some(policy.wait_before_retry(job.retries.used + 1))))
    } else {
        None
    };
    let mut events = vec![Event::RunEnded { run: id, outcome, at }];
    match next {
        Some((why, wait)) => {
            let raise = raise(world, job, run, &end);
            let not_before = wait.map(|wait| now.after(wait));
            events.push(Event::Requeued { job: job.id, why, not_before, raise });
        }
        None if job.copies && end == End::Completed => events.push(Event::Copying { job: job.id, at }),
        None => {
            let failed = matches!(end, End::Failed(_));
            events.push(Event::JobEnded { job: job.id, end, at });
            let failures = world.failures() + 1;
            if failed && !world.queue_paused() && (1..=failures).contains(&policy.pause_after_failures) {
                events.push(Event::QueuePaused(QueuePause::AfterFailures(failures)));
            }
        }
    }
    events
}

/// What the job asks for instead, if it ran out of GPU memory that it shared.
fn raise(world: &World, job: &Job, run: &Run, end: &End) -> Option<Raise> {
    if !matches!(end, End::Failed(Failure::GpuOom)) {
        return None;
    }
    Some(run.lease.share?.raise(run.peak_mib, world.most_memory(&job.request)))
}

/// Runs that were seen with more memory than before.
fn peaks<'a>(world: &'a World, machine: &'a Machine) -> impl Iterator<Item = Event> + 'a {
    world.active_runs().filter(|run| run.lease.machine == machine.id).filter_map(|run| {
        let gpus = machine.gpus.iter().filter(|gpu| run.lease.gpus.contains(gpu.index));
        let mib = gpus.map(|gpu| gpu.used_by(run.id.job)).max().unwrap_or(0);
        (mib > run.peak_mib).then_some(Event::Peaked { run: run.id, mib })
    })
}

/// All jobs or none: the events of each, or the first that does not fit.
fn each(world: &World, ids: &[JobId], events_of: impl Fn(&Job) -> Option<Vec<Event>>) -> Result<Vec<Event>, Refusal> {
    let mut events = Vec::new();
    let mut done = std::collections::BTreeSet::new();
    for id in ids.iter().filter(|id| done.insert(**id)) {
        let job = world.job(*id).ok_or(Refusal::NotLive(*id))?;
        events.extend(events_of(job).ok_or(Refusal::WrongState(*id))?);
    }
    Ok(events)
}

/// Of all these GPUs or none; those that are so already make no event.
fn pause(
    world: &World,
    machine: MachineId,
    pause: GpuSet,
    resume: GpuSet,
    by: PausedBy,
) -> Result<Vec<Event>, Refusal> {
    let known = world.machines().find(|known| known.id == machine);
    let missing = pause.union(resume).minus(known.map(Machine::gpu_set).unwrap_or_default());
    if !missing.is_empty() {
        return Err(Refusal::NoSuchGpus { machine, missing });
    }
    let before = world.paused_gpus(machine);
    let event = |index, uuid| match (before.contains(index), pause.contains(index), resume.contains(index)) {
        (false, true, _) => Some(Event::GpuPaused { machine, index, uuid, by }),
        (true, _, true) => Some(Event::GpuResumed { machine, index, uuid, by }),
        _ => None,
    };
    let gpus = known.into_iter().flat_map(|machine| &machine.gpus);
    Ok(gpus.filter_map(|gpu| event(gpu.index, gpu.uuid.clone())).collect())
}

fn stop(run: RunId, asked: Option<StopCause>) -> Vec<Event> {
    match asked {
        Some(_) => vec![],
        None => vec![Event::StopAsked { run, cause: StopCause::User }],
    }
}

/// What was done is done: only the copy is given up.
fn copy_stopped(job: JobId, ended_at: Time) -> Vec<Event> {
    vec![Event::CopyStopped { job }, Event::JobEnded { job, end: End::Completed, at: ended_at }]
}

fn removed(job: JobId, at: Time) -> Vec<Event> {
    vec![Event::JobEnded { job, end: End::Killed(KillReason::Removed), at }]
}

/// To the head, in the order given.
fn first(world: &World, ids: &[JobId]) -> Result<Vec<Event>, Refusal> {
    let mut turn = world.next_front_turn();
    let mut reversed: Vec<JobId> = ids.to_vec();
    reversed.reverse();
    for id in ids {
        match world.job(*id).map(|job| &job.state) {
            None => return Err(Refusal::NotLive(*id)),
            Some(state) if !state.waits() => return Err(Refusal::WrongState(*id)),
            Some(_) => {}
        }
    }
    Ok(reversed
        .into_iter()
        .map(|job| {
            let event = Event::Moved { job, place: Place { priority: Place::FRONT, turn } };
            turn -= 1;
            event
        })
        .collect())
}

/// Takes events in, and what follows from them: a job that ends may fail those that were to come after it, or leave
/// them held.
fn record(world: &mut World, events: Vec<Event>, now: Time) -> Vec<Event> {
    let new: BTreeSet<JobId> = match events.iter().any(comes_after_others) {
        true => events.iter().filter_map(submitted).collect(),
        false => BTreeSet::new(),
    };
    let mut coming: VecDeque<Event> = events.into();
    let mut happened = Vec::with_capacity(coming.len());
    while let Some(event) = coming.pop_front().map(|event| without_ended_parents(world, &new, event)) {
        // It was to be held with its sweep, and another's end took it out first.
        if let Event::Held { job } = &event
            && world.job(*job).is_none()
        {
            continue;
        }
        if let Event::JobEnded { job, end, at } = &event {
            // It was to end, and another's end came first.
            if world.job(*job).is_none() {
                continue;
            }
            // Those that they hand on must still know their parent.
            for event in bereaved(world, *job, end, *at) {
                match event {
                    Event::Orphaned { .. } => {
                        world.record(&event);
                        happened.push(event);
                    }
                    later => coming.push_back(later),
                }
            }
        }
        let sweep = ended(&event).and_then(|job| world.job(job)?.sweep);
        let failed_already = match &event {
            Event::Submitted(new) => new.needs.failed_parent.map(|parent| (new.id, parent)),
            Event::Edited { job, needs: Some(needs) } => needs.failed_parent.map(|parent| (*job, parent)),
            _ => None,
        };
        coming.extend(failed_already.map(|(job, parent)| Event::JobEnded {
            job,
            end: End::Failed(Failure::Dependency { parent }),
            at: now,
        }));
        world.record(&event);
        if let Event::JobEnded { job, end: End::Completed, .. } = &event {
            coming.extend(machines::ready(world, *job));
        }
        if let (Event::JobEnded { end: End::Failed(failure), .. }, Some(sweep)) = (&event, sweep)
            && !matches!(failure, Failure::Dependency { .. })
        {
            coming.extend(sweeps::stopped(world, sweep));
        }
        happened.push(event);
    }
    // With its last run a machine that was to leave is gone.
    for machine in world.left_alone() {
        let removed = Event::MachineRemoved { machine };
        world.record(&removed);
        happened.push(removed);
    }
    happened
}

/// What becomes of those that were to come after a job that did not complete. One that was ended with the service takes
/// nobody with it: the queue stays.
fn bereaved(world: &World, parent: JobId, end: &End, at: Time) -> Vec<Event> {
    let children = world.children(parent).filter(|(_, any_end)| !any_end).map(|(child, _)| child);
    match end {
        End::Completed => vec![],
        End::Killed(KillReason::Stopped) => children.map(|job| Event::Orphaned { job, parent }).collect(),
        _ => {
            let end = End::Failed(Failure::Dependency { parent });
            children.map(|job| Event::JobEnded { job, end: end.clone(), at }).collect()
        }
    }
}

fn ended(event: &Event) -> Option<JobId> {
    match event {
        Event::JobEnded { job, .. } => Some(*job),
        _ => None,
    }
}

fn submitted(event: &Event) -> Option<JobId> {
    match event {
        Event::Submitted(new) => Some(new.id),
        _ => None,
    }
}

fn comes_after_others(event: &Event) -> bool {
    matches!(event, Event::Submitted(new) if !new.needs.after.is_empty())
}

/// A job that is to come after one that the same command took out: that one has not completed. Those in `new` come
/// with it, in whichever order.
fn without_ended_parents(world: &World, new: &BTreeSet<JobId>, mut event: Event) -> Event {
    let needs = match &mut event {
        Event::Submitted(new) if !new.needs.after.is_empty() => Some(Arc::make_mut(&mut new.needs)),
        Event::Edited { needs, .. } => needs.as_deref_mut(),
        _ => None,
    };
    if let Some(needs) = needs {
        let (live, ended): (Vec<Parent>, Vec<Parent>) =
            needs.after.iter().partition(|parent| world.job(parent.job).is_some() || new.contains(&parent.job));
        let failed = ended.iter().find(|parent| !parent.any_end).map(|parent| parent.job);
        needs.failed_parent = needs.failed_parent.or(failed);
        needs.after = live;
    }
    event
}
