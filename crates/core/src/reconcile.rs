//! Compares the runs that should be with the runs that were seen, and says what to do.
//!
//! ```text
//!  a run this process planned:  Unlaunched ─Start─> Launched ──report──> Alive
//!  a run found on disk:         (unseen) ─Observe─> Observing ──report──> Alive | Unlaunched | ended
//!  a stop asked for:            any but Observing ─Stop─> stop_sent
//!  results to copy:             (unseen) ─Copy─> copies ──ended in whichever way: EndCopy
//! ```
//! A machine whose line is lost is left alone, and what was seen of its runs is forgotten: when the line is back each is
//! observed before anything else is done to it.
//!
//! First start, retry, crash and restart are this one path. Every effect may be repeated without harm:
//! a run's exclusive marker lets it start once.

use std::collections::{BTreeMap, BTreeSet};

use crate::apply::Report;
use crate::event::Event;
use crate::ids::{JobId, MachineId, RunId};
use crate::run::{Lease, Phase};
use crate::world::World;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    Start {
        run: RunId,
        /// Where its processes are, here and below.
        machine: MachineId,
        lease: Lease,
    },
    /// Find out what became of a run that an earlier process started. `ran`: it is known to have run, so
    /// that finding nothing of it means more than that it has yet to start. The answer says it again.
    Observe {
        run: RunId,
        machine: MachineId,
        ran: bool,
    },
    Stop {
        run: RunId,
        machine: MachineId,
    },
    /// Its end is on disk: its run directory may be cleared. Not given for a machine that cannot be reached then.
    Tidy {
        run: RunId,
        machine: MachineId,
    },
    /// Copy what a job left behind. Given again for one that is copied already, it changes nothing.
    Copy {
        job: JobId,
    },
    /// The end of the copy is on disk, or somebody ended it: nothing more is to be copied.
    EndCopy {
        job: JobId,
    },
}

/// What this process knows of the runs, beside the World. Lost with the process, and found again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    runs: BTreeMap<RunId, Sight>,
    copies: BTreeSet<JobId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sight {
    machine: MachineId,
    stage: Stage,
    stop_sent: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Observing,
    Unlaunched,
    Launched,
    Alive,
}

impl Seen {
    /// Takes in what was decided or happened: a run planned by this process was not launched yet.
    pub fn event(&mut self, event: &Event) {
        match event {
            Event::Planned { run, lease, .. } => {
                let sight = Sight { machine: lease.runs_on(), stage: Stage::Unlaunched, stop_sent: false };
                self.runs.insert(*run, sight);
            }
            Event::MachineRead(machine) if !machine.reachable => {
                self.runs.retain(|_, sight| sight.machine != machine.id);
            }
            _ => {}
        }
    }

    pub fn report(&mut self, report: &Report) {
        match report {
            Report::Started { run, .. } => self.set(*run, Stage::Alive),
            Report::NotStarted { run, .. } => self.set(*run, Stage::Unlaunched),
            Report::Underway { run } => self.set(*run, Stage::Launched),
            Report::Ended { .. } | Report::CopyEnded { .. } | Report::Machine(_) | Report::Disk { .. } => {}
        }
    }

    fn set(&mut self, run: RunId, stage: Stage) {
        // Unseen so far: a late report says nothing of now, and nobody watches the run yet. It is observed first.
        let Some(sight) = self.runs.get_mut(&run) else { return };
        match (sight.stage, stage) {
            // A late NotStarted: it was launched since, or seen alive.
            (Stage::Launched | Stage::Alive, Stage::Unlaunched) | (Stage::Alive, Stage::Launched) => {}
            _ => sight.stage = stage,
        }
    }
}

/// What has to be done now; `seen` takes it as done.
pub fn reconcile(world: &World, seen: &mut Seen) -> Vec<Effect> {
    let mut effects = Vec::new();
    let mut current = BTreeSet::new();
    for run in world.active_runs() {
        current.insert(run.id);
        let machine = run.lease.runs_on();
        if !world.reaches(machine) {
            continue;
        }
        let Some(sight) = seen.runs.get_mut(&run.id) else {
            seen.runs.insert(run.id, Sight { machine, stage: Stage::Observing, stop_sent: false });
            effects.push(Effect::Observe { run: run.id, machine, ran: matches!(run.phase, Phase::Running { .. }) });
            continue;
        };
        match (sight.stage, run.stop) {
            (Stage::Observing, _) => {}
            (Stage::Unlaunched, None) => {
                sight.stage = Stage::Launched;
                effects.push(Effect::Start { run: run.id, machine, lease: run.lease.clone() });
            }
            (_, Some(_)) if !sight.stop_sent => {
                // What was not launched is claimed by the stop, so that it never starts.
                sight.stage = Stage::Launched;
                sight.stop_sent = true;
                effects.push(Effect::Stop { run: run.id, machine });
            }
            _ => {}
        }
    }
    let gone: Vec<RunId> = seen.runs.keys().filter(|run| !current.contains(run)).copied().collect();
    for run in gone {
        let machine = seen.runs.remove(&run).map(|sight| sight.machine);
        effects.extend(machine.filter(|it| world.reaches(*it)).map(|machine| Effect::Tidy { run, machine }));
    }
    let copying: BTreeSet<JobId> = world.copying().collect();
    effects.extend(copying.difference(&seen.copies).map(|job| Effect::Copy { job: *job }));
    effects.extend(seen.copies.difference(&copying).map(|job| Effect::EndCopy { job: *job }));
    seen.copies = copying;
    effects
}
