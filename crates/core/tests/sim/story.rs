//! One seed's story: an engine that applies, decides, commits and acts, and everything that befalls it.

use std::collections::{BTreeMap, BTreeSet};

use nexus_core::apply::{self, Command, Edit, Refusal, Report, Revision};
use nexus_core::check::check;
use nexus_core::decide::decide;
use nexus_core::event::{Event, Needs};
use nexus_core::explain::Explainer;
use nexus_core::ids::{JobId, MachineId};
use nexus_core::job::{Job, State};
use nexus_core::policy::Policy;
use nexus_core::reconcile::{Seen, reconcile};
use nexus_core::run::Phase;
use nexus_core::time::Time;
use nexus_core::waiting::Waiting;
use nexus_core::world::World;

use crate::chance::Chance;
use crate::disk::Disk;
use crate::hardware::{CPUS, Hardware, MOST_GPUS};
use crate::node::Node;
use crate::rules::Rules;
use crate::user::Users;

const BEGIN: Time = Time(1_700_000_000_000);

/// The service's process: all of it is lost in a crash.
struct Engine {
    world: World,
    seen: Seen,
    leaves_when_idle: bool,
}

struct Batch {
    events: Vec<Event>,
    reports: Vec<Report>,
    /// What callers are told once all of it is on disk.
    answers: Vec<(Command, Result<(), Refusal>)>,
}

pub struct Story {
    chance: Chance,
    now: Time,
    policy: Policy,
    disk: Disk,
    rules: Rules,
    node: Node,
    users: Users,
    hardware: Hardware,
    engine: Option<Engine>,
    acknowledged: BTreeSet<JobId>,
    /// What happened, line by line, if it is to be told.
    pub trace: Option<Vec<String>>,
}

impl Story {
    pub fn begin(seed: u64, told: bool) -> Story {
        let mut chance = Chance::from_seed(seed);
        Story {
            now: BEGIN,
            policy: Policy::default(),
            disk: Disk::empty(),
            rules: Rules::default(),
            node: Node::new(!seed.is_multiple_of(8), &mut chance),
            users: Users::new(&mut chance),
            hardware: Hardware::new(&mut chance),
            engine: None,
            acknowledged: BTreeSet::new(),
            trace: told.then(Vec::new),
            chance,
        }
    }

    pub fn trouble(&mut self, steps: u64) {
        for _ in 0..steps {
            self.step(true);
        }
    }

    /// No more faults, no more wishes: all that can end must end.
    pub fn drain(&mut self) {
        self.note(format_args!("the faults stop"));
        self.node.faults = false;
        self.crash();
        self.hardware.mend();
        self.boot();
        let held = self.disk.jobs.values().filter(|job| job.state == State::Held).map(|job| job.id).collect();
        let all = Command::ResumeGpus { machine: MachineId::LOCAL, gpus: (0..MOST_GPUS).collect() };
        self.turn(vec![Command::ResumeQueue, all, Command::Release(held)]);
        for _ in 0..20_000 {
            if self.disk.jobs.values().all(|job| !can_ever_run(job)) {
                return self.audit();
            }
            self.step(false);
        }
        panic!("jobs that could run are left: {:?}", self.disk.jobs);
    }

    fn step(&mut self, trouble: bool) {
        let span = self.chance.pick(&[0, 10, 300, 5_000]);
        self.now = self.now.after(std::time::Duration::from_millis(self.chance.below(span + 1)));
        for run in self.node.pass(&mut self.chance, self.now) {
            let known = self.disk.run(run);
            assert!(known.is_some(), "{run} begins, and on disk it is not to be");
        }
        if trouble {
            self.mischief();
        }
        if self.engine.is_none() {
            if trouble && !self.chance.one_in(4) {
                return;
            }
            self.boot();
        }
        let wishes = if trouble { self.chance.below(3) } else { 0 };
        let commands =
            (0..wishes).map(|_| self.users.command(&self.disk, &mut self.chance, self.now)).collect::<Vec<_>>();
        self.turn(commands);
    }

