//! What goes from the database: forgotten jobs, and what jobs shared when the last of them needs it no more.

use std::collections::BTreeSet;

use nexus_core::ids::JobId;
use rusqlite::{Connection, OptionalExtension};

use super::together::Together;
use super::write::Writer;
use super::{Store, StoreError};

/// Key of the number of ids in `retired` that no job of this database ever had.
const RETIRED: &str = "retired";

impl Store {
    /// Sees to it that no new job gets the id of a job that this database knows nothing of, and whose folder is there: its
    /// logs would be taken for those of the new job.
    pub fn retire(&mut self, ids: &BTreeSet<JobId>) -> Result<(), StoreError> {
        self.retire_unknown(ids).map_err(|source| self.write_error(source))
    }

    fn retire_unknown(&mut self, ids: &BTreeSet<JobId>) -> rusqlite::Result<()> {
        let transaction = Together::begin(&self.db)?;
        let mut added = 0;
        for id in ids {
            let sql = "INSERT OR IGNORE INTO retired SELECT ?1 WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE id = ?1)";
            added += transaction.prepare_cached(sql)?.execute([id.as_str()])? as u64;
        }
        let retired = retired(&transaction)? + added;
        let sql = "INSERT INTO meta VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = excluded.value";
        transaction.prepare_cached(sql)?.execute([RETIRED, &retired.to_string()])?;
        transaction.keep()?;
        self.retired = retired;
        Ok(())
    }
}

/// How many ids were [retired](Store::retire).
pub(super) fn retired(db: &Connection) -> rusqlite::Result<u64> {
    let text: Option<String> = db
        .prepare_cached("SELECT value FROM meta WHERE key = ?1")?
        .query_row([RETIRED], |row| row.get(0))
        .optional()?;
    Ok(text.and_then(|text| text.parse().ok()).unwrap_or(0))
}

impl Writer<'_> {
    pub(super) fn forget(&mut self, job: JobId) -> rusqlite::Result<()> {
        let id = job.as_str();
        self.run("UPDATE totals SET count = count - 1 WHERE state = (SELECT state FROM jobs WHERE id = ?1)", [id])?;
        self.run("DELETE FROM tags WHERE n = (SELECT n FROM jobs WHERE id = ?1)", [id])?;
        self.run("DELETE FROM runs WHERE n = (SELECT n FROM jobs WHERE id = ?1)", [id])?;
        type Gone = (i64, Option<i64>, Option<i64>, String, bool);
        let gone: Option<Gone> = self
            .db
            .prepare_cached("DELETE FROM jobs WHERE id = ?1 RETURNING env, shared, sweep, state, replaced_by IS NULL")?
            .query_row([id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?)))
            .optional()?;
        let Some((env, shared, sweep, state, counted)) = gone else { return Ok(()) };
        // One that was taken over from elsewhere under its old id may be forgotten twice.
        self.run("INSERT OR IGNORE INTO retired VALUES (?1)", [id])?;
        if let Some(sweep) = sweep {
            self.forgotten_in(sweep, &state, counted)?;
        }
        if let Some(shared) = shared {
            self.drop_spec(shared)?;
        }
        self.drop_env(env)
    }

    /// No job needs it any more.
    pub(super) fn drop_env(&mut self, number: i64) -> rusqlite::Result<()> {
        self.last_env = None;
        self.run(
            "DELETE FROM envs WHERE n = ?1 AND NOT EXISTS (SELECT 1 FROM jobs WHERE env = ?1 AND shared IS NULL)
                                   AND NOT EXISTS (SELECT 1 FROM specs WHERE env = ?1)",
            [number],
        )?;
        Ok(())
    }

    /// A job has it in common with others no more, and it goes with the last that did.
    pub(super) fn drop_spec(&mut self, number: i64) -> rusqlite::Result<()> {
        self.last_spec = None;
        self.run("UPDATE specs SET uses = uses - 1 WHERE n = ?1", [number])?;
        self.run("DELETE FROM specs WHERE n = ?1 AND uses = 0", [number])?;
        Ok(())
    }

    /// A job needs them no more, and they go with the last that did.
    pub(super) fn drop_secrets(&mut self, n: i64, number: i64) -> rusqlite::Result<()> {
        self.last_env = None;
        self.run("UPDATE jobs SET secrets = NULL WHERE n = ?1", [n])?;
        self.run("DELETE FROM secrets WHERE n = ?1 AND NOT EXISTS (SELECT 1 FROM jobs WHERE secrets = ?1)", [number])?;
        self.secrets_dropped = true;
        Ok(())
    }
}
