//! Says why a job waits: the answer of the very filter that would let it start.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::decide::place::{How, place, what_is_missing};
use crate::decide::reserve::Reservation;
use crate::decide::{reserved, whole_wait};
use crate::free::{Closed, Free};
use crate::ids::{JobId, MachineId};
use crate::job::State;
use crate::policy::Policy;
use crate::request::Request;
use crate::run::Lease;
use crate::time::Time;
use crate::waiting::Waiting;
use crate::world::World;

/// Jobs that are named as those that must end first; the rest is counted.
const NAMED: usize = 3;

/// Answers for many jobs at one moment; equal requests are looked at once.
pub struct Explainer<'a> {
    world: &'a World,
    whole: BTreeMap<MachineId, Free>,
    how: How,
    reservation: Option<Reservation>,
    now: Time,
    known: BTreeMap<Request, Waiting>,
}

impl<'a> Explainer<'a> {
    pub fn new(world: &'a World, policy: &Policy, now: Time) -> Explainer<'a> {
        let whole = world.free().iter().map(|(id, free)| (*id, free.whole())).collect();
        let how = How { whole_waits: whole_wait(world), joins: world.joins() };
        Explainer { world, whole, how, reservation: reserved(world, policy, now), now, known: BTreeMap::new() }
    }

    /// The first job that does not fit, with what is kept for it.
    pub fn reservation(&self) -> Option<&Reservation> {
        self.reservation.as_ref()
    }

    /// None for a job that does not wait.
    pub fn job(&mut self, id: JobId) -> Option<Waiting> {
        let job = self.world.job(id)?;
        match job.state {
            State::Active(_) | State::Copying { .. } => None,
            State::Held => Some(match job.sweep.and_then(|sweep| self.world.sweep(sweep)?.stopped.clone()) {
                Some(stopped) => Waiting::SweepStopped(stopped),
                None => Waiting::Held,
            }),
            State::Queued { .. } if !self.world.parents(id).is_empty() => {
                let parents = self.world.parents(id);
                let jobs = parents.iter().take(NAMED).map(|parent| parent.job).collect();
                Some(Waiting::After { jobs, count: parents.len() as u64 })
            }
            // Its wait may be over: then it stands in the queue already.
            State::Queued { not_before: Some(until) } if !self.is_ready(job.request, id) => {
                Some(if job.runs == 0 { Waiting::Delayed { until } } else { Waiting::Retry { until } })
            }
            State::Queued { .. } => Some(self.request(&job.request, self.world.longest(job))),
        }
    }

    /// Why a job with this request would wait, were it next. `longest`: how long it takes at most, if that is known.
    pub fn request(&mut self, request: &Request, longest: Option<Duration>) -> Waiting {
        if self.world.stopping() {
            return Waiting::Stopping;
        }
        let answer = match self.known.get(request) {
            Some(known) => known.clone(),
            None => self.look(request),
        };
        self.known.insert(*request, answer.clone());
        match self.reservation.as_ref().filter(|_| answer == Waiting::Next) {
            Some(reserved) if self.is_in_the_way_of(reserved, request, longest) => {
                Waiting::Kept { job: reserved.job, at: reserved.at }
            }
            _ => answer,
        }
    }

    fn is_in_the_way_of(&self, reserved: &Reservation, request: &Request, longest: Option<Duration>) -> bool {
        if longest.is_some_and(|longest| longest <= reserved.window(self.now)) {
            return false;
        }
        let machines = self.world.free().values().map(|free| reserved.beyond(free));
        place(&self.world.resolved(request), machines, &self.how).is_none()
    }

    fn is_ready(&self, request: Request, id: JobId) -> bool {
        let place = self.world.job(id).map(|job| job.place);
        let bucket = self.world.ready().get(&request);
        let stands = |place| bucket.is_some_and(|spans| spans.values().any(|jobs| jobs.contains(&(place, id))));
        place.is_some_and(stands)
    }

    /// Where it would start now.
    pub fn place(&self, request: &Request) -> Option<Lease> {
        place(&self.world.resolved(request), self.world.free().values(), &self.how)
    }

    fn look(&self, request: &Request) -> Waiting {
        let request = self.world.resolved(request);
        let machines: Vec<(MachineId, Option<Closed>)> = self.world.meant_by(request.target).collect();
        if machines.is_empty() {
            return Waiting::NoSuchMachines { target: request.target };
        }
        let could = |machine: &MachineId| self.could_ever(*machine, &request);
        // What no machine could ever give is said first: no waiting helps there.
        if !machines.iter().any(|(machine, _)| could(machine)) {
            let meant = self.whole.values().filter(|whole| whole.is_meant_by(request.target));
            return match what_is_missing(&request, meant) {
                Waiting::Gpus { request, count } => Waiting::NoSuchGpus { request, count },
                Waiting::Cpus { need, free } => Waiting::NoSuchCpus { need, exist: free },
                Waiting::Ram { need_mib, free_mib } => Waiting::NoSuchRam { need_mib, exist_mib: free_mib },
                other => other,
            };
        }
        if let Some(pause) = self.world.queue_pause() {
            return Waiting::QueuePaused(pause);
        }
        if self.world.disk_full() {
            return Waiting::DiskFull;
        }
        if let Some(sweep) = request.within.and_then(|sweep| self.world.sweep(sweep)).filter(|sweep| sweep.is_full()) {
            return Waiting::SweepFull { running: sweep.counts.active, limit: sweep.max_running.unwrap_or(0) };
        }
        if self.place(&request).is_some() {
            return Waiting::Next;
        }
        // A machine that could never have it is not the one it waits for, nor one that takes no job while others do.
        let near = machines.into_iter().filter(|(machine, _)| could(machine));
        let (open, closed): (Vec<_>, Vec<_>) = near.partition(|(_, closed)| closed.is_none());
        if open.is_empty() {
            let count = |why| closed.iter().filter(|(_, closed)| *closed == Some(why)).count() as u32;
            return Waiting::Machines {
                target: request.target,
                unreachable: count(Closed::Unreachable),
                paused: count(Closed::Paused),
                quarantined: count(Closed::Quarantined),
            };
        }
        what_is_missing(&request, open.iter().filter_map(|(machine, _)| self.world.free().get(machine)))
    }

    /// Of a machine that was never reached nobody knows what it has: it could. The own host needs no line, and what was
    /// not read of it is not there.
    fn could_ever(&self, machine: MachineId, request: &Request) -> bool {
        self.whole.get(&machine).map_or(machine != MachineId::LOCAL, |whole| whole.room(request).is_some())
    }
}
