//! Why a job waits, or how it came to its end: the facts. Clients put them into sentences.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::jobs::{Job, Run};
use crate::service::Machine;

/// `GET /v1/jobs/{id}/why`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Why {
    /// With the reason it waits, or how it ended.
    #[serde(flatten)]
    pub job: Job,
    /// Its attempts.
    pub runs: Vec<Run>,
    /// Jobs that hold what it waits for.
    pub holders: Vec<Job>,
    /// What there is.
    pub machines: Vec<Machine>,
    /// Jobs that wait, held ones included.
    pub pending: u64,
    /// The last of what its newest run printed.
    pub last_lines: Vec<String>,
    /// Whether its folder is there now.
    pub cwd_exists: bool,
    pub disk_free_bytes: u64,
    /// The job that it was to come after, and that did not complete.
    #[serde(default)]
    pub failed_by: Option<String>,
    /// Why the last copy of its results failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub results_error: Option<String>,
}
