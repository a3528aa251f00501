//! Sessions of GNU screen in which this nexus can be seen.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One of `GET /v1/screens`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Screen {
    /// `nexus_job_abc`; `nexus` is the service's own.
    pub name: String,
    pub pid: Option<u32>,
    /// Null for the service's own.
    pub job: Option<String>,
    pub state: ScreenState,
    /// What to type to see it.
    pub command: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ScreenState {
    Attached,
    Detached,
    /// GNU screen does not list it.
    Unknown,
}

impl ScreenState {
    pub fn word(self) -> &'static str {
        match self {
            ScreenState::Attached => "attached",
            ScreenState::Detached => "detached",
            ScreenState::Unknown => "unknown",
        }
    }
}
