//! One seed's story: a service that begins, serves and dies over and over, and everything that befalls it.

mod damage;
mod month;

use std::collections::BTreeSet;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};
use std::time::Duration;

use nexus_api::paths::{Home, Surroundings};
use nexus_core::ids::{JobId, MachineId, RunId};
use nexus_core::time::Time;
use nexus_testkit::Chance;
use rusqlite::Connection;
use tempfile::TempDir;

use super::disk::{self, FAULTS, Fault, Files};
use super::ledger::Row;
use super::park::{Handle, Killed, Park};
use super::users::{MACHINES, Pending, Users, What};
use crate::backend::Backend;
use crate::config::Config;
use crate::engine::{Calls, Engine, Remnants, Watch};
use crate::events::Events;
use crate::gpus::{self, Gpus};
use crate::home::Reserve;
use crate::ids::IdMaker;
use crate::launch::RunSpecs;
use crate::metrics::Metrics;
use crate::mirrors::Mirrors;
use crate::notify::{Teller, Told};
use crate::pool::{LineState, Lines, Member, Pool};
use crate::pretend;
use crate::readings::Readings;
use crate::results::Copier;
use crate::service_log::{Limits, ServiceLog};
use crate::store::Store;

const BEGIN: Time = Time(1_700_000_000_000);
const OWN_GPUS: u16 = 3;

/// No machine of a story is far from its end after so many steps without trouble.
const LONGEST_DRAIN: u32 = 3_000;

/// What has threads of its own, and nothing to do in any story.
static THREADS: LazyLock<(Arc<Lines>, Copier)> = LazyLock::new(|| {
    let mirrors = Mirrors::start(Box::new(|_| {})).expect("threads");
    (Arc::new(Lines::new(mirrors)), Copier::start(Box::new(|_| {})).expect("threads"))
});

/// A service that runs, and what is lost with it.
struct Service {
    engine: Engine,
    watch: Watch,
}

pub struct Story {
    chance: Chance,
    park: Arc<Mutex<Park>>,
    users: Users,
    service: Option<Service>,
    /// What the clock of the service is ahead of the time that passes.
    clock_is_ahead_ms: i64,
    fault: Option<Fault>,
    has_room: bool,
    /// As the disk was when the last turn ended.
    rows: Vec<Row>,
    machines: BTreeSet<MachineId>,
    home: Home,
    /// What happened, line by line, if it is to be told.
    pub trace: Option<Vec<String>>,
    pub counts: Counts,
    config: Config,
    /// What the service of now told of a queue that stands still.
    told: Option<Told>,
    /// Turns between two comparisons of the disk with the ledger.
    compares_every: u64,
    /// The service dies by itself so many times less often than once in 25 turns.
    dies_rarer: u64,
    _folder: TempDir,
}

/// How much a story had of everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub turns: u64,
    pub effects: u64,
    pub kills: u64,
    pub torn_commits: u64,
    pub failed_commits: u64,
    pub jobs: u64,
}

impl Story {
    pub fn begin(seed: u64, told: bool) -> Story {
        let place = std::path::Path::new("/dev/shm");
        let place = if place.is_dir() { place.to_path_buf() } else { std::env::temp_dir() };
        let folder = tempfile::Builder::new().prefix("nx-sim-").tempdir_in(place).expect("a folder");
        let around = Surroundings {
            nexus_home: Some(folder.path().join("home").into()),
            home: None,
            runtime_dir: None,
            hostname: "here".into(),
        };
        let home = Home::find(&around, |_| false).expect("a home");
        std::fs::create_dir_all(home.default_log_dir()).expect("a folder of our own");
        let faults = !seed.is_multiple_of(8);
        Story {
            chance: Chance::from_seed(seed),
            park: Arc::new(Mutex::new(Park::new(seed, BEGIN, faults))),
            users: Users::default(),
            service: None,
            clock_is_ahead_ms: 0,
            fault: None,
            has_room: true,
            rows: Vec::new(),
            machines: BTreeSet::new(),
            home,
            trace: told.then(Vec::new),
            counts: Counts::default(),
            config: Config::default(),
            told: None,
            compares_every: 1,
            dies_rarer: 1,
            _folder: folder,
        }
    }

    pub fn trouble(&mut self, steps: u64) {
        for _ in 0..steps {
            self.passes(false);
            self.mischief();
            if self.service.is_none() {
                if !self.chance.one_in(3) {
                    continue;
                }
                self.boot();
            }
            let wants = self.wants();
            self.turn(wants);
        }
    }

