//! What is known of a job's results, as it lies in the database.

use nexus_api::results::{Found, ResultsState};
use nexus_core::ids::JobId;
use rusqlite::Row;

/// What is known of a job's results.
#[derive(Clone, Debug, Default)]
pub struct Left {
    pub found: Found,
    /// The folder that has a copy; none where that goes without saying.
    pub folder: Option<String>,
    pub state: ResultsState,
    pub error: Option<String>,
}

/// What became of a copy.
pub struct Copied {
    pub job: JobId,
    pub folder: String,
    /// Why it failed.
    pub error: Option<String>,
}

impl Left {
    /// From four columns of a row, this one first.
    pub(super) fn of(row: &Row, column: usize) -> rusqlite::Result<Left> {
        let (found, word): (Option<String>, Option<String>) = (row.get(column)?, row.get(column + 2)?);
        let known = |word: String| ResultsState::ALL.into_iter().find(|state| state.word() == word);
        Ok(Left {
            found: found.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default(),
            folder: row.get(column + 1)?,
            state: word.and_then(known).unwrap_or_default(),
            error: row.get(column + 3)?,
        })
    }

    /// As in the column; none where nothing was found.
    pub(super) fn found_text(&self) -> Option<String> {
        (!self.found.is_nothing()).then(|| serde_json::to_string(&self.found).expect("plain data"))
    }

    /// The same of the state.
    pub(super) fn state_word(&self) -> Option<&'static str> {
        (self.state != ResultsState::None).then(|| self.state.word())
    }
}
