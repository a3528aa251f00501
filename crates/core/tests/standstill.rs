//! Which reasons to wait only a person can end, and which end by themselves.
#![allow(clippy::result_large_err, reason = "what a table compares is not passed on")]

use std::collections::BTreeSet;

use nexus_core::apply::{self, Command, Report};
use nexus_core::decide::decide;
use nexus_core::event::{Event, Needs, NewJob, Parent, QueuePause};
use nexus_core::free::Closed;
use nexus_core::ids::{ClassId, JobId, MachineId, RunId, SweepId};
use nexus_core::machine::{Gpu, Machine, Obstacle, Quarantine, Standing};
use nexus_core::policy::Policy;
use nexus_core::request::{GpuSet, Request, Target};
use nexus_core::run::Outcome;
use nexus_core::standstill::{Blocked, Cause, blocked};
use nexus_core::sweep::InSweep;
use nexus_core::time::Time;
use nexus_core::world::World;

const NOW: Time = Time(1_000_000);
const CLASS: ClassId = ClassId(1);
const LOCAL: MachineId = MachineId::LOCAL;
const FAR: MachineId = MachineId(1);

/// The service's own host with two GPUs, and a machine of another class with two more.
struct Stage {
    world: World,
    next: u64,
}

impl Stage {
    fn new() -> Stage {
        let mut stage = Stage { world: World::default(), next: 0 };
        stage.ask(Command::AddMachine {
            machine: FAR,
            standing: Standing { class: Some(CLASS), ..Standing::default() },
        });
        stage.gpus(LOCAL, [None, None]);
        stage.gpus(FAR, [None, None]);
        stage
    }

    fn ask(&mut self, command: Command) {
        apply::command(&mut self.world, command, NOW).expect("nothing is in its way");
    }

    fn report(&mut self, report: Report) {
        apply::report(&mut self.world, report, &Policy::default(), NOW);
    }

    fn machine(id: MachineId, obstacles: [Option<Obstacle>; 2]) -> Machine {
        let gpu = |(index, obstacle)| Gpu { index, uuid: format!("GPU-{}-{index}", id.0), obstacle, ..Gpu::default() };
        let gpus = (0..).zip(obstacles).map(gpu).collect();
        Machine { id, name: format!("m{}", id.0), cpus: 8, ram_mib: 1000, gpus, ..Machine::default() }
    }

    fn gpus(&mut self, id: MachineId, obstacles: [Option<Obstacle>; 2]) {
        self.report(Report::Machine(Stage::machine(id, obstacles)));
    }

    fn lost(&mut self, id: MachineId) {
        self.report(Report::Machine(Machine { reachable: false, ..Stage::machine(id, [None, None]) }));
    }

    /// Queues jobs with this request, and decides.
    fn add(&mut self, count: u64, request: Request) {
        let needs = Needs { request, ..Needs::default() };
        let jobs = (0..count).map(|_| self.job(needs.clone())).collect();
        self.ask(Command::Submit(jobs));
        self.decide();
    }

    fn job(&mut self, needs: Needs) -> NewJob {
        self.next += 1;
        let id = JobId::from_number(3, self.next);
        NewJob { id, needs: needs.into(), sweep: None, priority: 0, held: false, at: NOW }
    }

    fn decide(&mut self) -> Vec<Event> {
        decide(&mut self.world, &Policy::default(), NOW)
    }
}

fn gpus(gpus: u16) -> Request {
    Request { gpus, ..Request::default() }
}

fn far(gpus: u16) -> Request {
    Request { gpus, target: Target::Class(CLASS), ..Request::default() }
}

fn unreadable(machine: MachineId, gpu: u16) -> Cause {
    Cause::GpuUnreadable { machine, gpu }
}

fn closed(why: Closed) -> Cause {
    Cause::MachineClosed { machine: FAR, why }
}

fn set(indices: &[u16]) -> GpuSet {
    indices.iter().copied().collect()
}

