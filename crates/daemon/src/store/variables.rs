//! Variables: values that commands name, and which jobs need them. A value goes when it is taken back and the last job
//! that needs it has ended, and when another takes its place; what is left of it in the WAL goes soon after.

use std::collections::BTreeSet;

use nexus_api::variables::{Hidden, Variable};
use nexus_core::time::Time;
use rusqlite::params;

use super::write::Writer;
use super::{Reader, Store, StoreError};
use crate::clock;

/// What is to become of a variable.
#[derive(Clone, PartialEq, Eq)]
pub enum VariableChange {
    Set { name: String, value: String, at: Time },
    Unset { name: String },
}

impl Writer<'_> {
    pub(super) fn variable(&mut self, change: &VariableChange) -> rusqlite::Result<()> {
        match change {
            VariableChange::Set { name, value, at } => {
                self.run(
                    "INSERT INTO variables VALUES (?1, ?2, 1, ?3)
                     ON CONFLICT (name) DO UPDATE SET value = excluded.value, is_set = 1, set_at = excluded.set_at",
                    params![name, value, at.0],
                )?;
            }
            VariableChange::Unset { name } => {
                self.run("UPDATE variables SET is_set = 0 WHERE name = ?1", [name])?;
                self.drop_unneeded(name)?;
            }
        }
        // One that was there before may have gone.
        self.secrets_dropped = true;
        Ok(())
    }

    /// The variables that a job needs from now on.
    pub(super) fn needs_variables(&mut self, n: i64, names: &[String]) -> rusqlite::Result<()> {
        let before: Vec<String> = self
            .db
            .prepare_cached("SELECT name FROM variables_needed WHERE n = ?1")?
            .query_map([n], |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        for name in names {
            self.run("INSERT OR IGNORE INTO variables_needed VALUES (?1, ?2)", params![name, n])?;
        }
        for name in before.iter().filter(|name| !names.contains(name)) {
            self.run("DELETE FROM variables_needed WHERE name = ?1 AND n = ?2", params![name, n])?;
            self.drop_unneeded(name)?;
        }
        Ok(())
    }

    fn drop_unneeded(&mut self, name: &str) -> rusqlite::Result<()> {
        let dropped = self.run(
            "DELETE FROM variables WHERE name = ?1 AND is_set = 0
             AND NOT EXISTS (SELECT 1 FROM variables_needed WHERE name = ?1)",
            [name],
        )?;
        self.secrets_dropped |= dropped > 0;
        Ok(())
    }
}

impl Store {
    /// Names of those that are set.
    pub fn variables_set(&self) -> Result<BTreeSet<String>, StoreError> {
        self.db
            .prepare_cached("SELECT name FROM variables WHERE is_set = 1")
            .and_then(|mut found| found.query_map([], |row| row.get(0))?.collect())
            .map_err(|source| self.read_error(source))
    }

    /// Those that a job needs, with their values.
    pub(super) fn values_of(&self, id: &str) -> Result<Vec<Hidden>, StoreError> {
        self.db
            .prepare_cached(
                "SELECT name, value FROM variables WHERE name IN
                     (SELECT name FROM variables_needed WHERE n = (SELECT n FROM jobs WHERE id = ?1))",
            )
            .and_then(|mut found| {
                found.query_map([id], |row| Ok(Hidden { name: row.get(0)?, value: row.get(1)? }))?.collect()
            })
            .map_err(|source| self.read_error(source))
    }
}

impl Reader<'_> {
    pub fn variables(&self) -> Result<Vec<Variable>, StoreError> {
        self.db
            .prepare_cached(
                "SELECT name, is_set, set_at, (SELECT count(*) FROM variables_needed WHERE name = variables.name)
                 FROM variables ORDER BY name",
            )
            .and_then(|mut found| {
                found
                    .query_map([], |row| {
                        let set_at = clock::rfc3339(Time(row.get(2)?));
                        let jobs = row.get::<_, i64>(3)?.unsigned_abs();
                        Ok(Variable { name: row.get(0)?, is_set: row.get(1)?, set_at, jobs })
                    })?
                    .collect()
            })
            .map_err(|source| self.fail(source))
    }
}
