//! Tables: what an outcome makes of a job, how long a retry waits, sets of GPUs, where a request is placed.
#![allow(clippy::result_large_err, reason = "what a table compares is not passed on")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use nexus_core::apply::{Command, Edit, Refusal, Report, Revision, command, report};
use nexus_core::check::check;
use nexus_core::decide::decide;
use nexus_core::decide::place::{How, place, what_is_missing};
use nexus_core::event::{Event, Needs, NewJob, Parent, QueuePause};
use nexus_core::explain::Explainer;
use nexus_core::free::{Free, GpuCount};
use nexus_core::ids::{JobId, MachineId, RunId};
use nexus_core::job::{End, Failure, KillReason, Retries, State};
use nexus_core::machine::{Gpu, Machine, Obstacle, Standing};
use nexus_core::policy::Policy;
use nexus_core::request::{GpuSet, MAX_GPUS, Raise, Request};
use nexus_core::run::{HeldShare, Lease, Memory, Outcome, StopCause};
use nexus_core::time::Time;
use nexus_core::waiting::Waiting;
use nexus_core::world::World;

const NOW: Time = Time(1_000_000);

#[test]
fn an_outcome_and_who_asked_make_the_end() {
    let error = String::new;
    let (exit, signal) = (|code| End::Failed(Failure::Exit { code }), |signal| End::Failed(Failure::Signal { signal }));
    let killed = End::Killed(KillReason::User);
    let start_error = End::Failed(Failure::StartError);
    let timeout = End::Failed(Failure::Timeout);
    let closed = End::Failed(Failure::SessionClosed);
    let (gpu_oom, host_oom) = (End::Failed(Failure::GpuOom), End::Failed(Failure::HostOom));
    #[rustfmt::skip]
    let table = [
        // the run                                                   nobody asked               a user asked
        (Outcome::Exited { code: 0 },                                End::Completed,            End::Completed),
        (Outcome::Exited { code: 3 },                                exit(3),                   exit(3)),
        (Outcome::Exited { code: -1 },                               exit(-1),                  exit(-1)),
        (Outcome::Signaled { signal: 9 },                            signal(9),                 signal(9)),
        (Outcome::TimedOut { code: None, signal: Some(9) },          timeout.clone(),           timeout.clone()),
        (Outcome::TimedOut { code: Some(0), signal: None },          timeout.clone(),           timeout),
        (Outcome::OutOfMemory { of: Memory::Gpu, code: Some(1), signal: None }, gpu_oom.clone(),         gpu_oom),
        (Outcome::OutOfMemory { of: Memory::Host, code: None, signal: Some(9) }, host_oom.clone(),       host_oom),
        (Outcome::SessionClosed { code: Some(0), signal: None },     closed.clone(),            closed),
        (Outcome::StartError { error: error(), code: Some(127) },    start_error.clone(),       start_error.clone()),
        (Outcome::MachineError { error: error() },                   start_error.clone(),       killed.clone()),
        (Outcome::GpuLocked { uuid: error(), user: None, pid: None },start_error.clone(),       killed.clone()),
        (Outcome::Lost { error: error() },                           End::Failed(Failure::Lost), killed.clone()),
        (Outcome::Stopped { code: Some(0), signal: None },           exit(0),                   killed.clone()),
        (Outcome::Stopped { code: None, signal: Some(15) },          signal(15),                killed.clone()),
        (Outcome::Stopped { code: None, signal: None },              exit(-1),                  killed.clone()),
        (Outcome::NeverStarted,                                      start_error,               killed),
    ];
    for (outcome, alone, asked) in table {
        assert_eq!(End::of(&outcome, None), alone, "{outcome:?}, nobody asked");
        assert_eq!(End::of(&outcome, Some(StopCause::User)), asked, "{outcome:?}, a user asked");
        if let End::Killed(_) = asked {
            let stopped = End::of(&outcome, Some(StopCause::Stopped));
            assert_eq!(stopped, End::Killed(KillReason::Stopped), "{outcome:?}, the service stops");
        }
    }
}

