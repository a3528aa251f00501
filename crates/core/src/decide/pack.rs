//! Places jobs where GPUs are shared so that the fewest useless fragments remain.

use std::collections::BTreeMap;

use super::place::{How, lease};
use crate::machine::Shares;
use crate::packing::Packing;
use crate::request::Request;
use crate::run::Lease;
use crate::world::World;

/// So many jobs tell what others will be like.
const ENOUGH: u64 = 50;

/// Whether a request is placed by fragments: one that shares where shares are packed, any other where they always are.
/// What a few jobs ask for tells nothing of what will be asked for: they go where the most is in use.
pub(super) fn packs(world: &World, request: &Request, how: &How) -> bool {
    let is_known = world.packing().is_told() || world.live() >= ENOUGH;
    let mut machines = world.free().values().filter(|left| left.is_meant_by(request.target) && !left.is_cluster());
    // A driver has all of a machine: it leaves no fragments.
    is_known
        && !request.driver
        && machines.all(|left| match left.machine.sharing.order {
            Shares::Pack => true,
            Shares::Auto => request.share.is_some() && how.whole_waits_for(left),
            Shares::Spread => false,
        })
}

/// Room for a request whose memory is known, where the least is lost.
pub(super) fn place(world: &mut World, request: &Request) -> Option<Lease> {
    if world.packing().is_stale(world.live()) {
        let packing = Packing::counted(world.free(), &requests(world), world.live());
        world.set_packing(packing);
    }
    let (machine, gpus) = world.packed(request)?;
    Some(lease(request, machine, gpus))
}

/// What is asked for by live jobs, and by how many.
fn requests(world: &World) -> BTreeMap<Request, u64> {
    let mut requests: BTreeMap<Request, u64> = BTreeMap::new();
    for (request, spans) in world.ready() {
        let count = spans.values().map(|jobs| jobs.len() as u64).sum::<u64>();
        *requests.entry(world.resolved(request)).or_default() += count;
    }
    for job in world.active_runs().filter_map(|run| world.job(run.id.job)) {
        *requests.entry(world.resolved(&job.request)).or_default() += 1;
    }
    requests
}
