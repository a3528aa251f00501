//! Tells nodes when runs are to end. A node ends a run whose shim stands still, and knows the terms of those that it has started
//! itself: the others are told to it when it is to observe them, and all are when a time limit is changed.

use nexus_core::ids::{JobId, MachineId, RunId};
use nexus_node::RunTerms;

use super::Engine;
use super::machines::Asked;
use crate::store::Batch;

impl Engine {
    /// None where the database cannot be read: the shim keeps the limit itself, and a later line asks again.
    pub(super) fn terms_of(&self, run: RunId) -> Option<RunTerms> {
        let row = self.store.job_row(run.job).ok().flatten()?;
        let in_milliseconds = |seconds: u64| seconds.saturating_mul(1000);
        let request = &row.spec.request;
        // The shim may have been started with another one, which its run directory says.
        let usual_grace = self.specs.config.grace.as_millis() as u64;
        Some(RunTerms {
            run,
            time_limit_ms: request.time_seconds.map(in_milliseconds),
            grace_ms: request.grace_seconds.map_or(usual_grace, in_milliseconds),
        })
    }

    /// Jobs that run were edited: their shims have heard it before.
    pub(super) fn tell_terms(&self, batch: &Batch) {
        for (machine, run) in batch.edited.keys().filter_map(|job| self.running(*job)) {
            let terms = self.terms_of(run).into_iter().collect();
            self.ask_of(machine, Asked { terms, ..Asked::default() });
        }
    }

    fn running(&self, job: JobId) -> Option<(MachineId, RunId)> {
        let run = self.world.job(job)?.state.run()?;
        Some((run.lease.runs_on(), run.id))
    }
}
