//! What must always hold of a World. For tests and the simulation.

use std::collections::BTreeMap;

use crate::ids::MachineId;
use crate::job::State;
use crate::request::GpuSet;
use crate::world::World;

/// The first rule that is broken, in words.
pub fn check(world: &World) -> Result<(), String> {
    let mut gpus: BTreeMap<MachineId, GpuSet> = BTreeMap::new();
    let mut cpus: BTreeMap<MachineId, u32> = BTreeMap::new();
    for run in world.active_runs() {
        let lease = run.lease;
        let taken = gpus.entry(lease.machine).or_default();
        if taken.overlaps(lease.gpus) {
            return Err(format!("{} holds a GPU of {:?} that another run holds", run.id, lease.gpus));
        }
        *taken = taken.union(lease.gpus);
        *cpus.entry(lease.machine).or_default() += u32::from(lease.cpus);
        let job = world.job(run.id.job).ok_or_else(|| format!("{} has no job", run.id))?;
        if job.runs != run.id.number {
            return Err(format!("{} runs while its job counts {} runs", run.id, job.runs));
        }
        if lease.gpus.len() != usize::from(job.request.gpus) || lease.cpus != job.request.cpus {
            return Err(format!("{} holds {lease:?}, its job asked for {:?}", run.id, job.request));
        }
        if job.request.on.is_some_and(|on| !lease.gpus.minus(on).is_empty()) {
            return Err(format!("{} holds GPUs {:?} outside of those allowed", run.id, lease.gpus));
        }
    }
    for machine in world.machines() {
        let used = cpus.get(&machine.id).copied().unwrap_or(0);
        if used > u32::from(machine.cpus) {
            return Err(format!("{} CPUs are held of {} on {}", used, machine.cpus, machine.name));
        }
    }
    indices_match(world)
}

fn indices_match(world: &World) -> Result<(), String> {
    let ready: u64 = world.ready().values().map(|bucket| bucket.len() as u64).sum();
    let (mut held, mut queued, mut delayed, mut active) = (0, 0, 0, 0);
    for job in world.jobs() {
        match job.state {
            State::Held => held += 1,
            State::Queued { not_before: None } => queued += 1,
            State::Queued { not_before: Some(_) } => delayed += 1,
            State::Active(_) => active += 1,
        }
    }
    if held != world.held()
        || active != world.active_runs().count() as u64
        || ready < queued
        || ready > queued + delayed
    {
        return Err(format!(
            "indices are off: {held} held, {queued} queued, {delayed} delayed, {active} active; \
             the World counts {} held, {ready} ready, {} active",
            world.held(),
            world.active_runs().count()
        ));
    }
    Ok(())
}
