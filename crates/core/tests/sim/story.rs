//! One seed's story: an engine that applies, decides, commits and acts, and everything that befalls it.

use std::collections::BTreeSet;
use std::sync::Arc;

use nexus_core::apply::{self, Command, Refusal, Report, Revision};
use nexus_core::check::check;
use nexus_core::decide::decide;
use nexus_core::event::{Event, Needs, Parent};
use nexus_core::explain::Explainer;
use nexus_core::ids::{JobId, MachineId};
use nexus_core::job::{End, Job, State};
use nexus_core::machine::Standing;
use nexus_core::policy::Policy;
use nexus_core::reconcile::{Seen, reconcile};
use nexus_core::request::{Request, Vram};
use nexus_core::run::{Lease, Phase};
use nexus_core::time::Time;
use nexus_core::waiting::Waiting;
use nexus_core::world::World;

use crate::answers::{refused_rightly, revised_rightly};
use crate::chance::Chance;
use crate::disk::Disk;
use crate::explained::explanations_lead_to_a_start;
use crate::hardware::{CPUS, MOST_GPUS, RAM_MIB, memory_mib, model, uuid};
use crate::node::Node;
use crate::pool::Pool;
use crate::rules::Rules;
use crate::user::Users;
use crate::watch::Watch;

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

impl Batch {
    fn end_of(&self, job: JobId) -> Option<&End> {
        self.events.iter().find_map(|event| match event {
            Event::JobEnded { job: ended, end, .. } if *ended == job => Some(end),
            _ => None,
        })
    }
}

pub struct Story {
    chance: Chance,
    now: Time,
    policy: Policy,
    disk: Disk,
    rules: Rules,
    node: Node,
    users: Users,
    pool: Pool,
    watch: Watch,
    engine: Option<Engine>,
    acknowledged: BTreeSet<JobId>,
    no_room_on_disk: bool,
    /// Its own, so that more or fewer questions tell the same story.
    curiosity: Chance,
    /// Waiting jobs whose reasons are followed up in each turn.
    questions: usize,
    /// What happened, line by line, if it is to be told.
    pub trace: Option<Vec<String>>,
}

