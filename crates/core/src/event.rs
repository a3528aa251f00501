//! What happened, in the words that are written to disk. The World changes by events alone.

use crate::ids::{JobId, MachineId, RunId};
use crate::job::{End, Place};
use crate::machine::Machine;
use crate::request::Request;
use crate::run::{Lease, Outcome, StopCause};
use crate::time::Time;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Submitted(NewJob),
    Held {
        job: JobId,
    },
    Released {
        job: JobId,
    },
    /// Put first.
    Moved {
        job: JobId,
        place: Place,
    },
    /// Another place, by its priority or by hand.
    Placed {
        job: JobId,
        place: Place,
    },
    /// Its spec was changed; `needs` are those of a waiting job, none where scheduling is not concerned.
    Edited {
        job: JobId,
        needs: Option<Needs>,
    },
    /// Decided, not yet done: the run holds its lease from here on.
    Planned {
        run: RunId,
        lease: Lease,
        at: Time,
    },
    Running {
        run: RunId,
        pid: u32,
        at: Time,
    },
    StopAsked {
        run: RunId,
        cause: StopCause,
    },
    RunEnded {
        run: RunId,
        outcome: Outcome,
        at: Time,
    },
    /// Back in the queue after a run; follows its `RunEnded`.
    Requeued {
        job: JobId,
        why: Requeue,
        not_before: Option<Time>,
    },
    JobEnded {
        job: JobId,
        end: End,
        at: Time,
    },
    QueuePaused,
    QueueResumed,
    /// Goes with the card, whatever number it has after the next boot.
    GpuPaused {
        machine: MachineId,
        index: u16,
        uuid: String,
    },
    GpuResumed {
        machine: MachineId,
        index: u16,
        uuid: String,
    },
    /// A live fact, not history: the store does not keep it.
    MachineRead(Machine),
    /// As `MachineRead`: while the disk is full nothing starts.
    DiskFull {
        full: bool,
    },
    /// As `MachineRead`: from here on nothing starts.
    Stopping,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewJob {
    pub id: JobId,
    pub request: Request,
    pub priority: i32,
    pub retries: u32,
    pub held: bool,
    pub at: Time,
}

/// What scheduling keeps of a spec, but for the priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    pub request: Request,
    pub retries: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requeue {
    /// Uses up one of the job's retries.
    Retry,
    /// The machine failed to start it: no retry used.
    StartFailed,
}