#[test]
fn retries_cover_what_another_try_may_mend() {
    let usual = Retries { allowed: 3, ..Retries::default() };
    let on_timeout = Retries { on_timeout: true, ..usual };
    let covered = [Failure::Exit { code: 1 }, Failure::Signal { signal: 9 }, Failure::Lost, Failure::StartError];
    for failure in covered.into_iter().chain([Failure::GpuOom, Failure::HostOom]) {
        assert!(End::Failed(failure.clone()).may_be_retried(&usual), "{failure:?}");
        assert!(End::Failed(failure.clone()).may_be_retried(&on_timeout), "{failure:?}");
    }
    let kills = [KillReason::User, KillReason::Removed, KillReason::Stopped].map(End::Killed);
    let dependency = Failure::Dependency { parent: JobId::from_number(3, 0) };
    for end in kills.into_iter().chain([dependency, Failure::SessionClosed].map(End::Failed)).chain([End::Completed]) {
        assert!(!end.may_be_retried(&usual) && !end.may_be_retried(&on_timeout), "{end:?}");
    }
    assert!(!End::Failed(Failure::Timeout).may_be_retried(&usual));
    assert!(End::Failed(Failure::Timeout).may_be_retried(&on_timeout));
}

#[test]
fn the_wait_doubles_up_to_its_cap() {
    let policy = Policy::default();
    let seconds: Vec<u64> = (0..=10).map(|nth| policy.wait_before_retry(nth).as_secs()).collect();
    assert_eq!(seconds, [5, 5, 10, 20, 40, 80, 160, 320, 600, 600, 600]);
    assert_eq!(policy.wait_before_retry(u32::MAX).as_secs(), 600);
    let endless = Policy { retry_wait: Duration::MAX, retry_wait_max: Duration::MAX, ..Policy::default() };
    assert_eq!(endless.wait_before_retry(9), Duration::MAX);
    assert_eq!(NOW.after(Duration::MAX), Time(i64::MAX));
}

#[test]
fn sets_of_gpus() {
    let set = gpus(&[3, 0, 127, 0]);
    assert_eq!((set.len(), set.to_string()), (3, "0,3,127".to_string()));
    assert_eq!(set.iter().collect::<Vec<_>>(), [0, 3, 127]);
    assert!(set.contains(127) && !set.contains(1) && !set.contains(MAX_GPUS) && !set.contains(u16::MAX));
    assert_eq!(set.minus(gpus(&[0, 1])), gpus(&[3, 127]));
    assert_eq!(set.union(gpus(&[1])).len(), 4);
    assert!(set.overlaps(gpus(&[3])) && !set.overlaps(gpus(&[4])) && !set.overlaps(GpuSet::EMPTY));
    assert!(GpuSet::EMPTY.is_empty() && GpuSet::default().to_string().is_empty());
}

#[test]
fn clocks_that_are_set_back_give_no_negative_spans() {
    assert_eq!(Time(5).since(Time(9)), Duration::ZERO);
    assert_eq!(Time(9).since(Time(5)), Duration::from_millis(4));
    assert_eq!(Time(i64::MAX).since(Time(i64::MIN)), Duration::from_millis(i64::MAX as u64));
}

#[test]
fn the_fullest_machine_with_room_is_taken_and_its_lowest_gpus() {
    let machines = [(1, &[0, 1, 2, 3][..]), (2, &[1, 3]), (3, &[0])]
        .map(|(id, list)| Machine { id: MachineId(id), ..machine(list.iter().map(|index| gpu(*index)).collect()) });
    let free = machines
        .iter()
        .map(|machine| (machine.id, Free::of(Arc::new(machine.clone()), Standing::default(), GpuSet::EMPTY)))
        .collect();
    let on = |machine, list: &[u16]| Ok(Lease { machine: MachineId(machine), ..lease(list) });
    assert_eq!(placed(&request(1, 0), &free), on(3, &[0]));
    assert_eq!(placed(&request(2, 0), &free), on(2, &[1, 3]));
    assert_eq!(placed(&request(3, 0), &free), on(1, &[0, 1, 2]));
    assert_eq!(placed(&Request { on: Some(gpus(&[1, 2])), ..request(1, 0) }, &free), on(2, &[1]));
    let four = GpuCount { free: 4, most_milli: 1000, ..GpuCount::default() };
    assert_eq!(placed(&request(5, 0), &free), Err(Waiting::Gpus { request: request(5, 0), count: four }));
    assert_eq!(placed(&request(0, 9), &free), Err(Waiting::Cpus { need: 9, free: 8 }));
    let nowhere = BTreeMap::new();
    let none = GpuCount::default();
    assert_eq!(placed(&request(1, 0), &nowhere), Err(Waiting::Gpus { request: request(1, 0), count: none }));
}