/// A case: what happens, the jobs that wait for a person, and for what.
type Case = (&'static str, fn(&mut Stage), u64, fn() -> Vec<Cause>);

const LOST: Option<Obstacle> = Some(Obstacle::Unreadable);

/// Reasons that end by themselves.
const PASSES: &[Case] = &[
    ("nothing waits", |stage| stage.lost(FAR), 0, Vec::new),
    ("our own runs have the GPUs", |stage| stage.add(5, gpus(1)), 0, Vec::new),
    (
        "others use the GPUs",
        |stage| {
            stage.gpus(LOCAL, [Some(Obstacle::InUse), Some(Obstacle::Locked)]);
            stage.add(1, gpus(1));
        },
        0,
        Vec::new,
    ),
    (
        "one GPU is paused, and the other has a run",
        |stage| {
            stage.ask(Command::PauseGpus { machine: LOCAL, gpus: set(&[1]) });
            stage.add(2, gpus(1));
        },
        0,
        Vec::new,
    ),
    (
        "held by a user",
        |stage| {
            let job = stage.job(Needs::default());
            stage.ask(Command::Submit(vec![NewJob { held: true, ..job }]));
        },
        0,
        Vec::new,
    ),
    (
        "after another job",
        |stage| {
            stage.add(2, gpus(1));
            let parent = Parent { job: JobId::from_number(3, 1), any_end: false };
            let job = stage.job(Needs { after: vec![parent], ..Needs::default() });
            stage.ask(Command::Submit(vec![job]));
            stage.ask(Command::PauseQueue);
        },
        0,
        Vec::new,
    ),
    (
        "the wait before another attempt",
        |stage| {
            let job = stage.job(Needs { request: gpus(1), retries: 1, ..Needs::default() });
            let run = RunId { job: job.id, number: 1 };
            stage.ask(Command::Submit(vec![job]));
            stage.decide();
            stage.report(Report::Ended { run, outcome: Outcome::Exited { code: 1 }, at: NOW });
            stage.ask(Command::PauseQueue);
        },
        0,
        Vec::new,
    ),
    (
        "as many of a sweep run as may",
        |stage| {
            let sweep = Some(InSweep { id: SweepId(1), max_running: Some(1), stop_after: 0 });
            let jobs = (0..2).map(|_| stage.job(Needs { request: gpus(1), ..Needs::default() }));
            let jobs = jobs.map(|job| NewJob { sweep, ..job }).collect();
            stage.ask(Command::Submit(jobs));
            stage.decide();
            stage.gpus(LOCAL, [None, LOST]);
        },
        0,
        Vec::new,
    ),
    (
        "the service stops",
        |stage| {
            stage.ask(Command::PauseQueue);
            stage.add(1, gpus(1));
            stage.ask(Command::Stop { kill: false });
        },
        0,
        Vec::new,
    ),
    (
        "a lost GPU that a run of ours is on",
        |stage| {
            stage.add(3, gpus(1));
            stage.gpus(LOCAL, [LOST, None]);
        },
        0,
        Vec::new,
    ),
];

/// Reasons that a person must end.
const PERSONS: &[Case] = &[
    (
        "the queue is paused",
        |stage| {
            stage.ask(Command::PauseQueue);
            stage.add(3, gpus(1));
        },
        3,
        || vec![Cause::QueuePaused(QueuePause::ByUser)],
    ),
    (
        "the disk is full",
        |stage| {
            stage.report(Report::Disk { full: true });
            stage.add(2, gpus(0));
        },
        2,
        || vec![Cause::DiskFull],
    ),
    (
        "no GPU can be read",
        |stage| {
            stage.gpus(LOCAL, [LOST, LOST]);
            stage.add(2, gpus(1));
        },
        2,
        || vec![unreadable(LOCAL, 0), unreadable(LOCAL, 1)],
    ),
    (
        "a lost GPU, while a run has the other",
        |stage| {
            stage.gpus(LOCAL, [None, LOST]);
            stage.add(2, gpus(1));
        },
        1,
        || vec![unreadable(LOCAL, 1)],
    ),
    (
        "a job of two GPUs, of which one is lost and one is paused",
        |stage| {
            stage.gpus(LOCAL, [None, LOST]);
            stage.ask(Command::PauseGpus { machine: LOCAL, gpus: set(&[0]) });
            stage.add(1, gpus(2));
        },
        1,
        || vec![unreadable(LOCAL, 1), Cause::GpuPaused { machine: LOCAL, gpu: 0 }],
    ),
    (
        "all GPUs are paused",
        |stage| {
            stage.ask(Command::PauseGpus { machine: LOCAL, gpus: set(&[0, 1]) });
            stage.add(1, gpus(1));
        },
        1,
        || vec![0, 1].into_iter().map(|gpu| Cause::GpuPaused { machine: LOCAL, gpu }).collect(),
    ),
    (
        "the machine that it is for is lost",
        |stage| {
            stage.lost(FAR);
            stage.add(1, far(1));
        },
        1,
        || vec![closed(Closed::Unreachable)],
    ),
    (
        "the machine that it is for is paused",
        |stage| {
            stage.ask(Command::PauseMachines { machines: vec![FAR] });
            stage.add(1, far(1));
        },
        1,
        || vec![closed(Closed::Paused)],
    ),
    (
        "the machine that it is for is quarantined",
        |stage| {
            let quarantine = Quarantine { since: NOW, failures: 3, last: JobId::from_number(3, 0) };
            stage.world.record(&Event::MachineQuarantined { machine: FAR, quarantine });
            stage.add(1, far(1));
        },
        1,
        || vec![closed(Closed::Quarantined)],
    ),
    (
        "the machine that it is for was never reached",
        |stage| {
            let machine = MachineId(2);
            let standing = Standing { class: Some(ClassId(2)), ..Standing::default() };
            stage.ask(Command::AddMachine { machine, standing });
            stage.add(1, Request { target: Target::Class(ClassId(2)), ..gpus(1) });
        },
        1,
        || vec![Cause::MachineClosed { machine: MachineId(2), why: Closed::Unreachable }],
    ),
    (
        "a machine is lost, while runs have the other of its class",
        |stage| {
            stage.ask(Command::MoveMachines { machines: vec![FAR], class: Some(ClassId::DEFAULT) });
            stage.lost(FAR);
            stage.add(3, gpus(1));
        },
        1,
        || vec![closed(Closed::Unreachable)],
    ),
    (
        "more GPUs than any machine has",
        |stage| stage.add(2, gpus(3)),
        2,
        || vec![Cause::NeverFits { job: JobId::from_number(3, 1), gpus: 3 }],
    ),
    (
        "nexus holds the rest of a sweep whose first job failed",
        |stage| {
            let sweep = Some(InSweep { id: SweepId(1), max_running: Some(1), stop_after: 1 });
            let jobs: Vec<NewJob> = (0..3).map(|_| stage.job(Needs { request: gpus(1), ..Needs::default() })).collect();
            let run = RunId { job: jobs[0].id, number: 1 };
            stage.ask(Command::Submit(jobs.into_iter().map(|job| NewJob { sweep, ..job }).collect()));
            stage.decide();
            stage.report(Report::Ended { run, outcome: Outcome::Exited { code: 1 }, at: NOW });
        },
        2,
        || vec![Cause::SweepStopped(SweepId(1))],
    ),
];

#[test]
fn each_reason_to_wait_passes_or_is_a_persons_to_end() {
    for (name, happens, jobs, causes) in PASSES.iter().chain(PERSONS) {
        let mut stage = Stage::new();
        happens(&mut stage);
        let (jobs, causes) = (*jobs, causes().into_iter().collect::<BTreeSet<Cause>>());
        assert_eq!(blocked(&stage.world), Blocked { jobs, causes }, "{name}");
    }
}

#[test]
fn faults_are_told_from_what_somebody_asked_for() {
    let faults = [Cause::DiskFull, unreadable(LOCAL, 0), closed(Closed::Unreachable), closed(Closed::Quarantined)];
    let asked = [
        Cause::QueuePaused(QueuePause::ByUser),
        Cause::SweepStopped(SweepId(1)),
        Cause::GpuPaused { machine: LOCAL, gpu: 0 },
        closed(Closed::Paused),
        Cause::NeverFits { job: JobId::from_number(3, 1), gpus: 9 },
    ];
    assert!(faults.iter().all(Cause::is_fault) && !asked.iter().any(Cause::is_fault));
}

#[test]
fn what_is_repaired_lets_the_job_start() {
    let mut stage = Stage::new();
    stage.gpus(LOCAL, [Some(Obstacle::Unreadable); 2]);
    stage.add(1, gpus(1));
    assert_eq!(blocked(&stage.world).jobs, 1);
    stage.gpus(LOCAL, [None, None]);
    assert_eq!(stage.decide().len(), 1);
    assert_eq!(blocked(&stage.world), Blocked::default());
}
