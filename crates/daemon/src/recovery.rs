//! What is done about a database that is gone or damaged, with no service running: a new one on purpose, or a copy put back.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nexus_api::backup::Backup;
use nexus_api::paths::Home;
use nexus_api::problem::Problem;
use nexus_api::run_dir;
use nexus_core::ids::JobId;
use nexus_node::run_file;
use serde::Serialize;

use crate::backups::{self, beside};
use crate::config::ConfigFile;
use crate::home::{HomeLock, claim, make_private};
use crate::store::{NotChecked, Store, copy_database, faults};

/// A copy is checked before it takes the place of the database.
const CHECK_PATIENCE: Duration = Duration::from_secs(300);

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

/// What came of putting a copy back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Restored {
    /// The copy.
    pub from: String,
    /// Where the database of before is.
    pub aside: Option<String>,
    /// Jobs of the copy that began after it was made: the service looks into their folders.
    pub begun_since: Vec<String>,
    /// Jobs that the copy does not know, and whose logs are there.
    pub unknown: Vec<String>,
    /// The folder of logs.
    pub logs: String,
}

/// Puts a copy in the place of the database, which is kept. Without a file the newest copy of `nexus backup`.
///
/// # Errors
/// A service runs; there is no such copy, or it is none; or a file cannot be written.
pub fn restore(home: &Home, file: Option<&Path>) -> Result<Restored, Problem> {
    let _lock = lock(home)?;
    let folder = backups::folder(&home.dir).display().to_string();
    let from = match file {
        Some(file) => file.to_path_buf(),
        None => backups::newest(&home.dir).ok_or(Problem::NoBackup { folder })?,
    };
    refuse_unless_sound(&from)?;
    let log_dir = log_dir(home)?;
    let coming = beside(&home.database(), ".restoring");
    remove_database(&coming);
    let prepared = prepare(&from, &coming, &log_dir);
    let (begun, unknown) = prepared.inspect_err(|_| remove_database(&coming))?;
    let aside = put_aside(home)?;
    fs::rename(&coming, home.database()).map_err(|error| unusable(&home.database(), error))?;
    sync_folder(&home.dir);
    // A backup of an older format was copied once more before its migration. The backup itself is still there, and the copy
    // has the secrets of jobs.
    remove_database(&coming);
    let words = |ids: Vec<JobId>| ids.iter().map(JobId::to_string).collect();
    Ok(Restored {
        from: from.display().to_string(),
        aside: aside.map(|aside| aside.display().to_string()),
        begun_since: words(begun),
        unknown: words(unknown),
        logs: log_dir.display().to_string(),
    })
}

/// Copies of a home's database, the newest first.
pub fn backups_of(home: &Home) -> Vec<Backup> {
    backups::copies(&home.dir).iter().filter_map(|path| backups::described(path)).collect()
}

fn refuse_unless_sound(file: &Path) -> Result<(), Problem> {
    let bad = |why: String| {
        let want = format!("a sound copy of a database, made by nexus backup: {why}");
        Problem::BadField { field: "the backup".into(), value: file.display().to_string(), want }
    };
    let about = fs::metadata(file).map_err(|error| bad(error.to_string()))?;
    if !about.is_file() {
        return Err(bad("it is not a file".into()));
    }
    match faults(file, CHECK_PATIENCE) {
        Ok(faults) if !faults.is_empty() => Err(bad(faults.join("; "))),
        Ok(_) | Err(NotChecked::TookTooLong) => Ok(()),
        Err(NotChecked::Failed(error)) => Err(bad(error)),
    }
}

/// A copy of the copy, in which is written what the folders of jobs tell: jobs that began since, and ids that are taken.
fn prepare(from: &Path, coming: &Path, log_dir: &Path) -> Result<(Vec<JobId>, Vec<JobId>), Problem> {
    copy_database(from, coming).map_err(|error| error.problem())?;
    // With a rollback journal all of it is in the one file that is renamed then.
    let mut store = Store::open(coming, true).map_err(|error| error.problem())?;
    let begun = store.take_up_runs(log_dir).map_err(|error| error.problem())?;
    let with_logs = jobs_with_logs(log_dir);
    let known: BTreeSet<JobId> = {
        let ids: Vec<JobId> = with_logs.iter().copied().collect();
        store.known_ids(&ids).map_err(|error| error.problem())?.into_iter().collect()
    };
    let unknown: Vec<JobId> = with_logs.difference(&known).copied().collect();
    store.retire(&with_logs).map_err(|error| error.problem())?;
    Ok((begun, unknown))
}

/// Takes away what an attempt left, with the copy that a change of the format makes: the backup itself is still there.
fn remove_database(path: &Path) {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let of_it = path.parent().and_then(|folder| fs::read_dir(folder).ok()).into_iter().flatten().flatten();
    for entry in of_it.filter(|entry| entry.file_name().to_string_lossy().starts_with(&name)) {
        // Were it in the way, the next step would say so.
        let _ = fs::remove_file(entry.path());
    }
}

/// A folder that cannot be synced keeps its names as its file system does.
fn sync_folder(folder: &Path) {
    let _ = run_file::open_folder(folder).and_then(|folder| folder.sync_all());
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
        Err(NotChecked::TookTooLong) => DatabaseState::Unfinished,
        Err(NotChecked::Failed(error)) => {
            DatabaseState::Bad(Problem::Database { path: path.display().to_string(), error })
        }
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
    sync_folder(&folder);
    sync_folder(&home.dir);
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
