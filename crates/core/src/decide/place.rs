//! Finds room for one request, or says with numbers why there is none.

use std::collections::BTreeMap;

use crate::free::{Free, GpuCount};
use crate::ids::MachineId;
use crate::request::Request;
use crate::run::Lease;
use crate::waiting::Waiting;

/// Room for `request`: among the machines that have it, the one with the fewest free GPUs, so that
/// wide jobs find the emptier ones; on it the GPUs that come first in its order.
pub fn place(request: &Request, free: &BTreeMap<MachineId, Free>) -> Result<Lease, Waiting> {
    let fitting = free
        .iter()
        .map(|(machine, left)| (machine, left, left.open_to(request)))
        .filter(|(_, left, gpus)| gpus.len() >= usize::from(request.gpus) && left.cpus >= request.cpus)
        .min_by_key(|(machine, _, gpus)| (gpus.len(), **machine));
    match fitting {
        Some((machine, left, gpus)) => {
            let first = left.order.iter().copied().filter(|index| gpus.contains(*index));
            let gpus = first.take(usize::from(request.gpus)).collect();
            Ok(Lease { machine: *machine, gpus, cpus: request.cpus })
        }
        None => Err(what_is_missing(request, free)),
    }
}

/// What the machine that comes nearest could give, against what is needed.
fn what_is_missing(request: &Request, free: &BTreeMap<MachineId, Free>) -> Waiting {
    let counts = free.values().map(|left| left.count(request));
    let count: GpuCount = counts.max_by_key(|count| (count.free, count.exist())).unwrap_or_default();
    if count.free < request.gpus {
        return Waiting::Gpus { need: request.gpus, on: request.on, count };
    }
    let most_cpus = free.values().map(|left| left.cpus).max().unwrap_or(0);
    Waiting::Cpus { need: request.cpus, free: most_cpus }
}
