//! Says why a job waits: the answer of the very filter that would let it start.

use std::collections::BTreeMap;

use crate::decide::place::{place, room, what_is_missing};
use crate::decide::whole_wait;
use crate::free::Free;
use crate::ids::{JobId, MachineId};
use crate::job::State;
use crate::request::Request;
use crate::run::Lease;
use crate::waiting::Waiting;
use crate::world::World;

/// Jobs that are named as those that must end first; the rest is counted.
const NAMED: usize = 3;

/// Answers for many jobs at one moment; equal requests are looked at once.
pub struct Explainer<'a> {
    world: &'a World,
    free: BTreeMap<MachineId, Free<'a>>,
    whole: BTreeMap<MachineId, Free<'a>>,
    whole_waits: bool,
    known: BTreeMap<Request, Waiting>,
}

impl<'a> Explainer<'a> {
    pub fn new(world: &'a World) -> Explainer<'a> {
        let whole = world.machines().map(|machine| (machine.id, Free::whole(machine))).collect();
        Explainer { world, free: world.free(), whole, whole_waits: whole_wait(world) > 0, known: BTreeMap::new() }
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
                Some(Waiting::Retry { until })
            }
            State::Queued { .. } => Some(self.request(&job.request)),
        }
    }

    /// Why a job with this request would wait, were it next.
    pub fn request(&mut self, request: &Request) -> Waiting {
        if self.world.stopping() {
            return Waiting::Stopping;
        }
        if let Some(known) = self.known.get(request) {
            return known.clone();
        }
        let answer = self.look(request);
        self.known.insert(*request, answer.clone());
        answer
    }

    fn is_ready(&self, request: Request, id: JobId) -> bool {
        let place = self.world.job(id).map(|job| job.place);
        let bucket = self.world.ready().get(&request);
        place.zip(bucket).is_some_and(|(place, bucket)| bucket.contains(&(place, id)))
    }

    /// Where it would start now.
    pub fn place(&self, request: &Request) -> Option<Lease> {
        place(&self.world.resolved(request), self.free.values(), self.whole_waits)
    }

    fn look(&self, request: &Request) -> Waiting {
        let request = self.world.resolved(request);
        let could = |machine: MachineId| room(&request, &self.whole[&machine]).is_some();
        // What no machine could ever give is said first: no waiting helps there.
        if !self.whole.keys().any(|machine| could(*machine)) {
            return match what_is_missing(&request, self.whole.values()) {
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
        // A machine that could never have it is not the one it waits for.
        match self.place(&request) {
            Some(_) => Waiting::Next,
            None => what_is_missing(&request, self.free.values().filter(|left| could(left.machine.id))),
        }
    }
}
