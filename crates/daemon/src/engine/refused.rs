//! What was refused, in the words of a client.

use nexus_api::problem::Problem;
use nexus_core::apply::Refusal;
use nexus_core::ids::JobId;

use super::Engine;

impl Engine {
    /// In the words of a client: a job that is not live ended, or never was.
    pub(super) fn refused(&self, refusal: Refusal, verb: &str) -> Problem {
        let id = match refusal {
            Refusal::NotLive(id) | Refusal::WrongState(id) => id,
            Refusal::Circular(id) => {
                let want = "jobs that do not wait for it themselves".into();
                let value = format!("a job that waits for {id}");
                return Problem::BadField { field: "after".into(), value, want };
            }
            Refusal::NoSuchMachine(machine) => {
                let name = self.pool.names.machine_name(machine).to_string();
                return Problem::NoSuchMachine { name, near: None };
            }
            Refusal::MachineBusy { machine, .. } => {
                let there = self.world.active_runs().filter(|run| run.lease.machine == machine);
                let jobs = there.map(|run| run.id.job.to_string()).collect();
                return Problem::MachineBusy { name: self.pool.names.machine_name(machine).to_string(), jobs };
            }
            Refusal::OwnMachine => return Problem::OwnMachine,
            Refusal::NoSuchGpus { machine, missing } => {
                let known = self.world.machines().find(|known| known.id == machine);
                let exist = known.map(|known| known.gpu_set().iter().collect()).unwrap_or_default();
                return Problem::NoSuchGpus {
                    machine: self.pool.names.machine_name(machine).to_string(),
                    missing: missing.iter().collect(),
                    exist,
                };
            }
        };
        match self.store.state(id) {
            Ok(Some((state, gpus))) => Problem::WrongState { id: id.to_string(), verb: verb.to_string(), state, gpus },
            Ok(None) => Problem::NoSuchJob { id: id.to_string() },
            Err(error) => error.problem(),
        }
    }

    pub(super) fn forgettable(&self, ids: &[JobId]) -> Result<(), Problem> {
        for id in ids {
            if self.world.job(*id).is_some() {
                return Err(self.refused(Refusal::WrongState(*id), "forget"));
            }
            if !self.store.has_job(id.as_str()).map_err(|error| error.problem())? {
                return Err(Problem::NoSuchJob { id: id.to_string() });
            }
        }
        Ok(())
    }
}