#[test]
fn what_is_missing_is_of_one_machine() {
    let sized = |id, count: u16, cpus, ram_mib| Machine {
        id: MachineId(id),
        cpus,
        ram_mib,
        ..machine((0..count).map(gpu).collect())
    };
    // The first has the GPUs, the second the CPUs, the third the memory.
    let machines = [sized(1, 2, 2, 100), sized(2, 0, 64, 200), sized(3, 1, 1, 900)];
    let free = machines
        .iter()
        .map(|machine| (machine.id, Free::of(Arc::new(machine.clone()), Standing::default(), GpuSet::EMPTY)))
        .collect();
    let missing = |request: Request| placed(&request, &free).unwrap_err();
    assert_eq!(missing(request(1, 8)), Waiting::Cpus { need: 8, free: 2 });
    assert_eq!(missing(request(0, 65)), Waiting::Cpus { need: 65, free: 64 });
    let ram = |gpus, cpus, ram_mib| Request { ram_mib, ..request(gpus, cpus) };
    assert_eq!(missing(ram(1, 0, 1000)), Waiting::Ram { need_mib: 1000, free_mib: 900 });
    assert_eq!(missing(ram(2, 1, 150)), Waiting::Ram { need_mib: 150, free_mib: 100 });
    assert_eq!(missing(ram(0, 3, 300)), Waiting::Ram { need_mib: 300, free_mib: 200 });
    let Waiting::Gpus { count, .. } = missing(request(3, 0)) else { panic!("GPUs are missing") };
    assert_eq!((count.free, count.exist()), (2, 2));
}

#[test]
fn who_ran_out_of_memory_asks_for_more_than_it_had() {
    let held = |milli, vram_mib| HeldShare { milli, vram_mib };
    #[rustfmt::skip]
    let table = [
        // held                   peak  most    then
        (held(0, Some(100)),        80, 1000, Raise::Mib(150)),
        (held(0, Some(100)),       101, 1000, Raise::Mib(152)),
        (held(0, Some(100)),       600,  900, Raise::Mib(900)),
        (held(0, Some(100)),       601,  900, Raise::Alone),
        (held(0, Some(100)),         0, 1000, Raise::Alone),
        (held(500, None),          100, 1000, Raise::Alone),
        (held(500, Some(100)),     100, 1000, Raise::Alone),
        (held(0, Some(u32::MAX)),    1, u64::MAX, Raise::Mib(u32::MAX)),
    ];
    for (held, peak_mib, most_mib, then) in table {
        assert_eq!(held.raise(peak_mib, most_mib), then, "{held:?}, {peak_mib} of {most_mib}");
    }
}

#[test]
fn one_change_may_take_out_a_job_and_let_another_come_after_it() {
    let id = |number| JobId::from_number(3, number);
    let edit = |job, after: &[(JobId, bool)]| {
        let after = after.iter().map(|(job, any_end)| Parent { job: *job, any_end: *any_end }).collect();
        Edit {
            job,
            needs: Some(Needs { request: request(1, 0), after, ..Needs::default() }),
            priority: None,
            held: None,
        }
    };
    let mut world = paused(busy(0));
    command(&mut world, Command::Submit((0..5).map(new_job).collect()), NOW).unwrap();
    let edits = vec![edit(id(1), &[(id(0), false)]), edit(id(2), &[(id(1), false)]), edit(id(3), &[(id(0), true)])];
    let revision = Revision { remove: vec![id(0)], edits, order: vec![id(4), id(2)], ..Revision::default() };
    let events = command(&mut world, Command::Revise(revision), NOW).unwrap();
    let failed = |job, parent| {
        let end = End::Failed(Failure::Dependency { parent });
        assert!(
            events.contains(&Event::JobEnded { job, end, at: NOW }),
            "{job} did not fail with {parent}: {events:?}"
        );
    };
    failed(id(1), id(0));
    failed(id(2), id(1));
    assert!(world.jobs().map(|job| job.id).eq([id(3), id(4)]), "those who wait for no completion stay");
    assert!(world.parents(id(3)).is_empty());
    nexus_core::check::check(&world).unwrap();
}

