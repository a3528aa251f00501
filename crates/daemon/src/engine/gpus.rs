//! What the engine does about GPUs: takes readings, waits for the first, works the machine out anew.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use nexus_api::problem::Problem;
use nexus_api::run_dir::{of_run, run_of};
use nexus_core::apply::{self, Command, Report};
use nexus_core::event::Event;
use nexus_core::ids::{JobId, MachineId};
use nexus_core::request::GpuSet;
use nexus_core::run::{Outcome, Phase, Run};
use nexus_node::gpu::{LockHolder, Reading};
use nexus_node::line::ToNode;

use super::turns::TurnKeeper;
use super::{Engine, Message, Turn, Watch};
use crate::backend::Backend;
use crate::clock;
use crate::gpus::{Watcher, WatcherConfig};
use crate::pool::Member;
use crate::service_log::Line;

/// A driver that takes longer for its first answer is not waited for.
const FIRST_READING: Duration = Duration::from_secs(2);

/// For so long after its start a run is looked at more often: it takes its memory then.
const YOUNG: Duration = Duration::from_secs(30);
const POLL_OF_THE_YOUNG: Duration = Duration::from_millis(500);

/// Reads GPUs, every so often.
pub struct Watched {
    pub(super) watcher: Watcher,
    poll: Duration,
    pub(super) turns: TurnKeeper,
}

