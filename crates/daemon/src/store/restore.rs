//! Brings the World back from disk: live jobs and their current runs.

use std::path::PathBuf;

use nexus_core::ids::{JobId, MachineId, RunId};
use nexus_core::job::{Job, Place, Retries, State};
use nexus_core::request::{GpuSet, Request};
use nexus_core::run::{Lease, Phase, Run, StopCause};
use nexus_core::time::Time;
use nexus_core::world::World;
use rusqlite::types::Type;
use rusqlite::{OptionalExtension, Row, params};

use super::spec::StoredSpec;
use super::write::machine_named;
use super::{Store, StoreError};
use crate::words;

impl Store {
    pub fn restore(&self) -> Result<World, StoreError> {
        let fail = |source| self.read_error(source);
        let mut statement = self
            .db
            .prepare(
                "SELECT jobs.id, jobs.state, spec, place_priority, turn, retries_used, start_failures, jobs.runs,
                        not_before, runs.gpus, runs.cpus, runs.planned_at, runs.pid, runs.started_at, runs.stop
                 FROM jobs LEFT JOIN runs ON runs.n = jobs.n AND runs.number = jobs.runs
                 WHERE jobs.ended_at IS NULL",
            )
            .map_err(fail)?;
        let jobs: Vec<Job> =
            statement.query_map([], job).map_err(fail)?.collect::<rusqlite::Result<_>>().map_err(fail)?;
        let paused = self.meta("queue")?.as_deref() == Some("paused");
        Ok(World::restore(jobs, paused, self.next_n).with_paused_gpus(self.paused_gpus()?))
    }

    /// By machine and UUID.
    fn paused_gpus(&self) -> Result<Vec<(MachineId, String)>, StoreError> {
        let rows: Vec<(String, String)> = self
            .db
            .prepare("SELECT machine, uuid FROM paused_gpus")
            .and_then(|mut statement| statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect())
            .map_err(|source| self.read_error(source))?;
        // A machine that is not known any more has no GPU to pause.
        Ok(rows.into_iter().filter_map(|(machine, uuid)| Some((machine_named(&machine)?, uuid))).collect())
    }

    /// Where a run keeps its files; none for a run that was forgotten.
    pub fn run_dir(&self, run: RunId) -> Result<Option<PathBuf>, StoreError> {
        let dir: Option<String> = self
            .db
            .prepare_cached("SELECT dir FROM runs WHERE n = (SELECT n FROM jobs WHERE id = ?1) AND number = ?2")
            .and_then(|mut found| found.query_row(params![run.job.as_str(), run.number], |row| row.get(0)).optional())
            .map_err(|source| self.read_error(source))?;
        Ok(dir.map(PathBuf::from))
    }

    /// Ended runs whose directories were not cleared yet.
    pub fn untidy_runs(&self) -> Result<Vec<RunId>, StoreError> {
        self.db
            .prepare(
                "SELECT jobs.id, runs.number FROM runs JOIN jobs ON jobs.n = runs.n
                 WHERE runs.ended_at IS NOT NULL AND runs.tidied = 0",
            )
            .and_then(|mut statement| {
                statement.query_map([], |row| Ok(RunId { job: job_id(row, 0)?, number: row.get(1)? }))?.collect()
            })
            .map_err(|source| self.read_error(source))
    }
}

fn job(row: &Row) -> rusqlite::Result<Job> {
    let id = job_id(row, 0)?;
    let stored: StoredSpec = serde_json::from_str(row.get_ref(2)?.as_str()?).map_err(|error| wrong(2, error))?;
    let request = words::request(&stored.spec.request);
    let runs: u32 = row.get(7)?;
    let state = match row.get_ref(1)?.as_str()? {
        "held" => State::Held,
        "queued" => State::Queued { not_before: row.get::<_, Option<i64>>(8)?.map(Time) },
        _ => State::Active(run(row, RunId { job: id, number: runs }, &request)?),
    };
    Ok(Job {
        id,
        request,
        place: Place { priority: row.get(3)?, turn: row.get(4)? },
        retries: Retries { allowed: stored.spec.retries, used: row.get(5)?, start_failures: row.get(6)? },
        runs,
        state,
    })
}

fn run(row: &Row, id: RunId, request: &Request) -> rusqlite::Result<Run> {
    let gpus = gpu_set(row.get_ref(9)?.as_str()?).map_err(|error| wrong(9, error))?;
    let (pid, since): (Option<u32>, Option<i64>) = (row.get(12)?, row.get(13)?);
    let stop: Option<String> = row.get(14)?;
    debug_assert_eq!(gpus.len(), usize::from(request.gpus));
    Ok(Run {
        id,
        lease: Lease { machine: MachineId::LOCAL, gpus, cpus: row.get(10)? },
        planned_at: Time(row.get(11)?),
        phase: match (pid, since) {
            (Some(pid), Some(since)) => Phase::Running { pid, since: Time(since) },
            _ => Phase::Starting,
        },
        stop: stop.map(|word| if word == "user" { StopCause::User } else { StopCause::Stopped }),
    })
}

fn job_id(row: &Row, column: usize) -> rusqlite::Result<JobId> {
    row.get_ref(column)?.as_str()?.parse().map_err(|error| wrong(column, error))
}

/// Reads what [`GpuSet`]'s Display wrote.
pub(super) fn gpu_set(text: &str) -> Result<GpuSet, std::num::ParseIntError> {
    text.split(',').filter(|part| !part.is_empty()).map(|part| part.parse::<u16>()).collect()
}

fn wrong(column: usize, error: impl std::error::Error + Send + Sync + 'static) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error))
}
