//! An older copy of the database meets run directories that are newer: what has begun since is not started again.

use std::fs;
use std::path::{Path, PathBuf};

use nexus_api::run_dir::{self, STARTED, Started};
use nexus_core::ids::JobId;
use nexus_node::{run_file, system_file};
use rusqlite::{Connection, params};

use super::spec::Specs;
use super::together::Together;
use super::{Store, StoreError};
use crate::clock;

/// What a shim says of itself is no longer.
const MAX_MARKER_BYTES: u64 = 1 << 20;

/// No job is tried more often.
const MAX_ATTEMPTS: u32 = 100_000;

/// A run of a job that is not over in this database, which the database does not know.
struct Unknown {
    n: i64,
    id: JobId,
    number: u32,
    dir: PathBuf,
}

impl Store {
    /// Prepares an older copy of the database for the run directories that exist now. A job with a run directory that is
    /// newer than the copy is written down as running: the next service looks there what became of it, as after a crash. A
    /// start that the copy announces counts as done, and the retries of every active job are used up. The ids of the jobs
    /// with newer run directories.
    pub fn take_up_runs(&mut self, log_dir: &Path) -> Result<Vec<JobId>, StoreError> {
        self.runs_since(log_dir).map_err(|source| self.write_error(source))
    }

    fn runs_since(&self, log_dir: &Path) -> rusqlite::Result<Vec<JobId>> {
        let transaction = Together::begin(&self.db)?;
        let unknown = unknown_runs(&transaction, log_dir)?;
        for run in &unknown {
            take_up(&transaction, run)?;
        }
        count_starts_as_done(&transaction)?;
        use_up_retries(&transaction)?;
        transaction.keep()?;
        Ok(unknown.into_iter().map(|run| run.id).collect())
    }
}

fn unknown_runs(db: &Connection, log_dir: &Path) -> rusqlite::Result<Vec<Unknown>> {
    let mut live = db.prepare("SELECT n, id, runs FROM jobs WHERE ended_at IS NULL")?;
    let rows = live.query_map([], |row| Ok((row.get(0)?, row.get::<_, String>(1)?, row.get(2)?)))?;
    let mut unknown = Vec::new();
    for row in rows {
        let (n, id, known): (i64, String, u32) = row?;
        let Ok(id) = id.parse::<JobId>() else { continue };
        if let Some(number) = newest_attempt(log_dir, id).filter(|number| *number > known) {
            unknown.push(Unknown { n, id, number, dir: run_dir::of_run(log_dir, id.as_str(), number) });
        }
    }
    Ok(unknown)
}

/// The highest number of an attempt that has a run directory. Numbers may be missing below it: cleanup removes directories
/// of attempts on other machines.
fn newest_attempt(log_dir: &Path, id: JobId) -> Option<u32> {
    let first = run_dir::of_run(log_dir, id.as_str(), 1);
    if !first.is_dir() {
        return None;
    }
    // The directory of the first attempt holds those of later ones.
    let inside = fs::read_dir(&first).into_iter().flatten().flatten().map(|entry| entry.path());
    let numbers = inside.filter(|path| path.is_dir()).filter_map(|path| run_dir::run_of(&path)).map(|run| run.number);
    // A job may make a folder of any name in its run directory.
    numbers.filter(|number| *number < MAX_ATTEMPTS).chain([1]).max()
}

/// A run that was about to start when the copy was made has started since, and may be over and cleared. Without this a
/// service that finds nothing of the run would start it a second time.
fn count_starts_as_done(db: &Connection) -> rusqlite::Result<()> {
    db.execute(
        "UPDATE runs SET pid = 0, started_at = planned_at
         WHERE pid IS NULL AND ended_at IS NULL
         AND n IN (SELECT n FROM jobs WHERE ended_at IS NULL AND state = 'starting' AND jobs.runs = runs.number)",
        [],
    )?;
    db.execute(
        "UPDATE jobs SET state = 'running',
                started_at = (SELECT started_at FROM runs WHERE runs.n = jobs.n AND runs.number = jobs.runs)
         WHERE ended_at IS NULL AND state = 'starting'",
        [],
    )?;
    Ok(())
}

/// A run that is over and cleared looks like a lost one, which a retry would start a second time. Nobody can tell how many
/// retries the job has used since the copy was made, or whether it is over.
fn use_up_retries(db: &Connection) -> rusqlite::Result<()> {
    let mut active =
        db.prepare("SELECT n, spec, shared FROM jobs WHERE ended_at IS NULL AND state IN ('starting', 'running')")?;
    let mut specs = Specs::default();
    let rows = active.query_map([], |row| Ok((row.get::<_, i64>(0)?, specs.of_row(db, row, 1, 2)?.spec.retries)))?;
    let allowed = rows.collect::<rusqlite::Result<Vec<(i64, u32)>>>()?;
    let mut used = db.prepare("UPDATE jobs SET retries_used = max(retries_used, ?2) WHERE n = ?1")?;
    for (n, retries) in allowed {
        used.execute(params![n, retries])?;
    }
    Ok(())
}

fn take_up(db: &Connection, Unknown { n, number, dir, .. }: &Unknown) -> rusqlite::Result<()> {
    let started = run_file::read(&dir.join(STARTED), MAX_MARKER_BYTES).ok();
    let started: Option<Started> = started.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let (pid, at) = started.as_ref().map_or((0, clock::now().0), |started| (started.pid, started.started_at_ms));
    // A pause of the job, and the time before which it was not to start, are over: it has started.
    db.execute(
        "UPDATE jobs SET state = 'running', runs = ?2, started_at = ?3, not_before = NULL WHERE n = ?1",
        params![n, number, at],
    )?;
    let gpus = started.map(|started| gpus_of(started.pid)).unwrap_or_default();
    db.execute(
        "INSERT INTO runs (n, number, machine, gpus, cpus, simulated, dir, planned_at, pid, started_at)
         VALUES (?1, ?2, 'local', ?3, 0, 0, ?4, ?5, ?6, ?5)",
        params![n, number, gpus, dir.display().to_string(), at, pid],
    )?;
    Ok(())
}

/// The GPUs of a process that still runs, as it was told; none of one that is gone.
fn gpus_of(pid: u32) -> String {
    let environment = system_file::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let said = environment.split(|byte| *byte == 0).find_map(|variable| variable.strip_prefix(b"NEXUS_GPU_ID="));
    let text = String::from_utf8_lossy(said.unwrap_or_default()).into_owned();
    match text.split(',').all(|part| part.parse::<u16>().is_ok()) {
        true => text,
        false => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_attempt_is_found_behind_a_gap() {
        let dir = tempfile::tempdir().unwrap();
        let id: JobId = "abc".parse().unwrap();
        assert_eq!(newest_attempt(dir.path(), id), None);
        fs::create_dir(dir.path().join("job_abc")).unwrap();
        assert_eq!(newest_attempt(dir.path(), id), Some(1));
        fs::write(dir.path().join("job_abc/attempt_9"), "of the job").unwrap();
        fs::create_dir(dir.path().join("job_abc/attempt_3")).unwrap();
        assert_eq!(newest_attempt(dir.path(), id), Some(3));
    }
}
