//! What jobs leave behind: files they name in their output, and values in it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A value that is taken from a job's output: the last text that the pattern's first group matched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Extract {
    pub name: String,
    pub pattern: String,
}

/// Values that can be taken from one job's output.
pub const MOST_EXTRACTS: usize = 32;

const LONGEST_NAME: usize = 64;

impl Extract {
    /// `loss=final loss: ([0-9.]+)`. Whether the pattern can be read, the service says.
    pub fn read(text: &str) -> Result<Extract, String> {
        let wrong = || format!("{text} is no value to take, as in 'loss=final loss: ([0-9.]+)'");
        let (name, pattern) = text.split_once('=').ok_or_else(wrong)?;
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        let named = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && name.chars().all(plain);
        if pattern.is_empty() || !named || name.len() > LONGEST_NAME || text.contains(char::is_control) {
            return Err(wrong());
        }
        Ok(Extract { name: name.into(), pattern: pattern.into() })
    }

    pub fn text(&self) -> String {
        format!("{}={}", self.name, self.pattern)
    }

    /// Several as one text: one as it is, more as a JSON list.
    pub fn list_text(list: &[Extract]) -> Option<String> {
        match list {
            [] => None,
            [one] => Some(one.text()),
            several => Some(serde_json::json!(several.iter().map(Extract::text).collect::<Vec<_>>()).to_string()),
        }
    }

    /// Reads what [`Extract::list_text`] wrote.
    pub fn read_list(text: &str) -> Result<Vec<Extract>, String> {
        let texts: Vec<String> = match text.starts_with('[') {
            true => serde_json::from_str(text).map_err(|error| format!("{text} is no list of values: {error}"))?,
            false => vec![text.to_string()],
        };
        let list = texts.iter().map(|text| Extract::read(text)).collect::<Result<Vec<_>, _>>()?;
        match (1..list.len()).find(|at| list[..*at].iter().any(|before| before.name == list[*at].name)) {
            Some(at) => Err(format!("{} is said twice", list[at].name)),
            None if list.len() > MOST_EXTRACTS => Err(format!("more than {MOST_EXTRACTS} values are too many")),
            None => Ok(list),
        }
    }
}

/// What a run's output said of what it leaves behind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Found {
    /// Paths of its `RESULTS:` lines, each once, as printed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<String>,
    /// Further such lines that were not kept: too long, or too many.
    #[serde(skip_serializing_if = "is_zero")]
    pub results_left_out: u64,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, String>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Found {
    pub fn is_nothing(&self) -> bool {
        *self == Found::default()
    }
}

/// What became of the copy of a job's results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
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

/// How far a copy is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ResultsCopy)]
pub struct Copy {
    /// Tells it from others of the same job.
    pub number: u64,
    pub to: String,
    pub done_bytes: u64,
    pub total_bytes: u64,
    /// Why the last try failed, while there is another to come.
    pub trouble: Option<String>,
    pub ended: bool,
    /// Why it failed.
    pub error: Option<String>,
}
