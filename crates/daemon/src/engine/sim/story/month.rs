//! A month of the service, or some days of one: jobs as a lab has them, and what befalls its machines in that time.
//!
//! Drivers are replaced, a GPU is lost, the disk is full and free again, the file system refuses writes or stalls, clocks are
//! set, machines come and go, the service's own host restarts, a user pauses the queue and forgets it. Every job ends once
//! and rightly (the ledger), and none waits for an hour beside GPUs that it could have without a notice that says so.

use std::collections::BTreeMap;
use std::time::Duration;

use nexus_core::ids::MachineId;
use nexus_core::time::Time;
use rusqlite::Connection;

use super::{BEGIN, OWN_GPUS, Service, Story};
use crate::engine::sim::disk::Fault;
use crate::engine::sim::ledger::Row;
use crate::engine::sim::said::GpuTrouble;
use crate::engine::sim::users::What;
use crate::pretend;

const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;
const DAY_MS: u64 = 24 * HOUR_MS;

/// Within a step what is on its way arrives, in so many turns.
const TURNS_A_STEP: u64 = 3;

/// Turns between two comparisons of the disk with the ledger: they cost more than the rest.
const COMPARES_EVERY: u64 = 500;

/// Crashes of the service: some a week.
const DIES_RARER: u64 = 150;

/// The service restarts after a crash, or with its host, within so long.
const LONGEST_BOOT_MS: u64 = 10 * MINUTE_MS;

/// A simulated machine with one GPU, and one with two that its node reads.
const SMALL: MachineId = MachineId(1);
const READ: MachineId = MachineId(2);

/// All machines with GPUs.
const MACHINES: [(MachineId, usize); 3] = [(MachineId::LOCAL, OWN_GPUS as usize), (SMALL, 1), (READ, 2)];

/// What is wrong for a while, until it passes or somebody mends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ill {
    DriverReplaced,
    GpuLost,
    DiskFull,
    /// The file system refuses what is written.
    ReadOnly,
    /// It does not answer: the engine hangs in a call.
    Stall,
    Away(MachineId),
    Paused,
}

/// Each with how long it lasts at most, in minutes.
const ILLS: [(Ill, u64); 8] = [
    (Ill::DriverReplaced, 10 * 60),
    (Ill::GpuLost, 20 * 60),
    (Ill::DiskFull, 5 * 60),
    (Ill::ReadOnly, 3 * 60),
    (Ill::Stall, 20),
    (Ill::Away(SMALL), 12 * 60),
    (Ill::Away(READ), 12 * 60),
    (Ill::Paused, 6 * 60),
];

/// What is known of the month beside the ledger.
struct Month {
    ills: BTreeMap<Ill, Time>,
    next_ill: Time,
    next_job: Time,
    boot_at: Time,
    /// GPUs of each job, by its command.
    jobs: BTreeMap<String, u16>,
    /// Jobs that wait beside GPUs that they could have, and since when.
    idle: BTreeMap<String, Time>,
    /// When it was told last, or still said, that the queue stands still.
    told_at: Time,
    /// A notice was sent, and the service has said so to whoever asks since.
    is_told: bool,
    told: MonthCounts,
}

/// How much of everything there was.
#[derive(Clone, Copy, Debug, Default)]
pub struct MonthCounts {
    pub ills: u64,
    pub notices: u64,
    pub jobs: u64,
}

impl Story {
    /// `step_minutes`: the longest step of time.
    pub fn lives(&mut self, days: u64, step_minutes: u64) -> MonthCounts {
        self.config.notify.command = Some("true".into());
        (self.compares_every, self.dies_rarer) = (COMPARES_EVERY, DIES_RARER);
        {
            let mut park = self.park();
            park.faults = true;
            park.lives = vec![1_000, 10 * MINUTE_MS, 2 * HOUR_MS, 9 * HOUR_MS];
        }
        self.goes_on(1_000);
        self.boot_until_up();
        self.turn(vec![What::AddMachine(0), What::AddMachine(1)]);
        let now = self.time();
        let mut month = Month {
            ills: BTreeMap::new(),
            next_ill: later(now, HOUR_MS),
            next_job: now,
            boot_at: now,
            jobs: BTreeMap::new(),
            idle: BTreeMap::new(),
            told_at: BEGIN,
            is_told: false,
            told: MonthCounts::default(),
        };
        while self.time() < later(BEGIN, days * DAY_MS) {
            let step = MINUTE_MS + self.chance.below(step_minutes * MINUTE_MS);
            self.goes_on(step);
            self.befall(&mut month);
            self.serve(&mut month);
            self.watch_idle(&mut month);
        }
        self.ends_well(&mut month);
        month.told.jobs = month.jobs.len() as u64;
        month.told
    }

