//! The service itself: status, GPUs, doctor.

use serde::{Deserialize, Serialize};
use utoipa::openapi::schema::{ArrayBuilder, ArrayItems};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::amount::GpuAmount;
use crate::jobs::Job;
use crate::machines::InPool;
use crate::problem::Told;
use crate::run_dir::ScreenSession;
use crate::standstill::Standstill;

/// `GET /v1/service`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Service {
    pub version: String,
    pub pid: u32,
    pub home: String,
    pub host: String,
    /// Where jobs run whose folder goes without saying; unknown of older services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_home: Option<String>,
    pub log_dir: String,
    pub started_at: String,
    pub queue_paused: bool,
    /// How a job's processes are held together: `cgroup`, or `session`.
    pub containment: String,
    /// Whether a job that exceeds its memory is ended; unknown of older services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limits: Option<bool>,
    /// `wal`, or `rollback` on a network file system.
    pub database: String,
    pub simulated_gpus: u16,
    pub disk_free_bytes: u64,
    /// How GPUs are read: `nvml`, `nvidia-smi`; null where there is no driver, or they are simulated.
    #[serde(default)]
    pub gpu_source: Option<String>,
    #[serde(default)]
    pub gpu_driver: Option<String>,
    /// Why they cannot be read.
    #[serde(default)]
    pub gpu_error: Option<String>,
    /// The folder in which services of this machine lock GPUs against each other.
    #[serde(default)]
    pub gpu_locks: Option<String>,
    /// Its own session of GNU screen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screen: Option<ScreenSession>,
    /// Lines of `jobs.txt` that were not taken, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs_file_refused: Vec<String>,
    /// Why `jobs.txt` is not kept now: another user can write to it, or it cannot be written, say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs_file_trouble: Option<String>,
    /// Why the database cannot be used. Until it can, the service takes no jobs, starts none, and changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<Told>,
}

/// `GET /v1/status`: everything of the status view in one answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
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
    /// Why the database cannot be used. Until it can, the service takes no jobs, starts none, and changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<Told>,
    /// Jobs wait for something that only a person can mend, and have for long enough to be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standstill: Option<Standstill>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
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

/// A machine as it is right now; `GET /v1/machines` and `/v1/gpus` list them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Machine {
    pub name: String,
    pub cpus: u32,
    pub gpus: Vec<Gpu>,
    /// Why GPUs cannot be read at all.
    #[serde(default)]
    pub error: Option<String>,
    /// What follows is only said of machines in a pool: absent where the service's own host is all there is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<InPool>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Gpu {
    pub index: u16,
    pub uuid: String,
    pub name: String,
    pub memory_mib: u64,
    pub simulated: bool,
    /// Ids of the jobs on it.
    pub jobs: Vec<String>,
    /// What each of them holds of it, where they share it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<GpuShare>,
    /// Gets no new job, by the user's will.
    #[serde(default)]
    pub paused: bool,
    /// As read last, as all that follows; null where it cannot be read.
    #[serde(default)]
    pub used_mib: Option<u64>,
    #[serde(default)]
    pub load_percent: Option<u8>,
    #[serde(default)]
    pub temperature_c: Option<u16>,
    #[serde(default)]
    pub power_w: Option<u32>,
    #[serde(default)]
    pub processes: Vec<GpuProcess>,
    /// Why it takes no job, but for a pause and the jobs on it.
    #[serde(default)]
    pub obstacle: Option<Obstacle>,
    /// Why runs on it are not locked against services of other users; none where they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock_error: Option<String>,
}

/// `GET /v1/gpus/readings` lists these: a GPU over the last quarter of an hour, as far as it was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GpuPast {
    pub machine: String,
    pub index: u16,
    pub points: Vec<PastPoint>,
}

/// Milliseconds since 1970, load in percent, memory in use in MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastPoint(pub i64, pub Option<u8>, pub Option<u64>);

impl PartialSchema for PastPoint {
    fn schema() -> RefOr<Schema> {
        let parts = [i64::schema(), <Option<u8>>::schema(), <Option<u64>>::schema()];
        let point = ArrayBuilder::new().prefix_items(parts).items(ArrayItems::False);
        let said = "Milliseconds since 1970, load in percent, memory in use in MiB.";
        point.min_items(Some(3)).description(Some(said)).into()
    }
}

impl ToSchema for PastPoint {}

/// What a job holds of a GPU that it shares: a part of it, memory of it, or both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GpuShare {
    pub job: String,
    pub part: Option<GpuAmount>,
    pub vram_mib: Option<u64>,
}

/// A process on a GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GpuProcess {
    pub pid: u32,
    pub user: Option<String>,
    /// File name of the program.
    pub name: Option<String>,
    pub memory_mib: Option<u64>,
    /// Draws; does not compute.
    pub graphics: bool,
    /// The job of this service that it belongs to.
    pub job: Option<String>,
    /// Somebody else's that counts: it keeps jobs off the GPU.
    pub foreign: bool,
}

/// Processes named in words; the rest is counted.
const NAMED: usize = 2;

impl Gpu {
    /// Who uses it outside nexus: `pid 4312 alice python, 642MB; 2 more`. None if nobody does.
    pub fn used_by(&self) -> Option<String> {
        match self.obstacle.as_ref()? {
            Obstacle::Locked { user: Some(user), .. } => return Some(format!("nexus of {user}")),
            Obstacle::Locked { user: None, .. } => return Some("another nexus".into()),
            Obstacle::InUse { .. } => {}
            Obstacle::Unreadable { .. } | Obstacle::Mig | Obstacle::LeftOut => return None,
        }
        let foreign: Vec<&GpuProcess> = self.processes.iter().filter(|process| process.foreign).collect();
        let mut names: Vec<String> = foreign.iter().take(NAMED).map(|process| process.words()).collect();
        if foreign.len() > NAMED {
            names.push(format!("{} more", foreign.len() - NAMED));
        }
        Some(names.join("; "))
    }
}

impl GpuProcess {
    fn words(&self) -> String {
        let words = [self.user.as_deref(), self.name.as_deref()];
        let who: String = words.into_iter().flatten().map(|word| format!(" {word}")).collect();
        let memory = self.memory_mib.map(|memory| format!(", {memory}MB")).unwrap_or_default();
        format!("pid {}{who}{memory}", self.pid)
    }
}

/// What keeps jobs off a GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Obstacle {
    /// Processes of others compute on it, these of `processes`.
    InUse {
        pids: Vec<u32>,
    },
    /// Another nexus service holds it.
    Locked {
        user: Option<String>,
        pid: Option<u32>,
    },
    Unreadable {
        error: String,
    },
    /// Cut into instances, which are not used as GPUs yet.
    Mig,
    /// `gpus.use` does not list it.
    LeftOut,
}

/// Body of `POST /v1/gpus/pause` and `/v1/gpus/resume`. Of all of them or none; the answer has them as they are
/// then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OnGpus {
    #[serde(default = "local")]
    pub machine: String,
    pub gpus: Vec<u16>,
}

fn local() -> String {
    "local".into()
}

/// Body of `POST /v1/service/stop`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Stop {
    /// Let running jobs go on without the service.
    pub keep_jobs: bool,
}

/// Body of `PUT /v1/service/simulated-gpus`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
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
