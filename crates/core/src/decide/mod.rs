//! Decides which waiting jobs start where. Reads nothing but its arguments.
//!
//! Queue order is priority, then submission. What does not fit is passed over. Jobs with equal requests
//! share one answer: when the first does not fit, none of them does.

pub mod place;

use std::collections::BTreeMap;

use crate::event::Event;
use crate::ids::{JobId, RunId, SweepId};
use crate::job::Place;
use crate::policy::Policy;
use crate::request::Request;
use crate::time::Time;
use crate::world::World;

/// Plans what may start now, and records it in the World.
pub fn decide(world: &mut World, policy: &Policy, now: Time) -> Vec<Event> {
    world.advance(now);
    let events = plan(world, policy, now);
    for event in &events {
        world.record(event);
    }
    events
}

fn plan(world: &World, _policy: &Policy, now: Time) -> Vec<Event> {
    let mut events = Vec::new();
    let closed = world.queue_paused() || world.disk_full() || world.stopping();
    if closed || world.ready().is_empty() {
        return events;
    }
    let mut free = world.free();
    let mut whole_wait = whole_wait(world);
    // How many jobs of each sweep that has a limit were planned here.
    let mut planned: BTreeMap<SweepId, u64> = BTreeMap::new();
    // The first of each bucket, in queue order; a bucket whose first does not fit is out.
    let mut buckets: Vec<_> = world.ready().iter().map(|(request, jobs)| (request, jobs.iter())).collect();
    let mut heads: BTreeMap<(Place, JobId), usize> = BTreeMap::new();
    for (number, (_, jobs)) in buckets.iter_mut().enumerate() {
        heads.extend(jobs.next().map(|head| (*head, number)));
    }
    while let Some(((_, job), number)) = heads.pop_first() {
        let (request, jobs) = &mut buckets[number];
        let request = world.resolved(request);
        // All of this bucket are of that sweep.
        if request.within.is_some_and(|sweep| is_full(world, sweep, &planned)) {
            continue;
        }
        let Some(lease) = place::place(&request, free.values(), whole_wait > 0) else { continue };
        whole_wait -= usize::from(is_whole(&request));
        let left = free.get_mut(&lease.machine).expect("placed on a machine with room");
        left.take(&lease, job);
        let run = RunId { job, number: world.job(job).expect("queued jobs are live").runs + 1 };
        events.push(Event::Planned { run, lease, at: now });
        if let Some(sweep) = request.within {
            *planned.entry(sweep).or_default() += 1;
        }
        heads.extend(jobs.next().map(|head| (*head, number)));
    }
    events
}

/// How many wait for GPUs of their own: while there are any, those that share do not spread.
pub fn whole_wait(world: &World) -> usize {
    let whole = world.ready().iter().filter(|(request, _)| is_whole(&world.resolved(request)));
    whole.map(|(_, jobs)| jobs.len()).sum()
}

/// Whether as many of its jobs are on, or about to be, as may at once.
fn is_full(world: &World, sweep: SweepId, planned: &BTreeMap<SweepId, u64>) -> bool {
    let Some(known) = world.sweep(sweep) else { return false };
    let active = known.counts.active + planned.get(&sweep).copied().unwrap_or(0);
    known.max_running.is_some_and(|most| active >= most.into())
}

fn is_whole(request: &Request) -> bool {
    request.gpus > 0 && request.share.is_none()
}
