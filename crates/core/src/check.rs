//! What must always hold of a World. For tests and the simulation.

use std::collections::BTreeMap;

use crate::free::Free;
use crate::ids::{MachineId, SweepId};
use crate::job::{Job, State};
use crate::machine::Gpu;
use crate::request::{Share, Target, Vram, WHOLE_MILLI};
use crate::run::{HeldShare, Run};
use crate::sweep::Counts;
use crate::world::World;

/// What is given away of one GPU.
#[derive(Default)]
struct Given {
    alone: bool,
    milli: u64,
    shares: Vec<HeldShare>,
}

/// The first rule that is broken, in words.
pub fn check(world: &World) -> Result<(), String> {
    let mut gpus: BTreeMap<(MachineId, u16), Given> = BTreeMap::new();
    let mut held: BTreeMap<MachineId, (u32, u64)> = BTreeMap::new();
    for run in world.active_runs() {
        let lease = &run.lease;
        // What a cluster has is given away by another scheduler.
        let own = || world.machines().filter(|machine| machine.cluster.is_none());
        for (machine, index) in own().flat_map(|it| lease.gpus_on(it).iter().map(|index| (it.id, index))) {
            let given = gpus.entry((machine, index)).or_default();
            if given.alone || lease.share.is_none() && !given.shares.is_empty() {
                return Err(format!("{} holds GPU {index} of {:?} beside one that holds it alone", run.id, lease.gpus));
            }
            match lease.share {
                None => given.alone = true,
                Some(share) => {
                    given.milli += u64::from(share.milli);
                    given.shares.push(share);
                }
            }
        }
        for machine in lease.machines() {
            let (cpus, ram) = held.entry(machine).or_default();
            *cpus += lease.cpus;
            *ram += u64::from(lease.ram_mib);
        }
        let job = world.job(run.id.job).ok_or_else(|| format!("{} has no job", run.id))?;
        as_asked(world, run, job)?;
    }
    for ((machine, index), given) in &gpus {
        if given.milli > u64::from(WHOLE_MILLI) {
            return Err(format!("{} thousandths of GPU {index} are given away", given.milli));
        }
        let machine = world.machines().find(|known| known.id == *machine);
        let gpu = machine.and_then(|machine| machine.gpus.iter().find(|gpu| gpu.index == *index));
        if let Some(gpu) = gpu {
            let promised: u64 = given.shares.iter().map(|share| share.of(gpu.memory_mib)).sum();
            if promised > gpu.memory_mib {
                return Err(format!("{promised} MiB of the {} of GPU {index} are promised", gpu.memory_mib));
            }
        }
    }
    for machine in world.machines() {
        if machine.cluster.is_some() {
            continue;
        }
        let (cpus, ram) = held.get(&machine.id).copied().unwrap_or_default();
        if cpus > machine.cpus || ram > machine.ram_mib {
            let (all, memory) = (machine.cpus, machine.ram_mib);
            return Err(format!("{cpus} CPUs of {all} and {ram} MiB of {memory} are held on {}", machine.name));
        }
    }
    sweeps_match(world)?;
    free_matches(world)?;
    machines_match(world)?;
    indices_match(world)
}

/// What is left of the machines is what all runs leave of them.
fn free_matches(world: &World) -> Result<(), String> {
    for (id, free) in world.free() {
        let mut counted = Free::of(free.machine.clone(), world.standing(*id), world.paused_gpus(*id));
        for run in world.active_runs().filter(|run| run.lease.machines().any(|machine| machine == *id)) {
            counted.take(&run.lease, run.id.job);
        }
        if counted != *free {
            return Err(format!("{} has {free:?} left, and {counted:?} counted", free.machine.name));
        }
    }
    Ok(())
}

/// Runs hold machines that are there, one that drives holds its machine alone, and none is on its way out for nothing.
fn machines_match(world: &World) -> Result<(), String> {
    for run in world.active_runs() {
        if let Some(gone) = run.lease.machines().find(|machine| !world.has_machine(*machine)) {
            return Err(format!("{} holds {gone:?}, which is not there", run.id));
        }
        let holds_it = |other: &&Run| other.lease.machines().any(|it| it == run.lease.machine);
        let is_another = |other: &&Run| other.id != run.id && !other.lease.is_empty();
        if run.lease.driver
            && let Some(other) = world.active_runs().filter(holds_it).find(is_another)
        {
            return Err(format!("{} holds all of {:?}, beside {}", run.id, run.lease.machine, other.id));
        }
    }
    match world.left_alone().first() {
        Some(machine) => Err(format!("nothing runs on {machine:?}, which is to leave, and it is there")),
        None => Ok(()),
    }
}

