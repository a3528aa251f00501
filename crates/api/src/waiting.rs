//! Why a job waits, as clients see it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::amount::GpuAmount;

/// Why a job does not run yet, with numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Waiting {
    Held,
    QueuePaused {
        /// So many jobs failed one after another that the queue paused itself; null where somebody paused it.
        #[serde(default)]
        after_failures: Option<u32>,
    },
    /// Held with its sweep, whose first jobs all failed alike: `exit 1`.
    SweepStopped {
        failures: u32,
        failure: String,
    },
    /// As many jobs of its sweep run as may at once.
    SweepFull {
        running: u64,
        limit: u32,
    },
    DiskFull,
    Stopping,
    Retry {
        until: String,
    },
    /// It was told to begin later.
    Delayed {
        until: String,
    },
    /// Jobs that must complete or end first: some of them, and how many there are.
    After {
        jobs: Vec<String>,
        count: u64,
    },
    /// No waiting helps: no machine has that many among those allowed.
    NoSuchGpus(GpusMissing),
    /// Of the machine that comes nearest; each GPU counts once.
    Gpus(GpusMissing),
    /// There is room, kept for a job that stands before it. `at`: that one starts then at the latest, where it is known.
    Kept {
        job: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<String>,
    },
    /// It was given to a cluster, whose own scheduler keeps it waiting.
    Slurm {
        machine: String,
        /// As Slurm calls it, `12` or `12_3`; null while it was not taken.
        #[serde(default)]
        job: Option<String>,
        /// In Slurm's own words, so far as it said something.
        state: String,
        reason: String,
        /// What the reason means, where that is known.
        #[serde(default)]
        meaning: Option<String>,
        /// When Slurm thinks that it starts.
        #[serde(default)]
        start: Option<String>,
        /// Where it is, once Slurm has decided that.
        #[serde(default)]
        nodes: String,
    },
    /// A cluster could have it, and has as many of our jobs as it is to have.
    ClusterFull {
        runs: u32,
        most: u32,
    },
    NoSuchCpus {
        need: u32,
        exist: u32,
    },
    Cpus {
        need: u32,
        free: u32,
    },
    /// Memory of the machine.
    NoSuchRam {
        need_mib: u64,
        exist_mib: u64,
    },
    Ram {
        need_mib: u64,
        free_mib: u64,
    },
    /// There are machines for it, and none takes jobs now.
    Machines {
        /// Those of this class,
        class: Option<String>,
        /// or this one.
        machine: Option<String>,
        unreachable: u32,
        paused: u32,
        quarantined: u32,
    },
    /// There is no such machine: none of this class, or none of this name any more.
    NoSuchMachines {
        class: Option<String>,
        machine: Option<String>,
    },
    Next,
}

/// A job in the hands of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SlurmJob {
    /// As Slurm calls it: `12`, or `12_3` in an array.
    pub job: String,
    /// Where it is; empty while Slurm has not decided that.
    pub nodes: String,
}

/// What is asked of GPUs and what stands against it. Every GPU is counted in one of the numbers, or listed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct GpusMissing {
    /// GPUs; 1 for a part of one.
    pub need: u16,
    /// The part of one GPU; null where each is had whole, or shared by memory alone.
    pub part: Option<GpuAmount>,
    /// Memory of each that is shared.
    pub vram_mib: Option<u64>,
    pub on: Option<Vec<u16>>,
    pub model: Option<String>,
    /// Those that may be had some day as things are.
    pub exist: u16,
    pub free: u16,
    /// By jobs of this service that have them alone.
    pub held: u16,
    /// Jobs that share them are on them, and the whole is asked for.
    pub shared: u16,
    /// Shared, and too little is left of what was given away.
    pub full: u16,
    /// Too little of their memory is free, with what was promised to jobs that have not taken it yet.
    pub low_memory: u16,
    /// More in use than the thresholds for sharing allow.
    pub busy: u16,
    /// In use outside nexus, or by another service.
    pub outside: u16,
    pub paused: u16,
    pub unreadable: u16,
    /// The most that is left on one of them: of its parts, and of its memory.
    pub most_part: Option<GpuAmount>,
    pub most_free_mib: Option<u64>,
    /// Those that take no job and are not counted: cut into instances, left out by `gpus.use`, of another model,
    /// with less memory than is asked for.
    pub mig: Vec<u16>,
    pub left_out: Vec<u16>,
    pub other_model: Vec<u16>,
    pub too_small: Vec<u16>,
}
