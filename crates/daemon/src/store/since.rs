//! An older copy of the database meets run directories that are newer: what has begun since is not started again.

use std::path::{Path, PathBuf};

use nexus_api::run_dir::{self, STARTED, Started};
use nexus_core::ids::JobId;
use nexus_node::{run_file, system_file};
use rusqlite::{Connection, params};

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
    /// Writes down that jobs of which a newer run directory exists run: the next service looks there what became of them, as
    /// after a crash. The ids of those jobs.
    pub fn take_up_runs(&mut self, log_dir: &Path) -> Result<Vec<JobId>, StoreError> {
        self.runs_since(log_dir).map_err(|source| self.write_error(source))
    }

    fn runs_since(&self, log_dir: &Path) -> rusqlite::Result<Vec<JobId>> {
        let transaction = Together::begin(&self.db)?;
        let unknown = unknown_runs(&transaction, log_dir)?;
        for run in &unknown {
            take_up(&transaction, run)?;
        }
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
        let dir = |number| run_dir::of_run(log_dir, &id, number);
        let newest = (known + 1..MAX_ATTEMPTS).take_while(|number| dir(*number).is_dir()).last();
        if let (Some(number), Ok(id)) = (newest, id.parse()) {
            unknown.push(Unknown { n, id, number, dir: dir(number) });
        }
    }
    Ok(unknown)
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
