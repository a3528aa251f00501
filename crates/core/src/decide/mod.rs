//! Decides which waiting jobs start where. Reads nothing but its arguments.
//!
//! Queue order is priority, then submission. What does not fit is passed over; the first that does not fit has a
//! [`Reservation`], and later ones start only where they leave that alone. Jobs with equal requests share one answer:
//! when there is no room for the first, there is none for any of them.

mod pack;
pub mod place;
pub mod reserve;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::event::Event;
use crate::ids::{JobId, MachineId, RunId};
use crate::job::Place;
use crate::policy::Policy;
use crate::request::{Request, Target};
use crate::run::Lease;
use crate::time::Time;
use crate::world::{Bucket, Span, World};
use place::{How, place, several};
use reserve::Reservation;

/// Plans what may start now, and records it in the World.
pub fn decide(world: &mut World, policy: &Policy, now: Time) -> Vec<Event> {
    world.advance(now);
    if world.queue_paused() || world.disk_full() || world.stopping() || world.ready().is_empty() {
        return vec![];
    }
    let mut events = Vec::new();
    loop {
        let how = How { whole_waits: whole_wait(world), joins: world.joins() };
        let (heads, requests) = heads(world);
        let out = vec![false; requests.len()];
        let (passed_over, reservation, late) = (vec![], None, false);
        let mut round = Round { heads, requests, world, how, passed_over, reservation, late, out, now };
        while let Some(head) = round.heads.pop_first() {
            events.extend(round.look(head, policy));
        }
        // Those that started since something was kept may let it be kept elsewhere, and others start in its place.
        if !round.late {
            return events;
        }
    }
}

/// GPUs that the first waiting job needs of those that this machine may run and that need a GPU. 0: there is none, or nothing
/// starts now.
pub fn first_need(world: &World, machine: MachineId) -> u16 {
    let Some(known) = world.machines().find(|known| known.id == machine) else { return 0 };
    if world.queue_paused() || world.disk_full() || world.stopping() {
        return 0;
    }
    let (class, count) = (world.standing(machine).class, known.gpus.len() as u16);
    let is_for = |request: &Request| {
        (1..=count).contains(&request.gpus) && !request.driver && request.target.allows(machine, class)
    };
    let first = |(request, spans): (&Request, &Bucket)| {
        Some((*spans.values().filter_map(BTreeSet::first).min()?, request.gpus))
    };
    let buckets = world.ready().iter().filter(|(request, _)| is_for(request));
    buckets.filter_map(first).min().map_or(0, |(_, gpus)| gpus)
}

/// What is looked at in its turn: the first of a bucket, or of one span of it.
type Head = ((Place, JobId), (usize, Option<Span>));
type Heads = BTreeMap<(Place, JobId), (usize, Option<Span>)>;

/// The first of each bucket, in queue order, with its request. Its spans come apart once there is room for one of them.
fn heads(world: &World) -> (Heads, Vec<Request>) {
    let first = |(number, spans): (usize, &Bucket)| {
        let first = spans.values().filter_map(BTreeSet::first).min()?;
        Some((*first, (number, None)))
    };
    (world.ready().values().enumerate().filter_map(first).collect(), world.ready().keys().copied().collect())
}

struct Round<'a> {
    world: &'a mut World,
    heads: Heads,
    /// Of each bucket.
    requests: Vec<Request>,
    how: How,
    /// Those that have no room, in their order, until one has a reservation.
    passed_over: Vec<(JobId, Request)>,
    reservation: Option<Reservation>,
    /// Something started beside it.
    late: bool,
    /// Buckets that there is no room for.
    out: Vec<bool>,
    now: Time,
}

