//! The one owner of the World. A plain loop: apply, decide, commit, act.
//!
//! Inputs that have piled up share one transaction; callers are answered when it is on disk. When a
//! commit fails, callers get the error and the World is loaded again: nothing half-happened.

mod clock_set;
mod gpus;
mod history;
mod import;
mod machines;
mod message;
mod once;
mod places;
mod refused;
mod remnants;
mod reports;
mod results;
mod revise;
mod set_up;
mod slurm;
mod standstill;
mod submit;
mod sweep;
mod tags;
mod taken;
mod terms;
mod turn;
mod turns;
mod unusable;
mod variables;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use nexus_api::paths::Home;
use nexus_api::problem::Problem;
use nexus_api::run_dir::RunSpec;
use nexus_core::apply::{self, Command, Report};
use nexus_core::decide::decide;
use nexus_core::event::Event;
use nexus_core::ids::{JobId, MachineId, RunId};
use nexus_core::reconcile::{Effect, Seen, reconcile};
use nexus_core::world::World;
use nexus_node::threads;

use crate::config::Config;
use crate::events::Events;
use crate::gpus::Gpus;
use crate::home::Reserve;
use crate::ids::IdMaker;
use crate::launch::RunSpecs;
use crate::metrics::Metrics;
use crate::narrate::{self, Narrator};
use crate::notify::Teller;
use crate::pool::{Lines, Pool};
use crate::readings::Readings;
use crate::results::Copier;
use crate::service_log::{Level, Line, ServiceLog};
use crate::store::{Batch, NewRow, Store, StoreError};
use crate::trouble::Trouble;
use crate::{clock, home};
use gpus::Watched;
use machines::Asked;
use standstill::StandstillWatch;
use turn::Turn;
use unusable::Unusable;

/// Inputs that share one transaction at most.
const BATCH_LIMIT: usize = 4096;

/// After a failed commit the disk is given this long before it is tried again.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// A full disk tells nobody when it has room again.
const DISK_AGAIN: Duration = Duration::from_secs(2);

/// Where it is only asked, the engine looks after everything else this often: a disk that fills up is noticed.
const LOOK_AGAIN: Duration = Duration::from_millis(if cfg!(test) { 0 } else { 500 });

/// Quiet for this long, the engine cleans up behind deleted secrets, many new jobs and many commits.
const IDLE: Duration = Duration::from_millis(300);

/// Where it is never quiet, it does so after this long.
const LONGEST_LEFT: Duration = Duration::from_secs(1);

/// That runs were tidied goes with the next commit, or when this many have come together.
const TIDIED_TOGETHER: usize = 64;

/// So many new jobs at once are let go elsewhere.
const MANY: usize = 1_000;

/// How long a start waits for company before it is committed alone. The clock of a simulation stands still meanwhile.
const COMPANY: Duration = Duration::from_millis(if cfg!(test) { 0 } else { 5 });

pub use import::{ImportLine, ImportOrder, Settled};
pub use machines::{AddMachine, Calls};
pub use message::{Forgetter, Message, Question, Reply};
pub use once::Once;
pub use remnants::{Remnant, Remnants};
pub use reports::messages;
pub use revise::{Revision, Slot};
pub use set_up::SetUpOrder;
pub use submit::fresh;
pub use sweep::{SweepJob, SweepOrder};
pub use taken::FEW;

pub struct Engine {
    pub inbox: Receiver<Message>,
    /// To itself: an effect that fails is a report like any other.
    pub outbox: Sender<Message>,
    pub store: Store,
    pub world: World,
    pub pool: Pool,
    /// The same lines for those who read over them.
    pub lines: Arc<Lines>,
    /// How machines are called.
    pub calls: Calls,
    /// None while GPUs are simulated.
    pub watched: Option<Watched>,
    pub copier: Copier,
    pub specs: RunSpecs,
    pub log: ServiceLog,
    pub events: Arc<Events>,
    pub readings: Arc<Readings>,
    pub metrics: Arc<Metrics>,
    pub ids: IdMaker,
    pub home: Home,
    pub reserve: Reserve,
    /// Told to go without waiting for the jobs.
    pub leaves_jobs: bool,
    /// Names of those that are set.
    pub variables: BTreeSet<String>,
    /// On other machines, of forgotten jobs.
    pub remnants: Remnants,
    pub teller: Teller,
    /// The same for those who answer clients.
    pub trouble: Arc<Trouble>,
}

