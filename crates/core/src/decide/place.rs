//! Finds room for one request, or says with numbers why there is none.

use std::collections::BTreeMap;

use crate::free::{Free, GpuCount};
use crate::ids::MachineId;
use crate::request::{Request, Vram};
use crate::run::{HeldShare, Lease};
use crate::waiting::Waiting;

/// Room for `request`, whose memory is known: among the machines that have it, the one with the fewest free GPUs, so
/// that wide jobs find the emptier ones; on it the GPUs that come first in its order. `whole_waits`: somebody waits
/// for a GPU of his own.
pub fn place(request: &Request, free: &BTreeMap<MachineId, Free<'_>>, whole_waits: bool) -> Result<Lease, Waiting> {
    let fitting = free
        .iter()
        .map(|(machine, left)| (machine, left, left.open_to(request)))
        .filter(|(_, left, gpus)| {
            let enough = left.cpus >= request.cpus && left.ram_mib >= request.ram_mib.into();
            gpus.len() >= usize::from(request.gpus) && enough
        })
        .min_by_key(|(machine, _, gpus)| (gpus.len(), **machine));
    match fitting {
        Some((machine, left, gpus)) => Ok(Lease {
            machine: *machine,
            gpus: left.choose(request, gpus, left.packs(whole_waits)),
            share: request.share.map(|share| HeldShare {
                milli: share.milli,
                vram_mib: match share.vram {
                    Vram::Mib(mib) => Some(mib),
                    Vram::Unsaid | Vram::Learned(_) => None,
                },
            }),
            cpus: request.cpus,
            ram_mib: request.ram_mib,
        }),
        None => Err(what_is_missing(request, free)),
    }
}

/// What the machine that comes nearest could give, against what is needed.
fn what_is_missing(request: &Request, free: &BTreeMap<MachineId, Free<'_>>) -> Waiting {
    let counts = free.values().map(|left| left.count(request));
    let count: GpuCount = counts.max_by_key(|count| (count.free, count.exist())).unwrap_or_default();
    if count.free < request.gpus {
        return Waiting::Gpus { request: *request, count };
    }
    let most_cpus = free.values().map(|left| left.cpus).max().unwrap_or(0);
    if most_cpus < request.cpus {
        return Waiting::Cpus { need: request.cpus, free: most_cpus };
    }
    let most_ram = free.values().map(|left| left.ram_mib).max().unwrap_or(0);
    Waiting::Ram { need_mib: request.ram_mib, free_mib: most_ram }
}
