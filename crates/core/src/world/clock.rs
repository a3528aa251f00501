//! The wall clock is set: times in the World that are still compared with now move with it.

use super::World;
use crate::ids::JobId;
use crate::job::State;
use crate::run::{Phase, Run};
use crate::time::Time;

impl World {
    /// What has ended stays as it was written. The store has the same rules in SQL.
    pub(super) fn clock_set(&mut self, by_ms: i64, latest_start: Time, latest_retry: Time) {
        let has_time = |state: &State| matches!(state, State::Active(_) | State::Queued { not_before: Some(_) });
        let ids: Vec<JobId> = self.jobs.values().filter(|job| has_time(&job.state)).map(|job| job.id).collect();
        for id in ids {
            self.change(
                id,
                |job| match &mut job.state {
                    State::Queued { not_before: Some(at) } => *at = at.shifted(by_ms).min(latest_retry.max(*at)),
                    State::Active(run) => shift(run, by_ms, latest_start),
                    _ => {}
                },
                None,
            );
        }
    }
}

fn shift(run: &mut Run, by_ms: i64, latest_start: Time) {
    let latest = match run.phase {
        Phase::Running { since, .. } => since.max(run.planned_at),
        Phase::Starting => run.planned_at,
    };
    if latest.shifted(by_ms) > latest_start {
        return;
    }
    run.planned_at = run.planned_at.shifted(by_ms);
    if let Phase::Running { since, .. } = &mut run.phase {
        *since = since.shifted(by_ms);
    }
}
