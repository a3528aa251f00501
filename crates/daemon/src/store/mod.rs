//! SQLite: the one truth. One writer, the engine; readers have connections of their own.
//!
//! What is answered is on disk: WAL with an fsync at every commit, or a rollback journal on a network
//! file system, where WAL would lose data.

mod batch;
mod begin;
mod clock;
mod copy;
mod damage;
mod export;
mod fill;
mod gone;
mod history;
mod known;
mod learned;
mod left;
mod machines;
mod narrow;
mod new_jobs;
mod pages;
mod read;
mod records;
mod report;
mod restore;
mod results;
mod since;
mod spec;
mod submissions;
mod sweeps;
mod together;
mod twins;
mod variables;
mod wal;
mod watches;
mod write;

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use nexus_api::env::Env;
use nexus_api::jobs::State;
use nexus_api::problem::Problem;
use nexus_core::ids::{JobId, RunId};
use nexus_node::users::name_of;
use nexus_node::{memory, own_file, run_file};
use rusqlite::config::DbConfig;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, Transaction};

pub use batch::{Batch, EditedRow, JobEnv, NewRow, TagChange};
pub use copy::copy_database;
pub use damage::{NotChecked, faults};
pub use export::{Envs, View};
pub use history::{PastJob, PastRun, Took};
pub use left::{Copied, Left};
pub use machines::MachineRow;
pub use narrow::Narrow;
pub use pages::Behind;
pub use read::{Filter, JobRow, Length, Reader, RunRow, RunSite};
pub use restore::parents;
pub use spec::{Launch, NewSpec, past_texts};
pub use submissions::Submission;
pub use sweeps::{NewSweepRow, SweepRow};
pub use variables::VariableChange;
pub use watches::{Seen, WatchChange, WatchRow};

use crate::backups;
use together::{KEEP, READ, say};

/// The newest format this nexus knows: the number of steps in [`MIGRATIONS`].
pub const FORMAT: u32 = MIGRATIONS.len() as u32;

/// Brings a database to the next format.
struct Step {
    sql: &'static str,
    /// What is to be done to the rows then.
    fill: fn(&Transaction) -> rusqlite::Result<()>,
}

const MIGRATIONS: &[Step] = &[
    Step { sql: include_str!("schema.sql"), fill: |_| Ok(()) },
    Step { sql: include_str!("paused_gpus.sql"), fill: |_| Ok(()) },
    Step { sql: include_str!("sharing.sql"), fill: fill::identities },
    Step { sql: include_str!("watches.sql"), fill: |_| Ok(()) },
    Step { sql: include_str!("sweeps.sql"), fill: |_| Ok(()) },
    Step { sql: include_str!("times.sql"), fill: |_| Ok(()) },
    Step { sql: include_str!("submissions.sql"), fill: |_| Ok(()) },
    Step { sql: include_str!("machines.sql"), fill: |_| Ok(()) },
    Step { sql: include_str!("retired.sql"), fill: |_| Ok(()) },
    Step { sql: include_str!("slurm.sql"), fill: |_| Ok(()) },
    Step { sql: include_str!("bulk.sql"), fill: |_| Ok(()) },
    Step { sql: include_str!("shared_watches.sql"), fill: |_| Ok(()) },
];

/// Statements the engine and a reader use over and over are prepared once.
const STATEMENT_CACHE: usize = 64;

/// Pages that the writer keeps at hand: ids of new jobs go all over their index.
const CACHE_KIB: i64 = 16 << 10;

/// The WAL goes back into the database after so many commits, when nobody waits for the next, and at the latest when it has
/// so many pages: then a commit has to.
const COMMITS_TOGETHER: u32 = 64;
const LOG_PAGES: i64 = 4_000;

/// So many commits leave megabytes that nobody holds, in pieces: what is free amid what is not goes back to the machine only
/// when it is told to.
const COMMITS_OF_MEMORY: u32 = 256;

/// How long one connection waits for another's lock.
const BUSY_PATIENCE: Duration = Duration::from_secs(10);

