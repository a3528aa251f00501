//! What jobs leave behind: files they name in their output, and values in it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A value that is taken from a job's output: the last text that the pattern's first group matched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extract {
    pub name: String,
    pub pattern: String,
}

/// What a run's output said of what it leaves behind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Found {
    /// Paths of its `RESULTS:` lines, each once, as printed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, String>,
}

impl Found {
    pub fn is_nothing(&self) -> bool {
        *self == Found::default()
    }
}

/// What became of the copy of a job's results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResultsState {
    #[default]
    None,
    Copying,
    Copied,
    Failed,
}

impl ResultsState {
    pub const ALL: [ResultsState; 4] =
        [ResultsState::None, ResultsState::Copying, ResultsState::Copied, ResultsState::Failed];

    pub fn word(self) -> &'static str {
        match self {
            ResultsState::None => "none",
            ResultsState::Copying => "copying",
            ResultsState::Copied => "copied",
            ResultsState::Failed => "failed",
        }
    }
}
