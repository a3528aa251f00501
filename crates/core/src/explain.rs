//! Says why a job waits: the answer of the very filter that would let it start.

use std::collections::BTreeMap;

use crate::decide::place::place;
use crate::free::Free;
use crate::ids::{JobId, MachineId};
use crate::job::State;
use crate::request::Request;
use crate::waiting::Waiting;
use crate::world::World;

/// Answers for many jobs at one moment; equal requests are looked at once.
pub struct Explainer<'a> {
    world: &'a World,
    free: BTreeMap<MachineId, Free>,
    known: BTreeMap<Request, Waiting>,
}

impl<'a> Explainer<'a> {
    pub fn new(world: &'a World) -> Explainer<'a> {
        Explainer { world, free: world.free(), known: BTreeMap::new() }
    }

    /// None for a job that does not wait.
    pub fn job(&mut self, id: JobId) -> Option<Waiting> {
        let job = self.world.job(id)?;
        match job.state {
            State::Active(_) => None,
            State::Held => Some(Waiting::Held),
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

    fn look(&self, request: &Request) -> Waiting {
        // What no machine could ever give is said first: no waiting helps there.
        let whole: BTreeMap<MachineId, Free> =
            self.world.machines().map(|machine| (machine.id, Free::whole(machine))).collect();
        match place(request, &whole) {
            Err(Waiting::Gpus { need, on, count }) => return Waiting::NoSuchGpus { need, on, count },
            Err(Waiting::Cpus { need, free }) => return Waiting::NoSuchCpus { need, exist: free },
            _ => {}
        }
        if self.world.queue_paused() {
            return Waiting::QueuePaused;
        }
        if self.world.disk_full() {
            return Waiting::DiskFull;
        }
        match place(request, &self.free) {
            Ok(_) => Waiting::Next,
            Err(waiting) => waiting,
        }
    }
}
