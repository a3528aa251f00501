//! Several machines: what is decided where, beyond what the scenarios tell.

use std::sync::Arc;
use std::time::Duration;

use nexus_core::apply::{self, Command, Refusal, Report};
use nexus_core::check::check;
use nexus_core::decide::{decide, reserved};
use nexus_core::event::{Event, Needs, NewJob};
use nexus_core::explain::Explainer;
use nexus_core::forecast::Forecast;
use nexus_core::ids::{ClassId, JobId, MachineId, RunId};
use nexus_core::job::{End, KillReason};
use nexus_core::machine::{Gpu, Machine, Shares, Sharing, Standing};
use nexus_core::policy::Policy;
use nexus_core::reconcile::{Effect, Seen, reconcile};
use nexus_core::request::{Request, Same, Share, Target, Vram};
use nexus_core::run::{Lease, Outcome};
use nexus_core::time::Time;
use nexus_core::waiting::Waiting;
use nexus_core::world::World;

const NOW: Time = Time(1_000_000);
const CLASS: ClassId = ClassId(1);
const M1: MachineId = MachineId(1);
const M2: MachineId = MachineId(2);

fn machine(id: MachineId, gpus: u16, memory_mib: u64) -> Machine {
    let gpu = |index| Gpu {
        index,
        uuid: format!("GPU-{index}"),
        memory_mib,
        free_mib: memory_mib,
        simulated: true,
        ..Gpu::default()
    };
    Machine {
        id,
        name: format!("m{}", id.0),
        cpus: 8,
        ram_mib: 1000,
        gpus: (0..gpus).map(gpu).collect(),
        ..Machine::default()
    }
}

/// The own host, and one machine of another class with as many GPUs.
fn pool(gpus: u16) -> World {
    let mut world = World::default();
    read(&mut world, machine(MachineId::LOCAL, gpus, 1000));
    add(&mut world, M1, Some(CLASS));
    read(&mut world, machine(M1, gpus, 1000));
    world
}

fn add(world: &mut World, machine: MachineId, class: Option<ClassId>) {
    let standing = Standing { class, ..Standing::default() };
    ask(world, Command::AddMachine { machine, standing });
}

fn ask(world: &mut World, command: Command) -> Vec<Event> {
    let events = apply::command(world, command, NOW).expect("nothing is in its way");
    check(world).unwrap();
    events
}

fn read(world: &mut World, machine: Machine) {
    apply::report(world, Report::Machine(machine), &Policy::default(), NOW);
}

fn id(number: u64) -> JobId {
    JobId::from_number(3, number)
}

fn job(number: u64, request: Request) -> NewJob {
    let needs = Needs { request, same: Same(number as i64), ..Needs::default() };
    NewJob { id: id(number), needs: needs.into(), sweep: None, priority: 0, held: false, at: NOW }
}

fn gpus(gpus: u16, target: Target) -> Request {
    Request { gpus, target, ..Request::default() }
}

fn half(target: Target) -> Request {
    Request { share: Some(Share { milli: 500, vram: Vram::Unsaid }), ..gpus(1, target) }
}

/// What is planned at once, job by job.
fn submit(world: &mut World, jobs: Vec<NewJob>) -> Vec<(JobId, Lease)> {
    ask(world, Command::Submit(jobs));
    let events = decide(world, &Policy::default(), NOW);
    check(world).unwrap();
    let planned = events.into_iter().filter_map(|event| match event {
        Event::Planned { run, lease, .. } => Some((run.job, lease)),
        _ => None,
    });
    planned.collect()
}

fn why(world: &World, number: u64) -> Option<Waiting> {
    Explainer::new(world, &Policy::default(), NOW).job(id(number))
}

#[test]
fn where_shares_go_depends_on_those_who_wait_for_the_same_machines() {
    let here = Target::Default;
    for (target, packs) in [(Target::Class(CLASS), false), (Target::Machine(M1), false), (here, true)] {
        let mut world = pool(2);
        submit(&mut world, vec![job(0, half(here))]);
        // It is more than its machines have: it waits on.
        let planned = submit(&mut world, vec![job(1, gpus(3, target)), job(2, half(here))]);
        let together = planned[0].1.gpus.contains(0);
        assert_eq!(together, packs, "{target:?}");
    }
}