    fn time(&self) -> Time {
        self.park().now
    }

    fn goes_on(&mut self, milliseconds: u64) {
        let now = {
            let mut park = self.park();
            park.now = later(park.now, milliseconds);
            park.now
        };
        let since = Duration::from_millis((now.0 - BEGIN.0) as u64);
        let free = if self.has_room { u64::MAX } else { 0 };
        pretend::set(Time(now.0 + self.clock_is_ahead_ms), since, free);
        self.park().pass();
    }

    /// What begins and what ends.
    fn befall(&mut self, month: &mut Month) {
        let now = self.time();
        for ill in month.ills.iter().filter(|(_, until)| **until <= now).map(|(ill, _)| *ill).collect::<Vec<_>>() {
            self.ends(ill, month);
        }
        if month.next_ill <= now {
            month.next_ill = later(now, self.chance.below(16 * HOUR_MS));
            let (ill, longest) = self.chance.pick(&ILLS);
            // Half of them are over soon.
            let longest = if self.chance.one_in(2) { 30.min(longest) } else { longest };
            let until = later(now, MINUTE_MS + self.chance.below(longest * MINUTE_MS));
            if month.ills.insert(ill, until).is_none() {
                self.begins_ill(ill);
                month.told.ills += 1;
            }
        }
        if self.chance.one_in(400) {
            let jump = self.chance.pick(&[-3_600_000, -60_000, 2_000, 3_600_000, 86_400_000]);
            self.note(format_args!("the clock is set by {jump} ms"));
            self.clock_is_ahead_ms += jump;
        }
        if self.chance.one_in(1_000) && self.service.is_some() {
            let is_reboot = self.chance.one_in(2);
            self.kill_service();
            month.boot_at = later(now, self.chance.below(LONGEST_BOOT_MS));
            if is_reboot {
                self.note(format_args!("the host restarts"));
                self.park().restart(MachineId::LOCAL);
            }
        }
    }

    fn begins_ill(&mut self, ill: Ill) {
        self.note(format_args!("begins: {ill:?}"));
        match ill {
            Ill::DriverReplaced => self.park().gpu_trouble = GpuTrouble::Mismatch,
            Ill::GpuLost => self.park().gpu_trouble = GpuTrouble::Lost,
            Ill::DiskFull => self.has_room = false,
            Ill::ReadOnly => self.set_fault(Some(Fault::ReadOnly)),
            Ill::Stall => {}
            Ill::Away(machine) => self.park().cut(machine),
            Ill::Paused => self.turn(vec![What::PauseQueue]),
        }
    }

    fn ends(&mut self, ill: Ill, month: &mut Month) {
        self.note(format_args!("ends: {ill:?}"));
        match ill {
            // Only a restart loads the driver anew.
            Ill::DriverReplaced => {
                let mut park = self.park();
                park.cut(READ);
                park.restart(READ);
                park.gpu_trouble = GpuTrouble::None;
                if !month.ills.contains_key(&Ill::Away(READ)) {
                    park.mend(READ);
                }
            }
            Ill::GpuLost => self.park().gpu_trouble = GpuTrouble::None,
            Ill::DiskFull => self.has_room = true,
            Ill::ReadOnly => self.set_fault(None),
            Ill::Stall => {}
            Ill::Away(machine) => self.park().mend(machine),
            Ill::Paused => {
                // What is refused is asked for again.
                self.turn(vec![What::ResumeQueue]);
                if self.service.as_ref().is_none_or(|service| service.engine.world.queue_paused()) {
                    month.ills.insert(ill, self.time());
                    return;
                }
            }
        }
        month.ills.remove(&ill);
    }

