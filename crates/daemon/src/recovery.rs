//! What is done about a database that is gone or damaged, with no service running: a new one on purpose, or a copy put back.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nexus_api::paths::Home;
use nexus_api::problem::Problem;
use nexus_api::run_dir;
use nexus_core::ids::JobId;

use crate::backups::{self, beside};
use crate::config::ConfigFile;
use crate::home::{HomeLock, claim, make_private};
use crate::store::{Store, TookTooLong, faults};

/// Files that belong to a database, by what stands behind its name.
const DATABASE_FILES: [&str; 4] = ["", "-wal", "-shm", "-journal"];

/// Refuses to go on where a database was and is not: a new one would hide that a queue was lost. `log_dir` has the folders
/// of jobs, which tell that there was one.
pub fn refuse_if_missing(home: &Home, log_dir: &Path) -> Result<(), Problem> {
    let path = home.database();
    if fs::metadata(&path).is_ok_and(|found| found.len() > 0) {
        return Ok(());
    }
    let jobs = jobs_with_logs(log_dir).len() as u64;
    let backup = backups::newest(&home.dir).map(|copy| copy.display().to_string());
    if jobs == 0 && backup.is_none() {
        return Ok(());
    }
    let logs = log_dir.display().to_string();
    Err(Problem::DatabaseMissing { path: path.display().to_string(), logs, jobs, backup })
}

/// Puts an empty database in the place of the one there is, which is kept. The path of the kept one, if there was one.
///
/// # Errors
/// A service runs, or a file cannot be moved.
pub fn begin_anew(home: &Home) -> Result<Option<PathBuf>, Problem> {
    let _lock = lock(home)?;
    let log_dir = log_dir(home)?;
    let aside = put_aside(home)?;
    let mut store = Store::open(&home.database(), home.network).map_err(|error| error.problem())?;
    store.retire(&jobs_with_logs(&log_dir)).map_err(|error| error.problem())?;
    Ok(aside)
}

/// What can be told of a database without a service.
#[derive(Debug, PartialEq, Eq)]
pub enum DatabaseState {
    Sound,
    /// There is none, and nothing tells that there was one.
    None,
    Bad(Problem),
    /// The check was not finished in time, and found nothing until then.
    Unfinished,
}

/// Looks at the whole database of a home, whether a service runs or not. Changes nothing.
pub fn check_database(home: &Home, patience: Duration) -> DatabaseState {
    let log_dir = log_dir(home).unwrap_or_else(|_| home.default_log_dir());
    if let Err(problem) = refuse_if_missing(home, &log_dir) {
        return DatabaseState::Bad(problem);
    }
    let path = home.database();
    if !path.exists() {
        return DatabaseState::None;
    }
    match faults(&path, patience) {
        Ok(faults) if faults.is_empty() => DatabaseState::Sound,
        Ok(faults) => DatabaseState::Bad(Problem::DatabaseDamaged {
            path: path.display().to_string(),
            error: faults.join("; "),
            backup: backups::newest(&home.dir).map(|copy| copy.display().to_string()),
        }),
        Err(TookTooLong) => DatabaseState::Unfinished,
    }
}

/// The lock that a service holds for its life.
fn lock(home: &Home) -> Result<HomeLock, Problem> {
    claim(home)?.ok_or_else(|| Problem::ServiceRuns { home: home.dir.display().to_string() })
}

fn log_dir(home: &Home) -> Result<PathBuf, Problem> {
    let config = ConfigFile::of(home).settings()?.config;
    Ok(config.log_dir.unwrap_or_else(|| home.default_log_dir()))
}

/// Moves the files of the database into the folder of copies, under one new name. Nothing is deleted.
fn put_aside(home: &Home) -> Result<Option<PathBuf>, Problem> {
    let (database, folder) = (home.database(), backups::folder(&home.dir));
    let there: Vec<&str> = DATABASE_FILES.into_iter().filter(|suffix| beside(&database, suffix).exists()).collect();
    if there.is_empty() {
        return Ok(None);
    }
    make_private(&folder)?;
    let aside = backups::fresh(&folder, true);
    for suffix in there {
        let (from, to) = (beside(&database, suffix), beside(&aside, suffix));
        fs::rename(&from, &to).map_err(|error| unusable(&from, error))?;
    }
    for place in [&folder, &home.dir] {
        // A folder that cannot be synced keeps its names as its file system does.
        let _ = File::open(place).and_then(|folder| folder.sync_all());
    }
    Ok(Some(aside))
}

fn unusable(path: &Path, error: io::Error) -> Problem {
    Problem::HomeUnusable { path: path.display().to_string(), error: error.to_string() }
}

/// Jobs that have a folder of logs.
fn jobs_with_logs(log_dir: &Path) -> BTreeSet<JobId> {
    let Ok(entries) = fs::read_dir(log_dir) else { return BTreeSet::new() };
    entries.flatten().filter_map(|entry| run_dir::run_of(&entry.path())).map(|run| run.job).collect()
}