    /// What happens to machine and service from outside.
    fn mischief(&mut self) {
        if self.chance.one_in(8) {
            let what = self.hardware.change(&mut self.chance);
            self.note(format_args!("{what}"));
            self.tell_machine();
        }
        if self.chance.one_in(80) {
            let kill = self.chance.one_in(2);
            self.turn(vec![Command::Stop { kill }]);
            if let Some(engine) = &mut self.engine {
                engine.leaves_when_idle = true;
            }
            if !kill {
                self.crash();
            }
        }
        if self.engine.is_none() && self.node.faults && self.chance.one_in(10) {
            self.lose_a_folder();
        }
    }

    /// Of a run that ended while no service looked, and was known to run.
    fn lose_a_folder(&mut self) {
        let ended = |job: &&Job| match &job.state {
            State::Active(run) if matches!(run.phase, Phase::Running { .. }) => {
                self.node.ledger.get(run.id).is_some_and(|entry| entry.ended.is_some() && !entry.forgotten)
            }
            _ => false,
        };
        let Some(State::Active(run)) = self.disk.jobs.values().find(ended).map(|job| job.state.clone()) else { return };
        self.note(format_args!("the folder of {} is deleted", run.id));
        self.node.lose_folder(run.id);
    }

    fn boot(&mut self) {
        self.note(format_args!("boot"));
        self.engine = Some(Engine { world: self.disk.world(), seen: Seen::default(), leaves_when_idle: false });
        self.tell_machine();
    }

    fn crash(&mut self) {
        self.note(format_args!("the service is gone"));
        self.engine = None;
        self.node.engine_died(&mut self.chance);
    }

    fn tell_machine(&mut self) {
        let machine = self.hardware.machine();
        if let Some(engine) = &mut self.engine {
            apply::report(&mut engine.world, Report::Machine(machine), &self.policy, self.now);
        }
    }

    /// Apply, decide, commit, act; and the places where that breaks.
    fn turn(&mut self, commands: Vec<Command>) {
        let Some(mut engine) = self.engine.take() else { return };
        let batch = self.apply_and_decide(&mut engine, commands);
        self.engine = Some(engine);
        let trouble = if self.node.faults { self.chance.below(100) } else { 99 };
        match trouble {
            0..2 => return self.crash(),
            2..5 => return self.commit_fails(),
            _ => {}
        }
        self.commit(&batch);
        if trouble == 5 {
            return self.crash();
        }
        self.answer(&batch.answers);
        if trouble == 6 {
            return self.crash();
        }
        self.act(trouble == 7);
        if trouble == 8 {
            self.crash();
        }
        if self.engine.as_ref().is_some_and(|it| it.leaves_when_idle && it.world.active_runs().next().is_none()) {
            self.crash();
        }
    }

    fn apply_and_decide(&mut self, engine: &mut Engine, commands: Vec<Command>) -> Batch {
        let mut batch = Batch { events: vec![], reports: vec![], answers: vec![] };
        for report in self.node.arrived(&mut self.chance, self.now) {
            self.note(format_args!("report {report:?}"));
            batch.events.extend(apply::report(&mut engine.world, report.clone(), &self.policy, self.now));
            batch.reports.push(report);
        }
        for command in commands {
            self.note(format_args!("command {command:?}"));
            let before = engine.world.clone();
            let answer = apply::command(&mut engine.world, command.clone(), self.now);
            if let Err(refusal) = answer {
                assert!(before == engine.world, "refused, and yet something changed: {command:?}");
                refused_rightly(&before, &self.hardware, refusal);
            }
            if let (Command::Revise(revision), Ok(_)) = (&command, &answer) {
                revised_rightly(&before, &engine.world, revision);
            }
            batch.answers.push((command, answer.as_ref().map(|_| ()).map_err(|refusal| *refusal)));
            batch.events.extend(answer.unwrap_or_default());
        }
        check(&engine.world).unwrap_or_else(|broken| panic!("after apply: {broken}"));
        let planned = decide(&mut engine.world, self.now);
        assert!(planned.is_empty() || !engine.world.stopping(), "planned while stopping: {planned:?}");
        batch.events.extend(planned);
        check(&engine.world).unwrap_or_else(|broken| panic!("after decide: {broken}"));
        nothing_that_fits_waits(&engine.world);
        batch
    }

