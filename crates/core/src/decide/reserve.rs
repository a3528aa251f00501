//! What is kept for the first job that does not fit, so that a stream of smaller ones does not pass it by for ever.
//!
//! Where it is known how long the runs take that it waits for, it has a time: the earliest at which there is room for
//! it if each takes as long as it may. Others that end before that are not in its way, nor those that leave it the
//! GPUs it is to have then. Where it is not known, GPUs it can use are kept for it once it has waited long enough.
//!
//! A job that would find no room if all runs ended waits for something else, and nothing is kept for it.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use crate::decide::place::{place_late, several};
use crate::free::Free;
use crate::ids::{JobId, MachineId};
use crate::policy::Policy;
use crate::request::{GpuSet, Request};
use crate::run::Lease;
use crate::time::Time;
use crate::world::{Hold, World};

#[derive(Clone, Debug)]
pub struct Reservation {
    pub job: JobId,
    /// When there is room for it at the latest; none where nobody knows.
    pub at: Option<Time>,
    /// What is left at that time of the machines that it is to have.
    left: BTreeMap<MachineId, Free>,
    /// What of them a job may have now that is on at that time.
    beyond: BTreeMap<MachineId, Free>,
}

impl Reservation {
    /// For a job that does not fit. None if the end of runs does not help it.
    pub fn of(world: &World, job: JobId, request: &Request, policy: &Policy, now: Time) -> Option<Reservation> {
        let (at, left) = match earliest(world, request, now) {
            Some((at, lease)) => {
                let left = lease.machines().map(|machine| (machine, left_at(world, machine, at, now, &lease, job)));
                (Some(at), left.collect())
            }
            None => match &*candidates(world, request) {
                [] => return None,
                _ if world.job(job).is_some_and(|job| now.since(job.since) < policy.patience) => {
                    (None, BTreeMap::new())
                }
                candidates => (None, kept(world, request, candidates)),
            },
        };
        let mut reservation = Reservation { job, at, left, beyond: BTreeMap::new() };
        for machine in reservation.left.keys().copied().collect::<Vec<_>>() {
            reservation.look_again(world, machine);
        }
        Some(reservation)
    }

    /// How long a job may take to be gone by then.
    pub fn window(&self, now: Time) -> Duration {
        self.at.map_or(Duration::ZERO, |at| at.since(now))
    }

    /// What of a machine a job may have that takes longer.
    pub fn beyond<'a>(&'a self, free: &'a Free) -> &'a Free {
        self.beyond.get(&free.machine.id).unwrap_or(free)
    }

    /// Another job has started. `is_beyond`: it is on when the reserved one is to start.
    pub(super) fn started(&mut self, world: &World, lease: &Lease, job: JobId, is_beyond: bool) {
        for machine in lease.machines() {
            if let Some(left) = self.left.get_mut(&machine).filter(|_| is_beyond) {
                left.take(lease, job);
            }
            self.look_again(world, machine);
        }
    }

    fn look_again(&mut self, world: &World, machine: MachineId) {
        if let (Some(left), Some(free)) = (self.left.get(&machine), world.free().get(&machine)) {
            self.beyond.insert(machine, free.least(left));
        }
    }
}

/// Machines that have room for it once all runs have ended; all of them where it needs several.
fn candidates(world: &World, request: &Request) -> Vec<MachineId> {
    let empty = |free: &Free| {
        let mut empty = free.clone();
        for (job, hold) in world.holds(free.machine.id) {
            empty.give(&hold.lease, job);
        }
        empty
    };
    let one = world.free().values().filter(|free| free.has_as_many(request));
    let one: Vec<MachineId> =
        one.filter(|free| empty(free).room(request).is_some()).map(|free| free.machine.id).collect();
    if !one.is_empty() || !world.joins() {
        return one;
    }
    let all: Vec<Free> = world.free().values().map(empty).collect();
    let taking = || all.iter().filter(|free| free.takes(request)).map(|free| free.machine.id).collect();
    several(request, all.iter()).map(|_| taking()).unwrap_or_default()
}

