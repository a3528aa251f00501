//! Sums over jobs, and tags.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What sums are made by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    Sweep,
    /// A job with several counts in each.
    Tag,
    /// Of its newest run.
    Machine,
    Project,
    /// Of its end; of its submission where it has not ended. By the service's clock.
    Day,
    Name,
}

impl By {
    pub const ALL: [By; 6] = [By::Sweep, By::Tag, By::Machine, By::Project, By::Day, By::Name];

    pub fn word(self) -> &'static str {
        match self {
            By::Sweep => "sweep",
            By::Tag => "tag",
            By::Machine => "machine",
            By::Project => "project",
            By::Day => "day",
            By::Name => "name",
        }
    }
}

/// Jobs that have something in common, in `GET /v1/report?by=…`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Group {
    /// Null for those that have none.
    pub key: Option<String>,
    pub jobs: u64,
    pub completed: u64,
    pub failed: u64,
    pub killed: u64,
    /// GPUs × run time over all attempts; a part of a GPU counts as that part.
    pub gpu_hours: f64,
}

/// A tag in `GET /v1/tags`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Tag {
    pub tag: String,
    /// Jobs that have not ended.
    pub live: u64,
    pub ended: u64,
}

/// Body of `POST /v1/tags/NAME`: all of these jobs have the tag then, or none has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TagJobs {
    pub ids: Vec<String>,
    #[serde(default)]
    pub take_off: bool,
}
