//! What a decision costs with a long queue, and what a queued job costs in memory: `cargo bench -p nexus-core`.
//!
//! A million jobs of forty kinds (whole GPUs, parts, memory, memory learned, models, priorities) wait for eight GPUs
//! that are all taken. Then runs end one after another: the time from the report of an end to the plan that
//! follows from it is measured, and that of the other things that make the engine decide.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, clippy::disallowed_macros, reason = "a bench measures")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nexus_core::apply::{self, Command, Report};
use nexus_core::check::check;
use nexus_core::decide::decide;
use nexus_core::event::{Needs, NewJob};
use nexus_core::explain::Explainer;
use nexus_core::ids::JobId;
use nexus_core::machine::{Gpu, Machine};
use nexus_core::policy::Policy;
use nexus_core::request::{Model, Request, Same, Share, Vram};
use nexus_core::run::{Outcome, Run};
use nexus_core::time::Time;
use nexus_core::world::World;

const JOBS: u64 = 1_000_000;
const KINDS: u64 = 40;
const EXITS: usize = 20_000;
const GPUS: u16 = 8;
const MEMORY_MIB: u64 = 24_576;

/// Counts what is allocated.
struct Counting;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all is left to the system's allocator; counting touches no memory of its.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Ordering::Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn main() {
    let mut world = World::default();
    apply::report(&mut world, Report::Machine(machine(0)), &Policy::default(), Time(0));
    let before = ALLOCATED.load(Ordering::Relaxed);
    let submitting = Instant::now();
    for first in (0..JOBS).step_by(1000) {
        let jobs = (first..first + 1000).map(new_job).collect();
        apply::command(&mut world, Command::Submit(jobs), Time(0)).expect("a submit is never refused");
    }
    println!("{:<28} {:>10.2?} each", "submit", submitting.elapsed() / JOBS as u32);
    let bytes = ALLOCATED.load(Ordering::Relaxed) - before;
    println!("{:<28} {:>10} bytes", "a queued job", bytes / JOBS as usize);
    let waiting = world.pending();
    decide(&mut world, &Policy::default(), Time(0));
    println!("{:<28} {:>10} of {waiting} jobs", "first decision plans", waiting - world.pending());
    exits(&mut world);
    others(&mut world);
    restore(&world);
    check(&world).expect("a World that holds together");
}

/// A run ends, and what it had is given to others.
fn exits(world: &mut World) {
    let mut times = Vec::with_capacity(EXITS);
    let mut planned = 0;
    for exit in 0..EXITS {
        let active = world.active_runs().count();
        let run = world.active_runs().nth(exit % active).expect("GPUs are taken").id;
        let now = Time(exit as i64);
        let outcome = Outcome::Exited { code: 0 };
        let began = Instant::now();
        apply::report(world, Report::Ended { run, outcome, at: now }, &Policy::default(), now);
        planned += decide(world, &Policy::default(), now).len();
        times.push(began.elapsed());
    }
    tell("exit and decision", &mut times);
    println!("{:<28} {planned:>10} for {EXITS} exits", "runs planned");
}

fn others(world: &mut World) {
    let (mut readings, mut submits, mut reasons, mut all) = (vec![], vec![], vec![], vec![]);
    for round in 0..1000 {
        let now = Time(EXITS as i64 + round as i64);
        let mut machine = machine(round as u64 % 50);
        for gpu in &mut machine.gpus {
            let used = |run: &Run| run.lease.gpus.contains(gpu.index).then_some((run.id.job, 600));
            gpu.used = world.active_runs().filter_map(used).collect();
        }
        let began = Instant::now();
        apply::report(world, Report::Machine(machine), &Policy::default(), now);
        decide(world, &Policy::default(), now);
        readings.push(began.elapsed());
        let began = Instant::now();
        let new = new_job(JOBS + round as u64);
        let id = new.id;
        apply::command(world, Command::Submit(vec![new]), now).expect("a submit is never refused");
        decide(world, &Policy::default(), now);
        submits.push(began.elapsed());
        let began = Instant::now();
        std::hint::black_box(Explainer::new(world, &Policy::default(), now).job(id));
        reasons.push(began.elapsed());
    }
    for _ in 0..3 {
        let began = Instant::now();
        let mut explainer = Explainer::new(world, &Policy::default(), Time(0));
        let waiting = world.jobs().filter(|job| explainer.job(job.id).is_some()).count();
        std::hint::black_box(waiting);
        all.push(began.elapsed());
    }
    tell("reading and decision", &mut readings);
    tell("submit and decision", &mut submits);
    tell("reason of one job", &mut reasons);
    tell("reasons of all jobs", &mut all);
}

fn restore(world: &World) {
    let jobs: Vec<_> = world.jobs().cloned().collect();
    let began = Instant::now();
    let restored = World::restore(jobs, None, 2 * JOBS as i64);
    println!("{:<28} {:>10.2?}", "restore", began.elapsed());
    assert_eq!(restored.pending(), world.pending());
}

fn tell(what: &str, times: &mut [Duration]) {
    times.sort_unstable();
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize];
    let mean = times.iter().sum::<Duration>() / times.len() as u32;
    println!("{what:<28} {mean:>10.2?} mean {:>10.2?} p50 {:>10.2?} p99 {:>10.2?} max", at(0.5), at(0.99), at(1.0));
}

/// Ids lie all over, as those that are drawn by lot.
fn new_job(number: u64) -> NewJob {
    let id = JobId::from_number(5, number * 5_171_717 % 25_u64.pow(5));
    let kind = number * 7 % KINDS;
    let (request, same) = request(kind);
    let needs = Needs { request, same, retries: 1, ..Needs::default() };
    NewJob { id, needs: needs.into(), sweep: None, priority: (kind % 5) as i32, held: false, at: Time(0) }
}

fn request(kind: u64) -> (Request, Same) {
    let same = Same(kind as i64);
    let share = |milli, vram| Some(Share { milli, vram });
    let request = Request { gpus: 1, ..Request::default() };
    let request = match kind % 8 {
        0 => Request { gpus: 1 + (kind / 8) as u16, ..request },
        1 => Request { share: share(100 + 10 * kind as u16, Vram::Unsaid), ..request },
        2 => Request { share: share(0, Vram::Mib(1000 + 100 * kind as u32)), ..request },
        3 => Request { share: share(0, Vram::Learned(same)), ..request },
        4 => Request { model: Model::new("a100"), cpus: kind as u32 % 4, share: share(0, Vram::Mib(500)), ..request },
        5 => Request { on: Some((0..kind as u16 % 7 + 1).collect()), ram_mib: 100, ..request },
        6 => Request { share: share(250, Vram::Mib(300 + kind as u32)), ram_mib: 64, ..request },
        _ => Request { gpus: 0, cpus: 1 + kind as u32 % 4, ..request },
    };
    (request, same)
}

/// `used`: memory of others on each GPU, so that no two readings are alike.
fn machine(used: u64) -> Machine {
    let gpu = |index| Gpu {
        index,
        uuid: format!("GPU-{index}"),
        name: ["RTX 3090", "A100"][usize::from(index % 2)].into(),
        memory_mib: MEMORY_MIB,
        free_mib: MEMORY_MIB - used,
        ..Gpu::default()
    };
    Machine {
        name: "local".into(),
        cpus: 16,
        ram_mib: 65_536,
        gpus: (0..GPUS).map(gpu).collect(),
        ..Machine::default()
    }
}
