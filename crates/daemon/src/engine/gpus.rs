//! What the engine does about GPUs: takes readings, waits for the first, works the machine out anew.

use std::path::Path;
use std::time::{Duration, Instant};

use nexus_api::problem::Problem;
use nexus_api::run_dir::run_of;
use nexus_core::apply::{self, Command, Report};
use nexus_core::event::Event;
use nexus_core::ids::{JobId, MachineId, RunId};
use nexus_core::request::GpuSet;
use nexus_core::run::{Outcome, Phase, Run};
use nexus_node::gpu::Reading;

use super::{Engine, Message, Turn, Watch};
use crate::clock;
use crate::gpus::{Watcher, WatcherConfig};

/// A driver that takes longer for its first answer is not waited for.
const FIRST_READING: Duration = Duration::from_secs(2);

/// For so long after its start a run is looked at more often: it takes its memory then.
const YOUNG: Duration = Duration::from_secs(30);
const POLL_OF_THE_YOUNG: Duration = Duration::from_millis(500);

/// Reads GPUs, every so often.
pub struct Watched {
    watcher: Watcher,
    poll: Duration,
}

impl Engine {
    /// The machine as it is when the service starts. What came meanwhile is returned in its order.
    pub(super) fn first_look(&mut self, turn: &mut Turn, watch: &mut Watch) -> Vec<Message> {
        self.watch_gpus();
        let mut early = Vec::new();
        let until = Instant::now() + FIRST_READING;
        while !self.gpus.are_known() {
            match self.inbox.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(Message::Gpus(reading)) => self.gpus.take(reading, self.held_gpus()),
                Ok(message) => early.push(message),
                Err(_) => {
                    turn.lines.push("GPUs have not answered yet; jobs wait for them".into());
                    break;
                }
            }
        }
        self.look_at_gpus(turn, watch);
        early
    }

    /// Reads the real GPUs from here on, unless simulated ones stand in for them.
    fn watch_gpus(&mut self) {
        let outbox = self.outbox.clone();
        // The engine is gone: the service is going down.
        let sink = move |reading| drop(outbox.send(Message::Gpus(reading)));
        let poll = self.specs.config.gpus.poll;
        let wanted = !self.gpus.are_simulated();
        self.watched =
            wanted.then(|| Watched { watcher: Watcher::start(WatcherConfig { poll }, Box::new(sink)), poll });
    }

    pub(super) fn gpus_read(&mut self, reading: Reading, turn: &mut Turn, watch: &mut Watch) {
        self.gpus.take(reading, self.held_gpus());
        self.look_at_gpus(turn, watch);
        self.readings.take(&self.machine.name, self.gpus.all_shown(), clock::now());
    }

    pub(super) fn simulate_gpus(&mut self, count: u16, turn: &mut Turn, watch: &mut Watch) {
        self.gpus.simulate(count);
        self.watch_gpus();
        self.look_at_gpus(turn, watch);
        turn.batch.meta.push(("simulated_gpus", count.to_string()));
    }

    pub(super) fn file_pauses(&mut self, pause: GpuSet, resume: GpuSet, turn: &mut Turn) -> Result<(), Problem> {
        let command = Command::FilePauses { machine: MachineId::LOCAL, pause, resume };
        let events = apply::command(&mut self.world, command, clock::now());
        turn.batch.events.extend(events.map_err(|refusal| self.refused(refusal, "pause"))?);
        Ok(())
    }

    /// Works the machine out anew from the last reading and the settings in force: after each reading, and to be
    /// called whenever `specs.config.gpus` has changed. What changes nothing is no event.
    pub(super) fn look_at_gpus(&mut self, turn: &mut Turn, watch: &mut Watch) {
        self.adjust_poll();
        let config = &self.specs.config.gpus;
        let held = self.held_gpus();
        let store = &self.store;
        let job_of = |dir: &Path| -> Option<JobId> {
            let run = run_of(dir)?;
            // A store that cannot be read now knows no run: the next reading asks again.
            let known = store.run_dir(run).ok().flatten()?;
            (known == dir).then_some(run.job)
        };
        let look = self.gpus.look(config, held, &job_of);
        turn.lines.extend(look.lines);
        self.machine = look.machine.clone();
        self.report(Report::Machine(look.machine), turn, watch);
    }

    /// A run takes its memory when it is young: then one looks more often, so as not to miss how much.
    fn adjust_poll(&mut self) {
        let now = clock::now();
        let young = |run: &Run| match run.phase {
            Phase::Starting => true,
            Phase::Running { since, .. } => now.since(since) < YOUNG,
        };
        let any_young = self.world.active_runs().any(|run| !run.lease.gpus.is_empty() && young(run));
        let usual = self.specs.config.gpus.poll;
        let poll = if any_young { usual.min(POLL_OF_THE_YOUNG) } else { usual };
        if let Some(watched) = self.watched.as_mut().filter(|watched| watched.poll != poll) {
            watched.watcher.set_poll(poll);
            watched.poll = poll;
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
        let refused = || outcomes().any(|outcome| matches!(outcome, Outcome::MachineError { .. }));
        let obstructed = || self.machine.gpus.iter().any(|gpu| gpu.obstacle.is_some());
        let worth_it = outcomes().next().is_some() && (refused() || obstructed());
        if let Some(watched) = self.watched.as_ref().filter(|_| worth_it) {
            watched.watcher.look_now();
        }
    }

    /// The GPUs of a run of this machine, while it has them.
    pub(super) fn leased(&self, run: RunId) -> GpuSet {
        let own = self.world.active_runs().find(|active| active.id == run && active.lease.machine == MachineId::LOCAL);
        own.map_or(GpuSet::EMPTY, |run| run.lease.gpus)
    }

    fn held_gpus(&self) -> GpuSet {
        let here = self.world.active_runs().filter(|run| run.lease.machine == MachineId::LOCAL);
        here.fold(GpuSet::EMPTY, |held, run| held.union(run.lease.gpus))
    }
}
