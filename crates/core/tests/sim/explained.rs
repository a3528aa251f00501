//! The property of explanations: for every waiting job, taking away the obstacle that it names lets it start or names
//! another one; never the same answer again, and it comes to an end.
//!
//! Obstacles are taken away one kind at a time, in a copy of the World, by what happens to it from outside: runs end,
//! pauses are resumed, readings change. What no machine has is given to the machines.

use std::collections::BTreeSet;

use nexus_core::apply::{self, Report};
use nexus_core::decide::decide;
use nexus_core::event::{Event, PausedBy};
use nexus_core::explain::Explainer;
use nexus_core::free::GpuCount;
use nexus_core::ids::{ClassId, JobId, MachineId, RunId};
use nexus_core::job::{End, State};
use nexus_core::machine::{Gpu, Machine, Obstacle, Standing};
use nexus_core::policy::Policy;
use nexus_core::request::{Request, Share, Target, Vram};
use nexus_core::run::{Outcome, Run};
use nexus_core::time::Time;
use nexus_core::waiting::Waiting;
use nexus_core::world::World;

use crate::chance::Chance;

/// More than any answer of the story needs: each round takes something away for good.
const MOST_ROUNDS: usize = 60;

/// Looks at up to `most` of the waiting jobs.
pub fn explanations_lead_to_a_start(world: &World, chance: &mut Chance, now: Time, most: usize) {
    let mut waiting: Vec<JobId> = world.jobs().filter(|job| job.state.waits()).map(|job| job.id).collect();
    chance.shuffle(&mut waiting);
    for job in waiting.into_iter().take(most) {
        let mut model = Model { world: world.clone(), now, job };
        if chance.one_in(3) {
            model.gets_a_second_machine(chance);
        }
        model.leads_to_a_start();
    }
}

struct Model {
    world: World,
    now: Time,
    job: JobId,
}

impl Model {
    fn leads_to_a_start(&mut self) {
        // Nobody else takes what falls free.
        let others = self.world.jobs().filter(|job| job.id != self.job && matches!(job.state, State::Queued { .. }));
        for job in others.map(|job| job.id).collect::<Vec<_>>() {
            self.world.record(&Event::Held { job });
        }
        let mut said = Vec::new();
        while let Some(answer) = self.why() {
            assert!(said.last() != Some(&answer), "{}: the same again: {said:#?}", self.job);
            assert!(said.len() < MOST_ROUNDS, "{}: no end of reasons: {said:#?}", self.job);
            said.push(answer.clone());
            if answer == Waiting::Next {
                let planned = decide(&mut self.world, &Policy::default(), self.now);
                let starts = planned.iter().any(|it| matches!(it, Event::Planned { run, .. } if run.job == self.job));
                assert!(starts, "{} is said to start next, and does not: {said:#?}", self.job);
            } else if !self.take_away(&answer) {
                return;
            }
        }
    }

    /// As after a decision, which lets in those whose time has come.
    fn why(&mut self) -> Option<Waiting> {
        self.world.advance(self.now);
        Explainer::new(&self.world, &Policy::default(), self.now).job(self.job)
    }