/// Beside the World, and lost with the process.
struct Watch {
    seen: Seen,
    narrator: Narrator,
    /// No effects before this time: the disk failed.
    rest_until: Option<Instant>,
    /// Deleted secrets are cleaned up behind then, at the latest.
    clear_at: Option<Instant>,
    tidied: Vec<RunId>,
    finished_at: Option<Instant>,
    /// Runs looked for that are known to have run: not to find them means that they are lost.
    missing: BTreeSet<RunId>,
    /// Between the boot clock and the wall clock that times are by; None before the database was asked.
    clock_ms: Option<i64>,
    /// The database cannot be used.
    unusable: Option<Unusable>,
    /// A reader of the database found it damaged, which a check of the whole confirmed.
    damage: Option<Problem>,
    standstill: StandstillWatch,
}

impl Engine {
    /// Runs until the service stops; what it knew then.
    pub fn run(mut self) -> (World, Gpus) {
        let mut watch = self.begin();
        while !self.is_over() {
            let first = match self.inbox.recv_timeout(self.patience(&watch)) {
                Ok(message) => Some(message),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return self.known(),
            };
            self.round(first, &mut watch);
        }
        // A damaged database says that it has none, and is left as it is.
        if self.store.has_leftovers() {
            self.store.clear_leftovers();
        }
        self.log.write(&["Service stopped".into()]);
        self.known()
    }

    /// Looks around, and does what is due.
    fn begin(&mut self) -> Watch {
        let mut watch = Watch {
            seen: Seen::default(),
            narrator: Narrator::of(&self.world, &self.pool.names),
            rest_until: None,
            clear_at: None,
            tidied: Vec::new(),
            finished_at: None,
            missing: BTreeSet::new(),
            clock_ms: None,
            unusable: None,
            damage: None,
            standstill: StandstillWatch::start(&self.store),
        };
        self.log.write(&["Service started".into()]);
        self.teller.follow(&self.specs.config.notify, &self.world);
        self.reserve.keep();
        self.tidy_leftovers();
        self.call_all();
        let mut turn = Turn::default();
        self.follow_clock(&mut turn, &mut watch);
        for message in self.first_look(&mut turn, &mut watch) {
            self.take(message, &mut turn, &mut watch);
        }
        self.finish(turn, &mut watch);
        watch
    }

    /// One turn of the loop: with a message, or since it is time.
    fn round(&mut self, first: Option<Message>, watch: &mut Watch) {
        if watch.unusable.is_some() {
            return self.wait_for_database(first, watch);
        }
        let mut turn = Turn { is_due: first.is_none() || self.is_due(watch), ..Turn::default() };
        self.follow_clock(&mut turn, watch);
        match first {
            Some(message) => self.take(message, &mut turn, watch),
            None => self.store.tidy_up(),
        }
        self.take_waiting(&mut turn, watch);
        if turn.is_due {
            self.linger(&mut turn, watch);
            watch.damage = watch.damage.take().or(turn.damage.take());
            self.finish(turn, watch);
        }
        if let Some(problem) = watch.damage.take() {
            return self.gives_up(problem, self.world.stopping(), watch);
        }
        // Whoever waited for this turn has been told.
        self.clear_overdue(watch);
        self.store.write_back();
    }

