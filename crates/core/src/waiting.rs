//! Why a job does not run yet, with the numbers of the filter that said no.

use crate::event::QueuePause;
use crate::free::GpuCount;
use crate::ids::JobId;
use crate::request::{Request, Target};
use crate::sweep::Stopped;
use crate::time::Time;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiting {
    Held,
    QueuePaused(QueuePause),
    /// There is no room for what a run writes.
    DiskFull,
    /// The service is on its way out and starts nothing more.
    Stopping,
    /// Its sweep is held: the first of it failed.
    SweepStopped(Stopped),
    /// As many jobs of its sweep run as may at once.
    SweepFull {
        running: u64,
        limit: u32,
    },
    /// It was told to begin later.
    Delayed {
        until: Time,
    },
    /// The wait before a retry.
    Retry {
        until: Time,
    },
    /// Jobs that come before it, some of them, and how many there are.
    After {
        jobs: Vec<JobId>,
        count: u64,
    },
    /// There is no machine of that class, or none of that number.
    NoSuchMachines {
        target: Target,
    },
    /// There are machines that could have it, so many, and none of them takes jobs now. One that is on its way out
    /// counts as paused.
    Machines {
        target: Target,
        unreachable: u32,
        paused: u32,
        quarantined: u32,
    },
    /// No machine has that many GPUs (among those allowed, if the job names some): no waiting helps. `count` is
    /// of the machine that comes nearest, with all that it could ever give as free.
    NoSuchGpus {
        request: Request,
        count: GpuCount,
    },
    /// `count` is of the machine that comes nearest. The request's memory is known.
    Gpus {
        request: Request,
        count: GpuCount,
    },
    /// There is room for it, and that is kept for a job that stands before it, which starts by then where that is known.
    Kept {
        job: JobId,
        at: Option<Time>,
    },
    /// A cluster could have it, and has as many runs of ours as it is to have.
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
    NoSuchRam {
        need_mib: u32,
        exist_mib: u64,
    },
    Ram {
        need_mib: u32,
        free_mib: u64,
    },
    /// It fits and starts with the next decision.
    Next,
}
