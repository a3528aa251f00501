//! A node that pretends: an exclusive marker per run, processes that outlive the engine, launches and
//! stops that are on their way while the engine crashes or a line is cut, reports that are lost, late, swapped, repeated.

use std::collections::{BTreeMap, BTreeSet};

use nexus_core::apply::Report;
use nexus_core::ids::{JobId, MachineId, RunId};
use nexus_core::reconcile::Effect;
use nexus_core::run::{Lease, Memory, Outcome};
use nexus_core::time::Time;

use crate::chance::Chance;
use crate::hardware::uuid;
use crate::ledger::Ledger;

/// When a living process ends and how, unless it is asked to end earlier.
struct Destiny {
    at: Time,
    outcome: Outcome,
    lease: Lease,
    /// Memory it has on each of its GPUs once it has had time to take it.
    memory_mib: u32,
    took_at: Time,
}

/// Things on their way, and when they arrive.
type Timed<T> = Vec<(Time, T)>;

#[derive(Clone)]
enum Order {
    Launch(RunId, Lease),
    Stop(RunId),
}

#[derive(Default)]
pub struct Node {
    pub ledger: Ledger,
    markers: BTreeSet<RunId>,
    living: BTreeMap<RunId, Destiny>,
    /// Copies of results that are under way: they are the engine's own, and end with it.
    copies: BTreeSet<JobId>,
    /// To and from which machine.
    orders: Timed<(MachineId, Order)>,
    reports: Timed<(MachineId, Report)>,
    /// Machines whose line is cut.
    cut: BTreeSet<MachineId>,
    next_pid: u32,
    /// Whether anything goes wrong.
    pub faults: bool,
    one_start_fails_in: u64,
    /// One of so many starts finds a GPU locked by another service.
    one_lock_fails_in: u64,
}

impl Node {
    pub fn new(faults: bool, chance: &mut Chance) -> Node {
        let (one_start_fails_in, one_lock_fails_in) = (chance.pick(&[2, 10, 50]), chance.pick(&[2, 10, 50]));
        Node { faults, one_start_fails_in, one_lock_fails_in, ..Node::default() }
    }

    pub fn act(&mut self, effect: &Effect, chance: &mut Chance, now: Time) {
        let delay = if chance.one_in(3) { chance.below(4_000) } else { chance.below(50) };
        let lands = later(now, delay);
        match effect {
            Effect::Start { run, machine, lease } => self.order(*machine, Order::Launch(*run, lease.clone()), lands),
            Effect::Stop { run, machine } => self.order(*machine, Order::Stop(*run), lands),
            Effect::Observe { run, machine, ran } => self.observe(*run, *machine, *ran, chance, now),
            Effect::Copy { job } => {
                if self.copies.insert(*job) {
                    self.deliver(MachineId::LOCAL, Report::CopyEnded { job: *job }, lifetime(chance), now);
                }
            }
            Effect::EndCopy { job } => {
                assert!(self.copies.remove(job), "the copy of {job} ends, and never began");
                self.reports.retain(|(_, (_, report))| *report != Report::CopyEnded { job: *job });
            }
            Effect::Tidy { run, .. } => {
                let entry = self.ledger.get(*run);
                assert!(entry.is_none_or(|entry| entry.ended.is_some()), "{run} is tidied away while it lives");
            }
        }
    }

    /// What the world does by itself until `now`: orders land, processes end. Runs that began are returned.
    pub fn pass(&mut self, chance: &mut Chance, now: Time) -> Vec<RunId> {
        let mut began = Vec::new();
        let (mut due, on_their_way) = split(std::mem::take(&mut self.orders), now);
        self.orders = on_their_way;
        due.sort_by_key(|(at, _)| *at);
        for (at, (machine, order)) in due {
            self.end_what_is_due(chance, at);
            match order {
                Order::Launch(run, lease) => began.extend(self.launch(run, lease, chance, at)),
                Order::Stop(run) => self.stop(run, machine, chance, at),
            }
        }
        self.end_what_is_due(chance, now);
        began
    }

