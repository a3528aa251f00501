//! Two to five users with a service each on one machine, in virtual time: what they tell each other, and what they see of locks,
//! comes late. Each decides by `Turns` alone whether a free GPU is its own to take.

#[allow(dead_code, reason = "the simulation of core uses all of it")]
#[path = "sim/chance.rs"]
mod chance;

use std::collections::{BTreeMap, VecDeque};

use chance::Chance;
use nexus_core::turns::{MAX_DEFER_MS, Turns, Usage, Wish};

const TICK_MS: u64 = 5;
const GATHER_MS: u64 = 60_000;

/// What a user's queue is made of.
#[derive(Clone, Copy)]
struct Work {
    gpus: u16,
    run_ms: u64,
    jobs: u64,
    /// Says that it waits, and never takes a GPU.
    only_wishes: bool,
}

const SHORT: Work = Work { gpus: 1, run_ms: 1_000, jobs: 200, only_wishes: false };

struct User {
    work: Work,
    turns: Turns,
    usage: Usage,
    told: Wish,
    /// GPUs of its runs, and when each run ends.
    runs: Vec<(Vec<usize>, u64)>,
    /// A start on its way: it finds the locks free, or not, at that time.
    starting: Option<(Vec<usize>, u64)>,
    /// Who holds which GPU, as it knows.
    seen: Vec<Option<u32>>,
    used_ms: u64,
    lost_races: u64,
}

struct Machine {
    now_ms: u64,
    /// Who holds a GPU; and since when nobody does.
    held: Vec<Result<u32, u64>>,
    users: Vec<User>,
    wishes: VecDeque<(u64, u32, Wish)>,
    sights: VecDeque<(u64, usize, Option<u32>)>,
    idle_ms: Vec<u64>,
    chance: Chance,
}

impl Machine {
    fn new(gpus: usize, work: &[Work], seed: u64) -> Machine {
        let user = |work: &Work| User {
            work: *work,
            turns: Turns::default(),
            usage: Usage::new(0),
            told: Wish::default(),
            runs: vec![],
            starting: None,
            seen: vec![None; gpus],
            used_ms: 0,
            lost_races: 0,
        };
        Machine {
            now_ms: 0,
            held: vec![Err(0); gpus],
            users: work.iter().map(user).collect(),
            wishes: VecDeque::new(),
            sights: VecDeque::new(),
            idle_ms: vec![],
            chance: Chance::from_seed(seed),
        }
    }

    /// Until somebody has no jobs left. False: nobody was done after so long.
    fn play(&mut self, limit_ms: u64) -> bool {
        while self.users.iter().all(|user| user.work.jobs > 0) {
            if self.now_ms > limit_ms {
                return false;
            }
            self.now_ms += TICK_MS;
            self.arrive();
            // Nobody is always the first to act.
            let first = self.chance.below(self.users.len() as u64) as usize;
            for step in 0..self.users.len() {
                self.act((first + step) % self.users.len());
            }
        }
        true
    }

    fn arrive(&mut self) {
        let now = self.now_ms;
        while self.wishes.front().is_some_and(|(at, ..)| *at <= now) {
            let (_, from, wish) = self.wishes.pop_front().expect("it was there");
            let others = self.users.iter_mut().enumerate().filter(|(number, _)| *number as u32 != from);
            others.for_each(|(_, user)| _ = user.turns.hear(from, wish));
        }
        while self.sights.front().is_some_and(|(at, ..)| *at <= now) {
            let (_, gpu, holder) = self.sights.pop_front().expect("it was there");
            for user in &mut self.users {
                user.seen[gpu] = holder;
                let mut holders: BTreeMap<u32, bool> =
                    user.seen.iter().flatten().map(|holder| (*holder, false)).collect();
                holders.extend(holder.map(|holder| (holder, true)));
                user.turns.read_holders(&holders, GATHER_MS, now);
            }
        }
    }