    /// False where nothing that happens to this process could.
    fn take_away(&mut self, answer: &Waiting) -> bool {
        match answer {
            Waiting::Held => self.world.record(&Event::Released { job: self.job }),
            Waiting::SweepStopped(_) => {
                let sweep = self.world.job(self.job).and_then(|job| job.sweep).expect("it is of a sweep");
                self.world.record(&Event::SweepReleased { sweep });
                self.world.record(&Event::Released { job: self.job });
            }
            Waiting::SweepFull { running, limit } => {
                assert!(running >= &u64::from(*limit), "{running} of its sweep run, and {limit} may");
                let sweep = self.world.job(self.job).and_then(|job| job.sweep);
                let of_it: BTreeSet<JobId> =
                    self.world.jobs().filter(|job| job.sweep == sweep).map(|job| job.id).collect();
                self.runs_end(|run| of_it.contains(&run.id.job));
            }
            Waiting::QueuePaused(_) => self.world.record(&Event::QueueResumed),
            Waiting::DiskFull => self.world.record(&Event::DiskFull { full: false }),
            Waiting::Stopping => return false,
            Waiting::Retry { until } | Waiting::Delayed { until } => {
                assert!(*until > self.now, "{} waits for {until:?}, and it is {:?}", self.job, self.now);
                self.now = *until;
            }
            Waiting::After { jobs, count } => {
                assert_eq!(*count, self.world.parents(self.job).len() as u64, "{} comes after {jobs:?}", self.job);
                assert!(!jobs.is_empty(), "{} comes after nobody", self.job);
                jobs.iter().for_each(|parent| self.completes(*parent));
            }
            Waiting::Gpus { request, count } => self.gpus_fall_free(request, count),
            Waiting::NoSuchGpus { request, count } => return self.machines_get_gpus(request, count),
            Waiting::Cpus { need, free } => {
                assert!(free < need, "{} needs {need} CPUs and has {free}", self.job);
                let is_driver = self.world.job(self.job).is_some_and(|job| job.request.driver);
                self.runs_end(|run| run.lease.cpus > 0 || run.lease.driver || is_driver);
            }
            Waiting::Ram { need_mib, free_mib } => {
                assert!(*free_mib < u64::from(*need_mib), "{} needs {need_mib} MiB and has {free_mib}", self.job);
                self.runs_end(|run| run.lease.ram_mib > 0 || run.lease.driver);
            }
            Waiting::NoSuchCpus { need, exist } => {
                assert!(exist < need, "{} needs {need} CPUs of {exist}", self.job);
                self.machines(|machine| machine.cpus = machine.cpus.max(*need));
            }
            Waiting::NoSuchRam { need_mib, exist_mib } => {
                assert!(*exist_mib < u64::from(*need_mib), "{} needs {need_mib} MiB of {exist_mib}", self.job);
                self.machines(|machine| machine.ram_mib = machine.ram_mib.max((*need_mib).into()));
            }
            Waiting::NoSuchMachines { target } => self.a_machine_comes(*target),
            Waiting::Machines { target, unreachable, paused, quarantined } => {
                assert!(unreachable + paused + quarantined > 0, "{} waits for no machine", self.job);
                self.machines_open(*target, *unreachable > 0);
            }
            Waiting::Kept { .. } => unreachable!("nobody else waits"),
            Waiting::ClusterFull { .. } => unreachable!("there is no cluster"),
            Waiting::Next => unreachable!("nothing is in the way"),
        }
        true
    }

    /// The first kind of obstacle that is counted.
    fn gpus_fall_free(&mut self, request: &Request, count: &GpuCount) {
        assert!(count.free < request.gpus, "{} needs {} GPUs, {} are free", self.job, request.gpus, count.free);
        self.counts_each_once(request, count);
        let allowed = |index| request.on.is_none_or(|on| on.contains(index));
        let on_them = |run: &Run| run.lease.gpus.iter().any(allowed);
        if count.held > 0 {
            self.runs_end(|run| run.lease.share.is_none() && on_them(run) || run.lease.driver);
        } else if count.shared + count.full > 0 {
            self.runs_end(|run| run.lease.share.is_some() && on_them(run));
        } else if count.low_memory > 0 {
            self.gpus(allowed, |gpu| (gpu.free_mib, gpu.used) = (gpu.memory_mib, vec![]));
        } else if count.busy > 0 {
            self.gpus(allowed, |gpu| gpu.busy = false);
        } else if count.outside > 0 {
            let outside = |it: &Obstacle| matches!(it, Obstacle::InUse | Obstacle::Locked);
            self.gpus(allowed, |gpu| gpu.obstacle = gpu.obstacle.filter(|it| !outside(it)));
        } else if count.unreadable > 0 {
            self.gpus(allowed, |gpu| gpu.obstacle = gpu.obstacle.filter(|it| *it != Obstacle::Unreadable));
        } else if request.driver && count.paused == 0 {
            // Others are on GPUs that it could not have itself.
            self.runs_end(|_| true);
        } else {
            assert!(count.paused > 0, "{} waits for GPUs, and nothing is in the way: {count:?}", self.job);
            self.resume(allowed);
        }
    }

