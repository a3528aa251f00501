//! What is said of a cluster, between the service and the node on its login node.

use nexus_api::machines::SlurmPartition;
use nexus_core::ids::RunId;
use serde::{Deserialize, Serialize};

use super::parse::State;
use crate::words::Report;

/// How jobs are submitted, as it was asked for when the cluster was added.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Options {
    pub partition: Option<String>,
    pub account: Option<String>,
    pub qos: Option<String>,
    /// Further arguments of sbatch, after ours: where both say something, these count.
    pub sbatch_args: Vec<String>,
    /// So many runs are in Slurm's hands at most.
    pub most_submitted: u32,
}

/// What there is to say to the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    Report(Report),
    News(SlurmNews),
}

/// What the node has to say beside reports of runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlurmNews {
    /// It answers, and this is what there is.
    Cluster(Box<Cluster>),
    /// It does not answer. What it runs goes on.
    Away { error: String },
    /// Where runs stand in its queue: those of which something changed.
    Jobs(Vec<Told>),
}

/// What a cluster has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    pub name: Option<String>,
    pub version: Option<String>,
    /// Those that jobs may go to: the one that was named, else all.
    pub partitions: Vec<SlurmPartition>,
    /// Whether it remembers jobs for longer than a few minutes.
    pub accounting: bool,
    /// Jobs of one array at most.
    pub max_array: u32,
    /// What the user's association allows, in Slurm's own words: `MaxSubmitJobs=500`.
    pub limits: Vec<String>,
}

/// Where a run stands in Slurm's queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    #[serde(with = "crate::words::as_text")]
    pub run: RunId,
    /// `12` or `12_3`; none while it was not taken.
    pub job: Option<String>,
    /// In Slurm's own words; `REFUSED` where it takes no more at the moment, `UNCLEAR` where it did not answer.
    pub state: String,
    /// Why it waits, in Slurm's own words.
    pub reason: String,
    pub nodes: String,
    /// When Slurm thinks that it starts, or it did.
    pub start: Option<String>,
}

impl State {
    /// In Slurm's own words.
    pub fn word(&self) -> &'static str {
        match self {
            State::Pending => "PENDING",
            State::Starting => "CONFIGURING",
            State::Running => "RUNNING",
            State::Suspended => "SUSPENDED",
            State::Stopped => "STOPPED",
            State::Completing => "COMPLETING",
            State::Requeued => "REQUEUED",
            State::Revoked => "REVOKED",
            State::Completed => "COMPLETED",
            State::Failed => "FAILED",
            State::Cancelled => "CANCELLED",
            State::TimedOut => "TIMEOUT",
            State::NodeFail => "NODE_FAIL",
            State::Preempted => "PREEMPTED",
            State::OutOfMemory => "OUT_OF_MEMORY",
            State::BootFail => "BOOT_FAIL",
            State::Deadline => "DEADLINE",
            State::Other => "UNKNOWN",
        }
    }
}

impl Told {
    /// What the reason means, where that is known.
    pub fn meaning(&self) -> Option<&'static str> {
        super::meaning(&self.reason)
    }
}
