//! What jobs left behind, and what became of the copy of it.

use nexus_api::results::{Found, ResultsState};
use nexus_core::ids::{JobId, RunId};
use rusqlite::{Row, params};

use super::read::{JOB, Reader};
use super::write::Writer;
use super::{JobRow, Store, StoreError};

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

/// Why a copy ended that somebody gave up.
const STOPPED: &str = "stopped by user";

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
}

impl JobRow {
    /// The folder that has a copy of what it left, or is to have it.
    pub fn results_folder(&self) -> Option<String> {
        let of_spec =
            || self.spec.results.as_ref().map(|folder| format!("{}/{}", folder.trim_end_matches('/'), self.id));
        self.left.folder.clone().or_else(of_spec)
    }
}

impl Reader<'_> {
    /// Jobs whose results are being copied.
    pub fn copying(&self) -> Result<Vec<JobRow>, StoreError> {
        self.jobs(&format!("{JOB} WHERE jobs.ended_at IS NULL AND state = 'copying' ORDER BY jobs.n"), [])
    }
}

impl Store {
    pub fn job_row(&self, job: JobId) -> Result<Option<JobRow>, StoreError> {
        Reader::new(&self.db, &self.path).job(job.as_str())
    }
}

impl Writer<'_> {
    /// What a run's output said; that of an attempt before it counts no more.
    pub(super) fn found(&self, run: RunId, found: Option<&Found>) -> rusqlite::Result<()> {
        if found.is_none() && run.number <= 1 {
            return Ok(());
        }
        let text = found.map(|found| serde_json::to_string(found).expect("plain data"));
        self.run("UPDATE jobs SET found = ?2 WHERE id = ?1", params![run.job.as_str(), text])?;
        Ok(())
    }

    pub(super) fn copying(&self, job: JobId) -> rusqlite::Result<()> {
        self.run(
            "UPDATE jobs SET state = 'copying', exit_code = 0, results_state = 'copying', results_error = NULL
             WHERE id = ?1",
            [job.as_str()],
        )?;
        Ok(())
    }

    pub(super) fn copy_stopped(&self, job: JobId) -> rusqlite::Result<()> {
        self.run(
            "UPDATE jobs SET results_state = 'failed', results_error = ?2 WHERE id = ?1",
            params![job.as_str(), STOPPED],
        )?;
        Ok(())
    }

    pub(super) fn copied(&self, copied: &Copied) -> rusqlite::Result<()> {
        let state = if copied.error.is_some() { ResultsState::Failed } else { ResultsState::Copied };
        self.run(
            "UPDATE jobs SET results = ?2, results_state = ?3, results_error = ?4 WHERE id = ?1",
            params![copied.job.as_str(), copied.folder, state.word(), copied.error],
        )?;
        Ok(())
    }
}
