//! Submissions that happen once, however often they are sent: their senders give them a key, and may not know whether
//! the first try arrived. The key is on disk with the jobs.

use nexus_api::problem::Problem;
use nexus_core::ids::JobId;

use super::{Engine, Turn};
use crate::clock;
use crate::store::Submission;

pub struct Once {
    pub key: String,
    /// Of what is asked for: another wish under the same key is a mistake of the sender's.
    pub digest: i64,
}

impl Engine {
    /// What came of it before, if it was sent before: just now, perhaps.
    pub(super) fn done_before(&self, once: &Once, turn: &Turn) -> Result<Option<Submission>, Problem> {
        let now = turn.batch.submissions.iter().find(|done| done.key == once.key).cloned();
        let done = match now {
            Some(done) => Some(done),
            None => self.store.submission(&once.key).map_err(|error| error.problem())?,
        };
        match done {
            Some(done) if done.digest != once.digest => Err(Problem::KeyReused { key: once.key.clone() }),
            done => Ok(done),
        }
    }

    pub(super) fn remember(&self, once: Once, sweep: Option<&str>, ids: &[JobId], turn: &mut Turn) {
        let Once { key, digest } = once;
        let sweep = sweep.map(String::from);
        turn.batch.submissions.push(Submission { key, digest, sweep, ids: ids.to_vec(), at: clock::now() });
    }
}