/// Connections kept open for the next reader.
const IDLE_READERS: usize = 4;

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("failed to open the database {path}")]
    Open { path: PathBuf, source: rusqlite::Error },
    #[error("failed to make the database {path}")]
    Make { path: PathBuf, source: std::io::Error },
    #[error("failed to write the database {path}")]
    Write { path: PathBuf, source: rusqlite::Error },
    #[error("failed to read the database {path}")]
    Read { path: PathBuf, source: rusqlite::Error },
    #[error("the database {path} holds text that cannot be read")]
    Decode { path: PathBuf, source: serde_json::Error },
    #[error("the database {path} has format {format}")]
    Newer { path: PathBuf, format: u32 },
    #[error("failed to put a copy of {path} aside before migrating it")]
    SetAside { path: PathBuf, source: rusqlite::Error },
}

impl StoreError {
    pub fn problem(&self) -> Problem {
        let (path, source) = match self {
            StoreError::Newer { path, format } => {
                let path = path.display().to_string();
                return Problem::NewerDatabase { path, format: *format, known: FORMAT };
            }
            StoreError::Decode { path, source } => {
                return Problem::Database { path: path.display().to_string(), error: source.to_string() };
            }
            StoreError::Make { path, source } => {
                return Problem::HomeUnusable { path: path.display().to_string(), error: source.to_string() };
            }
            StoreError::Open { path, source }
            | StoreError::Write { path, source }
            | StoreError::Read { path, source }
            | StoreError::SetAside { path, source } => (path, source),
        };
        let path_text = path.display().to_string();
        match source.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => {
                Problem::DiskFull { path: path_text, free_bytes: crate::home::disk_free(path).unwrap_or(0) }
            }
            _ if damage::is_damage(path, source) => {
                let backup = path.parent().and_then(backups::newest).map(|copy| copy.display().to_string());
                Problem::DatabaseDamaged { path: path_text, error: source.to_string(), backup }
            }
            _ => Problem::Database { path: path_text, error: source.to_string() },
        }
    }
}

/// The writer.
pub struct Store {
    path: PathBuf,
    /// Device and inode of the file that is open.
    file: (u64, u64),
    db: Connection,
    /// Number of the next job.
    next_n: i64,
    /// Number of the next that is taken over.
    next_past: i64,
    /// Ids that jobs of another database have: see [`Store::retire`].
    retired: u64,
    /// Much memory is in use, for much that came then.
    room_since: Option<Instant>,
    env_cache: spec::EnvCache,
    specs: spec::Specs,
    live: twins::Live,
    /// Of jobs whose runs began a while ago: it is asked for again.
    launched: BTreeMap<JobId, spec::Launched>,
    /// What the next run would be launched from, as it is in the database.
    ahead: Option<(RunId, Launch)>,
    /// A secret was deleted: its bytes may still be in the WAL.
    secrets_dropped: bool,
    /// Commits since the WAL was written back.
    commits: u32,
    /// Commits since memory was given back.
    unreturned: u32,
    /// Of the next commit.
    begun: Option<begin::Begun>,
}

impl Store {
    /// Opens or makes the database; `network` chooses the rollback journal.
    pub fn open(path: &Path, network: bool) -> Result<Store, StoreError> {
        let open = |source| StoreError::Open { path: path.to_path_buf(), source };
        make_private(path).map_err(|source| StoreError::Make { path: path.to_path_buf(), source })?;
        // One thread has it: nobody needs to be kept out.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut db = Connection::open_with_flags(path, flags).map_err(open)?;
        let file = damage::identity(path).map_err(|source| StoreError::Make { path: path.to_path_buf(), source })?;
        let format: u32 = db.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(open)?;
        if format > FORMAT {
            return Err(StoreError::Newer { path: path.to_path_buf(), format });
        }
        set_up(&db, network).map_err(open)?;
        migrate(&mut db, path, format)?;
        let next_n = "SELECT max(coalesce(max(n), 0), 0) + 1 FROM jobs";
        let next_n = db.query_row(next_n, [], |row| row.get(0)).map_err(open)?;
        let next_past = history::next_number(&db).map_err(open)?;
        let retired = gone::retired(&db).map_err(open)?;
        // A service that was killed may have left some.
        let secrets_dropped = true;
        let (path, env_cache, specs) = (path.to_path_buf(), spec::EnvCache::default(), spec::Specs::default());
        let launched = BTreeMap::new();
        let mut store = Store {
            path,
            file,
            db,
            next_n,
            next_past,
            retired,
            room_since: None,
            env_cache,
            specs,
            live: twins::Live::default(),
            launched,
            ahead: None,
            secrets_dropped,
            commits: 0,
            unreturned: 0,
            begun: None,
        };
        store.clear_leftovers();
        Ok(store)
    }

