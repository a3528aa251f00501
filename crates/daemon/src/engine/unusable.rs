//! The engine when a commit fails, and while its database cannot be used.
//!
//! ```text
//!   usable ──commit fails──> loaded again ──────────────────────────────> usable
//!                                 │ cannot be read       ┌─ each second ─┐
//!                                 ├────────────────> unusable <──────────┘ ──can be read again──> usable
//!   usable ──file is damaged──> unusable for good: only questions and `stop` are answered
//! ```
//! While it is unusable the engine takes nothing, decides nothing and starts nothing. Jobs that run go on, and their run
//! directories keep how they end, since no shim hears that its end was written down.

use std::time::{Duration, Instant};

use nexus_api::events::What;
use nexus_api::problem::Problem;
use nexus_core::apply::Command;
use nexus_core::event::Event;
use nexus_core::ids::MachineId;
use nexus_core::reconcile::Seen;
use nexus_node::threads;

use super::{AFTER_FAILURE, BATCH_LIMIT, Engine, Message, Turn, Watch};
use crate::home::make_private;
use crate::narrate::Narrator;
use crate::service_log::Line;
use crate::store::{NotChecked, StoreError, faults};
use crate::{backups, clock};

/// A check of the whole database ends after this long, found or not.
const CHECK_PATIENCE: Duration = Duration::from_secs(300);

/// A service that is told to stop waits for this long until the ends of its jobs can be written.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// The state of an engine whose database cannot be used.
pub(super) struct Unusable {
    problem: Problem,
    /// When the database is tried again; never, if it is damaged.
    again_at: Option<Instant>,
    /// The service was on its way out.
    stopping: bool,
    /// What machines said meanwhile, for the time after.
    kept: Vec<Message>,
}

impl Unusable {
    /// How long until the database is tried again.
    pub fn patience(&self, never: Duration) -> Duration {
        self.again_at.map_or(never, |at| at.saturating_duration_since(clock::instant()))
    }
}

pub(super) fn is_damage(problem: &Problem) -> bool {
    matches!(problem, Problem::DatabaseDamaged { .. })
}

impl Engine {
    /// The commit failed: callers hear it, and what is on disk is the truth.
    pub(super) fn fall_back(&mut self, error: StoreError, turn: Turn, watch: &mut Watch) {
        let problem = error.problem();
        watch.standstill.commit_failed(&problem);
        // A stop that failed did not happen either.
        let stopping = self.world.stopping() && !turn.batch.events.contains(&Event::Stopping);
        self.leaves_jobs &= stopping;
        self.log.write(&turn.lines);
        self.log.write(&[Line::error(&problem)]);
        self.store.forget_launched();
        if let Some(here) = self.pool.member(MachineId::LOCAL) {
            here.backend.withdraw();
        }
        if stopping && !self.leaves_jobs && watch.standstill.commits_fail_for() >= STOP_PATIENCE {
            self.leaves_jobs = true;
            let text =
                "Stops though ends of jobs cannot be written: the next service reads them from the run directories";
            self.log.write(&[Line::from(text.to_string())]);
        }
        let unreadable = self.load_again(stopping, watch).err();
        match unreadable {
            _ if is_damage(&problem) => self.gives_up(problem.clone(), stopping, watch),
            Some(error) => self.gives_up(error, stopping, watch),
            None => {}
        }
        for reply in turn.replies {
            reply(Err(problem.clone()));
        }
        turn.questions.into_iter().for_each(|question| self.reply(question));
    }

    /// Makes the World what it is on disk. Where that cannot be read the World stays as it is, to be looked at.
    fn load_again(&mut self, stopping: bool, watch: &mut Watch) -> Result<(), Problem> {
        let loaded =
            self.store.restore().and_then(|world| Ok((world, self.store.variables_set()?, self.store.names()?)));
        let (world, variables, names) = loaded.map_err(|error| error.problem())?;
        (self.world, self.variables, self.pool.names) = (world, variables, names);
        self.members_again();
        if stopping {
            self.world.record(&Event::Stopping);
        }
        // A clock that was set may not be on disk.
        watch.clock_ms = None;
        watch.seen = Seen::default();
        watch.narrator = Narrator::of(&self.world, &self.pool.names);
        watch.rest_until = Some(clock::instant() + AFTER_FAILURE);
        Ok(())
    }

    /// From now on the database is not used: for good if it is damaged, else until it can be read.
    pub(super) fn gives_up(&mut self, problem: Problem, stopping: bool, watch: &mut Watch) {
        if watch.unusable.as_ref().is_some_and(|known| known.again_at.is_none()) {
            return;
        }
        let problem = self.saved(problem);
        let again_at = (!is_damage(&problem)).then(|| clock::instant() + AFTER_FAILURE);
        let was_usable = watch.unusable.is_none();
        if again_at.is_none() {
            self.store.leave_alone();
            self.log.write(&[Line::error(&problem)]);
            self.log.write(
                &problem.hint().map(|hint| Line::warn(format!("To mend it: {hint}"))).into_iter().collect::<Vec<_>>(),
            );
            self.check_all();
            // What waits for the ends of jobs would wait for ever: none is written down any more.
            self.leaves_jobs = true;
        } else if was_usable {
            self.log.write(&[Line::error(&problem)]);
        }
        self.trouble.set(Some(problem.clone()));
        // Clients read anew what they show.
        self.events.publish(What::Missed);
        let kept = watch.unusable.take().map(|before| before.kept).unwrap_or_default();
        watch.unusable = Some(Unusable { problem, again_at, stopping, kept });
    }

