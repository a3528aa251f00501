//! Files that are watched, and what of them was taken.

use std::collections::BTreeMap;

use nexus_api::job_file::Format;
use nexus_api::jobs::JobSpec;
use nexus_core::time::Time;
use rusqlite::{Row, params};

use super::StoreError;
use super::read::Reader;
use super::spec::decoded;
use super::write::Writer;

/// A file that is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchRow {
    pub file: String,
    pub format: Option<Format>,
    /// With the environment of whoever asked for it.
    pub usual: JobSpec,
    pub again: bool,
    pub since: Time,
    /// The group whose members may write to it, by name or number.
    pub shared_with: Option<String>,
}

/// Entries by the number of their bytes, and how often each stands there.
pub type Seen = BTreeMap<i64, u64>;

#[derive(Clone, Debug)]
pub enum WatchChange {
    /// From now on, or with other words from now on.
    Begin(Box<WatchRow>),
    /// Its environment and what was seen are forgotten.
    End { file: String },
    /// How often these entries stand there now.
    News { file: String, format: Format, seen: Seen },
}

impl Reader<'_> {
    pub fn watches(&self) -> Result<Vec<WatchRow>, StoreError> {
        self.db
            .prepare_cached("SELECT file, format, spec, again, since, shared_with FROM watches ORDER BY since, file")
            .and_then(|mut statement| statement.query_map([], watch_row)?.collect())
            .map_err(|source| self.fail(source))
    }

    pub fn seen_entries(&self, file: &str) -> Result<Seen, StoreError> {
        let number = |row: &Row| Ok((row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs()));
        self.db
            .prepare_cached("SELECT entry, count FROM watched_entries WHERE file = ?1")
            .and_then(|mut statement| statement.query_map([file], number)?.collect())
            .map_err(|source| self.fail(source))
    }
}

fn watch_row(row: &Row) -> rusqlite::Result<WatchRow> {
    let word: Option<String> = row.get(1)?;
    Ok(WatchRow {
        file: row.get(0)?,
        format: word.and_then(|word| Format::ALL.into_iter().find(|format| format.word() == word)),
        usual: decoded(row.get_ref(2)?.as_str()?)?,
        again: row.get(3)?,
        since: Time(row.get(4)?),
        shared_with: row.get(5)?,
    })
}

impl Writer<'_> {
    pub(super) fn watch(&mut self, change: &WatchChange) -> rusqlite::Result<()> {
        match change {
            WatchChange::Begin(row) => {
                let spec = serde_json::to_string(&row.usual).expect("a spec is plain data");
                let format = row.format.map(Format::word);
                self.run(
                    "INSERT INTO watches VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                     ON CONFLICT (file) DO UPDATE SET format = excluded.format, spec = excluded.spec,
                                                      again = excluded.again, shared_with = excluded.shared_with",
                    params![row.file, format, spec, row.again, row.since.0, row.shared_with],
                )?;
                // The words it had before may hold secrets.
                self.secrets_dropped = true;
            }
            WatchChange::End { file } => {
                self.run("DELETE FROM watches WHERE file = ?1", [file])?;
                self.run("DELETE FROM watched_entries WHERE file = ?1", [file])?;
                self.secrets_dropped = true;
            }
            WatchChange::News { file, format, seen } => {
                // One that was ended meanwhile stays ended.
                let known = self.run("UPDATE watches SET format = ?2 WHERE file = ?1", [file, format.word()])?;
                if known == 0 {
                    return Ok(());
                }
                for (entry, count) in seen {
                    match count {
                        0 => self
                            .run("DELETE FROM watched_entries WHERE file = ?1 AND entry = ?2", params![file, entry])?,
                        count => self.run(
                            "INSERT INTO watched_entries VALUES (?1, ?2, ?3)
                             ON CONFLICT (file, entry) DO UPDATE SET count = excluded.count",
                            params![file, entry, *count as i64],
                        )?,
                    };
                }
            }
        }
        Ok(())
    }
}
