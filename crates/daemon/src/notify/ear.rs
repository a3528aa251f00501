//! What the engine passes on: ids alone. What there is to be said of them is read elsewhere, by somebody who has time.

use std::collections::BTreeSet;

use nexus_api::standstill::Standstill;
use nexus_core::event::Event;
use nexus_core::ids::{JobId, SweepId};
use nexus_core::world::World;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    Started(JobId),
    Ended(JobId),
    SweepEnded(SweepId),
    QueueEmpty,
    /// All of it is said here: while the queue stands still the database may be unreadable.
    Blocked(Box<Standstill>),
    /// The settings are others.
    Look,
}

/// Remembers what was there before: that something is gone is told by no event.
pub struct Ear {
    sweeps: BTreeSet<SweepId>,
    busy: bool,
    hears_starts: bool,
}

impl Ear {
    pub fn of(world: &World, hears_starts: bool) -> Ear {
        Ear { sweeps: live_sweeps(world), busy: is_busy(world), hears_starts }
    }

    /// `world` is as it is after the events, `new` are sweeps that came with them.
    pub fn hear(&mut self, events: &[Event], new: impl Iterator<Item = SweepId>, world: &World) -> Vec<Heard> {
        self.sweeps.extend(new);
        let mut heard = Vec::new();
        let (mut ended, mut came) = (false, false);
        for event in events {
            match event {
                Event::Running { run, .. } if self.hears_starts => heard.push(Heard::Started(run.job)),
                Event::JobEnded { job, .. } => {
                    ended = true;
                    heard.push(Heard::Ended(*job));
                }
                Event::Submitted(new) => came |= !new.held,
                Event::Released { .. } => came = true,
                _ => {}
            }
        }
        let was_busy = self.busy || came;
        self.busy = is_busy(world);
        if !ended {
            return heard;
        }
        let live = live_sweeps(world);
        heard.extend(self.sweeps.difference(&live).map(|sweep| Heard::SweepEnded(*sweep)));
        self.sweeps = live;
        if was_busy && !self.busy {
            heard.push(Heard::QueueEmpty);
        }
        heard
    }
}

/// Held jobs wait for somebody, and not for a GPU.
fn is_busy(world: &World) -> bool {
    world.live() > world.held()
}

fn live_sweeps(world: &World) -> BTreeSet<SweepId> {
    world.sweeps().map(|(id, _)| id).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use nexus_core::apply::{self, Command};
    use nexus_core::event::NewJob;
    use nexus_core::sweep::InSweep;
    use nexus_core::time::Time;

    use super::*;

    const SWEEP: InSweep = InSweep { id: SweepId(1), max_running: None, stop_after: 0 };

    fn job(id: &str, sweep: Option<InSweep>, held: bool) -> NewJob {
        NewJob { id: id.parse().unwrap(), needs: Arc::default(), sweep, priority: 0, held, at: Time(0) }
    }

    fn submit(world: &mut World, jobs: Vec<NewJob>) -> Vec<Event> {
        let events: Vec<Event> = jobs.into_iter().map(Event::Submitted).collect();
        events.iter().for_each(|event| world.record(event));
        events
    }

    fn remove(world: &mut World, id: &str) -> Vec<Event> {
        let jobs = vec![id.parse().unwrap()];
        apply::command(world, Command::Cancel(jobs), Time(1)).unwrap()
    }

    fn ended(id: &str) -> Heard {
        Heard::Ended(id.parse().unwrap())
    }

    #[test]
    fn the_last_of_a_sweep_and_the_last_of_all_are_heard_once() {
        let mut world = World::default();
        let mut ear = Ear::of(&world, false);
        let events = submit(
            &mut world,
            vec![
                job("abc", Some(SWEEP), false),
                job("abd", Some(SWEEP), false),
                job("abe", None, false),
                job("abf", None, true),
            ],
        );
        assert_eq!(ear.hear(&events, [SweepId(1)].into_iter(), &world), []);
        for (id, heard) in [
            ("abc", vec![ended("abc")]),
            ("abd", vec![ended("abd"), Heard::SweepEnded(SweepId(1))]),
            ("abe", vec![ended("abe"), Heard::QueueEmpty]),
            // Held: it was empty already.
            ("abf", vec![ended("abf")]),
        ] {
            let events = remove(&mut world, id);
            assert_eq!(ear.hear(&events, [].into_iter(), &world), heard, "{id}");
        }
    }

    #[test]
    fn what_comes_and_goes_in_one_turn_is_heard_too() {
        let mut world = World::default();
        let mut ear = Ear::of(&world, false);
        let mut events = submit(&mut world, vec![job("abc", Some(SWEEP), false)]);
        events.extend(remove(&mut world, "abc"));
        let heard = ear.hear(&events, [SweepId(1)].into_iter(), &world);
        assert_eq!(heard, [ended("abc"), Heard::SweepEnded(SweepId(1)), Heard::QueueEmpty]);
        assert_eq!(ear.hear(&[], [].into_iter(), &world), []);
    }
}