    fn commit(&mut self, batch: &Batch) {
        for event in &batch.events {
            self.note(format_args!("on disk {event:?}"));
            self.rules.event(event, &self.disk, &self.node.ledger, &self.hardware, self.now);
            self.disk.write(event);
        }
        let engine = self.engine.as_mut().expect("an engine commits");
        for report in &batch.reports {
            engine.seen.report(report);
        }
        for event in &batch.events {
            engine.seen.event(event);
        }
        if !batch.events.is_empty() {
            self.restores_the_same();
        }
    }

    /// A World read from this disk is the World that wrote it.
    fn restores_the_same(&self) {
        let world = &self.engine.as_ref().expect("an engine commits").world;
        assert!(world.jobs().eq(self.disk.jobs.values()), "World and disk differ");
        let mut restored = self.disk.world();
        apply::report(&mut restored, Report::Machine(self.hardware.machine()), &self.policy, self.now);
        check(&restored).unwrap_or_else(|broken| panic!("after restore: {broken}"));
        if !world.stopping() {
            let planned = decide(&mut restored, self.now);
            assert!(planned.is_empty(), "a restored World decides otherwise: {planned:?}");
        }
    }

    /// Callers got an error; the World is loaded again and nothing is known of the runs.
    fn commit_fails(&mut self) {
        self.note(format_args!("commit fails"));
        let engine = self.engine.as_mut().expect("an engine commits");
        let (stopping, leaves_when_idle) = (engine.world.stopping(), engine.leaves_when_idle);
        *engine = Engine { world: self.disk.world(), seen: Seen::default(), leaves_when_idle };
        if stopping {
            // Of the process, not of the disk: it holds on.
            apply::command(&mut engine.world, Command::Stop { kill: false }, self.now).expect("stop is never refused");
        }
        self.tell_machine();
    }

    fn answer(&mut self, answers: &[(Command, Result<(), Refusal>)]) {
        for (command, answer) in answers {
            match (command, answer) {
                (Command::Submit(jobs), Ok(())) => self.acknowledged.extend(jobs.iter().map(|job| job.id)),
                (Command::Revise(revision), Ok(())) => {
                    self.acknowledged.extend(revision.add.iter().map(|job| job.id));
                }
                (Command::Remove(jobs), Ok(())) => {
                    assert!(jobs.iter().all(|job| self.disk.ended.contains_key(job)), "removed, yet alive: {jobs:?}");
                }
                (Command::PauseGpus { machine, gpus }, Ok(())) => {
                    let resumed = answers.iter().any(|(other, _)| matches!(other, Command::ResumeGpus { .. }));
                    let on_disk = |index| self.disk.paused_gpus.contains(&(*machine, self.hardware.uuid(index)));
                    assert!(resumed || gpus.iter().all(on_disk), "the pause of {gpus:?} is lost");
                }
                _ => {}
            }
        }
    }

    fn act(&mut self, dies_midway: bool) {
        let engine = self.engine.as_mut().expect("an engine acts");
        let mut effects = reconcile(&engine.world, &mut engine.seen);
        if dies_midway {
            effects.truncate(effects.len() / 2);
        }
        for effect in &effects {
            self.node.act(effect, &mut self.chance, self.now);
        }
        for effect in effects {
            self.note(format_args!("effect {effect:?}"));
        }
        if dies_midway {
            self.crash();
        }
    }

