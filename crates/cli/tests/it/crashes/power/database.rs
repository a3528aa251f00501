//! The database as it lies on a disk, read by SQLite itself and by nothing of ours.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use nexus_testkit::disk::Disk;
use rusqlite::Connection;

use super::in_home;
use super::known::End;

/// A job.
#[derive(Clone, Debug)]
pub struct Row {
    pub id: String,
    pub name: String,
    pub end: End,
    pub priority: i64,
    pub tags: BTreeSet<String>,
    pub runs: i64,
    /// Its run was asked to end.
    pub is_stopping: bool,
}

const ROWS: &str = "SELECT id, coalesce(name, ''), state, reason, exit_code, place_priority, runs,
        coalesce((SELECT group_concat(tag, char(10)) FROM tags WHERE tags.n = jobs.n), ''),
        EXISTS (SELECT 1 FROM runs WHERE runs.n = jobs.n AND stop IS NOT NULL)
    FROM jobs";

/// Totals that differ from the rows they count.
const TOTALS: &str =
    "SELECT state FROM totals WHERE count != (SELECT count(*) FROM jobs WHERE jobs.state = totals.state)";

/// The two files that make a database.
type Files = (Vec<u8>, Option<Vec<u8>>);

/// Many disks have the same database: each is opened once.
pub struct Databases {
    path: PathBuf,
    last: Option<(Files, Rc<Vec<Row>>)>,
    pub opened: usize,
    pub took: Duration,
}

impl Databases {
    pub fn new(path: PathBuf) -> Databases {
        Databases { path, last: None, opened: 0, took: Duration::ZERO }
    }

    /// All jobs in it; none where no database was made yet.
    pub fn open(&mut self, disk: &Disk) -> Result<Rc<Vec<Row>>, String> {
        let file = |name| disk.content(&in_home(name));
        let Some(main) = file("nexus.db") else { return Ok(Rc::default()) };
        let log = file("nexus.db-wal");
        let known = self.last.as_ref().filter(|((db, wal), _)| db == main && wal.as_deref() == log);
        if let Some((_, rows)) = known {
            return Ok(Rc::clone(rows));
        }
        let begin = Instant::now();
        for (suffix, content) in [("", Some(main)), ("-wal", log), ("-shm", None)] {
            let path = format!("{}{suffix}", self.path.display());
            match content {
                Some(content) => std::fs::write(&path, content).expect("the test's own folder"),
                // It may not be there.
                None => drop(std::fs::remove_file(&path)),
            }
        }
        let rows = self.rows().map_err(|error| format!("the database: {error}"))??;
        self.opened += 1;
        self.took += begin.elapsed();
        let rows = Rc::new(rows);
        self.last = Some(((main.to_vec(), log.map(<[u8]>::to_vec)), Rc::clone(&rows)));
        Ok(rows)
    }

    fn rows(&self) -> rusqlite::Result<Result<Vec<Row>, String>> {
        let db = Connection::open(&self.path)?;
        let checked: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
        if checked != "ok" {
            return Ok(Err(format!("integrity_check: {checked}")));
        }
        let is_made = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'jobs')";
        if !db.query_row(is_made, [], |row| row.get::<_, bool>(0))? {
            return Ok(Ok(Vec::new()));
        }
        let mut totals = db.prepare(TOTALS)?;
        let wrong: Vec<String> = totals.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        if !wrong.is_empty() {
            return Ok(Err(format!("totals do not add up: {wrong:?}")));
        }
        let mut found = db.prepare(ROWS)?;
        let rows = found.query_map([], |row| {
            let tags: String = row.get(7)?;
            Ok(Row {
                id: row.get(0)?,
                name: row.get(1)?,
                end: End { state: row.get(2)?, reason: row.get(3)?, code: row.get(4)? },
                priority: row.get(5)?,
                runs: row.get(6)?,
                tags: tags.lines().map(str::to_string).collect(),
                is_stopping: row.get(8)?,
            })
        })?;
        rows.collect::<rusqlite::Result<_>>().map(Ok)
    }
}
