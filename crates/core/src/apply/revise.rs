//! One change of the queue as a whole: jobs taken out, changed, added and put in order, all of it or nothing.
//!
//! An order made by hand is a set of places: priority stays the first key, and a job that was moved past jobs of
//! another priority gets a place among them, while those it passed keep theirs.

use std::collections::{BTreeMap, BTreeSet};

use super::{Refusal, record};
use crate::event::{Event, Needs, NewJob, Parent};
use crate::ids::JobId;
use crate::job::{End, KillReason, Place, State};
use crate::time::Time;
use crate::world::World;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Revision {
    /// Waiting jobs to take out.
    pub remove: Vec<JobId>,
    pub edits: Vec<Edit>,
    pub add: Vec<NewJob>,
    /// Waiting jobs, added ones too, in the order they are to stand in. Jobs that are not named keep their places.
    pub order: Vec<JobId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    pub job: JobId,
    /// What only a waiting job can change; none for a mere change of records, which fits a running one too.
    pub needs: Option<Needs>,
    /// A new priority.
    pub priority: Option<i32>,
    /// Hold it, or let it go.
    pub held: Option<bool>,
}

impl Revision {
    /// The jobs it names that exist already.
    pub fn jobs(&self) -> impl Iterator<Item = JobId> {
        self.remove.iter().copied().chain(self.edits.iter().map(|edit| edit.job))
    }
}

/// Events of the revision, already recorded in the World. Refused: nothing happened.
pub(super) fn revise(world: &mut World, revision: Revision, now: Time) -> Result<Vec<Event>, Refusal> {
    let leaving: BTreeSet<JobId> = revision.remove.iter().copied().collect();
    for job in &leaving {
        waits(world, *job)?;
    }
    for edit in &revision.edits {
        match world.job(edit.job) {
            _ if leaving.contains(&edit.job) => return Err(Refusal::WrongState(edit.job)),
            Some(job) if !job.state.waits() => {
                if edit.needs.is_some() || edit.held.is_some() {
                    return Err(Refusal::WrongState(edit.job));
                }
            }
            Some(_) => {}
            None => return Err(Refusal::NotLive(edit.job)),
        }
    }
    not_circular(world, &revision.edits)?;
    let coming: BTreeSet<JobId> = match revision.order.is_empty() {
        true => BTreeSet::new(),
        false => revision.add.iter().map(|new| new.id).collect(),
    };
    for job in revision.order.iter().filter(|job| !coming.contains(job)) {
        waits(world, *job)?;
        if leaving.contains(job) {
            return Err(Refusal::WrongState(*job));
        }
    }
    let end = End::Killed(KillReason::Removed);
    let mut events = Vec::new();
    let mut happen = |world: &mut World, some: Vec<Event>| events.extend(record(world, some, now));
    let removed = |job| Event::JobEnded { job, end: end.clone(), at: now };
    happen(world, leaving.into_iter().map(removed).collect());
    for edit in &revision.edits {
        // One that was taken out may have failed it meanwhile.
        if world.job(edit.job).is_some() {
            happen(world, edited(world, edit));
        }
    }
    happen(world, revision.add.into_iter().map(Event::Submitted).collect());
    let still_waits = |job: &JobId| world.job(*job).is_some();
    let order: Vec<JobId> = revision.order.into_iter().filter(still_waits).collect();
    happen(world, arranged(world, &order));
    Ok(events)
}

/// No job may wait for itself, through however many others.
fn not_circular(world: &World, edits: &[Edit]) -> Result<(), Refusal> {
    let needs = edits.iter().filter_map(|edit| edit.needs.as_ref().map(|needs| (edit.job, needs.after.as_slice())));
    let edited: BTreeMap<JobId, &[Parent]> = needs.collect();
    for (job, parents) in &edited {
        let mut seen = BTreeSet::new();
        let mut next: Vec<JobId> = parents.iter().map(|parent| parent.job).collect();
        while let Some(parent) = next.pop() {
            if parent == *job {
                return Err(Refusal::Circular(*job));
            }
            if seen.insert(parent) {
                let further = edited.get(&parent).copied().unwrap_or_else(|| world.parents(parent));
                next.extend(further.iter().map(|parent| parent.job));
            }
        }
    }
    Ok(())
}

fn waits(world: &World, job: JobId) -> Result<(), Refusal> {
    match world.job(job).map(|job| &job.state) {
        None => Err(Refusal::NotLive(job)),
        Some(state) if !state.waits() => Err(Refusal::WrongState(job)),
        Some(_) => Ok(()),
    }
}

