//! Notices: what is told of jobs to somebody who is not looking, and what became of one that was tried.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::jobs::Job;
use crate::standstill::Standstill;

/// Format of a [`Notice`].
pub const FORMAT: u32 = 1;

/// What a notice is about. The first six can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum About {
    /// A job began to run.
    Start,
    /// It completed, or was killed.
    End,
    /// It failed, and is not tried again.
    Failure,
    /// The last job of a sweep ended.
    SweepEnd,
    /// Nothing runs, and nothing waits that is not held.
    QueueEmpty,
    /// Jobs wait, none starts, and only a person can mend the reason.
    Blocked,
    /// Many notices in one.
    Digest,
    /// Somebody wants to see one.
    Test,
}

impl About {
    /// Those that can be asked for.
    pub const ASKED: [About; 6] =
        [About::Start, About::End, About::Failure, About::SweepEnd, About::QueueEmpty, About::Blocked];

    pub fn word(self) -> &'static str {
        match self {
            About::Start => "start",
            About::End => "end",
            About::Failure => "failure",
            About::SweepEnd => "sweep-end",
            About::QueueEmpty => "queue-empty",
            About::Blocked => "blocked",
            About::Digest => "digest",
            About::Test => "test",
        }
    }
}

/// What webhooks get as JSON, and commands on standard input. Unknown is null, never absent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Notice {
    pub format: u32,
    pub event: About,
    /// For people: what happened in the first line, then the command.
    pub text: String,
    /// Where the service runs.
    pub host: String,
    /// RFC 3339.
    pub at: String,
    /// Of a notice about one.
    pub job: Option<Job>,
    /// What a job that failed printed last.
    pub last_line: Option<String>,
    pub sweep: Option<EndedSweep>,
    pub digest: Option<Digest>,
    /// Of a notice about a queue that stands still.
    #[serde(default)]
    pub standstill: Option<Standstill>,
}

/// A sweep whose last job ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EndedSweep {
    pub name: String,
    /// With its `{names}`.
    pub command: String,
    pub jobs: u64,
    pub completed: u64,
    pub failed: u64,
    pub killed: u64,
}

/// What was collected, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Digest {
    /// When the first of it happened.
    pub since: String,
    pub started: u64,
    pub completed: u64,
    pub failed: u64,
    pub killed: u64,
    /// The first of those that failed.
    pub failures: Vec<FailedJob>,
    pub sweeps: Vec<EndedSweep>,
    /// At its end nothing ran and nothing waited.
    pub queue_empty: bool,
    /// The last that was told of a queue that stands still.
    #[serde(default)]
    pub standstill: Option<Standstill>,
}

/// Enough of a job that failed to find it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FailedJob {
    pub id: String,
    pub name: Option<String>,
    pub command: String,
    pub exit_code: Option<i32>,
    /// One sentence on the reason.
    pub detail: Option<String>,
}

/// Answer to `POST /v1/notify/test`: what became of a notice at one of those who are told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Tried {
    /// A webhook by its form, scheme and host, for the rest of it is secret; or the command.
    pub recipient: String,
    /// What it answered; null where it got nothing.
    pub answer: Option<String>,
    /// Why it got nothing, or would not have it.
    pub error: Option<String>,
    pub milliseconds: u64,
}
