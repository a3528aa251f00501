//! What service and node say to each other on the line. Both ends are the very same build of nexus, so this needs no
//! number and no past: it may change in every release.

use std::collections::BTreeSet;
use std::path::PathBuf;

use nexus_api::run_dir::{RunSpec, Said};
use serde::{Deserialize, Serialize};

use crate::gpu::Reading;
use crate::left::Sources;
use crate::slurm::SlurmNews;
use crate::words::{Report, RunPlace, RunTerms};

/// What the service says. The first five are the calls of [`crate::Node`]; what comes of them is reported.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToNode {
    Start {
        runs: Vec<RunSpec>,
    },
    Observe {
        runs: Vec<RunPlace>,
    },
    Stop {
        runs: Vec<RunPlace>,
    },
    /// See [`crate::Node::know_terms`].
    Terms {
        runs: Vec<RunTerms>,
    },
    Clear {
        runs: Vec<RunPlace>,
        leftovers: bool,
    },
    /// How often the GPUs are looked at from now on; `now`: and at once.
    Poll {
        every_ms: u64,
        now: bool,
    },
    /// Look at the GPUs as soon as one of these, which other services hold, is free. Replaces the GPUs named before.
    AwaitLocks {
        uuids: BTreeSet<String>,
    },
    /// The content that was asked for is in [`part_of`] its name; or could not be sent.
    CodeSent {
        content: String,
        error: Option<String>,
    },
    /// Answered by [`FromNode::Pong`] at once, whatever else flows.
    Ping {
        at_ms: i64,
    },
    /// Begins a stream on a channel that was never used before. [`super::Line::open_stream`] says this.
    Open {
        channel: u32,
        stream: Stream,
    },
    /// So many more bytes may be sent on this channel.
    Grant {
        channel: u32,
        bytes: u32,
    },
    /// The service wants no more of it.
    Close {
        channel: u32,
    },
}

/// What the node says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromNode {
    /// The first word, once all that is asked can be done.
    Hello(Box<Hello>),
    /// Said once, seconds after the hello perhaps: runs that want the login environment have waited for it. With an
    /// error they have the node's own instead.
    LoginEnv {
        error: Option<String>,
    },
    Pong {
        asked_at_ms: i64,
        /// By this machine's clock.
        at_ms: i64,
    },
    Report(Report),
    /// Runs wait for this content, to be put into [`part_of`] its name in the folder for code. What is beside it may be
    /// much the same.
    WantCode {
        content: String,
        beside: Vec<String>,
    },
    /// At every poll; never with simulated GPUs.
    Gpus(Reading),
    /// Of a cluster.
    Slurm(SlurmNews),
    /// So many more bytes may be sent on this channel.
    Grant {
        channel: u32,
        bytes: u32,
    },
    /// The stream has come to its end, or to grief. Nothing follows on the channel.
    Closed {
        channel: u32,
        error: Option<String>,
    },
}

/// Who the node is and where it works.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    pub version: String,
    pub pid: u32,
    pub hostname: String,
    pub user: String,
    /// Where the node lives, an absolute path. The folder that was asked for; on a network file system, which other
    /// machines see too, `hosts/<hostname>` in it.
    pub home: PathBuf,
    /// Where runs have their directories: `logs` in the home. So for the next two.
    pub logs: PathBuf,
    pub checkpoints: PathBuf,
    pub results: PathBuf,
    /// Where jobs run whose code is sent here.
    pub code: PathBuf,
    /// Where screen sessions are if screen's own folder cannot be used; a short path.
    pub screens: PathBuf,
    /// The home of the user, where jobs run whose folder goes without saying.
    pub user_home: PathBuf,
    pub cpus: u32,
    pub ram_mib: u64,
    pub boot_id: String,
    /// Whether each run has a cgroup of its own; otherwise its session holds it together.
    pub cgroups: bool,
    /// Whether the memory of runs can be limited.
    pub memory_limits: bool,
    /// Where bash is; without it shell commands are for `sh`.
    pub bash: Option<PathBuf>,
    /// By this machine's clock.
    pub at_ms: i64,
}

/// What flows on a channel of its own, opened by the service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// What a run printed, for a copy that has `had` bytes of standard output and error. Read by
    /// [`super::LogCopy::keep_up`]. Ends when all is sent; with `follow` it goes on until it is closed.
    Logs { dir: PathBuf, had: [u64; 2], follow: bool },
    /// The run's terminal: frames of viewer and shim, both ways. The first byte, [`REACHED`], says that the shim is
    /// there; [`super::Line::open_terminal`] takes it.
    Terminal { dir: PathBuf },
    /// The bytes of a plain file, from one of them on.
    File { path: PathBuf, from: u64 },
    /// What of a job's results is to be copied: a `Result<Plan, Trouble>` in JSON.
    Plan { sources: Sources },
    /// Removes a folder below those of logs, checkpoints or results, if it is there. Sends nothing.
    Remove { path: PathBuf },
    /// What a run printed last: [`Last`] in JSON, with so many lines.
    Said { dir: PathBuf, lines: usize },
}

/// The folder that a content is sent to; it has its own name once all of it is there.
pub fn part_of(content: &str) -> String {
    format!(".part-{content}")
}

/// Sent once the shim of a terminal is reached.
pub const REACHED: u8 = 1;

/// What a run printed last. Of a run with variables only `kept` may be shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Last {
    /// See [`crate::last_line`].
    pub line: Option<String>,
    /// See [`crate::last_lines`].
    pub lines: Vec<String>,
    /// See [`crate::kept_said`].
    pub kept: Option<Said>,
}