    fn changes(&mut self, gpu: usize, holder: Option<u32>) {
        self.held[gpu] = holder.ok_or(self.now_ms);
        let late = self.sights.back().map_or(0, |(at, ..)| *at).max(self.now_ms + 5 + self.chance.below(15));
        self.sights.push_back((late, gpu, holder));
    }

    fn act(&mut self, number: usize) {
        let (now, own) = (self.now_ms, number as u32);
        let ended: Vec<Vec<usize>> = {
            let user = &mut self.users[number];
            let held = user.runs.iter().map(|(gpus, _)| gpus.len() as u16).sum();
            user.usage.advance(held, now);
            user.used_ms += u64::from(held) * TICK_MS;
            let (over, on) = std::mem::take(&mut user.runs).into_iter().partition(|(_, until)| *until <= now);
            user.runs = on;
            let over: Vec<(Vec<usize>, u64)> = over;
            over.into_iter().map(|(gpus, _)| gpus).collect()
        };
        for gpu in ended.into_iter().flatten() {
            self.users[number].seen[gpu] = None;
            self.changes(gpu, None);
        }
        self.lands(number);
        let user = &mut self.users[number];
        let held = user.runs.iter().map(|(gpus, _)| gpus.len() as u16).sum();
        let wish = Wish {
            gpus: if user.work.jobs > 0 { user.work.gpus } else { 0 },
            used_ms: if user.work.only_wishes { 0 } else { user.usage.last_hour_ms() },
            held,
            at_ms: now,
        };
        if (wish.gpus, wish.held) != (user.told.gpus, user.told.held) || now - user.told.at_ms > 1_000 {
            user.told = wish;
            let late = self.wishes.back().map_or(0, |(at, ..)| *at).max(now + 1 + self.chance.below(10));
            self.wishes.push_back((late, own, wish));
        }
        let free: Vec<usize> = (0..user.seen.len()).filter(|gpu| user.seen[*gpu].is_none()).collect();
        if user.starting.is_some() || user.work.only_wishes || free.len() < usize::from(user.work.gpus) {
            // So it is asked in the real service too, when too few are free for its first job.
            let _ = user.turns.defers(own, &wish, 0, GATHER_MS, now);
            return;
        }
        if user.turns.defers(own, &wish, free.len() as u16, GATHER_MS, now).is_none() {
            let gpus: Vec<usize> = free[..usize::from(user.work.gpus)].to_vec();
            user.starting = Some((gpus, now + 5 + self.chance.below(15)));
        }
    }

    fn lands(&mut self, number: usize) {
        let now = self.now_ms;
        let Some((gpus, _)) = self.users[number].starting.take_if(|(_, at)| *at <= now) else { return };
        if let Some(held) = gpus.iter().find(|gpu| self.held[**gpu].is_ok()) {
            let user = &mut self.users[number];
            user.lost_races += 1;
            user.seen[*held] = self.held[*held].ok();
            return;
        }
        for gpu in &gpus {
            if let Err(since) = self.held[*gpu] {
                self.idle_ms.push(now - since);
            }
            self.users[number].seen[*gpu] = Some(number as u32);
            self.changes(*gpu, Some(number as u32));
        }
        let user = &mut self.users[number];
        let longer = self.chance.below(user.work.run_ms / 2 + 1);
        user.runs.push((gpus, now + user.work.run_ms + longer));
        user.work.jobs -= 1;
    }

    /// GPU time of each user, in percent of an equal part.
    fn shares(&self) -> Vec<u64> {
        let all: u64 = self.users.iter().map(|user| user.used_ms).sum();
        let parts = self.users.len() as u64;
        self.users.iter().map(|user| user.used_ms * 100 * parts / all.max(1)).collect()
    }
}

