//! Machines that pretend: a marker for each run, processes that outlive the service, orders and reports on their way
//! while the service dies or a line is cut, reports that are lost, late or repeated, and machines that restart.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nexus_api::run_dir::RunSpec;
use nexus_core::ids::{MachineId, RunId};
use nexus_core::run::Outcome;
use nexus_core::time::Time;
use nexus_node::slurm::Ask;
use nexus_node::{Report, RunPlace, RunTerms};
use nexus_testkit::Chance;

use super::cluster::{self, Said, Truth};
use super::ledger::Ledger;
use super::login::Login;
use super::said::{GpuTrouble, ended_report, hello, natural_end, reading};
use crate::backend::Simulated;
use crate::backend::ssh::trouble::Trouble;
use crate::backend::ssh::{News, Sink};
use crate::clock;
use crate::engine::{Message, messages};
use crate::store::MachineRow;

/// As in `node/src/keeper/standstill.rs`.
const SHIM_PATIENCE_MS: u64 = 5_000;

/// The service is killed: what unwinds it.
pub struct Killed;

enum Order {
    Launch(Box<RunSpec>),
    Stop(RunId),
    Observe(RunId),
    Terms(RunTerms),
    Tidy(RunId),
}

/// A process that lives, and how it is to end.
pub struct Life {
    at: Time,
    began: Time,
    /// Its shim was stopped by the job: it ends when its node ends it.
    stands_still: bool,
    /// What the node of now knows: when the run is to end, and that somebody asked for it.
    terms: Option<RunTerms>,
    asked_at: Option<Time>,
    pub began_ms: i64,
    pub pid: u32,
    pub outcome: Outcome,
}

#[derive(Default)]
struct Host {
    markers: BTreeSet<RunId>,
    living: BTreeMap<RunId, Life>,
    /// What is to be found of runs that ended, until it is tidied.
    records: BTreeMap<RunId, Report>,
    is_cut: bool,
    /// To the service of now, which calls it; none for the service's own host.
    line: Option<Sink>,
    /// Its node reads GPUs, and tells them at every poll.
    reads_gpus: bool,
    /// What the service was told last.
    is_up: bool,
    /// The line is dead, and the service does not know: it will, before there is another.
    is_broken: bool,
    /// A cluster, while a service has it.
    login: Option<Login>,
}

pub struct Park {
    pub chance: Chance,
    /// Never goes back, whatever the clocks say.
    pub now: Time,
    pub ledger: Ledger,
    pub faults: bool,
    /// So many effects more, and the service is killed.
    pub dies_in: Option<u64>,
    pub effects: u64,
    to_engine: Option<Sender<Message>>,
    hosts: BTreeMap<MachineId, Host>,
    orders: Vec<(Time, MachineId, Order)>,
    reports: Vec<(Time, MachineId, Report)>,
    next_pid: u32,
    /// Processes live for so long at most, by chance one of these; in milliseconds.
    pub lives: Vec<u64>,
    /// GPUs of machines whose nodes read them: what is wrong with them.
    pub gpu_trouble: GpuTrouble,
    /// What machines did and said, if it is to be told.
    pub told: Vec<String>,
}

/// One of its machines, in the hands of the engine.
pub struct Handle {
    pub machine: MachineId,
    pub park: Arc<Mutex<Park>>,
}

impl Handle {
    /// Each may be the last.
    fn effect(&self, effect: impl FnOnce(&mut Park, MachineId)) {
        let mut park = self.park.lock().expect("no machine panics with it in hand");
        if park.dies_in == Some(0) {
            drop(park);
            std::panic::resume_unwind(Box::new(Killed));
        }
        park.dies_in = park.dies_in.map(|left| left - 1);
        park.effects += 1;
        effect(&mut park, self.machine);
    }
}

impl Simulated for Handle {
    fn start(&self, runs: Vec<RunSpec>) {
        for spec in runs {
            self.effect(|park, machine| park.order(machine, Order::Launch(Box::new(spec))));
        }
    }

    fn observe(&self, runs: Vec<RunPlace>) {
        runs.iter().for_each(|place| self.effect(|park, machine| park.order(machine, Order::Observe(place.run))));
    }

    fn stop(&self, runs: Vec<RunPlace>) {
        runs.iter().for_each(|place| self.effect(|park, machine| park.order(machine, Order::Stop(place.run))));
    }

