//! Ended jobs: those of elsewhere that are taken over, and those that are forgotten. The World does not know ended jobs, so
//! nothing is decided and nothing is done. What is taken over has a transaction of its own, and one that fails is nobody
//! else's failure.

use nexus_api::problem::Problem;
use nexus_core::ids::JobId;
use nexus_core::request::Same;

use super::{Engine, Forgetter, Turn};
use crate::home;
use crate::store::{PastJob, Took};

impl Engine {
    pub(super) fn take_over(&mut self, jobs: &[PastJob], turn: &mut Turn) -> Result<Vec<Took>, Problem> {
        if self.world.stopping() {
            return Err(Problem::Stopping);
        }
        let free_bytes = self.disk_space();
        if free_bytes < home::DISK_RESERVE {
            return Err(Problem::DiskFull { path: self.home.dir.display().to_string(), free_bytes });
        }
        let (world, new) = (&self.world, &turn.batch.new);
        let is_live = |id| world.job(id).is_some() || new.contains_key(&id);
        let took = self.store.take_over(jobs, is_live).map_err(|error| error.problem())?;
        for (job, _) in jobs.iter().zip(&took).filter(|(_, took)| **took == Took::Taken) {
            job.runs.iter().for_each(|run| self.world.learn(Same(job.same), run.peak_mib.unwrap_or(0), run.took));
        }
        let taken = took.iter().filter(|took| **took == Took::Taken).count();
        if taken > 0 {
            let noun = if taken == 1 { "job" } else { "jobs" };
            turn.lines.push(format!("{taken} ended {noun} taken over as history by user").into());
        }
        Ok(took)
    }

    /// All of them or none.
    pub(super) fn forget(&mut self, ids: Vec<JobId>, by: Forgetter, turn: &mut Turn) -> Result<(), Problem> {
        self.forgettable(&ids)?;
        turn.batch.notes.extend(ids.iter().map(|id| match by {
            Forgetter::User => format!("Job {id} forgotten by user").into(),
            Forgetter::Age => format!("Job {id} forgotten: it ended long enough ago").into(),
        }));
        turn.batch.forgotten.extend(ids);
        Ok(())
    }
}
