//! The disk below the service: commits on it fail in several ways, and a power cut tears the one that was being written.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use nexus_core::ids::MachineId;
use nexus_testkit::Chance;
use rusqlite::Connection;

use super::ledger::Row;

/// Why commits fail at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    ReadOnly,
    Full,
    /// In the middle of what is to be written.
    Midway,
}

pub const FAULTS: [Fault; 3] = [Fault::ReadOnly, Fault::Full, Fault::Midway];

/// Tables that nearly every commit writes to.
const WRITTEN: [&str; 2] = ["jobs", "runs"];

impl Fault {
    pub fn begin(self, db: &Connection) -> rusqlite::Result<()> {
        match self {
            Fault::ReadOnly => db.pragma_update(None, "query_only", true),
            Fault::Full => {
                let pages: i64 = db.pragma_query_value(None, "page_count", |row| row.get(0))?;
                db.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))
            }
            Fault::Midway => WRITTEN.iter().try_for_each(|table| {
                let body = "BEGIN SELECT RAISE(ABORT, 'the disk failed'); END";
                db.execute_batch(&format!("CREATE TEMP TRIGGER fails_{table} BEFORE UPDATE ON {table} {body}"))
            }),
        }
    }

    pub fn end(self, db: &Connection) -> rusqlite::Result<()> {
        match self {
            Fault::ReadOnly => db.pragma_update(None, "query_only", false),
            Fault::Full => db.pragma_update_and_check(None, "max_page_count", 1 << 30, |_| Ok(())),
            Fault::Midway => {
                WRITTEN.iter().try_for_each(|table| db.execute_batch(&format!("DROP TRIGGER fails_{table}")))
            }
        }
    }
}

/// The two files that make a database.
#[derive(Clone, PartialEq, Eq)]
pub struct Files {
    main: Vec<u8>,
    log: Vec<u8>,
}

impl Files {
    pub fn read(database: &Path) -> Files {
        let read = |path: PathBuf| std::fs::read(path).unwrap_or_default();
        Files { main: read(database.to_path_buf()), log: read(beside(database, "-wal")) }
    }

    pub fn write(&self, database: &Path) {
        std::fs::write(database, &self.main).expect("the simulation's own folder");
        std::fs::write(beside(database, "-wal"), &self.log).expect("the simulation's own folder");
        // Memory of processes that are gone.
        let _ = std::fs::remove_file(beside(database, "-shm"));
    }

    /// Between `self` and what came `after` it: the power was cut while that was on its way to the disk.
    pub fn torn(self, after: Files, chance: &mut Chance) -> Files {
        let grows = self.main == after.main && after.log.starts_with(&self.log);
        if !grows {
            // The log was moved into the database meanwhile, which happens behind a commit and not within.
            return if chance.one_in(2) { self } else { after };
        }
        let (begin, end) = (self.log.len(), after.log.len());
        let mut log = after.log;
        if chance.one_in(2) {
            log.truncate(begin + chance.below((end - begin) as u64 + 1) as usize);
        } else {
            for block in (begin..end).step_by(512) {
                if chance.one_in(3) {
                    log[block..end.min(block + 512)].fill(0);
                }
            }
        }
        Files { main: after.main, log }
    }
}

fn beside(database: &Path, suffix: &str) -> PathBuf {
    PathBuf::from(format!("{}{suffix}", database.display()))
}

const ROWS: &str = "SELECT id, command, state, reason, exit_code, signal, runs,
    coalesce((SELECT group_concat(tag, ',') FROM tags WHERE tags.n = jobs.n), '') FROM jobs ORDER BY n";

/// What is on disk, read by SQLite itself and by nothing of ours.
pub fn rows(db: &Connection) -> rusqlite::Result<Vec<Row>> {
    let mut found = db.prepare_cached(ROWS)?;
    let rows = found.query_map([], |row| {
        let (id, tags): (String, String) = (row.get(0)?, row.get(7)?);
        Ok(Row {
            id: id.parse().expect("an id"),
            text: row.get(1)?,
            state: row.get(2)?,
            reason: row.get(3)?,
            code: row.get(4)?,
            signal: row.get(5)?,
            runs: row.get(6)?,
            tags: tags.split(',').filter(|tag| !tag.is_empty()).map(String::from).collect(),
        })
    })?;
    rows.collect()
}

/// Machines of the pool, without the service's own host.
pub fn machines(db: &Connection) -> rusqlite::Result<BTreeSet<MachineId>> {
    let mut found = db.prepare_cached("SELECT n FROM machines WHERE removed_at IS NULL AND n > 0")?;
    let ids = found.query_map([], |row| row.get(0).map(MachineId))?;
    ids.collect()
}

/// What must be true of the file whatever happened.
pub fn is_sound(db: &Connection) -> rusqlite::Result<()> {
    let checked: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
    assert_eq!(checked, "ok");
    let wrong: i64 = db.query_row(
        "SELECT count(*) FROM totals WHERE count != (SELECT count(*) FROM jobs WHERE jobs.state = totals.state)",
        [],
        |row| row.get(0),
    )?;
    assert_eq!(wrong, 0, "totals do not add up");
    Ok(())
}