    /// No more faults, no more wishes: all that can end must end.
    pub fn drain(&mut self) {
        self.note(format_args!("the faults stop"));
        self.set_fault(None);
        self.has_room = true;
        self.park().faults = false;
        // A service that goes on must come to the same as one that looks at everything anew.
        if self.chance.one_in(2) {
            self.kill_service();
        }
        if self.service.is_none() {
            self.boot();
        }
        for machine in self.machines.clone() {
            self.park().mend(machine);
        }
        for _ in 0..LONGEST_DRAIN {
            let is_over = self.rows.iter().all(Row::has_ended);
            if is_over && self.park().ledger.living() == 0 {
                return self.audit();
            }
            self.passes(true);
            if self.service.is_none() {
                self.boot();
            }
            let held = self.rows.iter().filter(|row| row.state == "held").map(|row| What::Release(row.id));
            let closed = self.machines.iter().chain([&MachineId::LOCAL]).map(|machine| What::ResumeMachine(*machine));
            let wants = held.chain(closed).chain([What::ResumeQueue]).collect();
            self.turn(wants);
        }
        let left: Vec<&Row> = self.rows.iter().filter(|row| !row.has_ended()).collect();
        panic!("jobs that could run are left: {left:?}");
    }

    /// Time goes by for all; the service's own clock may be set meanwhile.
    fn passes(&mut self, calm: bool) {
        let span = if calm { 60_000 } else { self.chance.pick(&[0, 10, 300, 5_000]) };
        let milliseconds = self.chance.below(span + 1);
        if !calm && self.park().faults && self.chance.one_in(40) {
            let jump = self.chance.pick(&[-3_600_000, -60_000, 60_000, 86_400_000]);
            self.note(format_args!("the clock is set by {jump} ms"));
            self.clock_is_ahead_ms += jump;
        }
        let now = {
            let mut park = self.park();
            park.now = park.now.after(Duration::from_millis(milliseconds));
            park.now
        };
        let since = Duration::from_millis((now.0 - BEGIN.0) as u64);
        pretend::set(Time(now.0 + self.clock_is_ahead_ms), since, if self.has_room { u64::MAX } else { 0 });
        self.park().pass();
    }

    /// What happens to machines, disk and service from outside.
    fn mischief(&mut self) {
        if !self.park().faults {
            return;
        }
        if self.chance.one_in(10) {
            let machine = MachineId(1 + self.chance.below(MACHINES) as u32);
            let is_cut = self.park().is_cut(machine);
            self.note(format_args!("{machine:?} is {}", if is_cut { "back" } else { "away" }));
            match is_cut {
                true => self.park().mend(machine),
                false => self.park().cut(machine),
            }
        }
        if self.chance.one_in(60) {
            let machine = MachineId(1 + self.chance.below(MACHINES) as u32);
            self.note(format_args!("{machine:?} restarts"));
            let mut park = self.park();
            park.cut(machine);
            park.restart(machine);
        }
        if self.chance.one_in(if self.has_room { 60 } else { 5 }) {
            self.has_room = !self.has_room;
        }
        match self.fault {
            None if self.chance.one_in(25) => {
                let fault = self.chance.pick(&FAULTS);
                self.set_fault(Some(fault));
            }
            Some(_) if self.chance.one_in(4) => self.set_fault(None),
            _ => {}
        }
        if self.service.is_some() && self.chance.one_in(60) {
            self.kill_service();
        }
    }

    fn set_fault(&mut self, fault: Option<Fault>) {
        self.note(format_args!("commits fail: {fault:?}"));
        let before = std::mem::replace(&mut self.fault, fault);
        if let Some(Service { engine, .. }) = &self.service {
            let db = engine.store.db();
            before.map_or(Ok(()), |fault| fault.end(db)).expect("a pragma of SQLite");
            fault.map_or(Ok(()), |fault| fault.begin(db)).expect("a pragma of SQLite");
        }
    }

    /// A few wishes, no two of the same job: what is answered to one would say nothing of the other.
    fn wants(&mut self) -> Vec<What> {
        let mut wants: Vec<What> = Vec::new();
        for _ in 0..self.chance.below(3) {
            let want = self.users.want(&self.rows, &mut self.chance);
            if wants.iter().all(|other| !want.meddles_with(other)) {
                wants.push(want);
            }
        }
        wants
    }