    /// The end: the ledger against what nexus says.
    fn audit(&mut self) {
        for job in &self.acknowledged {
            let (alive, ended) = (self.disk.jobs.contains_key(job), self.disk.ended.contains_key(job));
            assert!(alive != ended, "{job} was acknowledged: alive {alive}, ended {ended}");
        }
        for (run, entry) in self.node.ledger.runs() {
            assert!(entry.ended.is_some(), "{run} lives after everything has ended");
            // Between two attempts a job may have been changed into one that never fits.
            let stuck = self.disk.jobs.get(&run.job).is_some_and(|job| !can_ever_run(job));
            assert!(stuck || self.disk.ended.contains_key(&run.job), "{run} ran, and its job has no end");
        }
        assert_eq!(self.node.ledger.alive().count(), 0);
    }

    fn note(&mut self, what: std::fmt::Arguments<'_>) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>8} {what}", self.now.0 - BEGIN.0));
        }
    }
}

/// Whether it fits on the largest machine of the story.
fn can_ever_run(job: &Job) -> bool {
    let allowed = (0..MOST_GPUS).filter(|gpu| job.request.on.is_none_or(|on| on.contains(*gpu))).count();
    allowed >= usize::from(job.request.gpus) && job.request.cpus <= CPUS
}

fn refused_rightly(world: &World, hardware: &Hardware, refusal: Refusal) {
    match refusal {
        Refusal::NotLive(job) => assert!(world.job(job).is_none(), "{job} is said not to live, and does"),
        Refusal::WrongState(job) => assert!(world.job(job).is_some(), "{job} is said to live, and does not"),
        Refusal::Circular(job) => panic!("{job} waits for nobody"),
        Refusal::NoSuchGpus { missing, .. } => {
            let there = missing.iter().find(|index| hardware.exists(*index));
            assert!(!missing.is_empty() && there.is_none(), "GPU {there:?} of {missing:?} is there");
        }
    }
}

/// Removed jobs are gone, changed ones are as wished, the order is the one given, and nobody else was touched.
fn revised_rightly(before: &World, after: &World, revision: &Revision) {
    let named: BTreeSet<JobId> = revision.jobs().chain(revision.order.iter().copied()).collect();
    for job in before.jobs().filter(|job| !named.contains(&job.id)) {
        assert_eq!(after.job(job.id), Some(job), "{} was not named, and changed", job.id);
    }
    assert!(revision.remove.iter().all(|job| after.job(*job).is_none()), "removed, yet alive: {revision:?}");
    assert!(revision.add.iter().all(|new| after.job(new.id).is_some()), "added, and not there: {revision:?}");
    // Of several wishes for one job the last counts.
    let last: BTreeMap<JobId, &Edit> = revision.edits.iter().map(|edit| (edit.job, edit)).collect();
    for (id, edit) in last {
        let job = after.job(id).expect("an edited job lives");
        let needs = Needs { request: job.request, retries: job.retries.allowed, ..Needs::default() };
        assert!(edit.needs.as_ref().is_none_or(|wanted| *wanted == needs), "{edit:?} became {job:?}");
        assert!(edit.held.is_none_or(|held| held == (job.state == State::Held)), "{edit:?} became {job:?}");
        let placed = revision.order.contains(&id);
        let priority = edit.priority.map_or(job.place.priority, i64::from);
        assert!(placed || priority == job.place.priority, "{edit:?} became {job:?}");
    }
    let mut seen = BTreeSet::new();
    let order = revision.order.iter().filter(|job| seen.insert(**job));
    let places: Vec<_> = order.map(|job| after.job(*job).expect("it waits").place).collect();
    assert!(places.is_sorted_by(|one, next| one < next), "{revision:?} became {places:?}");
}

fn nothing_that_fits_waits(world: &World) {
    let mut explainer = Explainer::new(world);
    for job in world.jobs() {
        let waiting = explainer.job(job.id);
        assert_ne!(waiting, Some(Waiting::Next), "{} fits and was not planned", job.id);
        assert_eq!(waiting.is_none(), matches!(job.state, State::Active(_)), "{}: {waiting:?}", job.id);
    }
}
