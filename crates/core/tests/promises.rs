//! What a reservation promises: workloads made by chance, each job taking as long as it says or less.

use std::collections::BTreeMap;
use std::time::Duration;

use nexus_core::apply::{self, Command, Report};
use nexus_core::check::check;
use nexus_core::decide::{decide, reserved};
use nexus_core::event::{Event, Needs, NewJob};
use nexus_core::forecast::{Expected, Forecast};
use nexus_core::ids::{JobId, MachineId, RunId};
use nexus_core::machine::{Gpu, Machine};
use nexus_core::policy::Policy;
use nexus_core::request::{Request, Same, Share, Vram};
use nexus_core::run::Outcome;
use nexus_core::time::Time;
use nexus_core::world::World;

struct Queue {
    world: World,
    policy: Policy,
    now: Time,
    submitted: u64,
    /// Which run ends when.
    ends: BTreeMap<(Time, RunId), ()>,
    takes: BTreeMap<JobId, Duration>,
    started: BTreeMap<JobId, Time>,
    /// What was promised to a job first.
    promised: BTreeMap<JobId, Time>,
}

impl Queue {
    fn of(machines: u32, gpus: u16) -> Queue {
        let gpu = |index| Gpu { index, memory_mib: 1000, free_mib: 1000, ..Gpu::default() };
        let machine =
            |id| Machine { id: MachineId(id), cpus: 16, gpus: (0..gpus).map(gpu).collect(), ..Machine::default() };
        let mut world = World::default().with_joins();
        (0..machines).for_each(|id| world.record(&Event::MachineRead(machine(id))));
        Queue {
            world,
            policy: Policy::default(),
            now: Time(0),
            submitted: 0,
            ends: BTreeMap::new(),
            takes: BTreeMap::new(),
            started: BTreeMap::new(),
            promised: BTreeMap::new(),
        }
    }

    fn submit(&mut self, request: Request, takes: Duration, limit: Option<Duration>) -> JobId {
        let id = JobId::from_number(8, self.submitted);
        let needs = Needs { request, limit, same: Same(self.submitted as i64), ..Needs::default() };
        self.submitted += 1;
        self.takes.insert(id, takes);
        let new = NewJob { id, needs: needs.into(), sweep: None, priority: 0, held: false, at: self.now };
        apply::command(&mut self.world, Command::Submit(vec![new]), self.now).unwrap();
        id
    }

    /// Time passes, runs end, and what may start starts; whatever is promised is kept.
    fn pass(&mut self, until: Time) {
        self.settle();
        while let Some(((at, _), ())) = self.ends.first_key_value().filter(|((at, _), ())| *at <= until) {
            self.now = *at;
            while let Some(((at, run), ())) = self.ends.pop_first() {
                if at > self.now {
                    self.ends.insert((at, run), ());
                    break;
                }
                let ended = Report::Ended { run, outcome: Outcome::Exited { code: 0 }, at };
                apply::report(&mut self.world, ended, &self.policy, at);
            }
            self.settle();
        }
        self.now = until;
        self.settle();
    }

    fn settle(&mut self) {
        for event in decide(&mut self.world, &self.policy, self.now) {
            let Event::Planned { run, .. } = event else { continue };
            self.started.insert(run.job, self.now);
            self.ends.insert((self.now.after(self.takes[&run.job]), run), ());
            if let Some(promised) = self.promised.get(&run.job) {
                assert!(self.now <= *promised, "{} starts at {:?}, and {promised:?} was promised", run.job, self.now);
            }
        }
        check(&self.world).unwrap();
        if let Some((job, at)) = reserved(&self.world, &self.policy, self.now).and_then(|it| Some((it.job, it.at?))) {
            let first = *self.promised.entry(job).or_insert(at);
            assert!(at <= first, "{job} was to start at {first:?}, and now at {at:?}");
            self.promised.insert(job, at);
        }
    }
}

/// SplitMix64.
struct Chance(u64);

impl Chance {
    fn below(&mut self, count: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % count
    }
}