#[test]
fn shares_are_packed_only_where_they_may_be() {
    let packs = |id: u32| Machine {
        sharing: Sharing { order: Shares::Pack, ..Sharing::default() },
        ..machine(MachineId(id), 2, 1000)
    };
    let mut world = World::default();
    (0..5).for_each(|id| {
        add(&mut world, MachineId(id), Some(ClassId::DEFAULT));
        read(&mut world, packs(id));
    });
    let requests = [(half(Target::Default), 1), (half(Target::Class(CLASS)), 1)].into_iter().collect();
    world = world.with_requests(&requests);
    let on = |planned: Vec<(JobId, Lease)>| planned.into_iter().map(|(_, lease)| lease.machine.0).collect::<Vec<_>>();
    assert_eq!(on(submit(&mut world, vec![job(0, half(Target::Default))])), [0]);
    // The costs of a place are remembered: they must not outlive what is decided about machines.
    ask(&mut world, Command::MoveMachines { machines: vec![MachineId(3)], class: Some(CLASS) });
    ask(&mut world, Command::PauseMachines { machines: vec![MachineId::LOCAL] });
    ask(&mut world, Command::RemoveMachine { machine: M1, drain: false, kill: false });
    let five = (1..6).map(|number| job(number, half(Target::Default))).collect();
    assert_eq!(on(submit(&mut world, five)), [2, 2, 2, 2, 4], "one after another");
    assert_eq!(on(submit(&mut world, vec![job(6, half(Target::Class(CLASS)))])), [3]);
    read(&mut world, Machine { reachable: false, ..packs(3) });
    assert_eq!(on(submit(&mut world, vec![job(7, half(Target::Class(CLASS)))])), [0; 0]);
    ask(&mut world, Command::ResumeMachines { machines: vec![MachineId::LOCAL] });
    ask(&mut world, Command::PauseMachines { machines: vec![MachineId(4)] });
    assert_eq!(on(submit(&mut world, vec![job(8, half(Target::Default))])), [0]);
}

#[test]
fn memory_is_learned_for_the_machines_that_are_meant() {
    let mut world = pool(1);
    add(&mut world, M2, Some(CLASS));
    read(&mut world, machine(M2, 1, 4000));
    world.learn(Same(7), 2000, None);
    let share = Some(Share { milli: 0, vram: Vram::Learned(Same(7)) });
    let resolved = |target| world.resolved(&Request { share, ..gpus(1, target) }).share.map(|share| share.vram);
    // What no GPU has of those that it may have, it asks for as a whole.
    assert_eq!(resolved(Target::Default), None);
    assert_eq!(resolved(Target::Machine(M1)), None);
    assert_eq!(resolved(Target::Class(CLASS)), Some(Vram::Mib(2200)));
    read(&mut world, Machine { reachable: false, ..machine(M2, 1, 4000) });
    let there = Request { share, ..gpus(1, Target::Machine(M2)) };
    assert!(world.resolved(&there).share.is_some(), "it has its memory, reached or not");
}

#[test]
fn nothing_is_kept_for_a_job_whose_machines_take_none() {
    let limit = |number, gpu_count, target, seconds| {
        let mut new = job(number, gpus(gpu_count, target));
        Arc::make_mut(&mut new.needs).limit = Some(Duration::from_secs(seconds));
        new
    };
    let mut world = pool(2);
    add(&mut world, M2, Some(ClassId::DEFAULT));
    read(&mut world, machine(M2, 1, 1000));
    submit(&mut world, vec![limit(0, 1, Target::Machine(MachineId::LOCAL), 60)]);
    let closed = [
        Command::PauseMachines { machines: vec![MachineId::LOCAL] },
        Command::MoveMachines { machines: vec![MachineId::LOCAL], class: Some(CLASS) },
    ];
    for close in closed {
        let mut world = world.clone();
        ask(&mut world, close.clone());
        ask(&mut world, Command::Submit(vec![limit(1, 2, Target::Default, 60)]));
        assert!(reserved(&world, &Policy::default(), NOW).is_none(), "{close:?}");
    }
    submit(&mut world, vec![limit(1, 2, Target::Default, 60)]);
    assert_eq!(reserved(&world, &Policy::default(), NOW).map(|it| it.job), Some(id(1)), "while it is open");
    // What is kept is kept where it may be: other machines are not touched.
    let planned = submit(&mut world, vec![limit(2, 1, Target::Default, 900), limit(3, 1, Target::Default, 900)]);
    assert_eq!(planned.iter().map(|(job, lease)| (*job, lease.machine)).collect::<Vec<_>>(), [(id(2), M2)]);
}

