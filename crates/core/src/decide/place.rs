//! Finds room for one request, or says with numbers why there is none.

use std::collections::BTreeMap;

use crate::ids::MachineId;
use crate::request::{GpuSet, Request};
use crate::run::Lease;
use crate::waiting::Waiting;
use crate::world::Free;

/// Room for `request`: among the machines that have it, the one with the fewest free GPUs, so that
/// wide jobs find the emptier ones; on it the GPUs with the lowest index.
pub fn place(request: &Request, free: &BTreeMap<MachineId, Free>) -> Result<Lease, Waiting> {
    let fitting = free
        .iter()
        .map(|(machine, left)| (machine, left, allowed(request, left.gpus)))
        .filter(|(_, left, gpus)| gpus.len() >= usize::from(request.gpus) && left.cpus >= request.cpus)
        .min_by_key(|(machine, _, gpus)| (gpus.len(), **machine));
    match fitting {
        Some((machine, _, gpus)) => Ok(Lease {
            machine: *machine,
            gpus: gpus.iter().take(usize::from(request.gpus)).collect(),
            cpus: request.cpus,
        }),
        None => Err(what_is_missing(request, free)),
    }
}

fn allowed(request: &Request, gpus: GpuSet) -> GpuSet {
    match request.on {
        Some(on) => gpus.minus(gpus.minus(on)),
        None => gpus,
    }
}

/// The most any one machine could give, against what is needed.
fn what_is_missing(request: &Request, free: &BTreeMap<MachineId, Free>) -> Waiting {
    let most_gpus = free.values().map(|left| allowed(request, left.gpus).len()).max().unwrap_or(0);
    if most_gpus < usize::from(request.gpus) {
        return Waiting::Gpus { need: request.gpus, free: most_gpus as u16, on: request.on };
    }
    let most_cpus = free.values().map(|left| left.cpus).max().unwrap_or(0);
    Waiting::Cpus { need: request.cpus, free: most_cpus }
}