    fn know_terms(&self, runs: Vec<RunTerms>) {
        runs.into_iter().for_each(|terms| self.effect(|park, machine| park.order(machine, Order::Terms(terms))));
    }

    fn tidy(&self, runs: Vec<RunPlace>) {
        runs.iter().for_each(|place| self.effect(|park, machine| park.order(machine, Order::Tidy(place.run))));
    }
}

impl Park {
    pub fn new(seed: u64, now: Time, faults: bool) -> Park {
        Park {
            chance: Chance::from_seed(seed ^ 0x9a5c),
            now,
            ledger: Ledger::default(),
            faults,
            dies_in: None,
            effects: 0,
            to_engine: None,
            hosts: BTreeMap::from([(MachineId::LOCAL, Host::default())]),
            orders: Vec::new(),
            reports: Vec::new(),
            next_pid: 100,
            lives: vec![1, 500, 5_000, 60_000],
            gpu_trouble: GpuTrouble::None,
            told: Vec::new(),
        }
    }

    /// A service begins.
    pub fn serve(&mut self, engine: Sender<Message>) {
        self.to_engine = Some(engine);
    }

    /// A machine is called by the service of now.
    pub fn call(&mut self, row: &MachineRow, line: Sink) {
        let (seed, now, faults) = (self.chance.below(u64::MAX), self.now, self.faults);
        let host = self.hosts.entry(row.id).or_default();
        (host.line, host.is_up, host.is_broken) = (Some(line), false, false);
        host.reads_gpus = row.slurm.is_none() && row.simulated == 0;
        if row.slurm.is_some() && host.login.is_none() {
            let world = Arc::new(Mutex::new(cluster::World::new(seed, now, faults)));
            host.login = Some(Login::new(world));
        }
    }

    /// The service is gone: of what was on its way, some arrives nevertheless, and some at the next one.
    pub fn service_died(&mut self) {
        self.to_engine = None;
        for host in self.hosts.values_mut() {
            (host.line, host.is_up, host.is_broken) = (None, false, false);
        }
        self.orders_arrive_or_not(|_| true);
        self.hosts.values_mut().for_each(Host::node_dies);
        self.hosts.values_mut().filter_map(|host| host.login.as_mut()).for_each(Login::dies);
        let chance = &mut self.chance;
        self.reports.retain(|(_, machine, _)| *machine == MachineId::LOCAL && chance.one_in(3));
    }

    /// Nobody hears of these again. What arrives does so now: the next service, or line, comes after it.
    fn orders_arrive_or_not(&mut self, to: impl Fn(MachineId) -> bool) {
        let (now, chance) = (self.now, &mut self.chance);
        self.orders.retain(|(_, machine, _)| !to(*machine) || chance.one_in(2));
        self.orders.iter_mut().filter(|(_, machine, _)| to(*machine)).for_each(|(at, ..)| *at = now);
        self.land();
    }

    /// Of what is on its way to a machine and from it some arrives; nothing else until the line is mended.
    pub fn cut(&mut self, machine: MachineId) {
        self.orders_arrive_or_not(|to| to == machine);
        let chance = &mut self.chance;
        self.reports.retain(|(_, from, _)| *from != machine || chance.one_in(4));
        let host = self.hosts.entry(machine).or_default();
        host.is_cut = true;
        host.is_broken |= host.is_up;
        host.node_dies();
        host.login.iter_mut().for_each(Login::dies);
    }

    pub fn mend(&mut self, machine: MachineId) {
        self.hosts.entry(machine).or_default().is_cut = false;
    }

    pub fn is_cut(&self, machine: MachineId) -> bool {
        self.hosts.get(&machine).is_some_and(|host| host.is_cut)
    }

    /// It was taken out of the pool: what runs there is nobody's.
    pub fn taken_out(&mut self, machine: MachineId) {
        self.ledger.abandon(machine);
        if let Some(host) = self.hosts.get_mut(&machine) {
            (host.line, host.is_up, host.is_broken) = (None, false, false);
            // Whatever it did for this service is over when it is called again.
            host.living.clear();
            if let Some(login) = &mut host.login {
                login.dies();
                login.world().abandon();
            }
        }
        self.orders.retain(|(_, to, _)| *to != machine);
        self.reports.retain(|(_, from, _)| *from != machine);
    }