fn edited(world: &World, edit: &Edit) -> Vec<Event> {
    let job = world.job(edit.job).expect("looked at before");
    let mut events = vec![Event::Edited { job: edit.job, needs: edit.needs.clone().map(Box::new) }];
    if let Some(priority) = edit.priority.map(i64::from).filter(|priority| *priority != job.place.priority) {
        events.push(Event::Placed { job: edit.job, place: Place { priority, ..job.place } });
    }
    match (edit.held, job.state == State::Held) {
        (Some(true), false) => events.push(Event::Held { job: edit.job }),
        (Some(false), true) => events.push(Event::Released { job: edit.job }),
        _ => {}
    }
    events
}

/// New places for those of the jobs that need one to stand in this order.
fn arranged(world: &World, order: &[JobId]) -> Vec<Event> {
    let mut seen = BTreeSet::new();
    let jobs: Vec<(JobId, Place)> = order
        .iter()
        .filter(|job| seen.insert(**job))
        .map(|job| (*job, world.job(*job).expect("looked at before").place))
        .collect();
    let before: Vec<Place> = jobs.iter().map(|(_, place)| *place).collect();
    let after = places(&before);
    let changed = jobs.iter().zip(&after).filter(|((_, before), after)| before != *after);
    changed.map(|((job, _), place)| Event::Placed { job: *job, place: *place }).collect()
}

/// Rising places for jobs that have these. Those that were not moved keep their priority; the others take one that
/// fits between their neighbours, their own if it does. Among those of one priority their turns are dealt out anew.
fn places(before: &[Place]) -> Vec<Place> {
    let kept = unmoved(before);
    let mut highest = vec![i64::MAX; before.len()];
    let mut limit = i64::MAX;
    for at in (0..before.len()).rev() {
        if kept[at] {
            limit = before[at].priority;
        }
        highest[at] = limit;
    }
    let mut lowest = i64::MIN;
    let mut after: Vec<Place> = Vec::with_capacity(before.len());
    for (place, highest) in before.iter().zip(highest) {
        lowest = place.priority.clamp(lowest, highest);
        after.push(Place { priority: lowest, ..*place });
    }
    for alike in after.chunk_by_mut(|one, next| one.priority == next.priority) {
        let mut turns: Vec<i64> = alike.iter().map(|place| place.turn).collect();
        turns.sort_unstable();
        alike.iter_mut().zip(turns).for_each(|(place, turn)| place.turn = turn);
    }
    after
}

/// The most that rise already: the longest rising subsequence. Of two that were swapped, the later one was moved up.
pub fn unmoved<T: Ord>(places: &[T]) -> Vec<bool> {
    // Ends of the best subsequences of each length, and what each place follows in its own.
    let mut ends: Vec<usize> = Vec::new();
    let mut follows: Vec<Option<usize>> = Vec::with_capacity(places.len());
    for (at, place) in places.iter().enumerate() {
        let length = ends.partition_point(|end| places[*end] < *place);
        follows.push(length.checked_sub(1).map(|shorter| ends[shorter]));
        match ends.get_mut(length) {
            Some(end) => *end = at,
            None => ends.push(at),
        }
    }
    let mut kept = vec![false; places.len()];
    let mut next = ends.last().copied();
    while let Some(at) = next {
        kept[at] = true;
        next = follows[at];
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(priority: i64, turn: i64) -> Place {
        Place { priority, turn }
    }

    /// Places in the order wished for, and what becomes of them.
    fn dealt(before: &[(i64, i64)]) -> Vec<(i64, i64)> {
        let before: Vec<Place> = before.iter().map(|(priority, turn)| place(*priority, *turn)).collect();
        places(&before).into_iter().map(|place| (place.priority, place.turn)).collect()
    }

    #[test]
    fn turns_are_dealt_out_anew_within_a_priority() {
        assert_eq!(dealt(&[(0, 3), (0, 1), (0, 2)]), [(0, 1), (0, 2), (0, 3)]);
        assert_eq!(dealt(&[(0, 1), (0, 2), (5, 3)]), [(0, 1), (0, 2), (5, 3)]);
    }

    #[test]
    fn a_job_moved_past_others_gets_a_place_among_them_and_they_keep_theirs() {
        // Up past two of priority 0.
        assert_eq!(dealt(&[(5, 9), (0, 1), (0, 2)]), [(0, 1), (0, 2), (0, 9)]);
        // Down past two of priority 5.
        assert_eq!(dealt(&[(5, 1), (5, 2), (0, 9)]), [(5, 1), (5, 2), (5, 9)]);
        // Between two priorities its own is good enough.
        assert_eq!(dealt(&[(0, 1), (3, 7), (2, 8), (5, 2), (6, 3)]), [(0, 1), (2, 7), (2, 8), (5, 2), (6, 3)]);
        // Before one that was put first.
        let front = Place::FRONT;
        assert_eq!(dealt(&[(0, 4), (front, -1), (0, 5)]), [(front, -1), (front, 4), (0, 5)]);
    }

    #[test]
    fn of_two_that_were_swapped_the_later_one_moved_up() {
        assert_eq!(dealt(&[(5, 2), (0, 1)]), [(0, 1), (0, 2)]);
    }
}
