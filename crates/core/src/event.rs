//! What happened, in the words that are written to disk. The World changes by events alone.

use std::sync::Arc;
use std::time::Duration;

use crate::ids::{ClassId, JobId, MachineId, RunId, SweepId};
use crate::job::{End, Place};
use crate::machine::{Machine, Quarantine, SetUp, Standing};
use crate::request::{Raise, Request, Same};
use crate::run::{Lease, Outcome, StopCause};
use crate::sweep::{InSweep, Stopped};
use crate::time::Time;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Submitted(NewJob),
    Held {
        job: JobId,
    },
    /// Held, and no longer after a job that the stop of the service ended: that one never completes, and nobody asked
    /// to go on without it.
    Orphaned {
        job: JobId,
        parent: JobId,
    },
    Released {
        job: JobId,
    },
    /// It does not start before this time.
    Delayed {
        job: JobId,
        until: Time,
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
        needs: Option<Box<Needs>>,
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
    /// The run was seen with more memory on one of its GPUs than before.
    Peaked {
        run: RunId,
        mib: u32,
    },
    /// Back in the queue after a run; follows its `RunEnded`.
    Requeued {
        job: JobId,
        why: Requeue,
        not_before: Option<Time>,
        /// What it asks for from now on, where that is more than before.
        raise: Option<Raise>,
    },
    /// It has succeeded, and what it left behind is copied before that counts; follows its `RunEnded`.
    Copying {
        job: JobId,
        at: Time,
    },
    /// Somebody ended the copy; its `JobEnded` follows.
    CopyStopped {
        job: JobId,
    },
    /// `at`: when its last process ended, whatever was copied since.
    JobEnded {
        job: JobId,
        end: End,
        at: Time,
    },
    /// Its first jobs failed alike: the rest is held, as the events that follow say.
    SweepStopped {
        sweep: SweepId,
        stopped: Stopped,
    },
    /// Somebody released one of its jobs.
    SweepReleased {
        sweep: SweepId,
    },
    QueuePaused(QueuePause),
    QueueResumed,
    /// Goes with the card, whatever number it has after the next boot.
    GpuPaused {
        machine: MachineId,
        index: u16,
        uuid: String,
        by: PausedBy,
    },
    GpuResumed {
        machine: MachineId,
        index: u16,
        uuid: String,
        by: PausedBy,
    },
    MachineAdded {
        machine: MachineId,
        standing: Standing,
    },
    /// To another class, or to none. What runs there goes on.
    MachineMoved {
        machine: MachineId,
        class: Option<ClassId>,
    },
    /// It is of no class until its set-up is done.
    MachineSetUp {
        machine: MachineId,
        set_up: SetUp,
    },
    MachinePaused {
        machine: MachineId,
    },
    /// Neither paused nor quarantined any more.
    MachineResumed {
        machine: MachineId,
    },
    MachineQuarantined {
        machine: MachineId,
        quarantine: Quarantine,
    },
    /// It takes no more jobs, and is removed when its last run has ended.
    MachineLeaving {
        machine: MachineId,
    },
    /// Nothing runs there.
    MachineRemoved {
        machine: MachineId,
    },
    /// The wall clock was set. Times of runs that have not ended, and times that are waited for, are by the new clock from here on:
    /// the difference of two times stays a duration.
    ///
    /// A clock that was wrong when the machine booted is set after times were read that an earlier boot wrote by the right clock.
    /// Nobody can tell these from others. So a run whose start would lie after `latest_start` keeps its times, and a wait becomes no
    /// longer than until `latest_retry`, unless it was longer before.
    ClockSet {
        by_ms: i64,
        /// Now by the new clock, and what the clocks of machines may differ.
        latest_start: Time,
        /// Now by the new clock, and the longest wait before a retry.
        latest_retry: Time,
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

/// Who paused the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum QueuePause {
    ByUser,
    /// So many jobs failed one after another.
    AfterFailures(u32),
}

/// Who paused or resumed a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PausedBy {
    User,
    /// Somebody who wrote it there.
    StateFile,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewJob {
    pub id: JobId,
    /// Thousands that come at once have one.
    pub needs: Arc<Needs>,
    pub sweep: Option<InSweep>,
    pub priority: i32,
    pub held: bool,
    pub at: Time,
}

/// What scheduling keeps of a spec, but for the priority.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    pub request: Request,
    pub same: Same,
    /// The longest that it may hold what it was given, if it says.
    pub limit: Option<Duration>,
    pub retries: u32,
    pub retry_on_timeout: bool,
    /// What it leaves behind is to be copied.
    pub copies: bool,
    /// Live jobs that come before it.
    pub after: Vec<Parent>,
    /// A job that was to come before it has ended already, and did not complete.
    pub failed_parent: Option<JobId>,
}

/// A job that another waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Parent {
    pub job: JobId,
    /// Any end will do.
    pub any_end: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requeue {
    /// A cluster took its place back. No retry is used.
    Preempted,
    /// Uses up one of the job's retries.
    Retry,
    /// The machine failed to start it: no retry used.
    StartFailed,
    /// Another service holds one of its GPUs: neither a retry nor a failed start is counted.
    GpuLocked,
}
