//! One turn of the engine's loop: what its inputs made, until that is on disk.

use nexus_api::problem::Problem;
use nexus_core::event::Event;
use nexus_core::ids::JobId;

use super::{Engine, Question, Reply};
use crate::service_log::Line;
use crate::store::{Batch, NewRow};

/// What one turn of the loop has gathered.
#[derive(Default)]
pub(super) struct Turn {
    pub batch: Batch,
    /// Given an answer when the batch is on disk, or failed.
    pub replies: Vec<Answer>,
    /// Asked while there was something that is not on disk yet.
    pub questions: Vec<Question>,
    /// For service.log, beside those of the events.
    pub lines: Vec<Line>,
    /// It is more than questions.
    pub is_due: bool,
}

impl Turn {
    /// What was done is told when it is on disk; a refusal at once.
    pub fn answer<T: 'static>(&mut self, reply: Reply<T>, answer: Result<T, Problem>) {
        match answer {
            Ok(answer) => self.replies.push(Box::new(move |done| drop(reply.send(done.map(|_| answer))))),
            Err(problem) => drop(reply.send(Err(problem))),
        }
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

    pub fn can_wait(&self) -> bool {
        let heard = |event: &Event| matches!(event, Event::Running { .. });
        let nobody_waits = self.replies.is_empty() && self.questions.is_empty();
        nobody_waits && !self.batch.events.is_empty() && self.batch.events.iter().all(heard)
    }
}

pub(super) type Answer = Box<dyn FnOnce(Result<(&Engine, &Batch), Problem>)>;
