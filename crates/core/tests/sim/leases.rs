//! Where a run may be, and what it may ask for after it ran out of memory: counted from the disk and the last
//! reading alone.

use std::collections::BTreeMap;

use nexus_core::ids::{MachineId, RunId};
use nexus_core::job::{Job, State};
use nexus_core::machine::{Gpu, Machine, Obstacle, Standing};
use nexus_core::request::{Raise, Request, Vram};
use nexus_core::run::{HeldShare, Lease, Memory, Outcome, Run};

use crate::disk::Disk;

/// What was read of each machine last.
pub type Reads = BTreeMap<MachineId, Machine>;

/// The lease is what was asked for, on a machine that takes jobs, of GPUs that take the job.
pub fn may_be_leased(run: RunId, lease: &Lease, disk: &Disk, reads: &Reads) {
    let request = &disk.jobs[&run.job].request;
    assert!(is_open(lease.machine, request, disk, reads), "{run} is planned on {:?}", lease.machine);
    let read = &reads[&lease.machine];
    assert_eq!(lease.driver, request.driver, "{run} holds {lease:?}");
    assert_eq!((lease.cpus, lease.ram_mib), (request.cpus, request.ram_mib), "{run} holds {lease:?}");
    let beside: Vec<&Run> = held_on(lease.machine, disk).collect();
    if lease.driver {
        assert_eq!(lease.gpus, read.gpu_set(), "{run} holds {lease:?}");
        assert!(beside.iter().all(|other| holds_nothing(&other.lease)), "{run} holds {lease:?}, beside {beside:?}");
        assert_eq!(lease.share, None, "{run} holds {lease:?}");
        return;
    }
    assert!(beside.iter().all(|other| !other.lease.driver), "{run} holds {lease:?}, beside {beside:?}");
    assert_eq!(lease.gpus.len(), usize::from(request.gpus), "{run} holds {lease:?}");
    assert_eq!(lease.share, share_of(request, disk, reads), "{run} asked for {request:?}");
    for index in lease.gpus.iter() {
        let gpu = read.gpus.iter().find(|gpu| gpu.index == index);
        let gpu = gpu.unwrap_or_else(|| panic!("{run} is planned on GPU {index}, which is not there"));
        if let Err(why) = takes(gpu, request, disk, (read, reads)) {
            panic!("{run} is planned on GPU {index}: {why}");
        }
    }
}

/// Whether a machine takes jobs like this one at all.
fn is_open(machine: MachineId, request: &Request, disk: &Disk, reads: &Reads) -> bool {
    let Standing { paused, quarantine, leaving, .. } = disk.standing(machine);
    let reached = reads.get(&machine).is_some_and(|read| read.reachable);
    disk.allows(request, machine) && reached && !paused && quarantine.is_none() && !leaving
}

fn held_on(machine: MachineId, disk: &Disk) -> impl Iterator<Item = &Run> {
    disk.jobs.values().filter_map(active).filter(move |run| run.lease.machine == machine)
}

fn holds_nothing(lease: &Lease) -> bool {
    lease.gpus.is_empty() && lease.cpus == 0 && lease.ram_mib == 0 && !lease.driver
}

/// Whether there is room for a job.
pub fn fits(request: &Request, disk: &Disk, reads: &Reads) -> bool {
    let open = reads.values().filter(|read| is_open(read.id, request, disk, reads));
    open.into_iter().any(|read| {
        let held = |amount: fn(&Lease) -> u64| held_on(read.id, disk).map(|run| amount(&run.lease)).sum::<u64>();
        let cpus = held(|lease| lease.cpus.into()) + u64::from(request.cpus);
        let ram = held(|lease| lease.ram_mib.into()) + u64::from(request.ram_mib);
        let gpus = read.gpus.iter().filter(|gpu| takes(gpu, request, disk, (read, reads)).is_ok()).count();
        let in_the_way = |run: &Run| run.lease.driver || request.driver && !holds_nothing(&run.lease);
        let is_whole = !held_on(read.id, disk).any(in_the_way);
        is_whole && gpus >= usize::from(request.gpus) && cpus <= u64::from(read.cpus) && ram <= read.ram_mib
    })
}

fn active(job: &Job) -> Option<&Run> {
    match &job.state {
        State::Active(run) => Some(run),
        _ => None,
    }
}