    /// Whether there is something to do though nothing may have happened: those who only ask must not keep it waiting.
    fn is_due(&self, watch: &Watch) -> bool {
        let is_time = self.world.next_wake().is_some_and(|at| at <= clock::now());
        is_time
            || self.is_turn_over()
            || watch.standstill.is_due()
            || self.world.disk_full()
            || watch.finished_at.is_none_or(|at| at + LOOK_AGAIN <= clock::instant())
    }

    fn is_over(&self) -> bool {
        self.world.stopping() && (self.leaves_jobs || self.all_ended())
    }

    /// Quiet is the better time; one that never comes must not keep a secret.
    fn clear_overdue(&mut self, watch: &mut Watch) {
        let now = clock::instant();
        match watch.clear_at {
            _ if !self.store.has_leftovers() => watch.clear_at = None,
            None => watch.clear_at = Some(now + LONGEST_LEFT),
            Some(at) if at <= now => {
                self.store.clear_leftovers();
                watch.clear_at = None;
            }
            Some(_) => {}
        }
    }

    fn take_waiting(&mut self, turn: &mut Turn, watch: &mut Watch) {
        for message in self.inbox.try_iter().take(BATCH_LIMIT).collect::<Vec<_>>() {
            self.take(message, turn, watch);
        }
    }

    /// A start that was heard of is in no hurry to be on disk: its run directory tells of it too. Others come
    /// soon after it, or its end, and share a transaction.
    fn linger(&mut self, turn: &mut Turn, watch: &mut Watch) {
        let until = clock::instant() + COMPANY;
        while turn.can_wait() {
            let Ok(message) = self.inbox.recv_timeout(until.saturating_duration_since(clock::instant())) else {
                return;
            };
            self.take(message, turn, watch);
            self.take_waiting(turn, watch);
        }
    }

    /// How long nothing may come before there is something to do.
    fn patience(&self, watch: &Watch) -> Duration {
        let never = Duration::from_secs(3600);
        let look = watch.standstill.left().unwrap_or(never);
        if let Some(unusable) = &watch.unusable {
            return unusable.patience(never).min(look);
        }
        let wake = self.world.next_wake().map_or(never, |at| at.since(clock::now()));
        let rest = watch.rest_until.map_or(never, |at| at.saturating_duration_since(clock::instant()));
        let idle = if self.store.is_tidy() { never } else { IDLE };
        let room = if self.world.disk_full() { DISK_AGAIN } else { never };
        wake.min(rest).min(idle).min(room).min(look).min(self.turn_left().unwrap_or(never))
    }

