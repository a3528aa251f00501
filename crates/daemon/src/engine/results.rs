//! What jobs leave behind: copies are begun here, and what becomes of them is written down.

use std::path::PathBuf;

use nexus_api::results::ResultsState;
use nexus_core::apply::Report;
use nexus_core::ids::JobId;
use nexus_core::job::State;

use super::{Engine, Message, Turn, Watch};
use crate::results::{Ended, Order, Sources};
use crate::service_log::Line;
use crate::store::{Copied, JobRow};

impl Engine {
    /// What fails here is an end of the copy like any other.
    pub(super) fn begin_copy(&mut self, job: JobId) {
        let row = match self.store.job_row(job) {
            Ok(Some(row)) => row,
            Ok(None) => return self.copy_failed(job, "its record is gone".into()),
            Err(error) => return self.copy_failed(job, error.problem().to_string()),
        };
        match row.results_folder() {
            Some(to) => match self.copy_order(job, row, to.into()) {
                Ok(order) => drop(self.copier.begin(order)),
                Err(error) => self.copy_failed(job, error),
            },
            None => self.copy_failed(job, "it has no folder for results".into()),
        }
    }

    fn copy_order(&self, job: JobId, row: JobRow, to: PathBuf) -> Result<Order, String> {
        let (sources, from) = self.lines.left_by(&row, &self.home)?;
        Ok(Order { job, sources, from, to, clears: true, by_user: false })
    }

    fn copy_failed(&self, job: JobId, error: String) {
        let (sources, to) = (Sources::default(), PathBuf::new());
        let order = Order { job, sources, from: None, to, clears: false, by_user: false };
        let ended = Ended { order, outcome: Err(error) };
        self.outbox.send(Message::Copied(ended)).expect("the engine holds the receiving end");
    }

    pub(super) fn copy_ended(&mut self, ended: Ended, turn: &mut Turn, watch: &mut Watch) {
        let Ended { order, outcome } = ended;
        let (job, error) = (order.job, outcome.err());
        let copying = self.world.job(job).is_some_and(|job| matches!(job.state, State::Copying { .. }));
        // Given up meanwhile, or told before.
        if !order.by_user && !copying {
            return;
        }
        let folder = order.to.display().to_string();
        turn.batch.notes.push(match &error {
            None => format!("Copied results of job {job} to {folder}").into(),
            Some(error) => Line::warn(format!("Results of job {job} not copied: {error}")),
        });
        // A further copy that failed takes nothing away from one that is there.
        if error.is_none() || !order.by_user || !self.has_copy(job) {
            turn.batch.copied.push(Copied { job, folder, error });
        }
        match order.by_user {
            true => {
                let copier = self.copier.clone();
                turn.replies.push(Box::new(move |_| copier.settle(job)));
            }
            false => self.report(Report::CopyEnded { job }, turn, watch),
        }
    }

    fn has_copy(&self, job: JobId) -> bool {
        let row = self.store.job_row(job).ok().flatten();
        row.is_some_and(|row| row.left.state == ResultsState::Copied)
    }
}
