//! The service itself: status, GPUs, doctor.

use serde::{Deserialize, Serialize};

use crate::jobs::Job;

/// `GET /v1/service`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Service {
    pub version: String,
    pub pid: u32,
    pub home: String,
    pub host: String,
    pub log_dir: String,
    pub started_at: String,
    pub queue_paused: bool,
    /// How a job's processes are held together: `cgroup`, or `session`.
    pub containment: String,
    /// `wal`, or `rollback` on a network file system.
    pub database: String,
    pub simulated_gpus: u16,
    pub disk_free_bytes: u64,
    /// Lines of `jobs.txt` that were not taken, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs_file_refused: Vec<String>,
}

/// `GET /v1/status`: everything of the status view in one answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    pub queue_paused: bool,
    /// Jobs that wait, held ones included.
    pub pending: u64,
    pub held: u64,
    pub completed: u64,
    pub failed: u64,
    pub killed: u64,
    /// Since the last look, newest first, three at most.
    pub failures: Vec<RecentFailure>,
    pub machines: Vec<Machine>,
    /// Starting and running jobs.
    pub active: Vec<Job>,
    pub disk_free_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecentFailure {
    pub id: String,
    pub ended_at: String,
    /// `exit`, `signal`, …
    pub reason: String,
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    pub detail: Option<String>,
    /// The last line it printed, cut to a line's length.
    pub last_line: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    pub name: String,
    pub cpus: u16,
    pub gpus: Vec<Gpu>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gpu {
    pub index: u16,
    pub uuid: String,
    pub name: String,
    pub memory_mib: u64,
    pub simulated: bool,
    /// Ids of the jobs on it.
    pub jobs: Vec<String>,
}

/// Body of `POST /v1/service/stop`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    /// Let running jobs go on without the service.
    pub keep_jobs: bool,
}

/// Body of `PUT /v1/service/simulated-gpus`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SimulatedGpus {
    pub count: u16,
}

/// The line a starting service writes to whoever started it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub enum StartReport {
    Ready { pid: u32 },
    AlreadyRuns,
    Failed { problem: crate::problem::Problem },
}