    /// Reports that have arrived, in an order of their own.
    pub fn arrived(&mut self, chance: &mut Chance, now: Time) -> Vec<Report> {
        let (due, on_their_way) = split(std::mem::take(&mut self.reports), now);
        self.reports = on_their_way;
        let mut arrived: Vec<Report> = due.into_iter().map(|(_, (_, report))| report).collect();
        if self.faults {
            chance.shuffle(&mut arrived);
        }
        arrived
    }

    /// Memory that living runs have on each of their GPUs.
    pub fn usage(&self, now: Time) -> Vec<(RunId, Lease, u32)> {
        let mib = |destiny: &Destiny| if now < destiny.took_at { destiny.memory_mib / 3 } else { destiny.memory_mib };
        self.living.iter().map(|(run, destiny)| (*run, destiny.lease.clone(), mib(destiny))).collect()
    }

    /// The engine is gone: of what was on its way, some arrives nevertheless, and some at the next engine.
    pub fn engine_died(&mut self, chance: &mut Chance) {
        self.orders.retain(|_| chance.one_in(2));
        self.reports.retain(|(_, (_, report))| !matches!(report, Report::CopyEnded { .. }) && chance.one_in(3));
        self.copies.clear();
    }

    /// Of what is on its way to a machine and from it, some arrives nevertheless; of what happens there from now on,
    /// nothing is heard.
    pub fn cut(&mut self, machine: MachineId, chance: &mut Chance) {
        self.cut.insert(machine);
        self.orders.retain(|(_, (to, _))| *to != machine || chance.one_in(2));
        self.reports.retain(|(_, (from, _))| *from != machine || chance.one_in(4));
    }

    pub fn mend(&mut self, machine: MachineId) {
        self.cut.remove(&machine);
    }

    /// The machine was removed: nobody talks to it any more.
    pub fn remove(&mut self, machine: MachineId) {
        self.cut.insert(machine);
        self.orders.retain(|(_, (to, _))| *to != machine);
    }

    fn order(&mut self, machine: MachineId, order: Order, lands: Time) {
        if !self.cut.contains(&machine) {
            self.orders.push((lands, (machine, order)));
        }
    }

    /// Somebody deletes the folder of a run that has ended.
    pub fn lose_folder(&mut self, run: RunId) {
        self.ledger.forget(run);
        self.reports.retain(|(_, (_, report))| !matches!(report, Report::Ended { run: ended, .. } if *ended == run));
    }

    fn launch(&mut self, run: RunId, lease: Lease, chance: &mut Chance, now: Time) -> Option<RunId> {
        if !self.markers.insert(run) {
            return None;
        }
        let machine = host(&lease);
        if self.faults && chance.one_in(self.one_start_fails_in) {
            let outcome = Outcome::MachineError { error: "no room for the fork".into() };
            self.never_begins(run, machine, outcome, chance, now);
            return None;
        }
        if let Some(index) = lease.gpus.iter().next().filter(|_| self.faults && chance.one_in(self.one_lock_fails_in)) {
            let outcome = Outcome::GpuLocked { uuid: uuid(index), user: None, pid: None };
            self.never_begins(run, machine, outcome, chance, now);
            return None;
        }
        if chance.one_in(25) {
            let outcome = Outcome::StartError { error: "no such program".into(), code: Some(127) };
            self.never_begins(run, machine, outcome, chance, now);
            return None;
        }
        self.ledger.begins(run, lease.clone(), now);
        let destiny = Destiny {
            at: later(now, lifetime(chance)),
            outcome: natural_end(self.faults, chance),
            memory_mib: appetite(&lease, chance),
            lease,
            took_at: later(now, chance.below(3_000)),
        };
        self.living.insert(run, destiny);
        self.next_pid += 1;
        self.tell(machine, Report::Started { run, pid: self.next_pid, at: now }, chance, now);
        Some(run)
    }

    fn stop(&mut self, run: RunId, machine: MachineId, chance: &mut Chance, now: Time) {
        if self.markers.insert(run) {
            self.never_begins(run, machine, Outcome::NeverStarted, chance, now);
            return;
        }
        let Some(destiny) = self.living.get_mut(&run) else { return };
        let gone = later(now, chance.below(3_000));
        if gone < destiny.at {
            let outcome = if chance.one_in(3) {
                Outcome::Stopped { code: Some(0), signal: None }
            } else {
                Outcome::Stopped { code: None, signal: Some(15) }
            };
            (destiny.at, destiny.outcome) = (gone, outcome);
        }
    }