    /// What is said never to come is made to come, kind by kind; then more GPUs.
    fn machines_get_gpus(&mut self, request: &Request, count: &GpuCount) -> bool {
        assert!(count.exist() < request.gpus, "{} needs {} GPUs of {count:?}", self.job, request.gpus);
        self.counts_each_once(request, count);
        let lasting = |it: Obstacle| matches!(it, Obstacle::Mig | Obstacle::LeftOut);
        let wanted = wanted_mib(request);
        if !count.mig.union(count.left_out).is_empty() {
            let all = count.mig.union(count.left_out);
            self.gpus(|index| all.contains(index), |gpu| gpu.obstacle = gpu.obstacle.filter(|it| !lasting(*it)));
        } else if !count.other_model.is_empty() {
            let model = request.model.expect("a model is asked for");
            self.gpus(|index| count.other_model.contains(index), |gpu| gpu.name = model.as_str().into());
        } else if !count.too_small.is_empty() {
            self.gpus(
                |index| count.too_small.contains(index),
                |gpu| {
                    // That of another machine may be larger.
                    if gpu.memory_mib < wanted {
                        (gpu.memory_mib, gpu.free_mib) = (wanted, wanted);
                    }
                },
            );
        } else {
            // Asked for more than the GPUs it names: no machine can help.
            if request.on.is_some_and(|on| on.len() < usize::from(request.gpus)) {
                return false;
            }
            self.machines(|machine| grow(machine, request));
        }
        true
    }

    /// Every GPU that the request allows is counted once, on one of the machines.
    fn counts_each_once(&self, request: &Request, count: &GpuCount) {
        let never = [count.mig, count.left_out, count.other_model, count.too_small];
        let counted = usize::from(count.exist()) + never.iter().map(|set| set.len()).sum::<usize>();
        let allowed = |machine: &Machine| {
            machine.gpus.iter().filter(|gpu| request.on.is_none_or(|on| on.contains(gpu.index))).count()
        };
        let somewhere = self.world.machines().any(|machine| allowed(machine) == counted);
        assert!(somewhere || counted == 0, "{counted} GPUs are counted for {request:?}: {count:?}");
    }

    fn completes(&mut self, job: JobId) {
        let parents: Vec<JobId> = self.world.parents(job).iter().map(|parent| parent.job).collect();
        parents.into_iter().for_each(|parent| self.completes(parent));
        match self.world.job(job).map(|job| job.state.clone()) {
            None => return,
            Some(State::Active(run)) => self.ends(run.id),
            Some(_) => {}
        }
        self.world.record(&Event::JobEnded { job, end: End::Completed, at: self.now });
    }

    fn ends(&mut self, run: RunId) {
        self.world.record(&Event::RunEnded { run, outcome: Outcome::Exited { code: 0 }, at: self.now });
    }

    fn runs_end(&mut self, which: impl Fn(&Run) -> bool) {
        let ending: Vec<RunId> = self.world.active_runs().filter(|run| which(run)).map(|run| run.id).collect();
        for run in ending {
            self.ends(run);
            self.world.record(&Event::JobEnded { job: run.job, end: End::Completed, at: self.now });
        }
    }

    fn resume(&mut self, allowed: impl Fn(u16) -> bool) {
        let machines: Vec<Machine> = self.world.machines().cloned().collect();
        for Machine { id: machine, gpus, .. } in machines {
            let paused = self.world.paused_gpus(machine);
            for Gpu { index, uuid, .. } in
                gpus.into_iter().filter(|gpu| paused.contains(gpu.index) && allowed(gpu.index))
            {
                self.world.record(&Event::GpuResumed { machine, index, uuid, by: PausedBy::User });
            }
        }
    }