/// The counts of sweeps are those of their jobs, and no more of them are on than may.
fn sweeps_match(world: &World) -> Result<(), String> {
    let mut counted: BTreeMap<SweepId, Counts> = BTreeMap::new();
    for job in world.jobs() {
        if let Some(sweep) = job.sweep {
            *counted.entry(sweep).or_default().of(job) += 1;
        }
    }
    for (id, sweep) in world.sweeps() {
        let counts = counted.remove(&id).unwrap_or_default();
        if sweep.counts != counts || counts.live() == 0 {
            return Err(format!("sweep {} counts {:?}, and has {counts:?}", id.0, sweep.counts));
        }
        if sweep.max_running.is_some_and(|most| counts.active > most.into()) {
            return Err(format!("{} jobs of sweep {} are on, and {:?} may", counts.active, id.0, sweep.max_running));
        }
    }
    match counted.keys().next() {
        Some(id) => Err(format!("sweep {} has jobs, and is not known", id.0)),
        None => Ok(()),
    }
}

/// A run holds what its job asked for.
fn as_asked(world: &World, run: &Run, job: &Job) -> Result<(), String> {
    let (lease, request) = (&run.lease, &job.request);
    if job.runs != run.id.number {
        return Err(format!("{} runs while its job counts {} runs", run.id, job.runs));
    }
    let vram_mib = |vram| match vram {
        Vram::Mib(mib) => Some(mib),
        Vram::Unsaid | Vram::Learned(_) => None,
    };
    let share = request.share.filter(|_| !request.driver);
    let share = share.map(|share| HeldShare { milli: share.milli, vram_mib: vram_mib(share.vram) });
    // All of the GPU, or what was learned by then.
    let learned = match (request.share, lease.share) {
        (Some(Share { vram: Vram::Learned(_), .. }), None) => true,
        (Some(Share { milli, vram: Vram::Learned(_) }), Some(held)) => held.milli == milli && held.vram_mib.is_some(),
        _ => false,
    };
    // Nobody shares a GPU of a cluster; one that was not read since the restart may be one.
    let machine = world.machines().find(|machine| machine.id == lease.machine);
    let alone = lease.share.is_none() && machine.is_none_or(|machine| machine.cluster.is_some());
    let beside = world.machines().filter(|machine| lease.beside.contains(&machine.id));
    let gpus = lease.gpus.len() + beside.map(|machine| machine.gpus.len()).sum::<usize>();
    let as_many = match request.driver {
        true => gpus >= usize::from(request.gpus),
        false => gpus == usize::from(request.gpus),
    };
    // The class of a machine may have changed since; its number does not.
    let there = !matches!(request.target, Target::Machine(machine) if machine != lease.machine);
    let same = as_many
        && there
        && lease.driver == request.driver
        && (lease.cpus, lease.ram_mib) == (request.cpus, request.ram_mib)
        && (lease.share == share || learned || alone);
    if !same {
        return Err(format!("{} holds {lease:?}, its job asked for {request:?}", run.id));
    }
    let of_model = |gpu: &Gpu| request.model.is_none_or(|model| model.fits(&gpu.name));
    let mut gpus = world.machines().filter(|known| known.id == lease.machine).flat_map(|known| &known.gpus);
    if gpus.any(|gpu| lease.gpus.contains(gpu.index) && !of_model(gpu)) && !lease.driver {
        return Err(format!("{} holds GPUs {:?}, not all of them {:?}", run.id, lease.gpus, request.model));
    }
    if request.on.is_some_and(|on| !lease.gpus.minus(on).is_empty()) && !lease.driver {
        return Err(format!("{} holds GPUs {:?} outside of those allowed", run.id, lease.gpus));
    }
    match job.state {
        State::Active(_) => Ok(()),
        _ => Err(format!("{} runs while its job is {:?}", run.id, job.state)),
    }
}

fn indices_match(world: &World) -> Result<(), String> {
    let ready: u64 = world.ready().values().flat_map(|spans| spans.values()).map(|jobs| jobs.len() as u64).sum();
    let (mut held, mut queued, mut delayed, mut active, mut copying) = (0, 0, 0, 0, 0);
    for job in world.jobs() {
        if let Some(parent) = world.parents(job.id).iter().find(|parent| world.job(parent.job).is_none()) {
            return Err(format!("{} waits for {}, which is gone", job.id, parent.job));
        }
        match job.state {
            State::Held => held += 1,
            State::Active(_) if !world.parents(job.id).is_empty() => return Err(format!("{} runs too early", job.id)),
            State::Queued { .. } if !world.parents(job.id).is_empty() => {}
            State::Queued { not_before: None } => queued += 1,
            State::Queued { not_before: Some(_) } => delayed += 1,
            State::Active(_) => active += 1,
            State::Copying { .. } if !job.copies => return Err(format!("{} has nothing to copy", job.id)),
            State::Copying { .. } => copying += 1,
        }
    }
    if held != world.held()
        || active != world.active_runs().count() as u64
        || copying != world.copying().count() as u64
        || world.pending() + active + copying != world.jobs().count() as u64
        || ready < queued
        || ready > queued + delayed
    {
        return Err(format!(
            "indices are off: {held} held, {queued} queued, {delayed} delayed, {active} active, {copying} copying; \
             the World counts {} held, {ready} ready, {} active, {} copying",
            world.held(),
            world.active_runs().count(),
            world.copying().count()
        ));
    }
    Ok(())
}