    /// Looks at the run's folder now; the answer takes its time, as any report.
    fn observe(&mut self, run: RunId, machine: MachineId, ran: bool, chance: &mut Chance, now: Time) {
        let answer = match self.ledger.get(run) {
            None => Report::NotStarted { run, ran },
            Some(entry) if entry.forgotten => Report::NotStarted { run, ran },
            Some(entry) => match &entry.ended {
                Some((at, outcome)) => Report::Ended { run, outcome: outcome.clone(), at: *at },
                None => Report::Started { run, pid: 1, at: entry.began.as_ref().expect("what lives began").0 },
            },
        };
        self.deliver(machine, answer.clone(), chance.below(2_000), now);
        if self.faults && chance.one_in(6) {
            self.deliver(machine, answer, chance.below(20_000), now);
        }
    }

    fn end_what_is_due(&mut self, chance: &mut Chance, now: Time) {
        let due = self.living.iter().filter(|(_, destiny)| destiny.at <= now).map(|(run, _)| *run);
        for run in due.collect::<Vec<_>>() {
            let Destiny { at, outcome, lease, .. } = self.living.remove(&run).expect("it was living");
            self.ledger.ends(run, outcome.clone(), at);
            self.tell(host(&lease), Report::Ended { run, outcome, at }, chance, now);
        }
    }

    fn never_begins(&mut self, run: RunId, machine: MachineId, outcome: Outcome, chance: &mut Chance, now: Time) {
        self.ledger.never_begins(run, outcome.clone(), now);
        self.tell(machine, Report::Ended { run, outcome, at: now }, chance, now);
    }

    /// By message, which may be lost; and by what is seen later (the pidfd, the folder), which is not.
    fn tell(&mut self, machine: MachineId, report: Report, chance: &mut Chance, now: Time) {
        if !self.faults {
            return self.deliver(machine, report, chance.below(100), now);
        }
        if !chance.one_in(4) {
            let late = if chance.one_in(4) { 10_000 } else { 200 };
            self.deliver(machine, report.clone(), chance.below(late), now);
        }
        self.deliver(machine, report, 1_000 + chance.below(15_000), now);
    }

    fn deliver(&mut self, machine: MachineId, report: Report, delay: u64, now: Time) {
        if !self.cut.contains(&machine) {
            self.reports.push((later(now, delay), (machine, report)));
        }
    }
}

/// Where the processes of a run are.
fn host(lease: &Lease) -> MachineId {
    if lease.driver { MachineId::LOCAL } else { lease.machine }
}

fn later(now: Time, milliseconds: u64) -> Time {
    now.after(std::time::Duration::from_millis(milliseconds))
}

/// What is due, and what is not yet.
fn split<T>(list: Timed<T>, now: Time) -> (Timed<T>, Timed<T>) {
    list.into_iter().partition(|(at, _)| *at <= now)
}

fn lifetime(chance: &mut Chance) -> u64 {
    let longest = chance.pick(&[1, 500, 5_000, 60_000]);
    chance.below(longest)
}

/// Mostly within what it was promised; nothing where memory is not read.
fn appetite(lease: &Lease, chance: &mut Chance) -> u32 {
    let promised = lease.share.map_or(900, |share| share.vram_mib.unwrap_or(u32::from(share.milli)));
    chance.pick(&[0, promised / 2, promised, promised, promised + promised / 4])
}

fn natural_end(faults: bool, chance: &mut Chance) -> Outcome {
    let out_of = |of| Outcome::OutOfMemory { of, code: Some(1), signal: None };
    match chance.below(22) {
        0..8 => Outcome::Exited { code: 0 },
        8..11 => out_of(Memory::Gpu),
        11 => out_of(Memory::Host),
        12..14 => Outcome::Exited { code: 1 + chance.below(200) as i32 },
        14..16 => Outcome::Signaled { signal: chance.pick(&[9, 11, 15]) },
        16 => Outcome::TimedOut { code: None, signal: Some(9) },
        18 => Outcome::SessionClosed { code: None, signal: Some(15) },
        17 if faults => Outcome::Lost { error: "its shim died".into() },
        _ => Outcome::Exited { code: 0 },
    }
}