#[test]
fn a_forecast_knows_which_machines_take_what() {
    let mut world = pool(1);
    submit(&mut world, vec![job(0, gpus(1, Target::Default))]);
    ask(&mut world, Command::Submit(vec![job(1, gpus(1, Target::Class(CLASS))), job(2, gpus(1, Target::Default))]));
    let expected = |world: &World| Forecast::of(world, &Policy::default(), NOW, 9, &[]).play();
    assert!(expected(&world).contains_key(&id(1)) && !expected(&world).contains_key(&id(2)));
    ask(&mut world, Command::PauseMachines { machines: vec![M1] });
    assert!(!expected(&world).contains_key(&id(1)));
}

#[test]
fn the_own_host_needs_no_reading_to_be_looked_at() {
    let mut world = pool(2);
    let driver = Request { driver: true, ..gpus(0, Target::Machine(M1)) };
    submit(&mut world, vec![job(0, gpus(1, Target::Default)), job(1, driver)]);
    add(&mut world, M2, None);
    read(&mut world, machine(M2, 1, 1000));
    submit(&mut world, vec![job(2, gpus(1, Target::Machine(M2)))]);
    let standings: Vec<_> = world.standings().collect();
    let mut restored = World::restore(world.jobs().cloned(), None, 9).with_machines(standings);
    check(&restored).unwrap();
    let run = |number| RunId { job: id(number), number: 1 };
    let look = |number, machine| Effect::Observe { run: run(number), machine, ran: false };
    let mut seen = Seen::default();
    assert_eq!(reconcile(&restored, &mut seen), [look(0, MachineId::LOCAL), look(1, MachineId::LOCAL)]);
    read(&mut restored, machine(M2, 1, 1000));
    assert_eq!(reconcile(&restored, &mut seen), [look(2, M2)]);
}

#[test]
fn a_driver_goes_on_when_its_machine_is_removed_out_of_reach() {
    let mut world = pool(1);
    let driver = Request { driver: true, ..gpus(0, Target::Machine(M1)) };
    submit(&mut world, vec![job(0, driver)]);
    read(&mut world, Machine { reachable: false, ..machine(M1, 1, 1000) });
    let busy = Refusal::MachineBusy { machine: M1, runs: 1 };
    let remove = |kill| Command::RemoveMachine { machine: M1, drain: false, kill };
    assert_eq!(apply::command(&mut world, remove(false), NOW), Err(busy));
    // Its processes are here, and their end is to be heard.
    assert_eq!(ask(&mut world, remove(true)).len(), 2);
    let run = RunId { job: id(0), number: 1 };
    let outcome = Outcome::Stopped { code: None, signal: Some(15) };
    let events = apply::report(&mut world, Report::Ended { run, outcome, at: NOW }, &Policy::default(), NOW);
    let killed = Event::JobEnded { job: id(0), end: End::Killed(KillReason::User), at: NOW };
    assert_eq!(events[1..], [killed, Event::MachineRemoved { machine: M1 }]);
}

#[test]
fn a_driver_shares_with_nobody_and_says_what_it_waits_for() {
    let driver = Request { driver: true, ..gpus(1, Target::Machine(M1)) };
    let gpu = |number| job(number, half(Target::Machine(M1)));
    let cpu = |number| job(number, Request { cpus: 2, ..gpus(0, Target::Machine(M1)) });
    let ram = |number| job(number, Request { ram_mib: 300, ..gpus(0, Target::Machine(M1)) });
    for (other, expected) in [
        (gpu(0), "needs 2 GPUs"),
        (cpu(0), "Cpus { need: 8, free: 6 }"),
        (ram(0), "Ram { need_mib: 1000, free_mib: 700 }"),
    ] {
        let mut world = pool(2);
        submit(&mut world, vec![other, job(1, driver)]);
        let said = match why(&world, 1).expect("it waits") {
            Waiting::Gpus { request, .. } => format!("needs {} GPUs", request.gpus),
            other => format!("{other:?}"),
        };
        assert_eq!(said, expected);
    }
    // A share of its own would not help: it has all.
    let mut world = pool(2);
    let planned = submit(&mut world, vec![job(0, Request { driver: true, ..half(Target::Machine(M1)) }), gpu(1)]);
    assert_eq!(planned.len(), 1);
    let lease = &planned[0].1;
    assert_eq!((lease.machine, lease.runs_on(), lease.gpus.len(), lease.share), (M1, MachineId::LOCAL, 2, None));
    // Another card that appears is its too.
    read(&mut world, machine(M1, 3, 1000));
    check(&world).unwrap();
    assert_eq!(submit(&mut world, vec![]), []);
}