    /// A file that was removed, or that another one took the place of, is whole as long as this process has it open: a copy
    /// of it is made, to be put back.
    fn saved(&self, problem: Problem) -> Problem {
        let Problem::DatabaseDamaged { path, error, backup } = problem else { return problem };
        let folder = backups::folder(&self.home.dir);
        let is_gone = self.store.has_lost_its_name();
        let saved = (is_gone && make_private(&folder).is_ok()).then(|| backups::fresh(&folder, false));
        let saved = saved.filter(|copy| self.store.copy_to(copy).is_ok()).map(|copy| copy.display().to_string());
        Problem::DatabaseDamaged { path, error, backup: saved.or(backup) }
    }

    /// Writes what is wrong with the database into service.log. It may take long: on a thread of its own.
    fn check_all(&self) {
        let (path, outbox) = (self.home.database(), self.outbox.clone());
        // No thread is to be had: nexus doctor looks too.
        let _ = threads::start("nexus-check", move || {
            let line = match faults(&path, CHECK_PATIENCE) {
                Ok(found) if found.is_empty() => "Check of the database: nothing found".to_string(),
                Ok(found) => format!("Check of the database: {}", found.join("; ")),
                Err(NotChecked::TookTooLong) => "Check of the database: stopped, it takes too long".to_string(),
                Err(NotChecked::Failed(error)) => format!("Check of the database: not done: {error}"),
            };
            // The engine is gone: the service is going down.
            let _ = outbox.send(Message::Log(vec![Line::warn(line)]));
        });
    }

    /// A turn of the loop while the database cannot be used.
    pub(super) fn wait_for_database(&mut self, first: Option<Message>, watch: &mut Watch) {
        let coming: Vec<Message> = first.into_iter().chain(self.inbox.try_iter().take(BATCH_LIMIT)).collect();
        let Some(unusable) = &mut watch.unusable else { return };
        let (problem, is_due) = (unusable.problem.clone(), unusable.again_at.is_some_and(|at| at <= clock::instant()));
        let is_for_good = unusable.again_at.is_none();
        let (stopping, mut damage) = (unusable.stopping || self.world.stopping(), None);
        for message in coming {
            if let Message::Damaged(problem) = message {
                damage.get_or_insert(problem);
            } else if let Some(message) = self.refuse(message, &problem)
                && !is_for_good
            {
                unusable.kept.push(message);
            }
        }
        match damage {
            // What was temporary is for good now. Of damages the first counts.
            Some(problem) => self.gives_up(problem, stopping, watch),
            None if is_due => self.try_again(watch),
            None => {}
        }
        if watch.unusable.is_some() {
            // What was told cannot be written down: a service that starts anew tells it once more.
            let mut turn = Turn::default();
            self.look_for_standstill(&mut turn, watch);
            self.log.write(&turn.lines);
        }
    }

    fn try_again(&mut self, watch: &mut Watch) {
        let stopping = watch.unusable.as_ref().is_some_and(|unusable| unusable.stopping) || self.world.stopping();
        if let Err(problem) = self.load_again(stopping, watch) {
            return self.gives_up(problem, stopping, watch);
        }
        let kept = watch.unusable.take().map(|unusable| unusable.kept).unwrap_or_default();
        self.trouble.set(None);
        self.events.publish(What::Missed);
        self.log.write(&["The database can be used again".into()]);
        let mut turn = Turn { is_due: true, ..Turn::default() };
        for message in kept {
            self.take(message, &mut turn, watch);
        }
        self.finish(turn, watch);
    }

    /// Answers whoever waits for an answer. What nobody waits for, and what a usable database would keep, is given back.
    fn refuse(&mut self, message: Message, problem: &Problem) -> Option<Message> {
        fn no<T>(reply: super::Reply<T>, problem: &Problem) {
            // The caller may be gone.
            let _ = reply.send(Err(problem.clone()));
        }
        match message {
            Message::Ask(question) => self.reply(question),
            Message::Log(lines) | Message::Note(lines) => self.log.write(&lines),
            Message::Command { command: Command::Stop { .. }, reply, .. } => {
                // Ends of jobs cannot be written down: they are not waited for, and the jobs go on.
                self.leaves_jobs = true;
                self.world.record(&Event::Stopping);
                // The caller may be gone.
                let _ = reply.send(Ok(vec![]));
            }
            Message::Submit { reply, .. } => no(reply, problem),
            Message::Revise { reply, .. } => no(reply, problem),
            Message::Sweep { reply, .. } => no(reply, problem),
            Message::Import { reply, .. } => no(reply, problem),
            Message::Watch { reply, .. } => no(reply, problem),
            Message::TakeOver { reply, .. } => no(reply, problem),
            Message::Variable { reply, .. } => no(reply, problem),
            Message::Tag { reply, .. } => no(reply, problem),
            Message::Command { reply, .. } => no(reply, problem),
            Message::FilePauses { reply, .. } => no(reply, problem),
            Message::Forget { reply, .. } => no(reply, problem),
            Message::SimulateGpus { reply, .. } => no(reply, problem),
            Message::AddMachine { reply, .. } => no(reply, problem),
            Message::SetUpMachines { reply, .. } => no(reply, problem),
            Message::MoveMachines { reply, .. } => no(reply, problem),
            other @ (Message::Keep { .. }
            | Message::Damaged(_)
            | Message::Remnants(_)
            | Message::RemnantsGone(_)
            | Message::Looked { .. }
            | Message::Report(_)
            | Message::Ended { .. }
            | Message::Copied(_)
            | Message::Gpus(_)
            | Message::Peer(_)
            | Message::Tidied(_)
            | Message::Config(_)
            | Message::Machine { .. }) => return Some(other),
        }
        None
    }
}