    fn gpus(&mut self, which: impl Fn(u16) -> bool, change: impl Fn(&mut Gpu)) {
        self.machines(|machine| machine.gpus.iter_mut().filter(|gpu| which(gpu.index)).for_each(&change));
    }

    fn machines(&mut self, change: impl Fn(&mut Machine)) {
        for mut machine in self.world.machines().cloned().collect::<Vec<_>>() {
            change(&mut machine);
            apply::report(&mut self.world, Report::Machine(machine), &Policy::default(), self.now);
        }
    }

    /// One that nobody has read yet.
    fn a_machine_comes(&mut self, target: Target) {
        let (machine, class) = match target {
            Target::Default => (MachineId(98), Some(ClassId::DEFAULT)),
            Target::Class(class) => (MachineId(98), Some(class)),
            Target::Machine(machine) => (machine, None),
        };
        self.world.record(&Event::MachineAdded { machine, standing: Standing { class, ..Standing::default() } });
    }

    /// Lines to those that are meant are mended; else whatever was decided about them is taken back.
    fn machines_open(&mut self, target: Target, mend: bool) {
        let own = (MachineId::LOCAL, self.world.standing(MachineId::LOCAL));
        let meant = self.world.standings().chain([own]).filter(|(machine, it)| target.allows(*machine, it.class));
        for (machine, Standing { class, .. }) in meant.collect::<Vec<_>>() {
            let known = self.world.machines().find(|known| known.id == machine).cloned();
            if mend {
                let unread = Machine { id: machine, cpus: 4, ram_mib: 1000, ..Machine::default() };
                let read = Machine { reachable: true, ..known.unwrap_or(unread) };
                apply::report(&mut self.world, Report::Machine(read), &Policy::default(), self.now);
            } else {
                self.world
                    .record(&Event::MachineAdded { machine, standing: Standing { class, ..Standing::default() } });
            }
        }
    }

    /// Some of the GPUs again, with other obstacles, and other amounts of the rest.
    fn gets_a_second_machine(&mut self, chance: &mut Chance) {
        let Some(first) = self.world.machines().next().cloned() else { return };
        let obstacles = [None, None, None, Some(Obstacle::InUse), Some(Obstacle::Unreadable), Some(Obstacle::Mig)];
        let gpus = first.gpus.into_iter().filter(|_| !chance.one_in(3)).collect::<Vec<_>>();
        let gpu = |gpu: Gpu| Gpu { obstacle: chance.pick(&obstacles), used: vec![], busy: chance.one_in(4), ..gpu };
        let gpus = gpus.into_iter().map(gpu).collect();
        let (cpus, ram_mib) = (chance.below(8) as u32, chance.below(2000));
        let second = Machine { id: MachineId(99), name: "second".into(), cpus, ram_mib, gpus, ..first };
        self.world.record(&Event::MachineAdded { machine: second.id, standing: Standing::default() });
        apply::report(&mut self.world, Report::Machine(second), &Policy::default(), self.now);
    }
}

fn wanted_mib(request: &Request) -> u64 {
    match request.share {
        Some(Share { vram: Vram::Mib(mib), .. }) => mib.into(),
        _ => 0,
    }
}

/// As many GPUs as the request needs, with all that it asks of them.
fn grow(machine: &mut Machine, request: &Request) {
    for index in (0..).filter(|index| request.on.is_none_or(|on| on.contains(*index))).take(request.gpus.into()) {
        if machine.gpus.iter().all(|gpu| gpu.index != index) {
            let memory_mib = wanted_mib(request).max(1024);
            let name = request.model.map_or("Pretend".into(), |model| model.as_str().to_string());
            let uuid = format!("new-{index}");
            machine.gpus.push(Gpu { index, uuid, name, memory_mib, free_mib: memory_mib, ..Gpu::default() });
        }
    }
}
