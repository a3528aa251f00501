//! Changes of the queue: as a text with all of it, or of one job.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::command::Command;
use crate::env::Env;
use crate::jobs::{Job, Note, State};

/// `GET /v1/queue/text`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QueueText {
    pub text: String,
}

/// Body of `POST /v1/queue/text`: a text as it was given out, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QueueEdit {
    /// What changed meanwhile, and what the user changed, is found by comparing with it.
    pub base: String,
    pub text: String,
    /// New lines are queued with this environment, in this folder.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, String>)]
    pub env: Env,
    pub cwd: String,
    #[serde(default)]
    pub window: Option<(u16, u16)>,
    /// Jobs whose lines are missing are removed; otherwise nothing is done while there are such.
    #[serde(default)]
    pub remove: bool,
}

/// Answer to it. Nothing was done where lines cannot be read, or jobs would be removed without consent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct QueueEdited {
    pub done: bool,
    /// By line of the text.
    pub errors: Vec<LineError>,
    /// The new jobs, when it is done.
    pub added: Vec<Job>,
    pub removed: Vec<EditedJob>,
    pub changed: Vec<JobEdited>,
    /// Ids of lines that stand elsewhere.
    pub moved: Vec<String>,
    /// Changed by somebody else meanwhile, and left as they are.
    pub conflicts: Vec<EditedJob>,
    /// No longer waiting, and left alone.
    pub left: Vec<EditedJob>,
    /// What the submitter of new lines should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Note>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LineError {
    /// From 1.
    pub line: u64,
    pub error: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EditedJob {
    pub id: String,
    pub command: String,
    /// Null where the job is no longer known.
    pub state: Option<State>,
}

/// Body of `POST /v1/jobs/{id}/edit`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct JobEdit {
    /// By their names in `jobs.txt`; no text = back to the default.
    pub options: BTreeMap<String, String>,
    pub command: Option<Command>,
    /// Variables to set; the others stay.
    #[schema(value_type = BTreeMap<String, String>)]
    pub env: Env,
}

/// What was changed of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobEdited {
    pub id: String,
    pub changes: Vec<Change>,
}

/// `priority 0 -> 2`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Change {
    pub what: String,
    pub from: String,
    pub to: String,
}
