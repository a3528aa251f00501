//! New jobs that are written before the rest of their batch is known.

use std::collections::BTreeMap;

use nexus_core::event::NewJob;
use nexus_core::ids::JobId;

use super::together::Together;
use super::write::{MANY, Writer};
use super::{NewRow, Store, StoreError, twins};

/// New jobs that are written, and kept with all else of their batch or not at all.
pub(super) struct Begun {
    /// Those of the batch that came first.
    pub jobs: usize,
    pub next_n: i64,
    pub live: Vec<twins::Change>,
}

impl Store {
    /// Writes new jobs that come first in their batch, while it is not known yet what else is in it. The next commit is that of
    /// the batch, and comes before anything else is read or written. Where it fails nothing was done.
    pub fn begin(&mut self, jobs: &[NewJob], rows: &BTreeMap<JobId, NewRow>) -> Result<(), StoreError> {
        let path = self.path.clone();
        let fail = |source| StoreError::Write { path: path.clone(), source };
        self.make_room(jobs.len() >= MANY).map_err(fail)?;
        let transaction = Together::begin(&self.db).map_err(fail)?;
        let begun = {
            let mut writer = Writer::new(&transaction, rows, self.next_n);
            jobs.iter().try_for_each(|new| writer.submitted(new)).map_err(fail)?;
            writer.new_jobs.put(&transaction).map_err(fail)?;
            Begun { jobs: jobs.len(), next_n: writer.next_n, live: writer.live }
        };
        transaction.stay();
        self.begun = Some(begun);
        Ok(())
    }
}