/// When it has room if each run takes as long as it may, and what it has then.
fn earliest(world: &World, request: &Request, now: Time) -> Option<(Time, Lease)> {
    let mut best: Option<(Time, usize, Free)> = None;
    let mut is_wide = true;
    for free in world.free().values().filter(|free| free.has_as_many(request)) {
        is_wide = false;
        let mut later = free.clone();
        let too_late = |at: Time| best.as_ref().is_some_and(|(best, ..)| at > *best);
        let at = ends(world.holds(free.machine.id), world, now)
            .into_iter()
            .take_while(|(at, ..)| !too_late(*at))
            .find_map(|(at, job, hold, is_last)| {
                later.give(&hold.lease, job);
                (is_last && later.room(request).is_some()).then_some(at)
            });
        let Some(at) = at else { continue };
        let open = later.open_to(request).len();
        if best.as_ref().is_none_or(|(known, fewest, _)| (at, open) < (*known, *fewest)) {
            best = Some((at, open, later));
        }
    }
    match best {
        Some((at, _, later)) => Some((at, place_late(request, &world.free()[&later.machine.id], &later))),
        None if is_wide && world.joins() => earliest_of_several(world, request, now),
        None => None,
    }
}

fn earliest_of_several(world: &World, request: &Request, now: Time) -> Option<(Time, Lease)> {
    let mut later: BTreeMap<MachineId, Free> = world.free().clone();
    // Each once, though it may hold several of them.
    let of = |id: &MachineId| {
        let id = *id;
        world.holds(id).filter(move |(_, hold)| hold.lease.machine == id)
    };
    ends(world.free().keys().flat_map(of), world, now).into_iter().find_map(|(at, job, hold, is_last)| {
        for machine in hold.lease.machines() {
            later.get_mut(&machine)?.give(&hold.lease, job);
        }
        is_last.then(|| several(request, later.values())).flatten().map(|lease| (at, lease))
    })
}

/// Runs in the order in which they end at the latest, those of which that is known; and whether the next ends later.
fn ends<'a>(
    holds: impl Iterator<Item = (JobId, &'a Hold)>,
    world: &World,
    now: Time,
) -> Vec<(Time, JobId, &'a Hold, bool)> {
    let known = |(job, hold): (JobId, &'a Hold)| Some((end(world, hold, now)?, job, hold, true));
    let mut ends: Vec<(Time, JobId, &Hold, bool)> = holds.filter_map(known).collect();
    ends.sort_unstable_by_key(|(at, job, ..)| (*at, *job));
    for place in 1..ends.len() {
        ends[place - 1].3 = ends[place - 1].0 != ends[place].0;
    }
    ends
}

/// When a run has ended at the latest. Of one that goes on for longer than any of its command before, twice as long is
/// thought; of one that goes on for longer still, nothing.
fn end(world: &World, hold: &Hold, now: Time) -> Option<Time> {
    if let Some(limit) = hold.limit {
        // One that is over it is on its way out.
        return Some(hold.since.after(limit).max(now));
    }
    let longest = world.learned(hold.same).longest()?;
    [1, 2].map(|times| hold.since.after(longest * times)).into_iter().find(|at| *at > now)
}

/// What others have of a machine at a time when the lease is taken.
fn left_at(world: &World, machine: MachineId, at: Time, now: Time, lease: &Lease, job: JobId) -> Free {
    let mut left = world.free()[&machine].clone();
    for (job, hold) in world.holds(machine) {
        if end(world, hold, now).is_some_and(|end| end <= at) {
            left.give(&hold.lease, job);
        }
    }
    left.take(lease, job);
    left
}

/// What is left of the machine where the job is nearest to its start, without GPUs that it can use. More of its GPUs
/// fall free there and none is taken, so it stays the nearest.
fn kept(world: &World, request: &Request, candidates: &[MachineId]) -> BTreeMap<MachineId, Free> {
    let is_wide = candidates.iter().all(|id| !world.free()[id].has_as_many(request));
    let mut near: Vec<&Free> = candidates.iter().map(|id| &world.free()[id]).collect();
    near.sort_by_key(|free| (Reverse(free.open_to(request).len()), free.machine.id));
    if is_wide {
        let mut missing = usize::from(request.gpus);
        near.retain(|free| {
            let fits = (1..=missing).contains(&free.machine.gpus.len());
            missing -= if fits { free.machine.gpus.len() } else { 0 };
            fits
        });
    } else {
        near.truncate(1);
    }
    let without = |free: &Free| {
        let open = free.open_to(request);
        let count = usize::from(request.gpus).min(free.machine.gpus.len());
        let gpus: GpuSet = match is_wide {
            true => free.machine.gpu_set(),
            false => free.choose(request, open, true).iter().chain(free.nearly_open(request)).take(count).collect(),
        };
        let mut left = free.clone();
        match request.driver {
            true => left.close_all(),
            false => left.close(gpus),
        }
        left.cpus = left.cpus.saturating_sub(request.cpus);
        left.ram_mib = left.ram_mib.saturating_sub(request.ram_mib.into());
        (free.machine.id, left)
    };
    near.into_iter().map(without).collect()
}