impl Story {
    pub fn begin(seed: u64, told: bool, questions: usize) -> Story {
        let mut chance = Chance::from_seed(seed);
        let failures_allowed = chance.pick(&[0, 0, 2, 4]);
        let has_pool = !seed.is_multiple_of(4);
        let quarantine_after = chance.pick(&[0, 2, 2, 3]);
        Story {
            now: BEGIN,
            policy: Policy { pause_after_failures: failures_allowed, quarantine_after, ..Policy::default() },
            disk: Disk::empty(),
            rules: Rules::new(failures_allowed, quarantine_after),
            node: Node::new(!seed.is_multiple_of(8), &mut chance),
            users: Users::new(has_pool, &mut chance),
            pool: Pool::new(&mut chance),
            watch: Watch::default(),
            engine: None,
            acknowledged: BTreeSet::new(),
            no_room_on_disk: false,
            curiosity: Chance::from_seed(seed),
            questions,
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
        self.no_room_on_disk = false;
        self.boot();
        self.pool.mend(&mut self.node);
        self.read_machines();
        let all = Command::ResumeGpus { machine: MachineId::LOCAL, gpus: (0..MOST_GPUS).collect() };
        self.turn(vec![Command::ResumeQueue, all]);
        for _ in 0..20_000 {
            if self.disk.jobs.values().all(|job| !can_ever_run(job, &self.disk)) {
                return self.audit();
            }
            if self.disk.queue_pause.is_some() {
                self.turn(vec![Command::ResumeQueue]);
            }
            let still = |it: &Standing| it.paused || it.quarantine.is_some();
            let closed = self.disk.machines.iter().filter(|(_, it)| still(it)).map(|(machine, _)| *machine);
            let machines: Vec<MachineId> = closed.collect();
            if !machines.is_empty() {
                self.turn(vec![Command::ResumeMachines { machines }]);
            }
            // Runs that a stop was to end may still hold those that come after them.
            let held: Vec<_> =
                self.disk.jobs.values().filter(|job| job.state == State::Held).map(|job| job.id).collect();
            if !held.is_empty() {
                self.turn(vec![Command::Release(held)]);
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
        if self.chance.one_in(6) {
            self.read_machines();
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
        let mut wish = || self.users.command(&self.disk, self.pool.next(), &mut self.chance, self.now);
        let commands = (0..wishes).map(|_| wish()).collect::<Vec<_>>();
        self.turn(commands);
    }

    /// What happens to machine and service from outside.
    fn mischief(&mut self) {
        if self.chance.one_in(8) {
            let what = self.pool.change(&mut self.chance);
            self.note(format_args!("{what}"));
            self.read_machines();
        }
        if self.chance.one_in(8)
            && let Some(what) = self.pool.change_line(&mut self.node, &mut self.chance)
        {
            self.note(format_args!("{what}"));
        }
        if self.chance.one_in(if self.no_room_on_disk { 5 } else { 60 }) {
            self.no_room_on_disk = !self.no_room_on_disk;
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
        self.begin_anew();
    }

    /// The engine knows what is on disk, and nothing of what is elsewhere.
    fn begin_anew(&mut self) {
        self.rules.began_anew();
        self.watch.begin_anew(&self.disk);
        self.pool.begin_anew(&mut self.node, &mut self.chance);
        self.read_machines();
    }

    fn crash(&mut self) {
        self.note(format_args!("the service is gone"));
        self.engine = None;
        self.node.engine_died(&mut self.chance);
    }

    fn read_machines(&mut self) {
        self.pool.read(&self.node.usage(self.now));
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
        let readings = self.pool.readings(&mut self.chance);
        readings.iter().for_each(|machine| self.rules.reading(machine, &self.disk));
        let arrived = self.node.arrived(&mut self.chance, self.now);
        let disk = Report::Disk { full: self.no_room_on_disk };
        for report in readings.into_iter().map(Report::Machine).chain([disk]).chain(arrived) {
            self.note(format_args!("report {report:?}"));
            batch.events.extend(apply::report(&mut engine.world, report.clone(), &self.policy, self.now));
            batch.reports.push(report);
        }
        for command in commands {
            let command = self.known(command, &engine.world, &batch);
            self.note(format_args!("command {command:?}"));
            let before = engine.world.clone();
            let answer = apply::command(&mut engine.world, command.clone(), self.now);
            if let Err(refusal) = answer {
                assert!(before == engine.world, "refused, and yet something changed: {command:?}");
                refused_rightly(&before, self.pool.own(), &command, refusal);
            }
            if let (Command::Revise(revision), Ok(_)) = (&command, &answer) {
                revised_rightly(&before, &engine.world, revision);
            }
            batch.answers.push((command, answer.as_ref().map(|_| ()).map_err(|refusal| *refusal)));
            batch.events.extend(answer.unwrap_or_default());
        }
        check(&engine.world).unwrap_or_else(|broken| panic!("after apply: {broken}"));
        let planned = decide(&mut engine.world, &self.policy, self.now);
        let closed = engine.world.stopping() || self.no_room_on_disk;
        assert!(planned.is_empty() || !closed, "planned while nothing may start: {planned:?}");
        batch.events.extend(planned);
        check(&engine.world).unwrap_or_else(|broken| panic!("after decide: {broken}"));
        nothing_that_fits_waits(&engine.world, &self.policy, self.now);
        explanations_lead_to_a_start(&engine.world, &mut self.curiosity, self.now, self.questions);
        batch
    }

    /// As the service makes it of what was wished: with what became of the jobs that are to come before.
    fn known(&self, mut command: Command, world: &World, batch: &Batch) -> Command {
        let needs: Vec<&mut Needs> = match &mut command {
            Command::Submit(jobs) => jobs.iter_mut().map(|new| Arc::make_mut(&mut new.needs)).collect(),
            Command::Revise(Revision { edits, add, .. }) => {
                let edited = edits.iter_mut().filter_map(|edit| edit.needs.as_mut());
                edited.chain(add.iter_mut().map(|new| Arc::make_mut(&mut new.needs))).collect()
            }
            _ => vec![],
        };
        for needs in needs {
            for parent in std::mem::take(&mut needs.after) {
                match batch.end_of(parent.job).or(self.disk.ended.get(&parent.job)) {
                    None if world.job(parent.job).is_some() => needs.after.push(parent),
                    Some(end) if !parent.any_end && *end != End::Completed => needs.failed_parent = Some(parent.job),
                    _ => {}
                }
            }
        }
        command
    }

    fn commit(&mut self, batch: &Batch) {
        for event in &batch.events {
            if !matches!(event, Event::MachineRead(_)) {
                self.note(format_args!("on disk {event:?}"));
            }
            self.rules.event(event, &self.disk, &self.node.ledger, self.now);
            self.watch.event(event, &self.disk);
            self.disk.write(event);
            match event {
                Event::MachineAdded { machine, .. } => self.pool.add(*machine, &mut self.node, &mut self.chance),
                Event::MachineRemoved { machine } => {
                    self.pool.remove(*machine);
                    self.node.remove(*machine);
                }
                _ => {}
            }
        }
        let engine = self.engine.as_mut().expect("an engine commits");
        let open = !engine.world.stopping() && !self.no_room_on_disk;
        self.rules.batch_ends(&self.disk, open, self.now);
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
        let machines = self.disk.machines.iter().map(|(machine, standing)| (*machine, *standing));
        assert!(world.standings().eq(machines), "World and disk differ: {:?}", self.disk.machines);
        for job in world.jobs() {
            let lives = |parent: &&Parent| self.disk.jobs.contains_key(&parent.job);
            let after = self.disk.after[&job.id].iter().filter(lives);
            assert!(after.eq(world.parents(job.id)), "{} comes after {:?}", job.id, world.parents(job.id));
        }
        let mut restored = self.disk.world();
        apply::report(&mut restored, Report::Disk { full: world.disk_full() }, &self.policy, self.now);
        for machine in world.machines().cloned() {
            apply::report(&mut restored, Report::Machine(machine), &self.policy, self.now);
        }
        check(&restored).unwrap_or_else(|broken| panic!("after restore: {broken}"));
        if !world.stopping() {
            let planned = decide(&mut restored, &self.policy, self.now);
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
        self.begin_anew();
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
                    let on_disk = |index| self.disk.paused_gpus.contains(&(*machine, uuid(index)));
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
            self.watch.effect(effect, &self.disk);
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
        // What lives on a machine that was removed is nobody's any more.
        let is_ours = |lease: &Lease| lease.driver || self.disk.all_machines().contains(&lease.machine);
        for (run, entry) in self.node.ledger.runs() {
            if entry.began.as_ref().is_some_and(|(_, lease)| !is_ours(lease)) {
                assert!(self.disk.ended.contains_key(&run.job) || self.disk.jobs.contains_key(&run.job), "{run}");
                continue;
            }
            assert!(entry.ended.is_some(), "{run} lives after everything has ended");
            // Between two attempts a job may have been changed into one that never fits.
            let stuck = self.disk.jobs.get(&run.job).is_some_and(|job| !can_ever_run(job, &self.disk));
            assert!(stuck || self.disk.ended.contains_key(&run.job), "{run} ran, and its job has no end");
        }
        assert_eq!(self.node.ledger.alive().filter(|(_, lease)| is_ours(lease)).count(), 0);
    }

    fn note(&mut self, what: std::fmt::Arguments<'_>) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>8} {what}", self.now.0 - BEGIN.0));
        }
    }
}

/// Whether it runs, or fits on the largest machine of the story, and all that come before it do.
fn can_ever_run(job: &Job, disk: &Disk) -> bool {
    // What runs goes on, wherever its machine was moved to.
    if !job.state.waits() {
        return true;
    }
    let Request { gpus, share, cpus, ram_mib, on, model: wanted, .. } = job.request;
    let vram = match share.map(|share| share.vram) {
        Some(Vram::Mib(mib)) => u64::from(mib),
        _ => 0,
    };
    let allowed = (0..MOST_GPUS).filter(|gpu| {
        let named = on.is_none_or(|on| on.contains(*gpu));
        named && memory_mib(*gpu) >= vram && wanted.is_none_or(|wanted| wanted.fits(model(*gpu)))
    });
    // All machines are as large; one that is on its way out takes nobody.
    let takes = |machine: &MachineId| disk.allows(&job.request, *machine) && !disk.standing(*machine).leaving;
    let there = disk.all_machines().iter().any(takes);
    let fits = there && allowed.count() >= usize::from(gpus) && cpus <= CPUS && u64::from(ram_mib) <= RAM_MIB;
    let mut parents = disk.after[&job.id].iter().filter_map(|parent| disk.jobs.get(&parent.job));
    fits && parents.all(|parent| can_ever_run(parent, disk))
}

fn nothing_that_fits_waits(world: &World, policy: &Policy, now: Time) {
    let mut explainer = Explainer::new(world, policy, now);
    for job in world.jobs() {
        let waiting = explainer.job(job.id);
        assert_ne!(waiting, Some(Waiting::Next), "{} fits and was not planned", job.id);
        assert_eq!(waiting.is_none(), !job.state.waits(), "{}: {waiting:?}", job.id);
    }
}