    /// All that ran there is gone, without a record.
    pub fn restart(&mut self, machine: MachineId) {
        self.orders.retain(|(_, to, _)| *to != machine);
        self.reports.retain(|(_, from, _)| *from != machine);
        let host = self.hosts.entry(machine).or_default();
        for run in std::mem::take(&mut host.living).into_keys() {
            let error = "its machine was restarted".to_string();
            host.records.insert(run, Report::Lost { run, error: error.clone() });
            self.ledger.ends(run, Outcome::Lost { error });
        }
    }

    /// What machines do by themselves until now: orders land, processes end. Then all that was to arrive by now does.
    pub fn pass(&mut self) {
        self.land();
        self.end_what_is_due();
        self.tell_lines();
        self.tell_readings();
        self.clusters_pass();
        let now = self.now;
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.reports).into_iter().partition(|(at, ..)| *at <= now);
        self.reports = later;
        for (_, machine, report) in due {
            self.deliver(machine, report);
        }
    }

    fn land(&mut self) {
        let now = self.now;
        let (mut due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.orders).into_iter().partition(|(at, ..)| *at <= now);
        self.orders = later;
        due.sort_by_key(|(at, ..)| *at);
        for (_, machine, order) in due {
            if let Some(login) = self.hosts.get_mut(&machine).and_then(|host| host.login.as_mut()) {
                login.asked.extend(order.for_cluster(machine));
                continue;
            }
            match order {
                Order::Launch(spec) => self.launch(&spec, machine),
                Order::Stop(run) => self.stop(run, machine),
                Order::Observe(run) => self.observe(run, machine),
                Order::Terms(terms) => self.know_terms(terms, machine),
                Order::Tidy(run) => self.tidy(run, machine),
            }
        }
    }

    /// A service is told of its lines; not at once. The loss of one that comes back quickly is not always told.
    fn tell_lines(&mut self) {
        for (machine, host) in &mut self.hosts {
            let Some(line) = &host.line else { continue };
            let changes = if host.is_up { host.is_broken } else { !host.is_cut };
            if !changes || !self.chance.one_in(2) {
                continue;
            }
            let is_back_already = host.is_up && !host.is_cut && self.chance.one_in(2);
            (host.is_up, host.is_broken) = (!host.is_up || is_back_already, false);
            line(match host.is_up {
                true => News::Up { hello: Box::new(hello(*machine)), round_trip: Duration::from_millis(1) },
                false => News::Down { trouble: Trouble::passing("it is away"), again_in: Duration::from_secs(1) },
            });
            if let Some(login) = host.login.as_mut() {
                match host.is_up {
                    true => login.begins(),
                    false => login.dies(),
                }
            }
        }
    }

    /// GPUs are told as soon as a node runs and as long as anything of its line is read: before the service has heard that
    /// the line is up, and after it has heard that the line is down.
    fn tell_readings(&mut self) {
        for (machine, host) in self.hosts.iter().filter(|(_, host)| host.reads_gpus) {
            let Some(line) = &host.line else { continue };
            if self.chance.one_in(if host.is_up { 2 } else { 4 }) {
                self.told.push(format!("{machine:?} tells its GPUs, and is up: {}", host.is_up));
                line(News::Gpus(reading(self.gpu_trouble)));
            }
        }
    }

    /// Compute nodes and Slurm do what they do; then the login nodes, one of which may die at any point of it.
    fn clusters_pass(&mut self) {
        let (now, faults) = (self.now, self.faults);
        let mut reports = Vec::new();
        for (machine, host) in &mut self.hosts {
            let Some(login) = host.login.as_mut() else { continue };
            {
                let mut world = login.world();
                (world.now, world.faults) = (now, faults);
                world.pass();
                world.dies_in = (faults && self.chance.one_in(20)).then(|| self.chance.below(6));
            }
            let is_up = host.is_up && !host.is_broken;
            if is_up && !login.turn() {
                // So does its line.
                host.is_broken = true;
            }
            let mut world = login.world();
            world.dies_in = None;
            self.told.append(&mut world.told);
            for truth in std::mem::take(&mut world.truths) {
                match truth {
                    Truth::Begins { run, text } => self.ledger.begins(run, *machine, vec![], &text),
                    Truth::Ends { run, outcome, told_by } => {
                        self.ledger.ends(run, outcome);
                        self.ledger.is_told_by(run, told_by);
                    }
                }
            }
            for said in std::mem::take(&mut world.said) {
                match (said, &host.line) {
                    (Said::Report(report), _) => reports.push((*machine, report)),
                    (Said::News(news), Some(line)) if is_up && !host.is_broken => line(News::Slurm(news)),
                    _ => {}
                }
            }
        }
        // One after the other, over one line.
        reports.into_iter().for_each(|(machine, report)| self.send(machine, report, 0));
    }

    fn deliver(&mut self, machine: MachineId, report: Report) {
        self.told.push(format!("{machine:?} says {report:?}"));
        let host = &self.hosts[&machine];
        match (&self.to_engine, &host.line) {
            (Some(engine), _) if machine == MachineId::LOCAL => {
                // The service may be on its way out.
                messages(report).into_iter().for_each(|message| drop(engine.send(message)));
            }
            (_, Some(line)) if host.is_up && !host.is_broken => line(News::Report(report)),
            _ => {}
        }
    }

    /// None overtakes another on the way to the same machine.
    fn order(&mut self, machine: MachineId, order: Order) {
        let late = if self.chance.one_in(3) { 4_000 } else { 50 };
        let lands = later(self.now, self.chance.below(late));
        let before = self.orders.iter().filter(|(_, to, _)| *to == machine).map(|(at, ..)| *at);
        let lands = before.fold(lands, Time::max);
        if self.is_reached(machine) {
            self.orders.push((lands, machine, order));
        }
    }

    /// Whether anything goes to it and comes from it.
    fn is_reached(&self, machine: MachineId) -> bool {
        let host = &self.hosts[&machine];
        machine == MachineId::LOCAL || host.is_up && !host.is_broken
    }

    fn launch(&mut self, spec: &RunSpec, machine: MachineId) {
        let run: RunId = spec.run.parse().expect("a run's name");
        self.told.push(format!("{machine:?} is to start {run}"));
        let host = self.hosts.get_mut(&machine).expect("it was called");
        if !host.markers.insert(run) {
            return;
        }
        if self.faults && self.chance.one_in(25) {
            let error = "no room for the fork".to_string();
            return self.never_begins(run, machine, Outcome::MachineError { error: error.clone() }, move |run| {
                Report::StartFailed { run, error: error.clone() }
            });
        }
        let text = spec.argv.last().expect("a command");
        let gpus = spec.env.get("NEXUS_GPU_ID").unwrap_or("");
        let gpus = gpus.split(',').filter(|part| !part.is_empty()).map(|part| part.parse().expect("a number"));
        self.ledger.begins(run, machine, gpus.collect(), text);
        self.next_pid += 1;
        let longest = self.chance.pick(&self.lives);
        let stands_still = self.faults && spec.time_limit_ms.is_some() && self.chance.one_in(3);
        let terms = RunTerms { run, time_limit_ms: spec.time_limit_ms, grace_ms: spec.grace_ms };
        let life = Life {
            at: later(self.now, self.chance.below(longest)),
            began: self.now,
            stands_still,
            terms: Some(terms),
            asked_at: None,
            began_ms: clock::now().0,
            pid: self.next_pid,
            outcome: natural_end(&mut self.chance),
        };
        let report = Report::Started { run, pid: life.pid, at_ms: life.began_ms };
        self.hosts.get_mut(&machine).expect("it was called").living.insert(run, life);
        self.tell(machine, report);
    }

    fn stop(&mut self, run: RunId, machine: MachineId) {
        let host = self.hosts.get_mut(&machine).expect("it was called");
        if host.markers.insert(run) {
            return self.never_begins(run, machine, Outcome::NeverStarted, |run| Report::Claimed { run });
        }
        let Some(life) = host.living.get_mut(&run) else { return };
        life.asked_at.get_or_insert(self.now);
        if life.stands_still {
            return;
        }
        let gone = later(self.now, self.chance.below(3_000));
        if gone < life.at {
            let outcome = match self.chance.one_in(3) {
                true => Outcome::Stopped { code: Some(1), signal: None },
                false => Outcome::Stopped { code: None, signal: Some(15) },
            };
            (life.at, life.outcome) = (gone, outcome);
        }
    }

    fn never_begins(&mut self, run: RunId, machine: MachineId, outcome: Outcome, report: impl Fn(RunId) -> Report) {
        self.ledger.never_begins(run, machine, outcome);
        self.hosts.get_mut(&machine).expect("it was called").records.insert(run, report(run));
        self.tell(machine, report(run));
    }

    fn know_terms(&mut self, terms: RunTerms, machine: MachineId) {
        let host = self.hosts.get_mut(&machine).expect("it was called");
        if let Some(life) = host.living.get_mut(&terms.run) {
            life.terms = Some(terms);
        }
    }

    /// An answer is not overtaken by what happens after it: a machine says one thing after the other.
    fn observe(&mut self, run: RunId, machine: MachineId) {
        let host = &self.hosts[&machine];
        let answer = match (host.living.get(&run), host.records.get(&run)) {
            (Some(life), _) => Report::Started { run, pid: life.pid, at_ms: life.began_ms },
            (None, Some(record)) => record.clone(),
            (None, None) => Report::NotStarted { run },
        };
        self.send(machine, answer, 0);
    }

    /// What was known of it is gone, its marker too.
    fn tidy(&mut self, run: RunId, machine: MachineId) {
        self.told.push(format!("{machine:?} tidies {run}"));
        let entry = self.ledger.get(run);
        let is_over = entry.is_none_or(|entry| entry.ended.is_some() || entry.abandoned);
        assert!(is_over, "{run} is tidied away while it lives");
        let host = self.hosts.get_mut(&machine).expect("it was called");
        host.records.remove(&run);
        host.markers.remove(&run);
        self.send(machine, Report::Tidied { run }, 5);
    }

    fn end_what_is_due(&mut self) {
        let now = self.now;
        let mut ended = Vec::new();
        for (machine, host) in &mut self.hosts {
            host.living.values_mut().for_each(|life| life.node_ends_it(now));
            let is_due = |life: &Life| life.at <= now && !life.stands_still;
            let due: Vec<RunId> = host.living.iter().filter(|(_, life)| is_due(life)).map(|(run, _)| *run).collect();
            for run in due {
                let life = host.living.remove(&run).expect("it was living");
                let ran = now.since(life.began);
                let report = ended_report(run, &life, ran);
                host.records.insert(run, report.clone());
                ended.push((*machine, run, life.outcome, ran, report));
            }
        }
        for (machine, run, outcome, ran, report) in ended {
            self.ledger.ends_after(run, outcome, ran);
            self.tell(machine, report);
        }
    }

    /// By message, which may be lost; and by what is seen later (the pidfd, the folder), which is not.
    fn tell(&mut self, machine: MachineId, report: Report) {
        if !self.faults {
            return self.send(machine, report, 10);
        }
        if !self.chance.one_in(4) {
            let late = if self.chance.one_in(4) { 10_000 } else { 200 };
            let late = self.chance.below(late);
            self.send(machine, report.clone(), late);
        }
        let seen = 1_000 + self.chance.below(15_000);
        self.send(machine, report, seen);
    }

    fn send(&mut self, machine: MachineId, report: Report, delay: u64) {
        if self.is_reached(machine) {
            self.reports.push((later(self.now, delay), machine, report));
        }
    }
}

