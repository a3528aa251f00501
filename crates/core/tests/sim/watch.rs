//! What may be done to which run: nothing on a machine without a line, and nothing to a run that nobody looked for since
//! the engine began or the line was lost. None of it uses the code it checks.

use std::collections::BTreeSet;

use nexus_core::event::Event;
use nexus_core::ids::{MachineId, RunId};
use nexus_core::job::{Job, State};
use nexus_core::reconcile::Effect;
use nexus_core::run::Run;

use crate::disk::Disk;

#[derive(Default)]
pub struct Watch {
    unseen: BTreeSet<RunId>,
    reached: BTreeSet<MachineId>,
}

impl Watch {
    pub fn begin_anew(&mut self, disk: &Disk) {
        self.unseen = disk.jobs.values().filter_map(active).map(|run| run.id).collect();
        self.reached = BTreeSet::from([MachineId::LOCAL]);
    }

    /// `disk` is as it was before the event.
    pub fn event(&mut self, event: &Event, disk: &Disk) {
        match event {
            Event::MachineRead(machine) if machine.reachable => drop(self.reached.insert(machine.id)),
            Event::MachineRead(machine) => {
                self.reached.remove(&machine.id);
                let there = disk.jobs.values().filter_map(active).filter(|run| host(run) == machine.id);
                self.unseen.extend(there.map(|run| run.id));
            }
            Event::MachineRemoved { machine } => drop(self.reached.remove(machine)),
            _ => {}
        }
    }

    pub fn effect(&mut self, effect: &Effect, disk: &Disk) {
        let (run, machine) = match effect {
            Effect::Start { run, machine, .. } | Effect::Observe { run, machine, .. } => (run, machine),
            Effect::Stop { run, machine } | Effect::Tidy { run, machine } => (run, machine),
            Effect::Copy { .. } | Effect::EndCopy { .. } => return,
        };
        assert!(self.reached.contains(machine), "{effect:?}, and there is no line");
        let current = disk.run(*run);
        match effect {
            Effect::Observe { .. } => drop(self.unseen.remove(run)),
            _ => assert!(!self.unseen.contains(run), "{effect:?}, and nobody looked for it"),
        }
        match (effect, current) {
            (Effect::Tidy { .. }, None) => {}
            (Effect::Start { .. } | Effect::Observe { .. } | Effect::Stop { .. }, Some(current)) => {
                assert_eq!(host(current), *machine, "{effect:?}, and it is elsewhere");
            }
            _ => panic!("{effect:?}, and on disk it is {current:?}"),
        }
    }
}

/// Where its processes are.
fn host(run: &Run) -> MachineId {
    if run.lease.driver { MachineId::LOCAL } else { run.lease.machine }
}

fn active(job: &Job) -> Option<&Run> {
    match &job.state {
        State::Active(run) => Some(run),
        _ => None,
    }
}