impl Engine {
    /// The machine as it is when the service starts. What came meanwhile is returned in its order.
    pub(super) fn first_look(&mut self, turn: &mut Turn, watch: &mut Watch) -> Vec<Message> {
        self.watch_gpus();
        let mut early = Vec::new();
        let until = Instant::now() + FIRST_READING;
        while !self.pool.local().gpus.are_known() {
            match self.inbox.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(Message::Gpus(reading)) => {
                    let held = self.held_gpus(MachineId::LOCAL);
                    self.pool.local_mut().gpus.take(reading, held);
                }
                Ok(message) => early.push(message),
                Err(_) => {
                    turn.lines.push(Line::warn("GPUs have not answered yet; jobs wait for them"));
                    break;
                }
            }
        }
        self.look_at_gpus(MachineId::LOCAL, turn, watch);
        early
    }

    /// Reads the real GPUs from here on, unless simulated ones stand in for them.
    fn watch_gpus(&mut self) {
        let (readings, outbox) = (self.outbox.clone(), self.outbox.clone());
        // The engine is gone: the service is going down.
        let sink = move |reading| drop(readings.send(Message::Gpus(reading)));
        let poll = self.specs.config.gpus.poll;
        let wanted = !self.pool.local().gpus.are_simulated();
        // Its socket goes before there is another.
        self.watched = None;
        self.watched = wanted.then(|| {
            let (watcher, turns) = (Watcher::start(WatcherConfig { poll }, Box::new(sink)), TurnKeeper::start(outbox));
            Watched { watcher, poll, turns }
        });
    }

    pub(super) fn gpus_read(&mut self, machine: MachineId, reading: Reading, turn: &mut Turn, watch: &mut Watch) {
        let held = self.held_gpus(machine);
        let Some(member) = self.pool.members.get_mut(&machine) else { return };
        member.gpus.take(reading, held);
        self.look_at_gpus(machine, turn, watch);
        if let Some(member) = self.pool.member(machine) {
            self.readings.take(&member.name, member.gpus.all_shown(), clock::now());
        }
    }

    pub(super) fn simulate_gpus(&mut self, count: u16, turn: &mut Turn, watch: &mut Watch) {
        self.pool.local_mut().gpus.simulate(count);
        self.pool.local_mut().gpus.awaits_no_lock();
        self.watch_gpus();
        self.look_at_gpus(MachineId::LOCAL, turn, watch);
        turn.batch.meta.push(("simulated_gpus", count.to_string()));
    }

    pub(super) fn file_pauses(&mut self, pause: GpuSet, resume: GpuSet, turn: &mut Turn) -> Result<(), Problem> {
        let command = Command::FilePauses { machine: MachineId::LOCAL, pause, resume };
        let events = apply::command(&mut self.world, command, clock::now());
        turn.batch.events.extend(events.map_err(|refusal| self.refused(refusal, "pause"))?);
        Ok(())
    }

    /// Works all machines out anew: to be called whenever the settings of GPUs have changed.
    pub(super) fn look_at_all(&mut self, turn: &mut Turn, watch: &mut Watch) {
        for machine in self.pool.members.keys().copied().collect::<Vec<_>>() {
            self.look_at_gpus(machine, turn, watch);
        }
    }

    /// Works a machine out anew from the last reading and the settings in force. What changes nothing is no event.
    pub(super) fn look_at_gpus(&mut self, machine: MachineId, turn: &mut Turn, watch: &mut Watch) {
        self.adjust_poll();
        let held = self.held_gpus(machine);
        let (store, config) = (&self.store, &self.specs.config);
        let Some(member) = self.pool.members.get_mut(&machine) else { return };
        let config = if machine == MachineId::LOCAL { &config.gpus } else { config.gpus_of(&member.name) };
        let logs = member.logs();
        let job_of = |dir: &Path| -> Option<JobId> {
            let run = run_of(dir)?;
            let known = match &logs {
                Some(logs) => of_run(logs, run.job.as_str(), run.number),
                // A store that cannot be read now knows no run: the next reading asks again.
                None => store.run_dir(run).ok().flatten()?,
            };
            (known == dir).then_some(run.job)
        };
        let look = member.gpus.look(&member.machine, config, held, &job_of);
        let place = if machine == MachineId::LOCAL { String::new() } else { format!("{}: ", member.name) };
        turn.lines.extend(look.lines.into_iter().map(|line| Line { text: format!("{place}{}", line.text), ..line }));
        member.machine = look.machine.clone();
        if let Some(uuids) = member.gpus.locks_to_await().cloned() {
            match (&member.backend, &self.watched) {
                (Backend::Local(_), Some(watched)) => watched.watcher.await_locks(uuids),
                (Backend::Ssh(remote), _) => remote.send(&ToNode::AwaitLocks { uuids }),
                _ => {}
            }
        }
        self.report(Report::Machine(look.machine), turn, watch);
    }

    /// A run takes its memory when it is young: then one looks more often, so as not to miss how much.
    fn adjust_poll(&mut self) {
        let now = clock::now();
        let young = |run: &Run| match run.phase {
            Phase::Starting => true,
            Phase::Running { since, .. } => now.since(since) < YOUNG,
        };
        let young = self.world.active_runs().filter(|run| !run.lease.gpus.is_empty() && young(run));
        let with_young: BTreeSet<MachineId> = young.map(|run| run.lease.machine).collect();
        let poll_of = |machine: MachineId, usual: Duration| match with_young.contains(&machine) {
            true => usual.min(POLL_OF_THE_YOUNG),
            false => usual,
        };
        let poll = poll_of(MachineId::LOCAL, self.specs.config.gpus.poll);
        if let Some(watched) = self.watched.as_mut().filter(|watched| watched.poll != poll) {
            watched.watcher.set_poll(poll);
            watched.poll = poll;
        }
        for (machine, member) in &mut self.pool.members {
            let poll = poll_of(*machine, self.specs.config.gpus_of(&member.name).poll);
            if let (Backend::Ssh(remote), true) = (&member.backend, member.poll != Some(poll)) {
                remote.send(&ToNode::Poll { every_ms: poll.as_millis() as u64, now: false });
                member.poll = Some(poll);
            }
        }
    }

    /// A run began, or has ended: what stood in the way of others may have gone with it. Or it could not start, perhaps since
    /// another service took its GPU after the last reading.
    pub(super) fn look_again_after(&mut self, events: &[Event]) {
        if events.iter().any(|event| matches!(event, Event::Planned { .. })) {
            self.adjust_poll();
        }
        let outcomes = || {
            events.iter().filter_map(|event| match event {
                Event::RunEnded { outcome, .. } => Some(outcome),
                _ => None,
            })
        };
        if outcomes().next().is_none() {
            return;
        }
        let refused =
            outcomes().any(|outcome| matches!(outcome, Outcome::MachineError { .. } | Outcome::GpuLocked { .. }));
        for member in self.pool.members.values() {
            if refused || member.machine.gpus.iter().any(|gpu| gpu.obstacle.is_some()) {
                self.look_now(member);
            }
        }
    }

    /// Runs that start without the lock of a GPU, for service.log.
    pub(super) fn unlocked_starts(&self, events: &[Event]) -> Vec<Line> {
        let started = events.iter().filter_map(|event| match event {
            Event::Planned { run, lease, .. } => Some((run, lease)),
            _ => None,
        });
        let mut lines = Vec::new();
        for (run, lease) in started {
            let gpus = self.pool.member(lease.machine).into_iter().flat_map(|member| member.gpus.all_shown());
            for gpu in gpus.filter(|gpu| lease.gpus.contains(gpu.index)) {
                let error = gpu.lock_error.as_ref();
                lines.extend(
                    error.map(|error| Line::warn(format!("Job {} starts on GPU {}: {error}", run.job, gpu.index))),
                );
            }
        }
        lines
    }

    fn look_now(&self, member: &Member) {
        match (&member.backend, &self.watched) {
            (Backend::Local(_), Some(watched)) => watched.watcher.look_now(),
            (Backend::Local(_), None) => {}
            #[cfg(test)]
            (Backend::Simulated(_), _) => {}
            (Backend::Ssh(remote), _) => {
                let every = member.poll.unwrap_or(self.specs.config.usual_gpus.poll);
                remote.send(&ToNode::Poll { every_ms: every.as_millis() as u64, now: true });
            }
        }
    }

    /// A run could not start: what was seen on its GPUs meanwhile is not its own. Returns the machine whose GPU turned out
    /// to be locked by another service.
    pub(super) fn not_started(&mut self, report: &Report) -> Option<MachineId> {
        let Report::Ended { run, outcome, .. } = report else { return None };
        if !matches!(outcome, Outcome::MachineError { .. } | Outcome::GpuLocked { .. }) {
            return None;
        }
        let lease = self.world.run(*run)?.lease.clone();
        let member = self.pool.members.get_mut(&lease.machine)?;
        member.gpus.never_held(lease.gpus);
        let Outcome::GpuLocked { uuid, user, pid } = outcome else { return None };
        member.gpus.locked(uuid.clone(), LockHolder { pid: *pid, user: user.clone() });
        Some(lease.machine)
    }

    fn held_gpus(&self, machine: MachineId) -> GpuSet {
        let there = self.world.active_runs().filter(|run| run.lease.machine == machine);
        there.fold(GpuSet::EMPTY, |held, run| held.union(run.lease.gpus))
    }
}
