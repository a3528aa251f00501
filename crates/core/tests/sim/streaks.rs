//! Which machines are to be quarantined, counted anew from all that happened since the engine began.

use std::collections::BTreeSet;

use nexus_core::ids::{JobId, MachineId};
use nexus_core::machine::Quarantine;
use nexus_core::run::{Memory, Outcome, Run};

#[derive(Default)]
pub struct Streaks {
    /// So many different jobs; 0 = never.
    allowed: usize,
    /// Runs in the order of their ends: where, and which job failed, or none if it completed.
    ends: Vec<(MachineId, Option<JobId>)>,
}

impl Streaks {
    pub fn new(allowed: u32) -> Streaks {
        Streaks { allowed: allowed as usize, ends: vec![] }
    }

    pub fn begin_anew(&mut self) {
        self.ends.clear();
    }

    pub fn ended(&mut self, run: &Run, outcome: &Outcome) {
        let failed = match outcome {
            Outcome::Exited { code: 0 } => return self.ends.push((run.lease.machine, None)),
            Outcome::Exited { .. } | Outcome::Signaled { .. } | Outcome::Lost { .. } => true,
            Outcome::StartError { .. } | Outcome::MachineError { .. } => true,
            Outcome::OutOfMemory { of, .. } => *of == Memory::Host,
            _ => false,
        };
        if failed && run.stop.is_none() {
            self.ends.push((run.lease.machine, Some(run.id.job)));
        }
    }

    /// What failed there no longer counts.
    pub fn forget(&mut self, machine: MachineId) {
        self.ends.retain(|(on, failed)| *on != machine || failed.is_none());
    }

    /// How many jobs failed there one after another, and the last of them, if that is too much.
    pub fn too_much(&self, machine: MachineId) -> Option<(usize, JobId)> {
        let since = self.ends.iter().rposition(|end| *end == (machine, None)).map_or(0, |last| last + 1);
        let later = &self.ends[since..];
        let first = later.iter().position(|(on, failed)| *on == machine && failed.is_some())?;
        let failed = || later.iter().filter(|(on, _)| *on == machine).filter_map(|(_, failed)| *failed);
        let jobs: BTreeSet<JobId> = failed().collect();
        let elsewhere = later[first..].iter().any(|(on, failed)| *on != machine && failed.is_none());
        let last = failed().next_back().expect("one is the first");
        (self.allowed > 0 && jobs.len() >= self.allowed && elsewhere).then_some((jobs.len(), last))
    }

    pub fn quarantined_rightly(&self, machine: MachineId, quarantine: &Quarantine) {
        let said = (quarantine.failures as usize, quarantine.last);
        assert_eq!(self.too_much(machine), Some(said), "{machine:?} is quarantined");
    }
}