/// None on a GPU that is held, paused (unless that is to be ignored), or that anything is in the way of; no part of
/// one that is not there to be had.
fn takes(gpu: &Gpu, request: &Request, disk: &Disk, (read, reads): (&Machine, &Reads)) -> Result<(), String> {
    let share = share_of(request, disk, reads);
    let in_the_way = match gpu.obstacle {
        Some(Obstacle::InUse) => share.is_none(),
        obstacle => obstacle.is_some(),
    };
    let paused = disk.paused_gpus.contains(&(read.id, gpu.uuid.clone()));
    let here = held_on(read.id, disk).filter(|run| run.lease.gpus.contains(gpu.index));
    let others: Vec<&Run> = here.collect();
    if in_the_way {
        Err(format!("it takes no job, {:?}", gpu.obstacle))
    } else if paused && !request.force {
        Err("it is paused".into())
    } else if !is_named(gpu, request) {
        Err(format!("{request:?} does not name it, a {}", gpu.name))
    } else {
        match share {
            None if others.is_empty() => Ok(()),
            None => Err(format!("it is not to be had alone, beside {}", others[0].id)),
            Some(share) => part_is_there(share, gpu, &others, read.sharing.mem_threshold_percent),
        }
    }
}

fn is_named(gpu: &Gpu, request: &Request) -> bool {
    let model = request.model.is_none_or(|model| gpu.name.to_lowercase().contains(model.as_str()));
    model && request.on.is_none_or(|on| on.contains(gpu.index))
}

/// What it takes of each GPU; none = all of it.
fn share_of(request: &Request, disk: &Disk, reads: &Reads) -> Option<HeldShare> {
    let share = request.share?;
    let vram_mib = match share.vram {
        Vram::Unsaid => None,
        Vram::Mib(mib) => Some(mib),
        // Alone, until a run of the same command was seen, and where no card has that much.
        Vram::Learned(same) => {
            let peak = disk.learned.get(&same).map_or(0, |known| known.peak_mib);
            let wanted = (peak * 11).div_ceil(10);
            let known = peak > 0 && u64::from(wanted) <= most_memory(request, disk, reads);
            Some(known.then_some(wanted)?)
        }
    };
    Some(HeldShare { milli: share.milli, vram_mib })
}

fn part_is_there(share: HeldShare, gpu: &Gpu, others: &[&Run], threshold_percent: u8) -> Result<(), String> {
    let promise = |share: &HeldShare| share.vram_mib.map_or(gpu.memory_mib * u64::from(share.milli) / 1000, u64::from);
    let (mut milli, mut promised, mut not_taken) = (share.milli, promise(&share), 0);
    for other in others {
        let Some(theirs) = other.lease.share else { return Err(format!("{} has it alone", other.id)) };
        let taken = gpu.used.iter().find(|(job, _)| *job == other.id.job).map_or(0, |(_, mib)| u64::from(*mib));
        milli += theirs.milli;
        promised += promise(&theirs);
        not_taken += promise(&theirs).saturating_sub(taken);
    }
    let free = gpu.free_mib.saturating_sub(not_taken);
    let (used, limit) = (gpu.memory_mib - gpu.free_mib, gpu.memory_mib * u64::from(threshold_percent) / 100);
    match share.vram_mib {
        _ if milli > 1000 => Err(format!("{milli} thousandths of it are given away")),
        _ if promised > gpu.memory_mib => Err(format!("{promised} MiB of it are promised")),
        Some(mib) if u64::from(mib) > free => Err(format!("{free} MiB are free and {mib} are wanted")),
        None if used > limit => Err(format!("{used} MiB of it are in use")),
        _ if gpu.busy => Err("it is busy".into()),
        _ => Ok(()),
    }
}

/// What each of its GPUs has at least, were it alone on the machine that it may have which has the most.
fn most_memory(request: &Request, disk: &Disk, reads: &Reads) -> u64 {
    let lasting = |gpu: &Gpu| matches!(gpu.obstacle, Some(Obstacle::Mig | Obstacle::LeftOut));
    let allowed = reads.values().filter(|read| disk.allows(request, read.id));
    let most = allowed.map(|read| {
        let may_have = read.gpus.iter().filter(|gpu| is_named(gpu, request) && !lasting(gpu));
        let mut memory: Vec<u64> = may_have.map(|gpu| gpu.memory_mib).collect();
        memory.sort_unstable();
        memory.reverse();
        memory.get(usize::from(request.gpus) - 1).copied().unwrap_or(0)
    });
    most.max().unwrap_or(0)
}

/// More memory after a run that had not enough of what it shared.
pub fn raise_after(outcome: &Outcome, run: &Run, disk: &Disk, reads: &Reads) -> Option<Raise> {
    let out_of_memory = matches!(outcome, Outcome::OutOfMemory { of: Memory::Gpu, .. });
    let share = run.lease.share.filter(|_| out_of_memory)?;
    let had = run.peak_mib.max(share.vram_mib.unwrap_or(0));
    let more = had + had.div_ceil(2);
    let most = most_memory(&disk.jobs[&run.id.job].request, disk, reads);
    let alone = share.milli > 0 || run.peak_mib == 0 || u64::from(more) > most;
    Some(if alone { Raise::Alone } else { Raise::Mib(more) })
}
