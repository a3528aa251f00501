//! Decisions cost the same however many jobs wait: allocations are counted, not time.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use nexus_core::apply::{self, Command, Report};
use nexus_core::decide::decide;
use nexus_core::event::{Needs, NewJob};
use nexus_core::ids::JobId;
use nexus_core::machine::{Gpu, Machine};
use nexus_core::policy::Policy;
use nexus_core::request::{Request, Same, Share, Vram};
use nexus_core::run::Outcome;
use nexus_core::time::Time;
use nexus_core::world::World;

/// Counts what a thread asks for.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: all is left to the system's allocator; counting touches no memory of its.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const ROUNDS: u64 = 200;

/// The first end of each command teaches how long it takes, and all that wait with that command are sorted in anew, once.
const WARM_UP: u64 = 100;
const GPUS: u16 = 8;

/// So many allocations a round at most: an end with the plans that follow, a reading, a submission.
const BUDGET: [(&str, u64); 3] = [("end and plan", 70), ("reading", 80), ("submission", 25)];

#[test]
fn a_decision_allocates_the_same_however_many_jobs_wait() {
    let (few, many) = (costs(2_000), costs(100_000));
    for (place, (what, budget)) in BUDGET.into_iter().enumerate() {
        let (few, many) = (few[place] / ROUNDS, many[place] / ROUNDS);
        assert!(many <= budget, "{what}: {many} allocations with 100,000 that wait, {budget} at most");
        // Trees are deeper, and split now and then.
        assert!(many <= few + few / 4 + 2, "{what}: {few} allocations with 2,000 that wait, {many} with 100,000");
    }
}

/// Allocations of all rounds, as [`BUDGET`] names them.
fn costs(waiting: u64) -> [u64; 3] {
    let policy = Policy::default();
    let mut world = World::default();
    apply::report(&mut world, Report::Machine(machine(0)), &policy, Time(0));
    let jobs = (0..waiting).map(new_job).collect();
    apply::command(&mut world, Command::Submit(jobs), Time(0)).expect("a submit is never refused");
    decide(&mut world, &policy, Time(0));
    let mut sums = [0; 3];
    for round in 0..WARM_UP + ROUNDS {
        if round == WARM_UP {
            sums = [0; 3];
        }
        let now = Time(round as i64);
        let run = world.active_runs().nth(round as usize % 4).expect("GPUs are taken").id;
        sums[0] += counted(|| {
            apply::report(
                &mut world,
                Report::Ended { run, outcome: Outcome::Exited { code: 0 }, at: now },
                &policy,
                now,
            );
            decide(&mut world, &policy, now);
        });
        let reading = machine(round % 50);
        sums[1] += counted(|| {
            apply::report(&mut world, Report::Machine(reading), &policy, now);
            decide(&mut world, &policy, now);
        });
        let new = vec![new_job(waiting + round)];
        sums[2] += counted(|| {
            apply::command(&mut world, Command::Submit(new), now).expect("a submit is never refused");
            decide(&mut world, &policy, now);
        });
    }
    sums
}

fn counted(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.with(Cell::get);
    work();
    ALLOCATIONS.with(Cell::get) - before
}

/// Of ten kinds: whole GPUs, parts, memory.
fn new_job(number: u64) -> NewJob {
    let id = JobId::from_number(5, number * 5_171_717 % 25_u64.pow(5));
    let kind = number * 7 % 10;
    let share = (kind % 2 == 1).then_some(Share { milli: 250, vram: Vram::Mib(500 + kind as u32) });
    let request = Request { gpus: 1 + u16::from(kind == 0), share: share.filter(|_| kind != 0), ..Request::default() };
    let needs = Needs { request, same: Same(kind as i64), retries: 1, ..Needs::default() };
    NewJob { id, needs: needs.into(), sweep: None, priority: (kind % 3) as i32, held: false, at: Time(0) }
}

/// `used`: memory of others on each GPU, so that no two readings are alike.
fn machine(used: u64) -> Machine {
    let gpu = |index| Gpu {
        index,
        uuid: format!("GPU-{index}"),
        name: "RTX 3090".into(),
        memory_mib: 24_576,
        free_mib: 24_576 - used,
        ..Gpu::default()
    };
    let gpus = (0..GPUS).map(gpu).collect();
    Machine { name: "local".into(), cpus: 16, ram_mib: 65_536, gpus, ..Machine::default() }
}
