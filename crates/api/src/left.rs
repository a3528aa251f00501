//! What a job left behind, as clients see it and ask for it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::jobs::State;
use crate::results::Copy;

/// `GET /v1/jobs/{id}/results`: what a job left behind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Results {
    pub id: String,
    pub state: State,
    /// The folder that has a copy, or is to have it.
    pub results: Option<String>,
    /// A word of [`ResultsState`](crate::results::ResultsState).
    #[schema(value_type = crate::results::ResultsState)]
    pub results_state: String,
    /// Why the last copy failed.
    pub error: Option<String>,
    /// Paths of its `RESULTS:` lines, and how many more there were.
    pub named: Vec<String>,
    pub named_left_out: u64,
    /// Its own folder, where something is in it.
    pub folder: Option<String>,
    pub extracted: Option<BTreeMap<String, String>>,
    /// The newest copy, while it goes on and for a while after.
    pub copy: Option<Copy>,
}

/// Body of `POST /v1/jobs/{id}/results`: copy them, or copy them again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct CopyResults {
    /// An absolute path; the job's own `--results` where nothing is said. A folder named by the job is made in it.
    pub to: Option<String>,
}
