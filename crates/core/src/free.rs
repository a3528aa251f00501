//! What of a machine can be had, and what is in the way of the rest.

use crate::machine::{Machine, Obstacle};
use crate::request::{GpuSet, Request};
use crate::run::Lease;

/// Every GPU of a machine stands in one of `gpus`, `held`, `outside`, `unreadable`, `mig` and `left_out`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Free {
    /// Nobody holds them and nothing is in the way, but for a pause.
    pub gpus: GpuSet,
    /// A run holds them.
    pub held: GpuSet,
    /// In use outside nexus.
    pub outside: GpuSet,
    pub unreadable: GpuSet,
    pub mig: GpuSet,
    pub left_out: GpuSet,
    /// Whichever of them are paused.
    pub paused: GpuSet,
    /// The order in which they are taken.
    pub order: Vec<u16>,
    pub cpus: u16,
}

/// The GPUs that a request allows on one machine, each counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpuCount {
    pub free: u16,
    pub held: u16,
    pub outside: u16,
    pub paused: u16,
    pub unreadable: u16,
    /// Take no job however long one waits, and are named instead of counted.
    pub mig: GpuSet,
    pub left_out: GpuSet,
}

impl GpuCount {
    /// Those that a job may have some day as things are.
    pub fn exist(&self) -> u16 {
        self.free + self.held + self.outside + self.paused + self.unreadable
    }
}

impl Free {
    /// The machine as it is while no run holds anything.
    pub fn of(machine: &Machine, paused: GpuSet) -> Free {
        let mut free = Free { paused, order: machine.order(), cpus: machine.cpus, ..Free::default() };
        for gpu in &machine.gpus {
            let class = match gpu.obstacle {
                None => &mut free.gpus,
                Some(Obstacle::InUse | Obstacle::Locked) => &mut free.outside,
                Some(Obstacle::Unreadable) => &mut free.unreadable,
                Some(Obstacle::Mig) => &mut free.mig,
                Some(Obstacle::LeftOut) => &mut free.left_out,
            };
            class.insert(gpu.index);
        }
        free
    }

    /// The machine if all that may pass had passed: no lease, no use outside, no pause, all readable.
    pub fn whole(machine: &Machine) -> Free {
        let free = Free::of(machine, GpuSet::EMPTY);
        let gpus = free.gpus.union(free.outside).union(free.unreadable);
        Free { gpus, outside: GpuSet::EMPTY, unreadable: GpuSet::EMPTY, ..free }
    }

    /// A run takes its lease.
    pub fn take(&mut self, lease: &Lease) {
        for class in [&mut self.gpus, &mut self.outside, &mut self.unreadable] {
            self.held = self.held.union(class.and(lease.gpus));
            *class = class.minus(lease.gpus);
        }
        self.cpus = self.cpus.saturating_sub(lease.cpus);
    }

    /// GPUs that the request may have now.
    pub fn open_to(&self, request: &Request) -> GpuSet {
        let open = if request.force { self.gpus } else { self.gpus.minus(self.paused) };
        open.and(request.on.unwrap_or(open))
    }

    /// What there is for the request, had or not.
    pub fn count(&self, request: &Request) -> GpuCount {
        let among = |set: GpuSet| set.and(request.on.unwrap_or(set));
        let number = |set: GpuSet| among(set).len() as u16;
        let open = self.open_to(request);
        GpuCount {
            free: open.len() as u16,
            held: number(self.held),
            outside: number(self.outside),
            paused: number(self.gpus.minus(open)),
            unreadable: number(self.unreadable),
            mig: among(self.mig),
            left_out: among(self.left_out),
        }
    }
}
