//! Why a job does not run yet, with the numbers of the filter that said no.

use crate::free::GpuCount;
use crate::request::GpuSet;
use crate::time::Time;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiting {
    Held,
    QueuePaused,
    /// There is no room for what a run writes.
    DiskFull,
    /// The service is on its way out and starts nothing more.
    Stopping,
    /// The wait before a retry.
    Retry {
        until: Time,
    },
    /// No machine has that many GPUs (among those allowed, if the job names some): no waiting helps. `count` is
    /// of the machine that comes nearest, with all that it could ever give as free.
    NoSuchGpus {
        need: u16,
        on: Option<GpuSet>,
        count: GpuCount,
    },
    /// `count` is of the machine that comes nearest.
    Gpus {
        need: u16,
        on: Option<GpuSet>,
        count: GpuCount,
    },
    NoSuchCpus {
        need: u16,
        exist: u16,
    },
    Cpus {
        need: u16,
        free: u16,
    },
    /// It fits and starts with the next decision.
    Next,
}
