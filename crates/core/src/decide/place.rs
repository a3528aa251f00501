//! Finds room for one request, and says with numbers what is missing where there is none.

use std::collections::BTreeMap;

use crate::free::{Free, GpuCount};
use crate::ids::MachineId;
use crate::request::{GpuSet, Request, Target, Vram};
use crate::run::{HeldShare, Lease};
use crate::waiting::Waiting;

/// What a place depends on beside the request.
#[derive(Clone, Debug, Default)]
pub struct How {
    /// So many wait for GPUs of their own, by where they may be.
    pub whole_waits: BTreeMap<Target, usize>,
    /// A job may have several machines, all of each.
    pub joins: bool,
}

impl How {
    /// Whether somebody waits for GPUs of his own who may have them on this machine.
    pub fn whole_waits_for(&self, left: &Free) -> bool {
        self.whole_waits.iter().any(|(target, count)| *count > 0 && left.is_meant_by(*target))
    }
}

/// Room for `request`, whose memory is known: among the machines that have it, the one with the fewest free GPUs, so
/// that wide jobs find the emptier ones; on it the GPUs that come first in its order. A cluster has what no machine has
/// room for.
pub fn place<'a>(request: &Request, machines: impl Iterator<Item = &'a Free> + Clone, how: &How) -> Option<Lease> {
    let fitting = machines.clone().filter_map(|left| Some((left, left.room(request)?)));
    match fitting.min_by_key(|(left, gpus)| (left.is_cluster(), gpus.len(), left.machine.id)) {
        Some((left, open)) => {
            let gpus = left.choose(request, open, left.packs(how.whole_waits_for(left)));
            // Other schedulers know no parts of GPUs: those that would share one have it alone there.
            let share = request.share.filter(|_| !left.is_cluster());
            Some(lease(&Request { share, ..*request }, left.machine.id, gpus))
        }
        None if how.joins => several(request, machines),
        None => None,
    }
}

/// Its place on a machine at a later time, where possible on GPUs that it cannot have `now`: the others are left to
/// those that start before.
pub fn place_late(request: &Request, now: &Free, later: &Free) -> Lease {
    if request.driver {
        return lease(request, later.machine.id, later.machine.gpu_set());
    }
    let open = later.open_to(request);
    let not_yet = open.minus(now.open_to(request));
    let count = usize::from(request.gpus);
    let gpus =
        later.choose(request, not_yet, true).iter().chain(later.choose(request, open.minus(not_yet), true).iter());
    lease(request, later.machine.id, gpus.take(count).collect())
}

/// Several machines, all of each, for a job that needs more GPUs than any has.
pub fn several<'a>(request: &Request, machines: impl Iterator<Item = &'a Free> + Clone) -> Option<Lease> {
    if request.share.is_some() || request.gpus == 0 || machines.clone().any(|left| left.has_as_many(request)) {
        return None;
    }
    let mut missing = usize::from(request.gpus);
    let mut taken: Vec<(MachineId, GpuSet)> = Vec::new();
    for left in machines.filter(|left| left.is_all_open(request)) {
        let all = left.machine.gpu_set();
        if (1..=missing).contains(&all.len()) {
            missing -= all.len();
            taken.push((left.machine.id, all));
        }
    }
    let (first, gpus) = *taken.first().filter(|_| missing == 0)?;
    let beside = taken[1..].iter().map(|(machine, _)| *machine).collect();
    Some(Lease { beside, ..lease(request, first, gpus) })
}

pub(super) fn lease(request: &Request, machine: MachineId, gpus: GpuSet) -> Lease {
    let share = request.share.filter(|_| !request.driver).map(|share| HeldShare {
        milli: share.milli,
        vram_mib: match share.vram {
            Vram::Mib(mib) => Some(mib),
            Vram::Unsaid | Vram::Learned(_) => None,
        },
    });
    Lease { machine, gpus, beside: vec![], share, cpus: request.cpus, ram_mib: request.ram_mib, driver: request.driver }
}

/// What the machine that comes nearest lacks, where none has room: of those with GPUs enough the one with the most CPUs and memory, else
/// the one with the most GPUs. All numbers are of one machine: what two have between them helps nobody.
pub fn what_is_missing<'a>(request: &Request, machines: impl Iterator<Item = &'a Free> + Clone) -> Waiting {
    // A cluster that could have it lacks nothing but room in its queue. It is waited for where nothing else could.
    let could = |left: &&Free| left.whole().room(request).is_some();
    let is_full = |left: &&Free| left.is_cluster() && could(left);
    let of_cluster = machines.clone().find(is_full).and_then(Free::cluster_runs);
    if let Some((runs, most)) = of_cluster.filter(|_| machines.clone().filter(could).all(|left| left.is_cluster())) {
        return Waiting::ClusterFull { runs, most };
    }
    let machines = machines.filter(|left| !is_full(left));
    let counted = |left: &Free| {
        let need = left.need(request);
        (need, left.count(&need), left.cpus, left.ram_mib)
    };
    let near = machines.map(counted).max_by_key(|(need, count, cpus, ram_mib)| {
        let gpus = count.free.min(need.gpus);
        let exist = if gpus < need.gpus { count.exist() } else { u16::MAX };
        (gpus, exist, (*cpus).min(need.cpus), (*ram_mib).min(need.ram_mib.into()))
    });
    let (need, count, cpus, ram_mib) = near.unwrap_or((*request, GpuCount::default(), 0, 0));
    if count.free < need.gpus {
        Waiting::Gpus { request: need, count }
    } else if cpus < need.cpus {
        Waiting::Cpus { need: need.cpus, free: cpus }
    } else if ram_mib < need.ram_mib.into() {
        Waiting::Ram { need_mib: need.ram_mib, free_mib: ram_mib }
    } else {
        // A machine is held as a whole: whoever needs nothing of it needs a place there.
        Waiting::Cpus { need: need.cpus.max(1), free: 0 }
    }
}
