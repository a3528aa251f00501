//! Decides which waiting jobs are blocked for a reason that only a person can end, and names the reasons.
//!
//! A job is blocked in two cases:
//! - Waiting alone never helps: it would find no room even if all runs ended and all other users left.
//! - Waiting may help, but a fault keeps it off GPUs that nobody uses: with the fault repaired it would start now. GPUs of a
//!   machine that is away count as unused, since nobody knows.
//!
//! A job that waits for runs, for other users, for its turn, for a time or for other jobs is not blocked. Nor is a held job,
//! unless nexus itself held it with its sweep. How long a reason has lasted is the caller's to know.

use std::collections::{BTreeMap, BTreeSet};

use crate::decide::place::{How, place};
use crate::decide::whole_wait;
use crate::event::QueuePause;
use crate::free::{Closed, Free};
use crate::ids::{JobId, MachineId, SweepId};
use crate::job::Place;
use crate::request::{GpuSet, Request};
use crate::world::{Bucket, World};

/// A reason that only a person can end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    QueuePaused(QueuePause),
    DiskFull,
    /// The first jobs of the sweep failed alike, and nexus holds the rest.
    SweepStopped(SweepId),
    MachineClosed {
        machine: MachineId,
        why: Closed,
    },
    GpuUnreadable {
        machine: MachineId,
        gpu: u16,
    },
    GpuPaused {
        machine: MachineId,
        gpu: u16,
    },
    /// No machine could ever run it. The first such job in the queue stands for all of them.
    NeverFits {
        job: JobId,
        gpus: u16,
    },
}

impl Cause {
    /// Whether something is broken. Everything else is as somebody asked for.
    pub fn is_fault(&self) -> bool {
        match self {
            Cause::DiskFull | Cause::GpuUnreadable { .. } => true,
            Cause::MachineClosed { why, .. } => *why != Closed::Paused,
            Cause::QueuePaused(_) | Cause::SweepStopped(_) | Cause::GpuPaused { .. } | Cause::NeverFits { .. } => false,
        }
    }
}

/// Jobs that wait for a person.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blocked {
    pub jobs: u64,
    pub causes: BTreeSet<Cause>,
}

impl Blocked {
    fn add(&mut self, jobs: u64, causes: impl IntoIterator<Item = Cause>) {
        self.jobs += jobs;
        self.causes.extend(causes);
    }
}

/// The jobs that only a person can let start, and why. No causes: there are no such jobs.
pub fn blocked(world: &World) -> Blocked {
    let mut blocked = Blocked::default();
    if world.stopping() {
        return blocked;
    }
    for (id, sweep) in world.sweeps().filter(|(_, sweep)| sweep.stopped.is_some() && sweep.counts.held > 0) {
        blocked.add(sweep.counts.held, [Cause::SweepStopped(id)]);
    }
    let pause = world.queue_pause().map(Cause::QueuePaused);
    let closes_all: Vec<Cause> = pause.into_iter().chain(world.disk_full().then_some(Cause::DiskFull)).collect();
    if !closes_all.is_empty() {
        let jobs = world.ready().values().map(count).sum();
        if jobs > 0 {
            blocked.add(jobs, closes_all);
        }
        return blocked;
    }
    of_requests(world, &mut blocked);
    blocked
}

fn of_requests(world: &World, blocked: &mut Blocked) {
    let machines = Machines::of(world);
    let mut known: BTreeMap<Request, Option<Vec<Cause>>> = BTreeMap::new();
    let mut never_fits: Option<((Place, JobId), u16)> = None;
    for (request, bucket) in world.ready() {
        if request.within.and_then(|sweep| world.sweep(sweep)).is_some_and(|sweep| sweep.is_full()) {
            continue;
        }
        let request = world.resolved(request);
        let Some(causes) = known.entry(request).or_insert_with(|| machines.causes(&request)) else { continue };
        blocked.add(count(bucket), causes.iter().copied());
        let first = bucket.values().filter_map(BTreeSet::first).min().filter(|_| causes.is_empty());
        never_fits = never_fits.into_iter().chain(first.map(|first| (*first, request.gpus))).min();
    }
    blocked.causes.extend(never_fits.map(|((_, job), gpus)| Cause::NeverFits { job, gpus }));
}

fn count(bucket: &Bucket) -> u64 {
    bucket.values().map(|jobs| jobs.len() as u64).sum()
}

/// The machines as they are, and as they would be in the cases of this module.
struct Machines<'a> {
    world: &'a World,
    how: How,
    without_users: BTreeMap<MachineId, Free>,
    whole: BTreeMap<MachineId, Free>,
}

impl<'a> Machines<'a> {
    fn of(world: &'a World) -> Machines<'a> {
        let of_each = |view: fn(&Free) -> Free| world.free().iter().map(|(id, free)| (*id, view(free))).collect();
        let how = How { whole_waits: whole_wait(world), joins: world.joins() };
        Machines { world, how, without_users: of_each(Free::without_users), whole: of_each(Free::whole) }
    }

    /// Why only a person can let a job with this request start: no cause where it fits on no machine. None where it starts
    /// without one.
    fn causes(&self, request: &Request) -> Option<Vec<Cause>> {
        let fits = |machines: &BTreeMap<MachineId, Free>| place(request, machines.values(), &self.how).is_some();
        if fits(self.world.free()) {
            return None;
        }
        let waiting_helps = fits(&self.without_users);
        let mut causes = Vec::new();
        for (machine, closed) in self.world.meant_by(request.target) {
            match self.world.free().get(&machine) {
                Some(free) if waiting_helps && !self.has_idle_room(free, request) => {}
                Some(free) => causes.extend(self.of_machine(free, request)),
                // Nobody knows what a machine has that was never reached. The service's own host needs no line.
                None if machine == MachineId::LOCAL => {}
                None => causes.extend(closed.map(|why| Cause::MachineClosed { machine, why })),
            }
        }
        if waiting_helps {
            causes.retain(Cause::is_fault);
        }
        (!waiting_helps || !causes.is_empty()).then_some(causes)
    }

    /// Whether the request would start there now, were it not for faults. What runs on a machine that is away, nobody knows.
    fn has_idle_room(&self, free: &Free, request: &Request) -> bool {
        match free.closed() {
            Some(Closed::Unreachable) => free.without_users().repaired().room(request).is_some(),
            _ => free.repaired().room(request).is_some(),
        }
    }

    /// What keeps the request off a machine that it fits on.
    fn of_machine(&self, free: &Free, request: &Request) -> Vec<Cause> {
        let machine = free.machine.id;
        let whole = &self.whole[&machine];
        let may_join = self.world.joins() && whole.is_meant_by(request.target) && request.share.is_none();
        if whole.room(request).is_none() && !may_join {
            return vec![];
        }
        if let Some(why) = free.closed() {
            return vec![Cause::MachineClosed { machine, why }];
        }
        let usable = whole.open_to(request);
        let (unreadable, paused) = free.barred();
        let paused = if request.force { GpuSet::EMPTY } else { paused.minus(unreadable) };
        let unreadable = unreadable.and(usable).iter().map(|gpu| Cause::GpuUnreadable { machine, gpu });
        unreadable.chain(paused.and(usable).iter().map(|gpu| Cause::GpuPaused { machine, gpu })).collect()
    }
}