    fn boot(&mut self) {
        self.note(format_args!("the service begins"));
        let database = self.home.database();
        let store = Store::open(&database, false).expect("a database that opens");
        let world = store.restore().expect("a database that can be read");
        let names = store.names().expect("a database that can be read");
        let (outbox, inbox) = channel();
        self.park().serve(outbox.clone());
        let own = Member {
            name: "local".into(),
            address: None,
            added_at: Time(0),
            gpus: Gpus::new(OWN_GPUS),
            machine: gpus::unread(),
            backend: Backend::Simulated(Box::new(Handle { machine: MachineId::LOCAL, park: self.park.clone() })),
            line: LineState::Own,
            cluster: None,
            poll: None,
        };
        let config = self.config.clone();
        let (teller, told) = Teller::listening();
        self.told = Some(told);
        let mut calls = Calls::new(&self.home, "sim".into(), outbox.clone(), &config);
        let park = self.park.clone();
        calls.simulated = Some(Arc::new(move |row, line| {
            park.lock().expect("no machine panics with it in hand").call(row, line);
            Box::new(Handle { machine: row.id, park: park.clone() })
        }));
        let remnants = Remnants::read(&store).expect("a database that can be read");
        let engine = Engine {
            inbox,
            outbox,
            world,
            pool: Pool::new(own, names),
            lines: THREADS.0.clone(),
            calls,
            watched: None,
            copier: THREADS.1.clone(),
            specs: RunSpecs::new(config, self.home.default_log_dir(), PathBuf::from("/there"), &self.home),
            log: ServiceLog::open(self.home.service_log(), Limits::NONE).expect("a log"),
            events: Arc::new(Events::new(crate::clock::now())),
            readings: Arc::new(Readings::new()),
            metrics: Arc::new(Metrics::new()),
            ids: IdMaker::from_seed(self.chance.below(u64::MAX)),
            home: self.home.clone(),
            reserve: Reserve::of(&self.home),
            leaves_jobs: false,
            variables: store.variables_set().expect("a database that can be read"),
            remnants,
            teller,
            trouble: Arc::default(),
            store,
        };
        // What an earlier one wrote is all there, whatever became of it.
        self.look(engine.store.db());
        self.compare();
        self.begins(engine);
    }

    /// Its first turn, which may be its last.
    fn begins(&mut self, mut engine: Engine) {
        if let Some(fault) = self.fault {
            fault.begin(engine.store.db()).expect("a pragma of SQLite");
        }
        self.may_die();
        match catch_unwind(AssertUnwindSafe(|| engine.begin())) {
            Ok(watch) => {
                self.park().dies_in = None;
                self.service = Some(Service { engine, watch });
            }
            Err(unwound) => self.is_gone(engine, unwound, None),
        }
    }

    /// By chance: the service is killed between two of the effects of this turn.
    fn may_die(&mut self) {
        let dies_in = (self.park().faults && self.chance.one_in(25 * self.dies_rarer)).then(|| self.chance.below(4));
        self.park().dies_in = dies_in;
    }

    /// One turn of the real loop, with all that has come; and the places where that breaks.
    fn turn(&mut self, wants: Vec<What>) {
        let Some(Service { mut engine, mut watch }) = self.service.take() else { return };
        self.counts.turns += 1;
        let mut pending = Vec::new();
        for want in wants {
            self.note(format_args!("asked {want:?}"));
            let (message, waits) = self.users.ask(want, &mut self.park().ledger);
            engine.outbox.send(message).expect("the engine has the other end");
            pending.push(waits);
        }
        self.may_die();
        let torn = (self.park().faults && self.chance.one_in(40 * self.dies_rarer))
            .then(|| Files::read(&self.home.database()));
        if torn.is_some() {
            self.park().dies_in = Some(0);
        }
        let first = engine.inbox.try_recv().ok();
        let rests = watch.rest_until;
        let unwound = catch_unwind(AssertUnwindSafe(|| engine.round(first, &mut watch))).err();
        self.counts.failed_commits += u64::from(watch.rest_until.is_some() && watch.rest_until != rests);
        let killed: Option<Box<dyn std::any::Any + Send>> = match &torn {
            Some(_) => Some(unwound.unwrap_or(Box::new(Killed))),
            None => unwound,
        };
        if let Some(killed) = killed {
            self.users.heard_nothing(pending);
            return self.is_gone(engine, killed, torn);
        }
        self.park().dies_in = None;
        let is_compared = self.counts.turns.is_multiple_of(self.compares_every);
        if is_compared || !pending.is_empty() {
            self.look(engine.store.db());
        }
        self.hear(pending);
        if is_compared {
            self.compare();
        }
        match engine.is_over() {
            true => {
                self.note(format_args!("the service ends"));
                drop(engine);
                self.park().service_died();
            }
            false => self.service = Some(Service { engine, watch }),
        }
    }