#[test]
fn the_preferred_gpu_is_taken_then_the_emptiest_then_the_lowest() {
    let taken = |free_mib: &[u64], prefer: &[u16], request: Request| {
        let gpus = free_mib.iter().zip(0..).map(|(free_mib, index)| Gpu { free_mib: *free_mib, ..gpu(index) });
        let machine = Machine { prefer: prefer.to_vec(), ..machine(gpus.collect()) };
        let free =
            BTreeMap::from([(machine.id, Free::of(Arc::new(machine.clone()), Standing::default(), GpuSet::EMPTY))]);
        placed(&request, &free).map(|lease| lease.gpus)
    };
    assert_eq!(taken(&[8, 8, 8], &[], request(1, 0)), Ok(gpus(&[0])));
    assert_eq!(taken(&[8, 9, 9], &[], request(1, 0)), Ok(gpus(&[1])));
    assert_eq!(taken(&[8, 9, 7], &[], request(2, 0)), Ok(gpus(&[0, 1])));
    assert_eq!(taken(&[8, 9, 9], &[0], request(1, 0)), Ok(gpus(&[0])));
    assert_eq!(taken(&[8, 9, 9], &[2, 0], request(2, 0)), Ok(gpus(&[0, 2])));
    // A number that no GPU has prefers nothing.
    assert_eq!(taken(&[8, 9, 9], &[7], request(1, 0)), Ok(gpus(&[1])));
    assert_eq!(taken(&[8, 9, 9], &[2], Request { on: Some(gpus(&[0, 1])), ..request(1, 0) }), Ok(gpus(&[1])));
}

#[test]
fn books_and_reading_must_both_allow_it_and_each_gpu_counts_once() {
    // GPU 0 is held, 1 in use outside, 2 locked, 3 unreadable, 4 MIG, 5 left out, 6 paused, 7 free.
    let obstacles = [
        None,
        Some(Obstacle::InUse),
        Some(Obstacle::Locked),
        Some(Obstacle::Unreadable),
        Some(Obstacle::Mig),
        Some(Obstacle::LeftOut),
        None,
        None,
    ];
    let list = obstacles.into_iter().zip(0..).map(|(obstacle, index)| Gpu { obstacle, ..gpu(index) }).collect();
    let machine = machine(list);
    let free = |held: &[u16], paused: &[u16]| {
        let mut free = Free::of(Arc::new(machine.clone()), Standing::default(), gpus(paused));
        free.take(&lease(held), JobId::from_number(3, 0));
        BTreeMap::from([(MachineId::LOCAL, free)])
    };
    let count = GpuCount {
        free: 1,
        held: 1,
        outside: 2,
        paused: 1,
        unreadable: 1,
        mig: gpus(&[4]),
        left_out: gpus(&[5]),
        most_milli: 1000,
        ..GpuCount::default()
    };
    let usual = free(&[0], &[6]);
    assert_eq!(placed(&request(1, 0), &usual), Ok(lease(&[7])));
    assert_eq!(placed(&request(2, 0), &usual), Err(Waiting::Gpus { request: request(2, 0), count }));
    let forced = |gpus| Request { force: true, ..request(gpus, 0) };
    assert_eq!(placed(&forced(2), &usual), Ok(lease(&[6, 7])));
    let with_paused = GpuCount { free: 2, paused: 0, ..count };
    assert_eq!(placed(&forced(3), &usual), Err(Waiting::Gpus { request: forced(3), count: with_paused }));
    // A pause of what is held or in use anyway is not the reason; a lease on what became unreadable stays a lease.
    let held_more = GpuCount { free: 2, held: 2, outside: 2, paused: 0, unreadable: 0, ..count };
    assert_eq!(
        placed(&request(3, 0), &free(&[0, 3], &[0, 1])),
        Err(Waiting::Gpus { request: request(3, 0), count: held_more })
    );
    // What is left out or in MIG mode never comes, held or not.
    let held_left_out = free(&[0, 5], &[6]);
    assert_eq!(placed(&request(2, 0), &held_left_out), Err(Waiting::Gpus { request: request(2, 0), count }));
    let on = Some(gpus(&[4, 5, 9]));
    let named = GpuCount { mig: gpus(&[4]), left_out: gpus(&[5]), ..GpuCount::default() };
    let request = Request { on, ..request(1, 0) };
    assert_eq!(placed(&request, &usual), Err(Waiting::Gpus { request, count: named }));
}

