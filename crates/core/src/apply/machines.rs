//! Machines come, are moved, paused, resumed and removed. What runs there goes on, unless somebody asks for its end.

use std::collections::BTreeSet;

use super::Refusal;
use crate::event::Event;
use crate::ids::{ClassId, JobId, MachineId};
use crate::job::{End, State};
use crate::machine::{Obstacle, Quarantine, SetUp, Standing};
use crate::policy::Policy;
use crate::run::{Outcome, Run, StopCause};
use crate::streak::Streak;
use crate::time::Time;
use crate::world::World;

/// One that is there already stays as it is.
pub fn add(world: &World, machine: MachineId, standing: Standing) -> Vec<Event> {
    match world.has_machine(machine) {
        true => vec![],
        false => vec![Event::MachineAdded { machine, standing }],
    }
}

/// The machine with this GPU locked by another service, until a reading says otherwise; none if it takes no job already.
pub fn locked(world: &World, machine: MachineId, uuid: &str) -> Option<Event> {
    let mut read = world.machines().find(|known| known.id == machine)?.clone();
    let gpu = read.gpus.iter_mut().find(|gpu| gpu.uuid == uuid && gpu.obstacle.is_none())?;
    gpu.obstacle = Some(Obstacle::Locked);
    Some(Event::MachineRead(read))
}

pub fn moved(world: &World, machines: &[MachineId], class: Option<ClassId>) -> Result<Vec<Event>, Refusal> {
    each(world, machines, |machine, it| {
        (it.class != class || it.set_up.is_some()).then_some(Event::MachineMoved { machine, class })
    })
}

/// Out of its class, until the last of the jobs has completed.
pub fn set_up(
    world: &World,
    machine: MachineId,
    set_up: SetUp,
    begin: Option<(JobId, Time)>,
) -> Result<Vec<Event>, Refusal> {
    if !world.has_machine(machine) {
        return Err(Refusal::NoSuchMachine(machine));
    }
    if world.job(set_up.last).is_none() {
        return Err(Refusal::NotLive(set_up.last));
    }
    let mut events = match world.standing(machine).set_up {
        Some(known) if known == set_up => vec![],
        _ => vec![Event::MachineSetUp { machine, set_up }],
    };
    if let Some((job, until)) = begin {
        match world.job(job).ok_or(Refusal::NotLive(job))?.state {
            State::Queued { .. } => events.push(Event::Delayed { job, until }),
            _ => return Err(Refusal::WrongState(job)),
        }
    }
    Ok(events)
}

/// A job has completed: machines that it was the last to set up.
pub fn ready(world: &World, job: JobId) -> impl Iterator<Item = Event> {
    let set_up = world.standings().filter_map(|(machine, standing)| Some((machine, standing.set_up?)));
    let done: Vec<_> = set_up.filter(|(_, set_up)| set_up.last == job).collect();
    done.into_iter().map(|(machine, set_up)| Event::MachineMoved { machine, class: Some(set_up.class) })
}

pub fn pause(world: &World, machines: &[MachineId]) -> Result<Vec<Event>, Refusal> {
    each(world, machines, |machine, it| (!it.paused).then_some(Event::MachinePaused { machine }))
}

pub fn resume(world: &World, machines: &[MachineId]) -> Result<Vec<Event>, Refusal> {
    let stands_still = |it: Standing| it.paused || it.quarantine.is_some();
    each(world, machines, |machine, it| stands_still(it).then_some(Event::MachineResumed { machine }))
}

/// Its end follows with that of its last run, if it is to wait for that.
pub fn remove(world: &World, machine: MachineId, drain: bool, kill: bool, now: Time) -> Result<Vec<Event>, Refusal> {
    if machine == MachineId::LOCAL {
        return Err(Refusal::OwnMachine);
    }
    if !world.has_machine(machine) {
        return Err(Refusal::NoSuchMachine(machine));
    }
    let runs: Vec<&Run> = world.active_runs().filter(|run| run.lease.machines().any(|it| it == machine)).collect();
    if !runs.is_empty() && !drain {
        return Err(Refusal::MachineBusy { machine, runs: runs.len() });
    }
    if runs.is_empty() {
        return Ok(vec![Event::MachineRemoved { machine }]);
    }
    let mut events = vec![];
    if !world.standing(machine).leaving {
        events.push(Event::MachineLeaving { machine });
    }
    if kill {
        events.extend(runs.into_iter().flat_map(|run| ended(world, run, now)));
    }
    Ok(events)
}

/// A run has ended: machines that are now seen to fail what others complete.
pub fn quarantined(world: &World, policy: &Policy, now: Time) -> Vec<Event> {
    let failing = world.streaks().of(policy.quarantine_after);
    let new = failing.filter(|streak| world.standing(streak.machine).quarantine.is_none());
    let quarantine = |streak: &Streak| Quarantine { since: now, failures: streak.failures(), last: streak.last };
    let event = |it: &Streak| Event::MachineQuarantined { machine: it.machine, quarantine: quarantine(it) };
    new.map(event).collect()
}

/// Of a machine that cannot be reached nobody can end a run, and nobody will hear of its end.
fn ended(world: &World, run: &Run, now: Time) -> Vec<Event> {
    let cause = run.stop.unwrap_or(StopCause::User);
    let mut events = match run.stop {
        Some(_) => vec![],
        None => vec![Event::StopAsked { run: run.id, cause }],
    };
    if !world.reaches(run.lease.runs_on()) {
        let outcome = Outcome::Lost { error: "its machine was removed while it could not be reached".into() };
        let end = End::of(&outcome, Some(cause));
        events.push(Event::RunEnded { run: run.id, outcome, at: now });
        events.push(Event::JobEnded { job: run.id.job, end, at: now });
    }
    events
}

/// All machines or none; those that are so already make no event.
fn each(
    world: &World,
    machines: &[MachineId],
    event_of: impl Fn(MachineId, Standing) -> Option<Event>,
) -> Result<Vec<Event>, Refusal> {
    let machines: BTreeSet<MachineId> = machines.iter().copied().collect();
    if let Some(missing) = machines.iter().find(|machine| !world.has_machine(**machine)) {
        return Err(Refusal::NoSuchMachine(*missing));
    }
    Ok(machines.into_iter().filter_map(|machine| event_of(machine, world.standing(machine))).collect())
}