    pub fn meta(&self, key: &str) -> Result<Option<String>, StoreError> {
        self.db
            .prepare_cached("SELECT value FROM meta WHERE key = ?1")
            .and_then(|mut statement| statement.query_row([key], |row| row.get(0)).optional())
            .map_err(|source| self.read_error(source))
    }

    pub fn set_meta(&self, key: &str, value: &str) -> Result<(), StoreError> {
        self.db
            .prepare_cached("INSERT INTO meta VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = excluded.value")
            .and_then(|mut statement| statement.execute([key, value]))
            .map_err(|source| self.write_error(source))?;
        Ok(())
    }

    /// Whether there is a job of this id.
    pub fn has_job(&self, id: &str) -> Result<bool, StoreError> {
        self.db
            .prepare_cached("SELECT 1 FROM jobs WHERE id = ?1")
            .and_then(|mut statement| statement.exists([id]))
            .map_err(|source| self.read_error(source))
    }

    /// Reads that belong together see one state of the database, and cost less than each by itself. Nothing is committed
    /// until they are [done](Store::done_reading).
    pub fn read_together(&self) -> Result<(), StoreError> {
        say(&self.db, READ).map_err(|source| self.read_error(source))
    }

    pub fn done_reading(&self) -> Result<(), StoreError> {
        say(&self.db, KEEP).map_err(|source| self.read_error(source))
    }

    /// State of a job and the GPUs of its newest run.
    pub fn state(&self, id: JobId) -> Result<Option<(State, Vec<u16>)>, StoreError> {
        let reader = read::Reader::new(&self.db, &self.path);
        Ok(reader.job(id.as_str())?.map(|row| (row.state, row.gpus)))
    }

    /// As [`Reader::position`].
    pub fn position(&self, row: &JobRow, queue: Length) -> Result<Option<u64>, StoreError> {
        read::Reader::new(&self.db, &self.path).position(row, queue)
    }

    /// The environment of a job, with its secrets while it lives.
    pub fn env_of(&self, id: JobId) -> Result<Env, StoreError> {
        read::Reader::new(&self.db, &self.path).env(id.as_str())
    }

    /// How many jobs were ever taken; ids grow longer with it.
    pub fn jobs_taken(&self) -> u64 {
        u64::try_from(self.next_n - 1).unwrap_or(0) + self.past_jobs() + self.retired
    }

    /// Whether deleted secrets still stand in the WAL.
    pub fn has_leftovers(&self) -> bool {
        self.secrets_dropped
    }

    /// Whether quiet is of no use to it.
    pub fn is_tidy(&self) -> bool {
        !self.secrets_dropped && self.room_since.is_none() && self.unreturned < COMMITS_OF_MEMORY
    }

    /// What can wait until nobody else does.
    pub fn tidy_up(&mut self) {
        if self.secrets_dropped {
            self.clear_leftovers();
        }
        // Memory that is kept in vain is no error.
        let _ = self.make_room(false);
        if self.unreturned >= COMMITS_OF_MEMORY {
            self.give_memory_back();
        }
    }

    fn give_memory_back(&mut self) {
        memory::give_back();
        self.unreturned = 0;
    }

    /// For a moment in which nobody waits for a commit.
    pub fn write_back(&mut self) {
        if self.commits < COMMITS_TOGETHER || self.room_since.is_some() {
            return;
        }
        self.commits = 0;
        // Should it fail, the WAL is longer, and a commit tries it again.
        let _ = self.db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
    }

    /// Empties the WAL, so that no deleted secret stays readable in it, and lays it out anew.
    pub fn clear_leftovers(&mut self) {
        // Readers in the way are not waited for: the next idle moment tries again.
        let cleared = self.db.busy_timeout(Duration::ZERO).and_then(|()| {
            let busy: i64 = self.db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
            Ok(busy == 0)
        });
        let patient = self.db.busy_timeout(BUSY_PATIENCE);
        if cleared == Ok(true) && patient.is_ok() {
            self.secrets_dropped = false;
            // Without it commits take longer, and a full disk tells them so.
            let _ = wal::lay(&self.path);
        }
    }

