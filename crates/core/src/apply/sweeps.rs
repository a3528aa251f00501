//! What happens to a sweep as one thing: the rest is held when its first jobs fail alike, until somebody lets it go on.

use std::collections::BTreeSet;

use crate::event::Event;
use crate::ids::{JobId, SweepId};
use crate::job::State;
use crate::world::World;

/// One of its jobs has failed by itself. The rest is looked for among all live jobs: this happens once in the life of a sweep.
pub fn stopped(world: &World, sweep: SweepId) -> Vec<Event> {
    let Some(stopped) = world.sweep(sweep).and_then(|sweep| sweep.first.stopped()) else { return vec![] };
    let rest = world.jobs().filter(|job| job.sweep == Some(sweep) && matches!(job.state, State::Queued { .. }));
    let mut events: Vec<Event> = rest.map(|job| Event::Held { job: job.id }).collect();
    if !events.is_empty() {
        events.insert(0, Event::SweepStopped { sweep, stopped });
    }
    events
}

/// Sweeps that go on with these jobs.
pub fn released<'a>(world: &'a World, jobs: &'a [JobId]) -> impl Iterator<Item = Event> + 'a {
    let mut seen = BTreeSet::new();
    let sweeps = jobs.iter().filter_map(|id| world.job(*id)?.sweep);
    let stopped = move |sweep: &SweepId| world.sweep(*sweep).is_some_and(|sweep| sweep.stopped.is_some());
    sweeps.filter(move |sweep| stopped(sweep) && seen.insert(*sweep)).map(|sweep| Event::SweepReleased { sweep })
}
