//! Submissions by the keys of their senders. They are remembered for a week: nobody tries longer.

use nexus_core::ids::JobId;
use nexus_core::time::Time;
use rusqlite::{OptionalExtension, Row, params};

use super::write::Writer;
use super::{Store, StoreError};

const REMEMBERED_MS: i64 = 7 * 24 * 3600 * 1000;

/// What came of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submission {
    pub key: String,
    /// Of what was asked for.
    pub digest: i64,
    /// Its name, if it was one.
    pub sweep: Option<String>,
    pub ids: Vec<JobId>,
    pub at: Time,
}

impl Store {
    pub fn submission(&self, key: &str) -> Result<Option<Submission>, StoreError> {
        let read = |row: &Row| {
            let ids: String = row.get(2)?;
            Ok(Submission {
                key: key.to_string(),
                digest: row.get(0)?,
                sweep: row.get(1)?,
                ids: ids.lines().filter_map(|id| id.parse().ok()).collect(),
                at: Time(row.get(3)?),
            })
        };
        self.db
            .prepare_cached("SELECT digest, sweep, ids, at FROM submissions WHERE key = ?1")
            .and_then(|mut statement| statement.query_row([key], read).optional())
            .map_err(|source| self.read_error(source))
    }
}

impl Writer<'_> {
    pub(super) fn submission(&self, new: &Submission) -> rusqlite::Result<()> {
        let ids: Vec<&str> = new.ids.iter().map(JobId::as_str).collect();
        self.run("DELETE FROM submissions WHERE at < ?1", [new.at.0 - REMEMBERED_MS])?;
        self.run(
            "INSERT OR REPLACE INTO submissions VALUES (?1, ?2, ?3, ?4, ?5)",
            params![new.key, new.digest, new.sweep, ids.join("\n"), new.at.0],
        )?;
        Ok(())
    }
}