    fn hear(&mut self, pending: Vec<Pending>) {
        for waits in pending {
            let mut park = self.park.lock().expect("no machine panics with it in hand");
            let done = self.users.answered(waits, &self.rows, &mut park.ledger);
            drop(park);
            self.note(format_args!("answered: done {done}"));
        }
    }

    fn kill_service(&mut self) {
        if let Some(Service { engine, .. }) = self.service.take() {
            self.is_gone(engine, Box::new(Killed), None);
        }
    }

    /// The service was killed, or has panicked, which is a finding. `torn`: the disk before the commit that was torn;
    /// nobody heard anything of that turn, and nothing was done.
    fn is_gone(&mut self, engine: Engine, unwound: Box<dyn std::any::Any + Send>, torn: Option<Files>) {
        if !unwound.is::<Killed>() {
            resume_unwind(unwound);
        }
        self.note(format_args!("the service is killed{}", if torn.is_some() { " in its commit" } else { "" }));
        self.counts.kills += 1;
        let database = self.home.database();
        let after = Files::read(&database);
        // Closed as no killed process would: what that writes is undone.
        drop(engine);
        match torn {
            Some(before) => {
                self.counts.torn_commits += u64::from(before != after);
                before.torn(after, &mut self.chance).write(&database);
            }
            None => after.write(&database),
        }
        let mut park = self.park();
        park.dies_in = None;
        park.service_died();
    }

    fn look(&mut self, db: &Connection) {
        self.rows = disk::rows(db).expect("a database that can be read");
        let machines = disk::machines(db).expect("a database that can be read");
        for gone in self.machines.difference(&machines) {
            self.park.lock().expect("no machine panics with it in hand").taken_out(*gone);
        }
        self.machines = machines;
    }

    fn compare(&mut self) {
        let mut park = self.park.lock().expect("no machine panics with it in hand");
        park.ledger.compare(&self.rows);
    }

    /// Everything has ended: the file is sound, and so are its numbers.
    fn audit(&mut self) {
        let effects = self.park().effects;
        self.counts.effects = effects;
        self.counts.jobs = self.rows.len() as u64;
        let db = Connection::open(self.home.database()).expect("a database that opens");
        disk::is_sound(&db).expect("a database that can be read");
        // Of an end that the machine lost nobody knows more than when it was found.
        let mut times = db
            .prepare(
                "SELECT id, number, runs.ended_at - runs.started_at FROM runs JOIN jobs ON jobs.n = runs.n
                 WHERE runs.ended_at IS NOT NULL AND runs.started_at IS NOT NULL AND outcome NOT LIKE '%lost%'",
            )
            .expect("a table of runs");
        let runs = times.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).expect("a table of runs");
        for run in runs {
            let (id, number, ran): (String, u32, i64) = run.expect("a run that can be read");
            let run = RunId { job: id.parse().expect("an id"), number };
            self.park().ledger.check_run_time(run, ran);
        }
    }

    fn park(&self) -> MutexGuard<'_, Park> {
        self.park.lock().expect("no machine panics with it in hand")
    }

    fn note(&mut self, what: fmt::Arguments<'_>) {
        let told = std::mem::take(&mut self.park().told);
        let turn = self.counts.turns;
        if let Some(trace) = &mut self.trace {
            let lines = told.into_iter().chain([what.to_string()]);
            trace.extend(lines.map(|line| format!("turn {turn}: {line}")));
        }
    }
}

impl What {
    /// Whether what is answered to this says nothing when the other is asked at the same time.
    fn meddles_with(&self, other: &What) -> bool {
        let job = |what: &What| -> Option<JobId> { super::users::job_of(what) };
        let is_of_the_queue = |what: &What| matches!(what, What::PauseQueue | What::ResumeQueue);
        let is_submission = |what: &What| matches!(what, What::Submit(_));
        job(self).is_some() && job(self) == job(other)
            || is_of_the_queue(self) && is_of_the_queue(other)
            || is_submission(self) && is_submission(other)
    }
}

impl Counts {
    pub fn add(&mut self, more: Counts) {
        self.turns += more.turns;
        self.effects += more.effects;
        self.kills += more.kills;
        self.torn_commits += more.torn_commits;
        self.failed_commits += more.failed_commits;
        self.jobs += more.jobs;
    }
}