#[test]
fn users_with_short_jobs_have_equal_shares_and_keep_no_gpu_idle() {
    for seed in 0..12 {
        let mut chance = Chance::from_seed(seed);
        let users = 2 + seed % 4;
        let gpus = 1 + chance.below(4) as usize;
        let work: Vec<Work> = (0..users).map(|_| Work { run_ms: chance.pick(&[500, 1_000, 3_000]), ..SHORT }).collect();
        let mut machine = Machine::new(gpus, &work, seed);
        assert!(machine.play(3_600_000), "seed {seed}: nobody is done after an hour");
        // With nearly as many GPUs as users nobody has to wait for long.
        let shares = machine.shares();
        let is_scarce = gpus < users as usize;
        assert!(
            !is_scarce || shares.iter().all(|share| (80..=120).contains(share)),
            "seed {seed}, {gpus} GPUs: {shares:?}"
        );
        machine.idle_ms.sort_unstable();
        let p99 = machine.idle_ms[machine.idle_ms.len() * 99 / 100 - 1];
        assert!(p99 <= 100, "seed {seed}: a GPU was idle for {p99} ms between two jobs");
        let lost: u64 = machine.users.iter().map(|user| user.lost_races).sum();
        assert!(
            lost <= machine.idle_ms.len() as u64 / 5,
            "seed {seed}: {lost} lost races, {} runs",
            machine.idle_ms.len()
        );
    }
}

#[test]
fn wishes_of_a_user_who_takes_nothing_cost_a_tenth() {
    let honest = [SHORT, SHORT];
    let mut alone = Machine::new(1, &honest, 3);
    assert!(alone.play(3_600_000));
    // The smallest number goes first where nobody had anything.
    let mut machine = Machine::new(1, &[Work { only_wishes: true, ..SHORT }, SHORT, SHORT], 3);
    machine.users[0].work.jobs = u64::MAX;
    assert!(machine.play(3 * alone.now_ms), "a wish that is never met keeps the GPU for ever");
    let longest = alone.now_ms * 120 / 100 + 2 * MAX_DEFER_MS;
    assert!(machine.now_ms <= longest, "{} ms, and {} ms without it", machine.now_ms, alone.now_ms);
}

#[test]
fn a_job_of_several_gpus_gets_them_together() {
    let wide = Work { gpus: 4, run_ms: 2_000, jobs: 30, only_wishes: false };
    for seed in 0..4 {
        let mut machine = Machine::new(4, &[SHORT, wide, Work { jobs: 2_000, ..SHORT }], seed);
        machine.users[0].work.jobs = 2_000;
        assert!(machine.play(3_600_000), "seed {seed}: it never has all four");
        let shares = machine.shares();
        assert!(shares.iter().all(|share| (75..=125).contains(share)), "seed {seed}: {shares:?}");
    }
}

#[test]
fn gpus_are_gathered_for_a_limited_time() {
    let mut turns = Turns::default();
    let own = Wish { gpus: 1, used_ms: 5_000, held: 0, at_ms: 0 };
    turns.hear(1, Wish { gpus: 4, ..Wish::default() });
    let defers = |turns: &mut Turns, free, now| turns.defers(2, &own, free, GATHER_MS, now).map(|it| it.until_ms);
    assert_eq!(defers(&mut turns, 2, 1_000), Some(61_000), "two of four are kept");
    assert_eq!(defers(&mut turns, 3, 31_000), Some(61_000));
    assert_eq!(defers(&mut turns, 4, 41_000), Some(43_000), "all four: they can be taken now");
    turns.read_holders(&BTreeMap::from([(1, true)]), GATHER_MS, 41_000);
    turns.read_holders(&BTreeMap::new(), GATHER_MS, 91_000);
    assert_eq!(defers(&mut turns, 2, 91_000), Some(151_000), "it held them for longer than they were kept");
    assert_eq!(defers(&mut turns, 2, 151_000), None, "long enough");
    assert_eq!(defers(&mut turns, 4, 151_100), None, "and its debt counts for all that it wishes");
    assert_eq!(defers(&mut turns, 2, 469_900), Some(501_790), "half of it is paid back after five minutes");
    // Without gathering a wish for several GPUs keeps none, and one for as many as are free does.
    let mut turns = Turns::default();
    turns.hear(1, Wish { gpus: 2, ..Wish::default() });
    assert_eq!(turns.defers(2, &own, 1, 0, 10), None);
    assert!(turns.defers(2, &own, 2, 0, 20).is_some());
}

