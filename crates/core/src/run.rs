//! One attempt of a job, and how it ended.

use crate::ids::{MachineId, RunId};
use crate::machine::Machine;
use crate::request::{GpuSet, Raise, raised};
use crate::time::Time;

/// The GPUs and CPUs a run holds, from the decision to start it until its end is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub machine: MachineId,
    pub gpus: GpuSet,
    /// Machines beside it that it has all GPUs of, where one does not have as many as it needs.
    pub beside: Vec<MachineId>,
    /// What it holds of each; none = all.
    pub share: Option<HeldShare>,
    pub cpus: u32,
    pub ram_mib: u32,
    /// It holds all of the machine, whatever else is said here, and its command runs on the service's host.
    pub driver: bool,
}

impl Lease {
    /// What it holds of a machine.
    pub fn gpus_on(&self, machine: &Machine) -> GpuSet {
        match machine.id == self.machine {
            true if self.driver => machine.gpu_set(),
            true => self.gpus,
            false if self.beside.contains(&machine.id) => machine.gpu_set(),
            false => GpuSet::EMPTY,
        }
    }

    /// Whether it holds anything that is counted.
    pub fn is_empty(&self) -> bool {
        self.gpus.is_empty() && (self.cpus, self.ram_mib) == (0, 0) && !self.driver
    }

    /// Where its processes are.
    pub fn runs_on(&self) -> MachineId {
        if self.driver { MachineId::LOCAL } else { self.machine }
    }

    /// Those that it holds something of.
    pub fn machines(&self) -> impl Iterator<Item = MachineId> {
        std::iter::once(self.machine).chain(self.beside.iter().copied())
    }
}

/// What a run holds of a GPU that others may be on too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldShare {
    pub milli: u16,
    /// None = as much memory as its part.
    pub vram_mib: Option<u32>,
}

impl HeldShare {
    /// What to ask for instead, where a run with this share ran out of memory having reached `peak_mib` (0 = not
    /// known) and no GPU has more than `most_mib`.
    pub fn raise(self, peak_mib: u32, most_mib: u64) -> Raise {
        let more = raised(peak_mib.max(self.vram_mib.unwrap_or(0)));
        // Where parts are counted, or its memory was never seen, there is no amount to ask more of.
        match self.milli == 0 && peak_mib > 0 && u64::from(more) <= most_mib {
            true => Raise::Mib(more),
            false => Raise::Alone,
        }
    }
}

/// ```text
///   planned ──> Starting ──> Running ──> (outcome: the run leaves the World)
///                   └──────────────────────^
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    pub id: RunId,
    pub lease: Lease,
    pub planned_at: Time,
    pub phase: Phase,
    /// Set once somebody asked for its end.
    pub stop: Option<StopCause>,
    /// The most memory it was seen to have on one GPU.
    pub peak_mib: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Starting,
    Running { pid: u32, since: Time },
}

/// Who asked for a run's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopCause {
    User,
    /// The whole service is stopped, with its jobs.
    Stopped,
}

/// Which memory did not suffice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    Gpu,
    Host,
}

/// How a run ended: what its shim saw, or what was found of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Exited {
        code: i32,
    },
    Signaled {
        signal: i32,
    },
    /// Ended because `stop` was asked for; `code` or `signal` as the process left.
    Stopped {
        code: Option<i32>,
        signal: Option<i32>,
    },
    TimedOut {
        code: Option<i32>,
        signal: Option<i32>,
    },
    /// Ended because the terminal session it was in was closed.
    SessionClosed {
        code: Option<i32>,
        signal: Option<i32>,
    },
    /// It failed, and for want of memory; `code` or `signal` as the process left.
    OutOfMemory {
        of: Memory,
        code: Option<i32>,
        signal: Option<i32>,
    },
    /// The command could not be started: no such program, no such folder. The job's own fault.
    StartError {
        error: String,
        code: Option<i32>,
    },
    /// The machine could not start it (fork, disk, permissions): tried again elsewhere or later.
    MachineError {
        error: String,
    },
    /// Another nexus service holds the lock of one of its GPUs. Nothing of the run began, so it is no attempt: the job waits
    /// at its place in the queue until the GPU is free. `user` and `pid` are the holder's, as far as they are known.
    GpuLocked {
        uuid: String,
        user: Option<String>,
        pid: Option<u32>,
    },
    /// Its shim died, or the machine restarted.
    Lost {
        error: String,
    },
    /// A cluster took its place back; it goes on elsewhere or later.
    Preempted,
    /// Somebody ended it by the means of a cluster, past nexus; `code` or `signal` as the process left, if it began.
    Cancelled {
        code: Option<i32>,
        signal: Option<i32>,
    },
    /// It was stopped before it began.
    NeverStarted,
}
