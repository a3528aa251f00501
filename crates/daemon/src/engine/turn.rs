//! One turn of the engine's loop: what its inputs made, until that is on disk.

use nexus_api::problem::Problem;
use nexus_core::event::{Event, NewJob};
use nexus_core::ids::JobId;

use super::unusable::is_damage;
use super::{Engine, Question, Reply};
use crate::service_log::Line;
use crate::store::{Batch, NewRow};

/// So many new jobs are worth another thread for some milliseconds; simulations have few.
const MANY: usize = if cfg!(test) { 1 } else { 1_000 };

/// What one turn of the loop has gathered.
#[derive(Default)]
pub(super) struct Turn {
    pub batch: Batch,
    /// New jobs that are in the batch and not in the World yet. Nothing else is in the batch, and nothing is done before
    /// they are let in.
    pub coming: Vec<NewJob>,
    /// Given an answer when the batch is on disk, or failed.
    pub replies: Vec<Answer>,
    /// Asked while there was something that is not on disk yet.
    pub questions: Vec<Question>,
    /// For service.log, beside those of the events.
    pub lines: Vec<Line>,
    /// It is more than questions.
    pub is_due: bool,
    /// The database was found damaged while an order was looked at.
    pub damage: Option<Problem>,
}

impl Turn {
    /// What was done is told when it is on disk; a refusal at once.
    pub fn answer<T: 'static>(&mut self, reply: Reply<T>, answer: Result<T, Problem>) {
        match answer {
            Ok(answer) => self.replies.push(Box::new(move |done| drop(reply.send(done.map(|_| answer))))),
            Err(problem) => self.refuse(reply, problem),
        }
    }

    /// Tells at once that nothing was done.
    pub fn refuse<T>(&mut self, reply: Reply<T>, problem: Problem) {
        if is_damage(&problem) {
            self.damage = Some(problem.clone());
        }
        // The caller may be gone.
        let _ = reply.send(Err(problem));
    }

    pub fn add_rows(&mut self, ids: &[JobId], rows: Vec<NewRow>) {
        let new = ids.iter().copied().zip(rows);
        match self.batch.new.is_empty() {
            // A map that is made in one go takes half the room of one that thousands are put into one by one.
            true => self.batch.new = new.collect(),
            false => self.batch.new.extend(new),
        }
    }

    pub fn add_events(&mut self, events: Vec<Event>) {
        match self.batch.events.is_empty() {
            true => self.batch.events = events,
            false => self.batch.events.extend(events),
        }
    }

    /// Whether these may be [`coming`](Turn::coming): they are many, and nothing is said of them but that they come.
    pub fn may_let_in_later(&self, new: &[NewJob]) -> bool {
        let Batch { new: before, edited, sweeps, submissions, found, .. } = &self.batch;
        let is_first = before.is_empty() && edited.is_empty() && sweeps.is_empty() && submissions.is_empty();
        let is_plain = |job: &NewJob| job.needs.after.is_empty() && job.sweep.is_none();
        is_first && found.is_empty() && self.batch.is_empty() && new.len() >= MANY && new.iter().all(is_plain)
    }

    pub fn can_wait(&self) -> bool {
        let heard = |event: &Event| matches!(event, Event::Running { .. });
        let nobody_waits = self.replies.is_empty() && self.questions.is_empty();
        nobody_waits && !self.batch.events.is_empty() && self.batch.events.iter().all(heard)
    }
}

pub(super) type Answer = Box<dyn FnOnce(Result<(&Engine, &Batch), Problem>)>;
