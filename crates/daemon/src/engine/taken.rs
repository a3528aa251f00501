//! What is told of jobs that were just taken: all that the answer to their submission needs, so that nobody has to ask
//! again or read them back.

use nexus_api::jobs::State;
use nexus_api::problem::Problem;
use nexus_core::explain::Explainer;
use nexus_core::ids::JobId;
use nexus_core::job::State as Live;

use super::{Engine, Reply, Turn};
use crate::clock;
use crate::in_queue::InQueue;
use crate::store::{Batch, JobRow};

/// Of more jobs than this it is not said: their places in the queue are left out.
pub const FEW: usize = 8;

/// Jobs that are on disk now.
pub struct Taken {
    pub ids: Vec<JobId>,
    /// None where they are many, or one of them does not wait.
    pub waiting: Option<Waiting>,
}

pub struct Waiting {
    /// As in the store, each with its place in the queue.
    pub rows: Vec<(JobRow, Option<u64>)>,
    pub in_queue: InQueue,
}

impl Turn {
    /// As [`Turn::answer`], with what is known of the jobs then.
    pub(super) fn answer_taken(&mut self, reply: Reply<Taken>, ids: Result<Vec<JobId>, Problem>) {
        match ids {
            Ok(ids) => self.replies.push(Box::new(move |done| {
                drop(reply.send(done.map(|(engine, batch)| engine.taken(ids, batch))));
            })),
            Err(problem) => self.refuse(reply, problem),
        }
    }
}

impl Engine {
    /// `batch`: what they are on disk with.
    pub(super) fn taken(&self, ids: Vec<JobId>, batch: &Batch) -> Taken {
        let waiting = if ids.len() <= FEW { self.all_waiting(&ids, batch) } else { None };
        Taken { ids, waiting }
    }

    fn all_waiting(&self, ids: &[JobId], batch: &Batch) -> Option<Waiting> {
        let rows = ids.iter().map(|id| self.waiting_row(*id, batch)).collect::<Option<Vec<JobRow>>>()?;
        let mut explainer = Explainer::new(&self.world, &self.specs.config.policy, clock::now());
        let in_queue = InQueue::of(ids.iter().copied(), &self.world, &self.pool, &mut explainer);
        let placed = |row: JobRow| {
            let position = self.store.position(&row, in_queue.length).ok()?;
            Some((row, position))
        };
        let rows = rows.into_iter().map(placed).collect::<Option<_>>()?;
        Some(Waiting { rows, in_queue })
    }

    /// None for one that does not wait, or that came before.
    fn waiting_row(&self, id: JobId, batch: &Batch) -> Option<JobRow> {
        let (new, job) = (batch.new.get(&id)?, self.world.job(id)?);
        let state = match job.state {
            Live::Held => State::Held,
            Live::Queued { .. } => State::Queued,
            Live::Active(_) | Live::Copying { .. } => return None,
        };
        let mut row = JobRow::planned(id.to_string(), new.spec.whole(), job.since);
        row.tags.sort_unstable();
        let (n, secret_names) = (job.place.turn, new.env.secrets.keys().cloned().collect());
        Some(JobRow { n, state, secret_names, place: (job.place.priority, job.place.turn), ..row })
    }
}