pub fn later(now: Time, milliseconds: u64) -> Time {
    now.after(Duration::from_millis(milliseconds))
}

impl Host {
    /// What it knew goes with it; its runs go on.
    fn node_dies(&mut self) {
        self.living.values_mut().for_each(|life| (life.terms, life.asked_at) = (None, None));
    }
}

impl Life {
    /// A shim that stands still neither hears nor counts: its node ends the run once the grace is over, and some seconds.
    fn node_ends_it(&mut self, now: Time) {
        let Some(terms) = self.terms.as_ref().filter(|_| self.stands_still) else { return };
        let is_over = |since: Time, wait: u64| later(since, wait + terms.grace_ms + SHIM_PATIENCE_MS) <= now;
        let (code, signal) = (None, Some(9));
        let outcome = match (self.asked_at, terms.time_limit_ms) {
            (Some(asked), _) if is_over(asked, 0) => Outcome::Stopped { code, signal },
            (_, Some(limit)) if is_over(self.began, limit) => Outcome::TimedOut { code, signal },
            _ => return,
        };
        (self.at, self.outcome, self.stands_still) = (now, outcome, false);
    }
}

impl Order {
    /// None for what Slurm sees to by itself.
    fn for_cluster(self, machine: MachineId) -> Option<Ask> {
        let place = |run: RunId| {
            let dir = nexus_api::run_dir::of_run(&hello(machine).logs, run.job.as_str(), run.number);
            vec![RunPlace { run, dir }]
        };
        Some(match self {
            Order::Terms(_) => return None,
            Order::Launch(spec) => Ask::Start(vec![*spec]),
            Order::Stop(run) => Ask::Stop(place(run)),
            Order::Observe(run) => Ask::Observe(place(run)),
            Order::Tidy(run) => Ask::Clear(place(run)),
        })
    }
}
