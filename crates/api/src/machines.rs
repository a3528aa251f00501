//! Machines that jobs run on: how they stand, and what is asked of them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::jobs::JobSpec;

/// How a machine of a pool stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct InPool {
    pub state: MachineState,
    /// One sentence on the state: why it cannot be reached, how far it is being set up.
    pub detail: Option<String>,
    /// What to type or do about it.
    pub hint: Option<String>,
    /// By the user's will, whatever else keeps jobs off it.
    #[serde(default)]
    pub paused: bool,
    /// None while it is being set up: it takes only jobs that name it.
    pub class: Option<String>,
    /// As it was given; null for the service's own host.
    pub address: Option<String>,
    /// Its own name for itself, once it was reached.
    pub hostname: Option<String>,
    pub ram_mib: Option<u64>,
    /// The folder that nexus has there.
    pub home: Option<String>,
    /// Round trip of the line.
    pub round_trip_ms: Option<f64>,
    /// Since when it is in this state, as far as this service knows.
    pub since: Option<String>,
    /// When it is called again, where it cannot be reached.
    pub again_at: Option<String>,
    pub added_at: Option<String>,
    /// Jobs that hold something of it.
    pub jobs: Vec<String>,
    /// What is known of a cluster; null for a machine of its own.
    #[serde(default)]
    pub slurm: Option<InSlurm>,
}

/// What a machine does with new jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MachineState {
    /// It takes them.
    #[default]
    Ready,
    /// It was not reached yet since the service began, or since it was added.
    Connecting,
    /// Its line is lost. What runs there goes on.
    Unreachable,
    /// Jobs make it ready for its class. Until then it takes only jobs that name it.
    SettingUp,
    /// One of those jobs failed: it is of no class.
    NotSetUp,
    /// By the user's will.
    Paused,
    /// Too many different jobs failed on it one after another.
    Quarantined,
    /// It is taken out when the last job on it has ended.
    Leaving,
}

impl MachineState {
    pub fn word(self) -> &'static str {
        match self {
            MachineState::Ready => "ready",
            MachineState::Connecting => "connecting",
            MachineState::Unreachable => "unreachable",
            MachineState::SettingUp => "setting-up",
            MachineState::NotSetUp => "not-set-up",
            MachineState::Paused => "paused",
            MachineState::Quarantined => "quarantined",
            MachineState::Leaving => "leaving",
        }
    }
}

/// Body of `POST /v1/machines`: one more machine. The answer comes before it was reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NewMachine {
    /// `[user@]host[:port]`, or a name of `~/.ssh/config`. Of a cluster its login node, and nothing where Slurm's programs
    /// are on the service's own host.
    #[serde(default)]
    pub address: String,
    /// It is a cluster, whose own scheduler places jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slurm: Option<NewSlurm>,
    /// None = the host of the address.
    #[serde(default)]
    pub name: Option<String>,
    /// None = `default`.
    #[serde(default)]
    pub class: Option<String>,
    /// The folder there; none = `~/.nexus`.
    #[serde(default)]
    pub home: Option<String>,
    /// So many GPUs that do not exist stand in for its own.
    #[serde(default)]
    pub simulate_gpus: u16,
}

/// How jobs are submitted to a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct NewSlurm {
    /// None = as Slurm has it; so for the next two.
    pub partition: Option<String>,
    pub account: Option<String>,
    pub qos: Option<String>,
    /// Further arguments of sbatch.
    pub sbatch_args: Vec<String>,
    /// So many jobs are in its hands at most; none = 1000.
    pub max_submitted: Option<u32>,
}

/// What is known of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct InSlurm {
    /// As it was asked for.
    pub asked: NewSlurm,
    /// What it calls itself.
    pub cluster: Option<String>,
    pub version: Option<String>,
    /// Those that jobs may go to.
    pub partitions: Vec<SlurmPartition>,
    /// Jobs of one array at most.
    pub max_array: Option<u32>,
    /// Whether it remembers jobs for long.
    pub accounting: bool,
    /// Of the user's association, in Slurm's own words: `MaxSubmitJobs=500`.
    pub limits: Vec<String>,
    /// Jobs of ours that are in its hands, and those of them that run.
    pub submitted: u32,
    pub running: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct SlurmPartition {
    pub name: String,
    pub is_default: bool,
    pub is_up: bool,
    /// The longest that a job may ask for; none = as long as it likes.
    pub max_minutes: Option<u64>,
    /// What a job has that does not ask.
    pub default_minutes: Option<u64>,
    pub nodes: u32,
    /// Those that are neither down nor drained.
    pub usable: u32,
    /// Of the largest node; so for the memory.
    pub cpus: u32,
    pub memory_mib: u64,
    pub gpus: Vec<SlurmGpus>,
}

/// GPUs of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct SlurmGpus {
    /// As Slurm calls it; empty where it has no name.
    pub kind: String,
    pub per_node: u16,
    pub total: u32,
}

/// Body of `POST /v1/setups`: jobs make machines ready for a class, on each machine one after the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SetUpMachines {
    /// One that is in the pool under its name and address leaves its class until it is set up.
    pub machines: Vec<NewMachine>,
    /// That they join when all of the jobs have completed.
    pub class: String,
    /// As they are for each machine: `{MACHINE}` in their commands is its address, and they come one after the other.
    pub jobs: Vec<JobSpec>,
    /// Each machine begins so much later than the one before.
    #[serde(default)]
    pub stagger_seconds: u64,
}

/// The set-up of a machine, which has begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SetUpBegun {
    pub machine: String,
    /// It was not in the pool before.
    pub is_new: bool,
    /// In their order. It joins its class when the last has completed.
    pub jobs: Vec<String>,
}

/// Body of `POST /v1/machines/pause` and its like, for all of these machines or none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OnMachines {
    pub machines: Vec<String>,
    /// For `mv`: the class they go to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// For `rm`: they go when the jobs on them have ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub drain: bool,
    /// For `rm`: the jobs on them are ended first. With neither, a machine with jobs on it stays.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kill: bool,
}

/// What can be done to machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MachineAction {
    Pause,
    Resume,
    Mv,
    Rm,
}

impl MachineAction {
    pub fn word(self) -> &'static str {
        match self {
            MachineAction::Pause => "pause",
            MachineAction::Resume => "resume",
            MachineAction::Mv => "mv",
            MachineAction::Rm => "rm",
        }
    }
}