fn gpus(gpus: u16) -> Request {
    Request { gpus, ..Request::default() }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn a_promised_start_never_slips_while_run_times_are_as_declared() {
    for seed in 0..300 {
        let mut chance = Chance(seed);
        let (machines, most) = (1 + chance.below(3) as u32, 2 + chance.below(7) as u16);
        let mut queue = Queue::of(machines, most);
        for _ in 0..120 {
            let limit = seconds(1 + chance.below(100));
            let takes = limit.mul_f64([1.0, 1.0, 0.5, 0.1][chance.below(4) as usize]);
            let share = |milli| Some(Share { milli, vram: Vram::Unsaid });
            let request = match chance.below(8) {
                0 => gpus(most),
                1 => Request { share: share(250), ..gpus(1) },
                2 => Request { share: share(500), ..gpus(2) },
                3 => Request { cpus: 1 + chance.below(16) as u32, ..gpus(0) },
                4 if machines > 1 => gpus(most * 2),
                _ => Request { cpus: chance.below(5) as u32, ..gpus(1 + chance.below(most.into()) as u16) },
            };
            queue.submit(request, takes, Some(limit));
            queue.pass(queue.now.after(seconds(chance.below(20))));
        }
        queue.pass(Time(i64::MAX));
        assert_eq!(queue.started.len(), 120, "seed {seed}: all start in the end");
    }
}

#[test]
fn a_stream_of_small_jobs_does_not_pass_by_a_wide_one() {
    let mut queue = Queue::of(1, 8);
    for number in 0..8 {
        queue.submit(gpus(1), seconds(60 + number), Some(seconds(60 + number)));
    }
    queue.pass(Time(0));
    let wide = queue.submit(gpus(8), seconds(100), Some(seconds(100)));
    for _ in 0..400 {
        queue.submit(gpus(1), seconds(30), Some(seconds(30)));
        queue.pass(queue.now.after(seconds(1)));
    }
    assert_eq!(queue.started.get(&wide), Some(&Time(67_000)), "when the last of those has gone that were there first");
}

#[test]
fn where_nobody_knows_how_long_they_take_it_waits_for_its_patience_and_the_longest() {
    let mut queue = Queue::of(1, 8);
    queue.policy.patience = seconds(600);
    for number in 0..8 {
        queue.submit(gpus(1), seconds(60 + number), None);
    }
    queue.pass(Time(0));
    let wide = queue.submit(gpus(8), seconds(100), None);
    for _ in 0..2_000 {
        queue.submit(gpus(1), seconds(90), None);
        queue.pass(queue.now.after(seconds(1)));
    }
    let started = queue.started.get(&wide).expect("it starts");
    assert!((600_000..=690_000).contains(&started.0), "{started:?}");
}

/// What is expected is what happens, where all take as long as they say and nobody comes.
#[test]
fn a_forecast_is_what_happens() {
    for seed in 0..100 {
        let mut chance = Chance(seed);
        let mut queue = Queue::of(1 + chance.below(2) as u32, 4);
        for _ in 0..30 {
            let takes = seconds(1 + chance.below(100));
            queue.submit(gpus(1 + chance.below(4) as u16), takes, Some(takes));
        }
        queue.pass(Time(1));
        let expected = Forecast::of(&queue.world, &queue.policy, queue.now, 200, &[]).play();
        queue.pass(Time(i64::MAX));
        for (job, started) in &queue.started {
            let ended = started.after(queue.takes[job]);
            let Expected { start, end, at_latest } =
                expected.get(job).copied().unwrap_or_else(|| panic!("{job} has no time"));
            assert_eq!((start, end, at_latest), (*started, Some(ended), true), "{job}, seed {seed}");
        }
    }
}

#[test]
fn of_those_that_wait_for_one_without_a_time_nothing_is_known() {
    let mut queue = Queue::of(1, 2);
    queue.submit(gpus(1), seconds(50), None);
    queue.submit(gpus(1), seconds(50), Some(seconds(60)));
    queue.pass(Time(0));
    let (wide, narrow) = (queue.submit(gpus(2), seconds(1), None), queue.submit(gpus(1), seconds(1), Some(seconds(5))));
    let mut forecast = Forecast::of(&queue.world, &queue.policy, queue.now, 200, &[]);
    let needs = Needs { request: gpus(1), limit: Some(seconds(9)), same: Same(99), ..Needs::default() };
    let another = forecast.submit(needs, 0);
    let expected = forecast.play();
    assert_eq!(expected.get(&wide), None);
    assert_eq!(expected[&narrow], Expected { start: Time(60_000), end: Some(Time(65_000)), at_latest: true });
    assert_eq!(expected[&another].start, Time(65_000));
}