    /// Applies one message to the World.
    fn take(&mut self, message: Message, turn: &mut Turn, watch: &mut Watch) {
        self.let_in(turn);
        turn.is_due |= !matches!(message, Message::Ask(_));
        match message {
            Message::Report(report) => self.report(self.dated(report, None), turn, watch),
            Message::Ended { run, report, found, lost_output_bytes, took } => {
                turn.batch.found.extend((!found.is_nothing()).then_some((run, found)));
                self.tell_lost_output(run, lost_output_bytes, turn);
                self.report(self.dated(report, took), turn, watch);
            }
            Message::Copied(ended) => self.copy_ended(ended, turn, watch),
            Message::Tidied(run) => watch.tidied.push(run),
            Message::Gpus(reading) => {
                self.peers_read(&reading);
                self.gpus_read(MachineId::LOCAL, reading, turn, watch);
            }
            Message::Peer(news) => self.hear_peer(news),
            Message::Config(config) => self.follow(*config, turn, watch),
            Message::Log(lines) => self.log.write(&lines),
            Message::Machine { machine, news } => self.news(machine, news, turn, watch),
            Message::AddMachine { new, reply } => self.answered(turn, reply, |it, turn| it.add_machine(*new, turn)),
            Message::SetUpMachines { order, reply } => self.answered(turn, reply, |it, turn| it.set_up(*order, turn)),
            Message::MoveMachines { machines, class, reply } => {
                self.answered(turn, reply, |it, turn| it.move_machines(machines, &class, turn));
            }
            // What is told is on disk, answers to questions too.
            Message::Ask(question) if !turn.batch.is_empty() => turn.questions.push(question),
            Message::Ask(question) => self.reply(question),
            Message::Submit { jobs, note, once, reply } => {
                let ids = self.submit_once(jobs, once, turn);
                turn.batch.meta.extend(ids.as_ref().ok().zip(note).map(|(ids, note)| note(ids)));
                turn.answer_taken(reply, ids);
            }
            Message::Revise { revision, reply } => self.answered(turn, reply, |it, turn| it.revise(revision, turn)),
            Message::Sweep { order, once, reply } => {
                self.answered(turn, reply, |it, turn| it.sweep_once(*order, once, turn));
            }
            Message::Import { order, reply } => self.answered(turn, reply, |it, turn| it.import(order, turn)),
            Message::Watch { change, line, reply } => {
                turn.batch.watches.push(change);
                turn.batch.notes.push(line.into());
                turn.answer(reply, Ok(()));
            }
            Message::Variable { change, reply } => self.answered(turn, reply, |it, turn| it.variable(change, turn)),
            Message::Tag { ids, tag, take_off, reply } => {
                self.answered(turn, reply, |it, turn| it.tag(ids, &tag, take_off, turn));
            }
            Message::TakeOver { jobs, reply } => drop(reply.send(self.take_over(&jobs, turn))),
            Message::Keep { key, value } => turn.batch.meta.push((key, value)),
            Message::Note(lines) => turn.batch.notes.extend(lines),
            Message::Command { command, verb, skip_unfit, reply } => {
                self.answered(turn, reply, |it, turn| it.command(command, verb, skip_unfit, turn));
            }
            Message::FilePauses { pause, resume, note, reply } => {
                let paused = self.file_pauses(pause, resume, turn);
                turn.batch.meta.extend(paused.is_ok().then_some(note));
                turn.answer(reply, paused);
            }
            Message::Forget { ids, by, reply } => self.answered(turn, reply, |it, turn| it.forget(ids, by, turn)),
            Message::Remnants(left) => self.keep_remnants(left, turn),
            Message::RemnantsGone(gone) => self.remnants_gone(gone, turn),
            Message::SimulateGpus { count, reply } => {
                self.simulate_gpus(count, turn, watch);
                turn.answer(reply, Ok(()));
            }
            Message::Damaged(problem) => watch.damage = Some(problem),
            Message::Looked { until } => turn.batch.meta.push(("looked_at", until.0.to_string())),
        }
    }

    fn reply(&self, question: Question) {
        question(&self.world, &self.pool, &self.specs.config.policy);
    }

