//! What the engine knows of waiting jobs: why each of them waits, and how long the queue is.

use std::collections::BTreeMap;

use nexus_api::jobs::Waiting;
use nexus_core::explain::Explainer;
use nexus_core::ids::JobId;
use nexus_core::world::World;

use crate::pool::Pool;
use crate::store::Length;
use crate::words;

#[derive(Default)]
pub struct InQueue {
    pub why: BTreeMap<String, Waiting>,
    pub length: Length,
}

impl InQueue {
    pub fn of(ids: impl Iterator<Item = JobId>, world: &World, pool: &Pool, explainer: &mut Explainer) -> InQueue {
        let answer = |job: JobId| {
            let waiting = match explainer.job(job) {
                Some(waiting) => words::waiting(&waiting, &pool.names),
                None => pool.elsewhere(world.job(job)?.state.run()?)?,
            };
            Some((job.to_string(), waiting))
        };
        let why = ids.filter_map(answer).collect();
        InQueue { why, length: Length { pending: world.pending(), next_turn: world.next_turn() } }
    }
}