    /// For a simulation, which has it fail.
    #[cfg(test)]
    pub fn db(&self) -> &Connection {
        &self.db
    }

    fn read_error(&self, source: rusqlite::Error) -> StoreError {
        StoreError::Read { path: self.path.clone(), source }
    }

    fn write_error(&self, source: rusqlite::Error) -> StoreError {
        StoreError::Write { path: self.path.clone(), source }
    }
}

/// Connections that only read, for those who answer clients.
pub struct Readers {
    path: PathBuf,
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    pub fn new(path: &Path) -> Readers {
        Readers { path: path.to_path_buf(), idle: Mutex::new(Vec::new()) }
    }

    /// Runs `read` on a connection, with one consistent view of the database.
    pub fn read<T>(&self, read: impl FnOnce(&read::Reader) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let db = self.connection()?;
        let fail = |source| StoreError::Read { path: self.path.clone(), source };
        say(&db, READ).map_err(fail)?;
        let answer = read(&read::Reader::new(&db, &self.path));
        say(&db, KEEP).map_err(fail)?;
        self.keep(db);
        answer
    }

    fn connection(&self) -> Result<Connection, StoreError> {
        let idle = self.idle.lock().expect("no reader panics while it holds the lock").pop();
        match idle {
            Some(db) => Ok(db),
            None => open_reader(&self.path).map_err(|source| StoreError::Open { path: self.path.clone(), source }),
        }
    }

    /// For the next reader.
    fn keep(&self, db: Connection) {
        let mut idle = self.idle.lock().expect("no reader panics while it holds the lock");
        if idle.len() < IDLE_READERS {
            idle.push(db);
        }
    }
}

/// Readable by its owner alone; SQLite gives the files beside it the same mode.
/// Makes an empty file where there is none. A file of another user is refused: whoever wrote it chose the commands in it, and could put
/// it there while the home was open to others.
fn make_private(path: &Path) -> std::io::Result<()> {
    own_file::append(path)?;
    for name in ["", "-wal", "-shm", "-journal"] {
        let mut file = path.as_os_str().to_owned();
        file.push(name);
        let Ok(found) = std::fs::metadata(&file) else { continue };
        let (owner, mode) = (found.uid(), found.mode() & 0o7777);
        let shown = Path::new(&file).display();
        if !found.is_file() {
            return Err(std::io::Error::other(format!("{shown} is not a file; remove it")));
        }
        if owner != rustix::process::geteuid().as_raw() {
            let text = format!("{shown} belongs to {}; remove it, or put a backup back", name_of(owner));
            return Err(std::io::Error::other(text));
        }
        if mode & 0o022 != 0 {
            let text =
                format!("others may have written to {shown} (mode {mode:o}); if you trust it: chmod 600 {shown}");
            return Err(std::io::Error::other(text));
        }
    }
    Ok(())
}

fn open_reader(path: &Path) -> rusqlite::Result<Connection> {
    let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    set_up_any(&db)?;
    Ok(db)
}

/// What holds for whoever writes, and whoever reads.
fn set_up_any(db: &Connection) -> rusqlite::Result<()> {
    db.busy_timeout(BUSY_PATIENCE)?;
    db.set_prepared_statement_cache_capacity(STATEMENT_CACHE);
    // A statement is planned once, whatever its values: one with `LIMIT ?` would be planned anew for each of them.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(drop)
}

fn set_up(db: &Connection, network: bool) -> rusqlite::Result<()> {
    set_up_any(db)?;
    let mode = if network { "DELETE" } else { "WAL" };
    db.pragma_update_and_check(None, "journal_mode", mode, |_| Ok(()))?;
    db.pragma_update(None, "synchronous", "FULL")?;
    db.pragma_update(None, "secure_delete", true)?;
    db.pragma_update(None, "cache_size", -CACHE_KIB)?;
    db.pragma_update_and_check(None, "wal_autocheckpoint", LOG_PAGES, |_| Ok(()))
}

