//! Where a run may be, and what it may ask for after it ran out of memory: counted from the disk and the last
//! reading alone.

use nexus_core::ids::RunId;
use nexus_core::job::{Job, State};
use nexus_core::machine::{Gpu, Machine, Obstacle};
use nexus_core::request::{Raise, Request, Vram};
use nexus_core::run::{HeldShare, Lease, Memory, Outcome, Run};

use crate::disk::Disk;

/// No lease on a GPU that is held, paused (unless that is to be ignored), or that anything is in the way of; no part
/// of one that is not there to be had.
pub fn may_be_leased(run: RunId, lease: &Lease, disk: &Disk, read: &Machine) {
    let job = &disk.jobs[&run.job];
    as_asked(run, lease, &job.request, disk, read);
    for index in lease.gpus.iter() {
        let gpu = read.gpus.iter().find(|gpu| gpu.index == index);
        let gpu = gpu.unwrap_or_else(|| panic!("{run} is planned on GPU {index}, which is not there"));
        let in_the_way = match gpu.obstacle {
            Some(Obstacle::InUse) => lease.share.is_none(),
            obstacle => obstacle.is_some(),
        };
        assert!(!in_the_way, "{run} is planned on GPU {index}, which takes no job: {:?}", gpu.obstacle);
        let paused = disk.paused_gpus.contains(&(lease.machine, gpu.uuid.clone()));
        assert!(job.request.force || !paused, "{run} is planned on GPU {index}, which is paused");
        let fits = job.request.model.is_none_or(|model| gpu.name.to_lowercase().contains(model.as_str()));
        assert!(fits, "{run} wants {:?} and is planned on a {}", job.request.model, gpu.name);
        let others: Vec<&Run> =
            disk.jobs.values().filter_map(active).filter(|it| it.lease.gpus.contains(index)).collect();
        match lease.share {
            None => assert!(others.is_empty(), "{run} is planned on GPU {index} alone, beside {:?}", others[0].id),
            Some(share) => part_is_there(run, share, gpu, &others, read.sharing.mem_threshold_percent),
        }
    }
}

fn active(job: &Job) -> Option<&Run> {
    match &job.state {
        State::Active(run) => Some(run),
        _ => None,
    }
}

/// As many GPUs as it asked for, those that it named, and as much of each.
fn as_asked(run: RunId, lease: &Lease, request: &Request, disk: &Disk, read: &Machine) {
    assert_eq!(lease.gpus.len(), usize::from(request.gpus), "{run} holds {lease:?}");
    assert_eq!((lease.cpus, lease.ram_mib), (request.cpus, request.ram_mib), "{run} holds {lease:?}");
    assert!(request.on.is_none_or(|on| lease.gpus.minus(on).is_empty()), "{run} holds {lease:?} of {request:?}");
    let share = request.share.and_then(|share| match share.vram {
        Vram::Unsaid => Some(HeldShare { milli: share.milli, vram_mib: None }),
        Vram::Mib(mib) => Some(HeldShare { milli: share.milli, vram_mib: Some(mib) }),
        // Alone, until a run of the same command was seen, and where no card has that much.
        Vram::Learned(same) => {
            let peak = disk.learned.get(&same).copied().unwrap_or(0);
            let wanted = (peak * 11).div_ceil(10);
            let known = peak > 0 && u64::from(wanted) <= most_memory(request, read);
            known.then_some(HeldShare { milli: share.milli, vram_mib: Some(wanted) })
        }
    });
    assert_eq!(lease.share, share, "{run} asked for {request:?}");
}

fn part_is_there(run: RunId, share: HeldShare, gpu: &Gpu, others: &[&Run], threshold_percent: u8) {
    let index = gpu.index;
    let promise = |share: &HeldShare| share.vram_mib.map_or(gpu.memory_mib * u64::from(share.milli) / 1000, u64::from);
    let (mut milli, mut promised, mut not_taken) = (share.milli, promise(&share), 0);
    for other in others {
        let theirs = other.lease.share.unwrap_or_else(|| panic!("{} has GPU {index} alone, {run} a part", other.id));
        let taken = gpu.used.iter().find(|(job, _)| *job == other.id.job).map_or(0, |(_, mib)| u64::from(*mib));
        milli += theirs.milli;
        promised += promise(&theirs);
        not_taken += promise(&theirs).saturating_sub(taken);
    }
    assert!(milli <= 1000, "{run} is planned on GPU {index}, {milli} thousandths of which are given away");
    assert!(promised <= gpu.memory_mib, "{run} is planned on GPU {index}, {promised} MiB of which are promised");
    match share.vram_mib {
        Some(mib) => {
            let free = gpu.free_mib.saturating_sub(not_taken);
            assert!(u64::from(mib) <= free, "{run} is planned on GPU {index} with {free} MiB free, wants {mib}");
        }
        None => {
            let used = gpu.memory_mib - gpu.free_mib;
            let limit = gpu.memory_mib * u64::from(threshold_percent) / 100;
            assert!(used <= limit, "{run} is planned on GPU {index}, {used} MiB of which are in use");
        }
    }
    assert!(!gpu.busy, "{run} is planned on GPU {index}, which is busy");
}

/// What each of its GPUs has at least, were it alone.
fn most_memory(request: &Request, read: &Machine) -> u64 {
    let may_have = |gpu: &&Gpu| {
        let named = request.on.is_none_or(|on| on.contains(gpu.index));
        let model = request.model.is_none_or(|model| gpu.name.to_lowercase().contains(model.as_str()));
        named && model && !matches!(gpu.obstacle, Some(Obstacle::Mig | Obstacle::LeftOut))
    };
    let mut memory: Vec<u64> = read.gpus.iter().filter(may_have).map(|gpu| gpu.memory_mib).collect();
    memory.sort_unstable();
    memory.reverse();
    memory.get(usize::from(request.gpus) - 1).copied().unwrap_or(0)
}

/// More memory after a run that had not enough of what it shared.
pub fn raise_after(outcome: &Outcome, run: &Run, request: &Request, read: &Machine) -> Option<Raise> {
    let out_of_memory = matches!(outcome, Outcome::OutOfMemory { of: Memory::Gpu, .. });
    let share = run.lease.share.filter(|_| out_of_memory)?;
    let had = run.peak_mib.max(share.vram_mib.unwrap_or(0));
    let more = had + had.div_ceil(2);
    let alone = share.milli > 0 || run.peak_mib == 0 || u64::from(more) > most_memory(request, read);
    Some(if alone { Raise::Alone } else { Raise::Mib(more) })
}
