//! A live job: what scheduling needs of it. Commands, environments and ended jobs are in the store.

use std::time::Duration;

use crate::ids::{JobId, SweepId};
use crate::request::{Raise, Request, Same};
use crate::run::{Memory, Outcome, Run, StopCause};
use crate::time::Time;

/// Where a job stands in the queue: smaller goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The user's priority; [`Place::FRONT`] for jobs that were put first.
    pub priority: i64,
    /// Order of submission; negative and falling for jobs put first.
    pub turn: i64,
}

impl Place {
    /// Stands before every priority a user can give.
    pub const FRONT: i64 = i64::MIN;
}

/// ```text
///  Held <──> Queued ──> Active(run) ──> (Copying ──>) ended (leaves the World)
///              ^____________/ retry, or a start the machine failed
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    pub id: JobId,
    /// As it was asked for, and raised since.
    pub request: Request,
    pub raise: Option<Raise>,
    pub same: Same,
    /// The longest that a run of it may hold what it was given, if it says.
    pub limit: Option<Duration>,
    /// When it was submitted.
    pub since: Time,
    pub sweep: Option<SweepId>,
    pub place: Place,
    pub retries: Retries,
    /// What it leaves behind is copied when it has succeeded.
    pub copies: bool,
    /// Number of the newest run; 0 before the first.
    pub runs: u32,
    pub state: State,
}

impl Job {
    /// How long its run had gone on by then; none if none is on.
    pub fn ran_until(&self, at: Time) -> Option<Duration> {
        match &self.state {
            State::Active(run) => Some(at.since(run.planned_at)),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retries {
    pub allowed: u32,
    pub used: u32,
    /// Cover timeouts too.
    pub on_timeout: bool,
    /// Starts in a row that failed on the machine's side.
    pub start_failures: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    Held,
    /// `not_before`: a retry's wait.
    Queued {
        not_before: Option<Time>,
    },
    Active(Box<Run>),
    /// It has succeeded and holds nothing any more; its results are being copied, and its end is told then.
    Copying {
        ended_at: Time,
    },
}

impl State {
    /// The run that is on.
    pub fn run(&self) -> Option<&Run> {
        match self {
            State::Active(run) => Some(run),
            State::Held | State::Queued { .. } | State::Copying { .. } => None,
        }
    }

    /// Whether it is still to start.
    pub fn waits(&self) -> bool {
        matches!(self, State::Held | State::Queued { .. })
    }
}

/// How a job ended. Never changes afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    Completed,
    Failed(Failure),
    Killed(KillReason),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    Exit {
        code: i32,
    },
    Signal {
        signal: i32,
    },
    Timeout,
    GpuOom,
    HostOom,
    Lost,
    Preempted,
    Cancelled,
    StartError,
    SessionClosed,
    /// A job that it was to come after did not complete.
    Dependency {
        parent: JobId,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillReason {
    User,
    Removed,
    Stopped,
}

impl End {
    /// What a job becomes whose last run ended like this. `stop` is what had been asked of the run:
    /// a process that ended by itself before the signal reached it keeps its own result.
    pub fn of(outcome: &Outcome, stop: Option<StopCause>) -> End {
        let killed = stop.map(|cause| match cause {
            StopCause::User => End::Killed(KillReason::User),
            StopCause::Stopped => End::Killed(KillReason::Stopped),
        });
        match outcome {
            Outcome::Exited { code: 0 } => End::Completed,
            Outcome::Exited { code } => End::Failed(Failure::Exit { code: *code }),
            Outcome::Signaled { signal } => End::Failed(Failure::Signal { signal: *signal }),
            Outcome::TimedOut { .. } => End::Failed(Failure::Timeout),
            Outcome::SessionClosed { .. } => End::Failed(Failure::SessionClosed),
            Outcome::OutOfMemory { of: Memory::Gpu, .. } => End::Failed(Failure::GpuOom),
            Outcome::OutOfMemory { of: Memory::Host, .. } => End::Failed(Failure::HostOom),
            Outcome::StartError { .. } => End::Failed(Failure::StartError),
            Outcome::MachineError { .. } | Outcome::GpuLocked { .. } => {
                killed.unwrap_or(End::Failed(Failure::StartError))
            }
            Outcome::Lost { .. } => killed.unwrap_or(End::Failed(Failure::Lost)),
            Outcome::Preempted => killed.unwrap_or(End::Failed(Failure::Preempted)),
            Outcome::Cancelled { .. } => killed.unwrap_or(End::Failed(Failure::Cancelled)),
            // Nobody here asked: somebody sent the shim a signal.
            Outcome::Stopped { code, signal } => killed.unwrap_or(End::Failed(match (signal, code) {
                (Some(signal), _) => Failure::Signal { signal: *signal },
                (None, code) => Failure::Exit { code: code.unwrap_or(-1) },
            })),
            Outcome::NeverStarted => killed.unwrap_or(End::Failed(Failure::StartError)),
        }
    }

    /// Whether retries cover this end.
    pub fn may_be_retried(&self, retries: &Retries) -> bool {
        match self {
            End::Failed(Failure::Exit { .. } | Failure::Signal { .. } | Failure::GpuOom | Failure::HostOom) => true,
            End::Failed(Failure::Lost | Failure::Preempted | Failure::StartError) => true,
            End::Failed(Failure::Timeout) => retries.on_timeout,
            // Whoever cancelled it did not want it again.
            End::Failed(Failure::SessionClosed | Failure::Cancelled | Failure::Dependency { .. }) => false,
            End::Completed | End::Killed(_) => false,
        }
    }
}