/// Copies the database before a migration. The copy gets its name when it is whole. One of an earlier start, whose migration
/// did not commit, is replaced: `VACUUM INTO` refuses a file that exists, and the service would never start again.
fn set_aside(db: &Connection, path: &Path, format: u32) -> Result<(), StoreError> {
    let aside = backups::beside(path, &format!(".format-{format}"));
    let part = backups::beside(&aside, backups::PART);
    let file = |source| StoreError::Make { path: aside.clone(), source };
    // Left by a copy that did not come to its end; there is none usually.
    let _ = std::fs::remove_file(&part);
    // SQLite would make it readable by everybody.
    let made = run_file::create_new(&part).map_err(file)?;
    let name = ToSqlOutput::Borrowed(ValueRef::Text(part.as_os_str().as_bytes()));
    let copied = db
        .execute("VACUUM INTO ?1", [name])
        .map_err(|source| StoreError::SetAside { path: path.to_path_buf(), source })
        .and_then(|_| made.sync_all().and_then(|()| std::fs::rename(&part, &aside)).map_err(file));
    if copied.is_err() {
        // On a full disk its bytes are needed.
        let _ = std::fs::remove_file(&part);
    }
    copied
}

fn migrate(db: &mut Connection, path: &Path, format: u32) -> Result<(), StoreError> {
    let fail = |source| StoreError::Write { path: path.to_path_buf(), source };
    if format == FORMAT {
        return Ok(());
    }
    if format > 0 {
        set_aside(db, path, format)?;
    }
    let transaction = db.transaction().map_err(fail)?;
    for step in &MIGRATIONS[format as usize..] {
        transaction.execute_batch(step.sql).and_then(|()| (step.fill)(&transaction)).map_err(fail)?;
    }
    transaction.pragma_update(None, "user_version", FORMAT).map_err(fail)?;
    transaction.commit().map_err(fail)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use rusqlite::StatementStatus;

    use super::*;

    #[test]
    fn a_statement_is_planned_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("nexus.db");
        let store = Store::open(&path, false).unwrap();
        let reader = open_reader(&path).unwrap();
        for db in [&store.db, &reader] {
            let mut statement = db.prepare("SELECT id FROM jobs WHERE n > ?1 LIMIT ?2").unwrap();
            for limit in 1..5 {
                statement.query([0, limit]).unwrap().next().unwrap();
            }
            assert_eq!(statement.get_status(StatementStatus::RePrepare), 0);
        }
    }

    #[test]
    fn a_migration_that_did_not_commit_does_not_stop_the_next_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("nexus.db");
        let format = FORMAT - 1;
        let mut db = Connection::open(&path).unwrap();
        let transaction = db.transaction().unwrap();
        for step in &MIGRATIONS[..format as usize] {
            transaction.execute_batch(step.sql).unwrap();
            (step.fill)(&transaction).unwrap();
        }
        transaction.pragma_update(None, "user_version", format).unwrap();
        transaction.commit().unwrap();
        drop(db);
        let aside = backups::beside(&path, &format!(".format-{format}"));
        for left in [aside.clone(), backups::beside(&aside, backups::PART)] {
            std::fs::write(left, "of an earlier start").unwrap();
        }
        drop(Store::open(&path, false).unwrap());
        assert_eq!(std::fs::metadata(&aside).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!backups::beside(&aside, backups::PART).exists());
        let copied: u32 =
            Connection::open(&aside).unwrap().pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
        assert_eq!(copied, format);
    }

    #[cfg(target_env = "gnu")]
    #[test]
    fn quiet_after_much_gives_free_memory_back() {
        let resident_kib = || {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
            line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
        };
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open(&dir.path().join("nexus.db"), false).unwrap();
        // 40 MiB that are free amid what is not.
        let mut pieces: Vec<Option<Vec<u8>>> = (0..10_240).map(|_| Some(vec![1; 4 << 10])).collect();
        pieces.iter_mut().enumerate().for_each(|(at, piece)| drop(piece.take_if(|_| at % 64 != 0)));
        let much = resident_kib();
        let mut commit = |times: u32| {
            for number in 0..times {
                store.commit(&Batch { meta: vec![("seen", number.to_string())], ..Batch::default() }).unwrap();
            }
            let wants_quiet = !store.is_tidy();
            store.tidy_up();
            (wants_quiet, store.is_tidy(), resident_kib() < much - (30 << 10))
        };
        assert_eq!(commit(10), (false, true, false));
        assert_eq!(commit(COMMITS_OF_MEMORY), (true, true, true));
        drop(pieces);
    }
}
