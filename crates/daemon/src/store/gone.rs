//! What goes from the database: forgotten jobs, and what jobs shared when the last of them needs it no more.

use nexus_core::ids::JobId;
use rusqlite::OptionalExtension;

use super::write::Writer;

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
