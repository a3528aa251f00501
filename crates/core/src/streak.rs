//! How jobs ended on each machine lately: whether one fails what others complete. Live facts, lost with the process.
//!
//! A job counts once, however often it is tried again: a bad job with endless retries says nothing of a machine.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::{JobId, MachineId};
use crate::run::{Memory, Outcome, StopCause};

/// So many failed jobs are remembered of a machine.
const MOST: usize = 1000;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Streaks(BTreeMap<MachineId, Streak>);

/// Different jobs that failed on a machine one after another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Streak {
    pub machine: MachineId,
    jobs: BTreeSet<JobId>,
    pub last: JobId,
    /// Since the first of them failed a job has completed on another machine.
    completed_elsewhere: bool,
}

impl Streak {
    pub fn failures(&self) -> u32 {
        self.jobs.len() as u32
    }
}

impl Streaks {
    /// A run has ended on a machine. `stop`: somebody asked for that.
    pub fn ended(&mut self, machine: MachineId, job: JobId, outcome: &Outcome, stop: Option<StopCause>) {
        if *outcome == (Outcome::Exited { code: 0 }) {
            self.0.remove(&machine);
            self.0.values_mut().for_each(|other| other.completed_elsewhere = true);
        } else if stop.is_none() && may_be_of_the_machine(outcome) {
            let new = || Streak { machine, jobs: BTreeSet::new(), last: job, completed_elsewhere: false };
            let streak = self.0.entry(machine).or_insert_with(new);
            streak.last = job;
            if streak.jobs.len() < MOST {
                streak.jobs.insert(job);
            }
        }
    }

    /// Those in which so many jobs failed while another completed elsewhere; 0 = none.
    pub fn of(&self, failures: u32) -> impl Iterator<Item = &Streak> {
        let failures = failures.min(MOST as u32);
        let enough = move |streak: &&Streak| (1..=streak.failures()).contains(&failures);
        self.0.values().filter(enough).filter(|streak| streak.completed_elsewhere)
    }

    pub fn forget(&mut self, machine: MachineId) {
        self.0.remove(&machine);
    }
}

/// Whether another machine might have done better. Limits of time and of a GPU's memory, and sessions that somebody
/// closed, are the job's own.
fn may_be_of_the_machine(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Exited { code } => *code != 0,
        Outcome::Signaled { .. } | Outcome::StartError { .. } | Outcome::MachineError { .. } => true,
        Outcome::Lost { .. } | Outcome::OutOfMemory { of: Memory::Host, .. } => true,
        Outcome::OutOfMemory { of: Memory::Gpu, .. } | Outcome::TimedOut { .. } => false,
        Outcome::Stopped { .. } | Outcome::SessionClosed { .. } | Outcome::NeverStarted => false,
        Outcome::Preempted | Outcome::Cancelled { .. } | Outcome::GpuLocked { .. } => false,
    }
}