#[test]
fn a_lock_that_is_held_for_an_instant_repays_an_instant() {
    let mut turns = Turns::default();
    let own = Wish { gpus: 1, used_ms: 5_000, held: 0, at_ms: 0 };
    turns.hear(1, Wish { gpus: 1, ..Wish::default() });
    let (mut kept_ms, mut now) = (0, 0);
    while now < 600_000 {
        // The stranger takes a free GPU once a second, for a tenth of it, and wishes for another all the time.
        match now % 1_000 {
            0 => turns.read_holders(&BTreeMap::from([(1, true)]), GATHER_MS, now),
            100 => turns.read_holders(&BTreeMap::new(), GATHER_MS, now),
            _ => {}
        }
        kept_ms += if turns.defers(2, &own, 1, GATHER_MS, now).is_some() { 10 } else { 0 };
        now += 10;
    }
    assert!(kept_ms < now / 5, "a GPU was kept for {kept_ms} of {now} ms");
}

#[test]
fn a_service_that_was_suspended_makes_nobody_a_debtor_for_that_time() {
    let mut turns = Turns::default();
    let own = Wish { gpus: 1, used_ms: 5_000, held: 0, at_ms: 0 };
    turns.hear(1, Wish { gpus: 1, ..Wish::default() });
    assert!(turns.defers(2, &own, 1, GATHER_MS, 1_000).is_some());
    let awake = 1_000 + 8 * 3_600_000;
    assert!(turns.defers(2, &own, 1, GATHER_MS, awake).is_none(), "it was waited for long enough");
    assert!(
        turns.defers(2, &own, 1, GATHER_MS, awake + 10_100).is_some(),
        "its debt was two seconds, and half is paid back"
    );
}

#[test]
fn who_had_less_gpu_time_in_the_last_hour_goes_first() {
    let wish = |used_ms, held| Wish { gpus: 1, used_ms, held, at_ms: 0 };
    #[rustfmt::skip]
    let table = [
        // the other            this service         at       kept for the other
        (wish(1_000, 0),        wish(2_000, 0),      0,       true),
        (wish(2_000, 0),        wish(1_000, 0),      0,       false),
        (wish(1_000, 2),        wish(2_000, 0),      400,     true),
        (wish(1_000, 2),        wish(2_000, 0),      600,     false),
        // The smaller number of two alike: one of them has to be first.
        (wish(1_000, 0),        wish(1_000, 0),      0,       true),
        (Wish::default(),       wish(1_000, 0),      0,       false),
        (wish(0, 0),            Wish::default(),     0,       false),
    ];
    for (other, own, now, kept) in table {
        let mut turns = Turns::default();
        turns.hear(7, other);
        assert_eq!(turns.defers(8, &own, 1, GATHER_MS, now).is_some(), kept, "{other:?} and {own:?} after {now} ms");
        turns.gone(7);
        assert_eq!(turns.defers(8, &own, 1, GATHER_MS, now), None, "its service is gone");
    }
}

#[test]
fn only_the_last_hour_counts() {
    let mut usage = Usage::new(0);
    usage.advance(2, 90_000);
    assert_eq!(usage.last_hour_ms(), 180_000);
    usage.advance(0, 3_600_000);
    assert_eq!(usage.last_hour_ms(), 60_000, "the first minute has left the hour, by whole minutes");
    usage.advance(1, 3_630_000);
    assert_eq!(usage.last_hour_ms(), 60_000 + 30_000);
    usage.advance(0, 90_000_000);
    assert_eq!(usage.last_hour_ms(), 0);
}