#[test]
fn what_may_pass_is_waited_for_and_what_may_not_is_said() {
    let obstacle = |obstacle| {
        let mut world = World::default();
        let gpus = vec![gpu(0), Gpu { obstacle: Some(obstacle), ..gpu(1) }];
        report(&mut world, Report::Machine(machine(gpus)), &Policy::default(), NOW);
        Explainer::new(&world, &Policy::default(), NOW).request(&request(2, 0), None)
    };
    for passes in [Obstacle::InUse, Obstacle::Locked, Obstacle::Unreadable] {
        assert_eq!(Answer::of(obstacle(passes)), Answer::Gpus, "{passes:?}");
    }
    let (mig, left_out) = (gpus(&[1]), GpuSet::EMPTY);
    let count = GpuCount { free: 1, mig, left_out, most_milli: 1000, ..GpuCount::default() };
    assert_eq!(obstacle(Obstacle::Mig), Waiting::NoSuchGpus { request: request(2, 0), count });
    let count = GpuCount { mig: left_out, left_out: mig, ..count };
    assert_eq!(obstacle(Obstacle::LeftOut), Waiting::NoSuchGpus { request: request(2, 0), count });
}

#[test]
fn a_pause_goes_with_the_card_and_is_made_once() {
    let mut world = busy(0);
    let pause = |list: &[u16]| Command::PauseGpus { machine: MachineId::LOCAL, gpus: gpus(list) };
    let resume = |list: &[u16]| Command::ResumeGpus { machine: MachineId::LOCAL, gpus: gpus(list) };
    assert_eq!(command(&mut world, pause(&[1]), NOW).unwrap().len(), 1);
    assert_eq!(command(&mut world, pause(&[0, 1]), NOW).unwrap().len(), 1, "GPU 1 is paused already");
    assert_eq!(command(&mut world, resume(&[0]), NOW).unwrap().len(), 1);
    assert_eq!(command(&mut world, resume(&[0]), NOW).unwrap().len(), 0);
    let before = world.clone();
    let missing = Refusal::NoSuchGpus { machine: MachineId::LOCAL, missing: gpus(&[2, 9]) };
    assert_eq!(command(&mut world, pause(&[0, 2, 9]), NOW), Err(missing));
    assert_eq!(command(&mut world, resume(&[1, 2, 9]), NOW), Err(missing));
    assert!(world == before, "refused, and yet something changed");
    // After a boot the cards have changed places.
    let swapped = vec![Gpu { index: 0, ..gpu(1) }, Gpu { index: 1, ..gpu(0) }];
    report(&mut world, Report::Machine(machine(swapped)), &Policy::default(), NOW);
    assert_eq!(world.paused_gpus(MachineId::LOCAL), gpus(&[0]));
    assert!(world.paused_gpus(MachineId(7)).is_empty());
}

#[test]
fn what_is_missing_is_said_in_the_order_that_helps() {
    let table = [
        ("no machine is known yet", World::default(), request(1, 0), Answer::NoSuchGpus),
        ("more than exists, though paused", paused(busy(2)), request(3, 0), Answer::NoSuchGpus),
        ("more CPUs than exist", busy(2), request(0, 9), Answer::NoSuchCpus),
        ("paused goes before busy", paused(busy(2)), request(1, 0), Answer::QueuePaused),
        ("busy", busy(2), request(1, 0), Answer::Gpus),
        ("room", busy(1), request(1, 0), Answer::Next),
        ("a CPU job needs no GPU", busy(2), request(0, 1), Answer::Next),
    ];
    for (name, world, request, expected) in table {
        assert_eq!(
            Answer::of(Explainer::new(&world, &Policy::default(), NOW).request(&request, None)),
            expected,
            "{name}"
        );
    }
}

