//! Tags, which jobs are given at any time: what they are told by does not change what they are.

use nexus_api::jobs::State;
use nexus_api::problem::Problem;
use nexus_core::ids::JobId;
use nexus_core::job::State as Live;

use super::{Engine, Turn};
use crate::events::Told;
use crate::store::TagChange;

impl Engine {
    pub(super) fn tag(&self, ids: Vec<JobId>, tag: &str, take_off: bool, turn: &mut Turn) -> Result<(), Problem> {
        for id in &ids {
            let is_new = turn.batch.new.contains_key(id);
            let known = is_new || self.store.has_job(id.as_str()).map_err(|error| error.problem())?;
            if !known || turn.batch.forgotten.contains(id) {
                return Err(Problem::NoSuchJob { id: id.to_string() });
            }
        }
        let what = if take_off { "taken off" } else { "given to" };
        let (few, more) = ids.split_at(ids.len().min(10));
        let mut names = few.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        if !more.is_empty() {
            names.push_str(&format!(" and {} more", more.len()));
        }
        turn.batch.notes.push(format!("Tag {tag} {what} {names} by user").into());
        turn.batch.tags.extend(ids.into_iter().map(|job| TagChange { job, tag: tag.into(), take_off }));
        Ok(())
    }

    /// Jobs that wait stand in the queue's text with their tags: whoever shows it hears of them.
    pub(super) fn tell_tags(&self, changes: &[TagChange]) {
        for TagChange { job, .. } in changes {
            let state = match self.world.job(*job).map(|job| &job.state) {
                Some(Live::Held) => State::Held,
                Some(Live::Queued { .. }) => State::Queued,
                Some(Live::Active(_) | Live::Copying { .. }) | None => continue,
            };
            self.events.publish(Told::Job { id: *job, state });
        }
    }
}
