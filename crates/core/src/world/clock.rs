//! The wall clock is set: times in the World that are still compared with now move with it.

use super::World;
use crate::ids::JobId;
use crate::job::State;
use crate::run::Phase;

impl World {
    /// What has ended stays as it was written.
    pub(super) fn clock_set(&mut self, by_ms: i64) {
        let has_time = |state: &State| matches!(state, State::Active(_) | State::Queued { not_before: Some(_) });
        let ids: Vec<JobId> = self.jobs.values().filter(|job| has_time(&job.state)).map(|job| job.id).collect();
        for id in ids {
            self.change(id, |job| shift(&mut job.state, by_ms), None);
        }
    }
}

fn shift(state: &mut State, by_ms: i64) {
    match state {
        State::Queued { not_before: Some(at) } => *at = at.shifted(by_ms),
        State::Active(run) => {
            run.planned_at = run.planned_at.shifted(by_ms);
            if let Phase::Running { since, .. } = &mut run.phase {
                *since = since.shifted(by_ms);
            }
        }
        _ => {}
    }
}