    /// The turns of one step, with the jobs that came meanwhile.
    fn serve(&mut self, month: &mut Month) {
        if self.service.is_none() && month.boot_at <= self.time() {
            self.boot();
        }
        if month.ills.contains_key(&Ill::Stall) || self.service.is_none() {
            return;
        }
        let mut wants = Vec::new();
        while month.next_job <= self.time() {
            let gpus = self.chance.pick(&[1, 1, 1, 1, 1, 2]);
            let (want, text) = self.users.gpu_job(gpus);
            month.jobs.insert(text, gpus);
            wants.push(want);
            // About half of what the machines could do; now and then many at once.
            let pause = if self.chance.one_in(3) { 0 } else { self.chance.below(5 * HOUR_MS) };
            month.next_job = later(month.next_job, pause);
        }
        // Who was told looks some time, and mends what the service itself has closed.
        if month.is_told && self.chance.one_in(20) {
            let closed = self.machines.iter().chain([&MachineId::LOCAL]);
            wants.extend(closed.map(|machine| What::ResumeMachine(*machine)));
        }
        self.turn(wants);
        for _ in 1..TURNS_A_STEP {
            self.goes_on(5_000);
            self.turn(vec![]);
        }
    }

    /// No job waits for an hour beside GPUs that it could have, unless somebody was told meanwhile.
    fn watch_idle(&mut self, month: &mut Month) {
        let now = self.time();
        if let Some(told) = &self.told {
            let standstills = told.standstills();
            if !standstills.is_empty() {
                (month.told_at, month.is_told) = (now, true);
                month.told.notices += standstills.len() as u64;
                self.note(format_args!("told: {:?}", standstills[0].reasons));
            }
        }
        if let Some(Service { engine, .. }) = &self.service {
            month.is_told &= engine.trouble.standstill().is_some();
        }
        if month.is_told {
            month.told_at = now;
        }
        let waiting = self.waiting();
        let idle = {
            let park = self.park();
            let idle = MACHINES.map(|(machine, gpus)| gpus.saturating_sub(park.ledger.busy_gpus(machine)));
            idle.into_iter().max().unwrap_or(0)
        };
        let gpus_of = |text: &String| usize::from(month.jobs[text]);
        // GPUs may be kept for the first job that needs several.
        let first_wide = waiting.iter().position(|text| gpus_of(text) > 1).unwrap_or(waiting.len());
        let near = waiting.iter().take(first_wide + 1).filter(|text| gpus_of(text) <= idle);
        let near: BTreeMap<String, Time> =
            near.map(|text| (text.clone(), month.idle.get(text).copied().unwrap_or(now))).collect();
        month.idle = near;
        let longest = month.idle.iter().min_by_key(|(_, since)| **since).filter(|(_, since)| **since > month.told_at);
        if let Some((text, since)) = longest {
            let minutes = now.since(*since).as_secs() / 60;
            assert!(
                minutes < 60,
                "{text:?} waits beside idle GPUs for {minutes} minutes, and nobody was told: {:?}",
                month.ills
            );
        }
    }

    /// Commands of queued jobs, in the order of the queue.
    fn waiting(&self) -> Vec<String> {
        let read = |db: &Connection| -> rusqlite::Result<Vec<String>> {
            let mut found = db.prepare_cached("SELECT command FROM jobs WHERE state = 'queued' ORDER BY n")?;
            found.query_map([], |row| row.get(0))?.collect()
        };
        match &self.service {
            Some(Service { engine, .. }) => read(engine.store.db()).expect("a database that can be read"),
            None => vec![],
        }
    }

    /// Nothing is wrong any more: all jobs end.
    fn ends_well(&mut self, month: &mut Month) {
        for ill in month.ills.keys().copied().collect::<Vec<_>>() {
            month.ills.insert(ill, BEGIN);
            if ill != Ill::Paused {
                self.ends(ill, month);
            }
        }
        self.compares_every = 100;
        self.park().lives = vec![1_000];
        for _ in 0..20 {
            if self.rows.iter().all(Row::has_ended) {
                break;
            }
            if self.service.is_none() {
                self.boot_until_up();
            }
            self.turn(vec![What::ResumeQueue]);
            for _ in 0..100 {
                self.goes_on(HOUR_MS / 20);
                self.turn(vec![]);
            }
        }
        self.compares_every = 1;
        self.drain();
    }

    fn boot_until_up(&mut self) {
        while self.service.is_none() {
            self.goes_on(1_000);
            self.boot();
        }
    }
}

fn later(time: Time, milliseconds: u64) -> Time {
    time.after(Duration::from_millis(milliseconds))
}