#[test]
fn a_command_is_met_as_a_whole_or_not_at_all() {
    let ids = |numbers: &[u64]| numbers.iter().map(|number| JobId::from_number(3, *number)).collect::<Vec<_>>();
    // Jobs 0 and 1 run, 9 waits, 8 does not exist.
    let mut world = busy(2);
    command(&mut world, Command::Submit(vec![new_job(9)]), NOW).unwrap();
    let refused = [
        Command::Kill(ids(&[0, 9])),
        Command::Kill(ids(&[0, 8])),
        Command::Remove(ids(&[9, 0])),
        Command::Cancel(ids(&[0, 9, 8])),
        Command::Hold(ids(&[9, 1])),
        Command::First(ids(&[9, 1])),
    ];
    for refusal in refused {
        let before = world.clone();
        assert!(command(&mut world, refusal.clone(), NOW).is_err(), "{refusal:?}");
        assert!(world == before, "{refusal:?} left something behind");
    }
    let twice = command(&mut world, Command::Remove(ids(&[9, 9])), NOW).unwrap();
    assert_eq!(twice.len(), 1, "a job named twice is removed once");
}

#[test]
fn jobs_that_come_together_wait_for_each_other_in_whichever_order_they_are_named() {
    let id = |number| JobId::from_number(3, number);
    let after = |number: u64, parent: u64| {
        let mut job = new_job(number);
        Arc::make_mut(&mut job.needs).after = vec![Parent { job: id(parent), any_end: false }];
        job
    };
    let mut world = busy(0);
    command(&mut world, Command::Submit(vec![after(12, 11), after(11, 10), new_job(10)]), NOW).unwrap();
    assert_eq!(decide(&mut world, &Policy::default(), NOW).len(), 1, "the last of them begins");
    assert_eq!(world.parents(id(12)).iter().map(|parent| parent.job).collect::<Vec<_>>(), [id(11)]);
    // One that can never begin takes those with it that were named before it.
    let mut lost = after(20, 21);
    Arc::make_mut(&mut lost.needs).failed_parent = None;
    let mut parent = new_job(21);
    Arc::make_mut(&mut parent.needs).failed_parent = Some(id(99));
    let events = command(&mut world, Command::Submit(vec![lost, parent]), NOW).unwrap();
    let ended: Vec<JobId> = events
        .iter()
        .filter_map(|event| match event {
            Event::JobEnded { job, end: End::Failed(Failure::Dependency { .. }), .. } => Some(*job),
            _ => None,
        })
        .collect();
    assert_eq!(ended, [id(21), id(20)]);
    check(&world).unwrap();
}

#[test]
fn a_job_that_the_stop_ends_fails_nobody() {
    let id = |number| JobId::from_number(3, number);
    let after = |number: u64, parents: &[(u64, bool)]| {
        let mut job = new_job(number);
        let parent = |(parent, any_end): &(u64, bool)| Parent { job: id(*parent), any_end: *any_end };
        Arc::make_mut(&mut job.needs).after = parents.iter().map(parent).collect();
        job
    };
    let mut world = busy(0);
    let jobs = vec![
        new_job(10),
        after(11, &[(10, false)]),
        after(12, &[(11, false), (10, false)]),
        after(13, &[(10, true)]),
        NewJob { held: true, ..after(14, &[(10, false)]) },
    ];
    command(&mut world, Command::Submit(jobs), NOW).unwrap();
    decide(&mut world, &Policy::default(), NOW);
    let run = RunId { job: id(10), number: 1 };
    report(&mut world, Report::Started { run, pid: 1, at: NOW }, &Policy::default(), NOW);
    command(&mut world, Command::Stop { kill: true }, NOW).unwrap();
    let outcome = Outcome::Stopped { code: None, signal: Some(15) };
    let events = report(&mut world, Report::Ended { run, outcome: outcome.clone(), at: NOW }, &Policy::default(), NOW);
    let orphaned = |number| Event::Orphaned { job: id(number), parent: id(10) };
    let ended = Event::JobEnded { job: id(10), end: End::Killed(KillReason::Stopped), at: NOW };
    let run_ended = Event::RunEnded { run, outcome, at: NOW };
    assert_eq!(events, [run_ended, orphaned(11), orphaned(12), orphaned(14), ended]);
    for (number, parents) in [(11, vec![]), (12, vec![id(11)]), (14, vec![])] {
        assert_eq!(world.job(id(number)).unwrap().state, State::Held, "{number}");
        assert_eq!(world.parents(id(number)).iter().map(|it| it.job).collect::<Vec<_>>(), parents, "{number}");
    }
    assert_eq!(world.job(id(13)).unwrap().state, State::Queued { not_before: None }, "any end will do");
    check(&world).unwrap();
}