impl Round<'_> {
    /// Starts a job if it may, and has the next of its kind looked at.
    fn look(&mut self, (head, (bucket, span)): Head, policy: &Policy) -> Option<Event> {
        if self.out[bucket] {
            return None;
        }
        if is_full(self.world, &self.requests[bucket]) {
            self.out[bucket] = true;
            return None;
        }
        let request = self.world.resolved(&self.requests[bucket]);
        let Some(lease) = self.room(&request) else {
            self.out[bucket] = true;
            self.passed_over.push((head.1, request));
            return None;
        };
        let Some(span) = span else {
            let spans = self.world.ready().get(&self.requests[bucket]).into_iter().flatten();
            let first = |(span, jobs): (&Span, &BTreeSet<_>)| Some((*jobs.first()?, (bucket, Some(*span))));
            self.heads.extend(spans.filter_map(first));
            return None;
        };
        // Only now does it matter what is kept.
        if self.reservation.is_none() {
            let (world, now) = (&*self.world, self.now);
            let mut passed_over = self.passed_over.drain(..);
            self.reservation =
                passed_over.find_map(|(job, request)| Reservation::of(world, job, &request, policy, now));
        }
        match self.beside_the_reserved(head.1, &request, lease) {
            Some((lease, is_beyond)) => {
                self.next(head, bucket, span, None);
                Some(self.start(head.1, &request, lease, is_beyond))
            }
            None => {
                let window = self.reservation.as_ref().map(|reserved| reserved.window(self.now));
                self.next(head, bucket, span, window);
                None
            }
        }
    }

    fn room(&mut self, request: &Request) -> Option<Lease> {
        match pack::packs(self.world, request, &self.how) {
            false => place(request, self.world.free().values(), &self.how),
            true => pack::place(self.world, request)
                .or_else(|| self.how.joins.then(|| several(request, self.world.free().values())).flatten())
                .or_else(|| place(request, self.world.free().values().filter(|free| free.is_cluster()), &self.how)),
        }
    }

    /// Where a job that has room may have it, and whether it is on when the reserved one is to start.
    fn beside_the_reserved(&self, job: JobId, request: &Request, lease: Lease) -> Option<(Lease, bool)> {
        let Some(reserved) = &self.reservation else { return Some((lease, false)) };
        let job = self.world.job(job).expect("queued jobs are live");
        if self.world.longest(job).is_some_and(|longest| longest <= reserved.window(self.now)) {
            return Some((lease, false));
        }
        let machines = self.world.free().values().map(|free| reserved.beyond(free));
        Some((place(request, machines, &self.how)?, true))
    }

    fn start(&mut self, job: JobId, request: &Request, lease: Lease, is_beyond: bool) -> Event {
        if let Some(count) = self.how.whole_waits.get_mut(&request.target).filter(|_| is_whole(request)) {
            *count -= 1;
        }
        let run = RunId { job, number: self.world.job(job).expect("queued jobs are live").runs + 1 };
        let event = Event::Planned { run, lease: lease.clone(), at: self.now };
        self.world.record(&event);
        if let Some(reserved) = &mut self.reservation {
            reserved.started(self.world, &lease, job, is_beyond);
            self.late = true;
        }
        event
    }

    /// The next of the same span comes to its turn; with a window, the next that may be short enough for it.
    fn next(&mut self, head: (Place, JobId), bucket: usize, span: Span, window: Option<Duration>) {
        let after = (std::ops::Bound::Excluded(head), std::ops::Bound::Unbounded);
        let jobs = self.world.ready().get(&self.requests[bucket]).and_then(|spans| spans.get(&span));
        let mut later = jobs.into_iter().flat_map(|jobs| jobs.range(after)).copied();
        let next = match window {
            None => later.next(),
            // They are all as long as this one.
            Some(window) if !span.may_be_within(window) => None,
            Some(window) => later
                .find(|(_, id)| self.world.job(*id).is_some_and(|job| job.limit.is_some_and(|limit| limit <= window))),
        };
        self.heads.extend(next.map(|next| (next, (bucket, Some(span)))));
    }
}

/// How many wait for GPUs of their own, by where they may be: while there are any, those that share do not spread there.
pub fn whole_wait(world: &World) -> BTreeMap<Target, usize> {
    let mut waits: BTreeMap<Target, usize> = BTreeMap::new();
    for (request, spans) in world.ready().iter().filter(|(request, _)| is_whole(&world.resolved(request))) {
        *waits.entry(request.target).or_default() += spans.values().map(BTreeSet::len).sum::<usize>();
    }
    waits
}

/// The job that has a reservation, as the last decision left the queue.
pub fn reserved(world: &World, policy: &Policy, now: Time) -> Option<Reservation> {
    let how = How { whole_waits: whole_wait(world), joins: world.joins() };
    let (heads, requests) = heads(world);
    heads.into_iter().find_map(|((_, job), (bucket, _))| {
        let bucket = &requests[bucket];
        if is_full(world, bucket) {
            return None;
        }
        let request = world.resolved(bucket);
        match place(&request, world.free().values(), &how) {
            Some(_) => None,
            None => Reservation::of(world, job, &request, policy, now),
        }
    })
}

/// Whether as many of the sweep are on, which all jobs of this request are of, as may at once.
fn is_full(world: &World, request: &Request) -> bool {
    request.within.and_then(|sweep| world.sweep(sweep)).is_some_and(|sweep| sweep.is_full())
}

fn is_whole(request: &Request) -> bool {
    request.driver || request.gpus > 0 && request.share.is_none()
}