    /// Does it; what came of it is told when it is on disk.
    fn answered<T: 'static>(
        &mut self,
        turn: &mut Turn,
        reply: Reply<T>,
        done: impl FnOnce(&mut Engine, &mut Turn) -> Result<T, Problem>,
    ) {
        let answer = done(self, turn);
        turn.answer(reply, answer);
    }

    /// Reads of the store that belong together.
    fn read_together<T>(&mut self, read: impl FnOnce(&mut Engine) -> Result<T, Problem>) -> Result<T, Problem> {
        self.store.read_together().map_err(|error| error.problem())?;
        let answer = read(self);
        self.store.done_reading().map_err(|error| error.problem())?;
        answer
    }

    /// The jobs it was done to.
    fn command(
        &mut self,
        mut command: Command,
        verb: &str,
        skip_unfit: bool,
        turn: &mut Turn,
    ) -> Result<Vec<JobId>, Problem> {
        if skip_unfit {
            let fitting = apply::narrowed(&self.world, command.clone());
            if !fitting.jobs().is_empty() {
                command = fitting;
            }
        }
        let jobs = command.jobs().to_vec();
        self.leaves_jobs |= command == Command::Stop { kill: false };
        let events = apply::command(&mut self.world, command, clock::now());
        turn.batch.events.extend(events.map_err(|refusal| self.refused(refusal, verb))?);
        Ok(jobs)
    }

    fn report(&mut self, mut report: Report, turn: &mut Turn, watch: &mut Watch) {
        if let Report::NotStarted { run, ran } = &mut report {
            *ran = watch.missing.remove(run);
        }
        let locked = self.not_started(&report);
        watch.seen.report(&report);
        let policy = &self.specs.config.policy;
        turn.batch.events.extend(apply::report(&mut self.world, report, policy, clock::now()));
        if let Some(machine) = locked {
            self.look_at_gpus(machine, turn, watch);
        }
    }

    /// Jobs that run keep what they were started with.
    fn follow(&mut self, config: Config, turn: &mut Turn, watch: &mut Watch) {
        self.log.limit(config.log);
        let gpus_of = |config: &Config| (config.gpus.clone(), config.usual_gpus.clone(), config.machines.clone());
        let other_gpus = gpus_of(&config) != gpus_of(&self.specs.config);
        self.calls.follow(&config);
        if config.notify != self.specs.config.notify {
            self.teller.follow(&config.notify, &self.world);
        }
        self.specs.follow(config);
        if other_gpus {
            self.look_at_all(turn, watch);
        }
    }

    /// Decide, commit, act.
    fn finish(&mut self, mut turn: Turn, watch: &mut Watch) {
        watch.finished_at = Some(clock::instant());
        self.let_in_and_begin(&mut turn);
        self.report(Report::Disk { full: self.disk_space() < home::DISK_RESERVE }, &mut turn, watch);
        self.take_turns(&mut turn, watch);
        let began = Instant::now();
        turn.batch.events.extend(decide(&mut self.world, &self.specs.config.policy, clock::now()));
        self.metrics.decide.saw(began.elapsed());
        self.look_for_standstill(&mut turn, watch);
        if !turn.batch.is_empty() || watch.tidied.len() >= TIDIED_TOGETHER {
            turn.batch.tidied = std::mem::take(&mut watch.tidied);
        }
        turn.batch.simulated = self.pool.simulated();
        turn.batch.log_dir.clone_from(&self.specs.log_dir);
        // While nothing may start there is nobody to begin what would be announced.
        let rests = watch.rest_until.is_some_and(|at| at > clock::instant());
        let announced = if rests { BTreeMap::new() } else { self.announce(&turn.batch) };
        if !turn.batch.is_empty()
            && let Err(error) = self.commit(&turn.batch)
        {
            return self.fall_back(error, turn, watch);
        }
        watch.standstill.committed(&turn.batch);
        for event in &turn.batch.events {
            watch.seen.event(event);
        }
        turn.batch.tidied.iter().for_each(|run| self.lines.mirrors.forget(*run));
        self.keep_members(&turn);
        if turn.batch.events.contains(&Event::DiskFull { full: false }) {
            self.reserve.keep();
        }
        if !rests {
            watch.rest_until = None;
            let effects = reconcile(&self.world, &mut watch.seen);
            self.act(effects, announced, watch);
        }
        self.tell_terms(&turn.batch);
        for reply in turn.replies {
            reply(Ok((self, &turn.batch)));
        }
        turn.questions.into_iter().for_each(|question| self.reply(question));
        self.look_again_after(&turn.batch.events);
        turn.lines.extend(self.unlocked_starts(&turn.batch.events));
        self.tell(&turn.batch, turn.lines, watch);
        self.look_ahead(&turn.batch);
        let_go(turn.batch.new);
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), StoreError> {
        let began = Instant::now();
        let committed = self.store.commit(batch);
        self.metrics.commit.saw(began.elapsed());
        match committed {
            Err(error) if matches!(error.problem(), Problem::DiskFull { .. }) && self.reserve.spend() => {
                self.store.commit(batch)
            }
            done => done,
        }
    }

    fn act(&mut self, mut effects: Vec<Effect>, mut announced: BTreeMap<RunId, RunSpec>, watch: &mut Watch) {
        // What starts at once starts in the order of the queue: a cluster has a queue of its own.
        effects.sort_by_key(|effect| match effect {
            Effect::Start { run, .. } => self.world.job(run.job).map(|job| job.place),
            _ => None,
        });
        let mut asked: BTreeMap<MachineId, Asked> = BTreeMap::new();
        for effect in effects {
            match effect {
                Effect::Start { run, lease, machine } => match self.begun_with(run, &lease, machine, &mut announced) {
                    Ok(spec) => asked.entry(machine).or_default().starts.push(spec),
                    Err(why) => self.start_failed(run, why),
                },
                Effect::Observe { run, ran, machine } => {
                    if ran {
                        watch.missing.insert(run);
                    }
                    let asked = asked.entry(machine).or_default();
                    asked.observes.extend(self.run_place(run, machine));
                    asked.terms.extend(self.terms_of(run));
                }
                Effect::Stop { run, machine } => {
                    asked.entry(machine).or_default().stops.extend(self.run_place(run, machine));
                }
                Effect::Tidy { run, machine } => {
                    asked.entry(machine).or_default().tidies.extend(self.run_place(run, machine));
                }
                Effect::Copy { job } => self.begin_copy(job),
                Effect::EndCopy { job } => self.copier.settle(job),
            }
        }
        for (machine, asked) in asked {
            self.ask_of(machine, asked);
        }
    }

    /// What is known at the end, without the machines.
    fn known(mut self) -> (World, Gpus) {
        let local = self.pool.members.remove(&MachineId::LOCAL).expect("it is always there");
        (self.world, local.gpus)
    }

    fn tell(&mut self, batch: &Batch, mut lines: Vec<Line>, watch: &mut Watch) {
        let now = clock::now();
        let many = narrate::many_added(&batch.events);
        let mut told = Vec::new();
        let is_many = many.is_some();
        lines.extend(many.map(Line::from));
        for event in &batch.events {
            if let Event::Planned { run: RunId { job, number: 1 }, at, .. } = event
                && let Some(job) = self.world.job(*job)
            {
                self.metrics.wait.saw(at.since(job.since));
            }
            let command = |job| match batch.new.get(&job) {
                Some(row) => Cow::from(row.spec.command()),
                None => Cow::from(self.store.command(job).unwrap_or_default()),
            };
            let sweep = |sweep| self.store.sweep_name(sweep).ok().flatten().unwrap_or_default();
            if !(is_many && narrate::added(event).is_some()) {
                let line = watch.narrator.line(event, now, command, sweep, &self.pool.names);
                lines.extend(line.map(|text| Line { level: narrate::level(event), text }));
            }
            told.extend(narrate::told(event, &self.world, &self.pool.names));
        }
        self.events.publish_all(told);
        self.teller.hear(&batch.events, batch.sweeps.iter().map(|sweep| sweep.of.id), &self.world);
        self.tell_tags(&batch.tags);
        lines.extend(batch.notes.iter().cloned());
        if self.log.wants(Level::Debug) && !batch.is_empty() {
            let (events, decided, written) =
                (batch.events.len(), self.metrics.decide.last(), self.metrics.commit.last());
            let text = format!("Events in one go: {events}; decided in {decided:.1?}, written in {written:.1?}");
            lines.push(Line::debug(text));
        }
        self.log.write(&lines);
    }
}

/// What many jobs were made of was made on another thread, which makes the next meanwhile: memory that one thread frees
/// and the other takes has both wait for each other.
fn let_go(rows: BTreeMap<JobId, NewRow>) {
    if rows.len() >= MANY {
        // Where no thread can be had it is done here.
        let _ = threads::start("nexus-rows", move || drop(rows));
    }
}

#[cfg(test)]
mod sim;