#[test]
fn a_restored_world_counts_on() {
    let world = busy(2);
    let jobs: Vec<_> = world.jobs().cloned().collect();
    let mut restored = World::restore(jobs, None, 2);
    assert!(restored.jobs().eq(world.jobs()));
    command(&mut restored, Command::Submit(vec![new_job(9)]), NOW).unwrap();
    let newest = restored.job(JobId::from_number(3, 9)).unwrap();
    assert_eq!((newest.place.turn, &newest.state), (2, &State::Queued { not_before: None }));
}

/// The kinds of [`Waiting`] that need no numbers here: the scenarios show those.
#[derive(Debug, PartialEq)]
enum Answer {
    NoSuchGpus,
    NoSuchCpus,
    QueuePaused,
    Gpus,
    Next,
    Other,
}

impl Answer {
    fn of(waiting: Waiting) -> Answer {
        match waiting {
            Waiting::NoSuchGpus { .. } => Answer::NoSuchGpus,
            Waiting::NoSuchCpus { .. } => Answer::NoSuchCpus,
            Waiting::QueuePaused(QueuePause::ByUser) => Answer::QueuePaused,
            Waiting::Gpus { .. } => Answer::Gpus,
            Waiting::Next => Answer::Next,
            _ => Answer::Other,
        }
    }
}

/// A World with a machine of two GPUs, so many of them taken.
fn busy(taken: u64) -> World {
    let mut world = World::default();
    report(&mut world, Report::Machine(machine((0..2).map(gpu).collect())), &Policy::default(), NOW);
    command(&mut world, Command::Submit((0..taken).map(new_job).collect()), NOW).unwrap();
    assert_eq!(decide(&mut world, &Policy::default(), NOW).len() as u64, taken);
    world
}

fn paused(mut world: World) -> World {
    command(&mut world, Command::PauseQueue, NOW).unwrap();
    world
}

fn new_job(number: u64) -> NewJob {
    let id = JobId::from_number(3, number);
    NewJob {
        id,
        needs: Needs { request: request(1, 0), ..Needs::default() }.into(),
        sweep: None,
        priority: 0,
        held: false,
        at: NOW,
    }
}

fn request(gpus: u16, cpus: u32) -> Request {
    Request { gpus, cpus, ..Request::default() }
}

fn machine(gpus: Vec<Gpu>) -> Machine {
    Machine { name: "local".into(), cpus: 8, gpus, ..Machine::default() }
}

fn gpu(index: u16) -> Gpu {
    Gpu { index, uuid: format!("GPU-{index}"), simulated: true, ..Gpu::default() }
}

fn gpus(indices: &[u16]) -> GpuSet {
    indices.iter().copied().collect()
}

/// Of whole GPUs.
fn lease(list: &[u16]) -> Lease {
    Lease {
        machine: MachineId::LOCAL,
        gpus: gpus(list),
        beside: vec![],
        share: None,
        cpus: 0,
        ram_mib: 0,
        driver: false,
    }
}

fn placed(request: &Request, free: &BTreeMap<MachineId, Free>) -> Result<Lease, Waiting> {
    place(request, free.values(), &How::default()).ok_or_else(|| what_is_missing(request, free.values()))
}
