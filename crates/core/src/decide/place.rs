//! Finds room for one request, and says with numbers what is missing where there is none.

use crate::free::Free;
use crate::request::{GpuSet, Request, Vram};
use crate::run::{HeldShare, Lease};
use crate::waiting::Waiting;

/// Room for `request`, whose memory is known: among the machines that have it, the one with the fewest free GPUs, so
/// that wide jobs find the emptier ones; on it the GPUs that come first in its order. `whole_waits`: somebody waits
/// for a GPU of his own.
pub fn place<'a>(request: &Request, machines: impl Iterator<Item = &'a Free<'a>>, whole_waits: bool) -> Option<Lease> {
    let fitting = machines.filter_map(|left| Some((left, room(request, left)?)));
    let (left, gpus) = fitting.min_by_key(|(left, gpus)| (gpus.len(), left.machine.id))?;
    let share = request.share.map(|share| HeldShare {
        milli: share.milli,
        vram_mib: match share.vram {
            Vram::Mib(mib) => Some(mib),
            Vram::Unsaid | Vram::Learned(_) => None,
        },
    });
    Some(Lease {
        machine: left.machine.id,
        gpus: left.choose(request, gpus, left.packs(whole_waits)),
        share,
        cpus: request.cpus,
        ram_mib: request.ram_mib,
    })
}

/// GPUs of a machine that has room for the request, not fewer than it needs.
pub fn room(request: &Request, left: &Free<'_>) -> Option<GpuSet> {
    let gpus = left.open_to(request);
    let enough = left.cpus >= request.cpus && left.ram_mib >= request.ram_mib.into();
    (enough && gpus.len() >= usize::from(request.gpus)).then_some(gpus)
}

/// What the machine that comes nearest lacks, where none has room: of those with GPUs enough the one with the most CPUs and memory, else
/// the one with the most GPUs. All numbers are of one machine: what two have between them helps nobody.
pub fn what_is_missing<'a>(request: &Request, machines: impl Iterator<Item = &'a Free<'a>>) -> Waiting {
    let near = machines.map(|left| (left.count(request), left.cpus, left.ram_mib)).max_by_key(|near| {
        let (count, cpus, ram_mib) = *near;
        let gpus = count.free.min(request.gpus);
        let exist = if gpus < request.gpus { count.exist() } else { u16::MAX };
        (gpus, exist, cpus.min(request.cpus), ram_mib.min(request.ram_mib.into()))
    });
    let (count, cpus, ram_mib) = near.unwrap_or_default();
    if count.free < request.gpus {
        Waiting::Gpus { request: *request, count }
    } else if cpus < request.cpus {
        Waiting::Cpus { need: request.cpus, free: cpus }
    } else {
        Waiting::Ram { need_mib: request.ram_mib, free_mib: ram_mib }
    }
}
