//! What jobs left behind, and what became of the copy of it.

use nexus_api::results::{Found, ResultsState};
use nexus_core::ids::{JobId, RunId};
use nexus_core::time::Time;
use rusqlite::params;

use super::left::Copied;
use super::read::{JOB, JobRow, Reader};
use super::write::Writer;
use super::{Store, StoreError};

/// Why a copy ended that somebody gave up.
const STOPPED: &str = "stopped by user";

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

    /// Completed here since `since` without their results being copied, newest first.
    pub fn uncopied(&self, since: Time, limit: u64) -> Result<Vec<JobRow>, StoreError> {
        let sql = format!(
            "{JOB} WHERE results_state = 'failed' AND jobs.ended_at > ?1 AND +state = 'completed' AND +jobs.n > 0
             ORDER BY jobs.ended_at DESC LIMIT ?2"
        );
        self.jobs(&sql, [since.0, i64::try_from(limit).unwrap_or(i64::MAX)])
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

    /// `began`: its run, if that is not written yet.
    pub(super) fn copying(&self, job: JobId, began: Option<Time>) -> rusqlite::Result<()> {
        self.run(
            "UPDATE jobs SET state = 'copying', exit_code = 0, results_state = 'copying', results_error = NULL,
                             started_at = coalesce(?2, started_at)
             WHERE id = ?1",
            params![job.as_str(), began.map(|at| at.0)],
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
