//! Brings the World back from disk: live jobs and their current runs.

use std::path::PathBuf;

use nexus_api::jobs::JobSpec;
use nexus_core::event::{Parent, QueuePause};
use nexus_core::ids::{JobId, MachineId, RunId, SweepId};
use nexus_core::job::{Job, Place, Retries, State};
use nexus_core::machine::Standing;
use nexus_core::request::{GpuSet, Request, Same};
use nexus_core::run::{HeldShare, Lease, Phase, Run, StopCause};
use nexus_core::time::Time;
use nexus_core::world::World;
use rusqlite::types::Type;
use rusqlite::{OptionalExtension, Row, params};

use super::learned;
use super::records::raise;
use super::spec::Specs;
use super::{Store, StoreError};
use crate::names::Names;
use crate::words;

impl Store {
    pub fn restore(&self) -> Result<World, StoreError> {
        let fail = |source| self.read_error(source);
        let mut statement = self
            .db
            .prepare(
                "SELECT jobs.id, jobs.state, spec, place_priority, turn, retries_used, start_failures, jobs.runs,
                        not_before, runs.gpus, runs.cpus, runs.planned_at, runs.pid, runs.started_at, runs.stop,
                        runs.milli, runs.vram_mib, runs.ram_mib, runs.peak_mib, same, raised, shared,
                        sweep, sweeps.max_running IS NOT NULL, runs.ended_at, jobs.submitted_at, machines.n,
                        runs.driver
                 FROM jobs LEFT JOIN runs ON runs.n = jobs.n AND runs.number = jobs.runs
                      LEFT JOIN sweeps ON sweeps.n = jobs.sweep
                      LEFT JOIN machines ON machines.name = runs.machine
                 WHERE jobs.ended_at IS NULL",
            )
            .map_err(fail)?;
        let (mut specs, names) = (Specs::default(), self.names()?);
        let rows: Vec<(Job, Vec<Parent>)> = statement
            .query_map([], |row| job(row, &specs.of_row(&self.db, row, 2, 21)?.spec, &names))
            .map_err(fail)?
            .collect::<rusqlite::Result<_>>()
            .map_err(fail)?;
        let mut parents = Vec::new();
        let mut jobs = Vec::with_capacity(rows.len());
        for (job, after) in rows {
            if !after.is_empty() && job.state.waits() {
                parents.push((job.id, after));
            }
            jobs.push(job);
        }
        let world = World::restore(jobs, self.queue_pause()?, self.next_n);
        let world = world
            .with_paused_gpus(self.paused_gpus()?)
            .with_parents(parents)
            .with_machines(self.standings()?)
            .with_learned(learned::all(&self.db).map_err(fail)?);
        Ok(world.with_sweeps(self.live_sweeps()?))
    }

    fn queue_pause(&self) -> Result<Option<QueuePause>, StoreError> {
        let word = self.meta("queue")?.unwrap_or_default();
        Ok(word.strip_prefix("paused").map(|by| {
            match by.strip_prefix(" after ").and_then(|count| count.parse().ok()) {
                Some(count) => QueuePause::AfterFailures(count),
                None => QueuePause::ByUser,
            }
        }))
    }

    /// By machine and UUID.
    fn paused_gpus(&self) -> Result<Vec<(MachineId, String)>, StoreError> {
        self.db
            .prepare("SELECT machines.n, uuid FROM paused_gpus JOIN machines ON machines.name = paused_gpus.machine")
            .and_then(|mut found| found.query_map([], |row| Ok((MachineId(row.get(0)?), row.get(1)?)))?.collect())
            .map_err(|source| self.read_error(source))
    }

    pub fn names(&self) -> Result<Names, StoreError> {
        let machines = self.machines()?.into_iter().map(|row| (row.id, row.name));
        Ok(Names::new(machines, self.classes()?))
    }

    /// Of machines that are in the pool.
    fn standings(&self) -> Result<Vec<(MachineId, Standing)>, StoreError> {
        let here = self.machines()?.into_iter().filter(|row| !row.removed);
        Ok(here.map(|row| (row.id, row.standing)).collect())
    }

    /// Where a run keeps its files; none for a run that was forgotten.
    pub fn run_dir(&self, run: RunId) -> Result<Option<PathBuf>, StoreError> {
        if let Some(launched) = self.launched.get(&run.job).filter(|launched| launched.run == run) {
            return Ok(Some(launched.dir.clone()));
        }
        let dir: Option<String> = self
            .db
            .prepare_cached("SELECT dir FROM runs WHERE n = (SELECT n FROM jobs WHERE id = ?1) AND number = ?2")
            .and_then(|mut found| found.query_row(params![run.job.as_str(), run.number], |row| row.get(0)).optional())
            .map_err(|source| self.read_error(source))?;
        Ok(dir.map(PathBuf::from))
    }

    /// The project of a job, and its own name or that of its sweep; none for one without a project.
    pub fn project_of(&self, job: JobId) -> Result<Option<(String, Option<String>)>, StoreError> {
        self.db
            .prepare_cached(
                "SELECT project, coalesce(name, (SELECT name FROM sweeps WHERE sweeps.n = jobs.sweep)) FROM jobs
                 WHERE id = ?1 AND project IS NOT NULL",
            )
            .and_then(|mut found| found.query_row([job.as_str()], |row| Ok((row.get(0)?, row.get(1)?))).optional())
            .map_err(|source| self.read_error(source))
    }

    /// Ended runs on a machine whose directories were not cleared yet.
    pub fn untidy_runs(&self, machine: MachineId) -> Result<Vec<RunId>, StoreError> {
        self.db
            .prepare(UNTIDY)
            .and_then(|mut statement| {
                let run = |row: &Row| Ok(RunId { job: job_id(row, 0)?, number: row.get(1)? });
                statement.query_map([machine.0], run)?.collect()
            })
            .map_err(|source| self.read_error(source))
    }
}

/// Of a million ended runs it reads the few that are not tidy, by an index of their own.
const UNTIDY: &str = "SELECT jobs.id, runs.number FROM runs JOIN jobs ON jobs.n = runs.n
     WHERE runs.ended_at IS NOT NULL AND runs.tidied = 0
       AND CASE WHEN driver THEN 0 ELSE (SELECT n FROM machines WHERE name = runs.machine) END = ?1";

fn job(row: &Row, spec: &JobSpec, names: &Names) -> rusqlite::Result<(Job, Vec<Parent>)> {
    let id = job_id(row, 0)?;
    let raise = row.get_ref(20)?.as_str_or_null()?.and_then(raise);
    let same = Same(row.get(19)?);
    let needs = words::needs(spec, same, names);
    let (sweep, limited): (Option<SweepId>, bool) = (row.get::<_, Option<i64>>(22)?.map(SweepId), row.get(23)?);
    let runs: u32 = row.get(7)?;
    let state = match row.get_ref(1)?.as_str()? {
        "held" => State::Held,
        "queued" => State::Queued { not_before: row.get::<_, Option<i64>>(8)?.map(Time) },
        "copying" => State::Copying { ended_at: Time(row.get(24)?) },
        _ => State::Active(Box::new(run(row, RunId { job: id, number: runs })?)),
    };
    let job = Job {
        id,
        request: Request { within: sweep.filter(|_| limited), ..needs.request.raised(raise) },
        raise,
        same,
        limit: needs.limit,
        since: Time(row.get(25)?),
        sweep,
        place: Place { priority: row.get(3)?, turn: row.get(4)? },
        retries: Retries {
            allowed: needs.retries,
            used: row.get(5)?,
            on_timeout: needs.retry_on_timeout,
            start_failures: row.get(6)?,
        },
        copies: needs.copies,
        runs,
        state,
    };
    let parents = parents(spec).filter_map(|(id, any_end)| Some(Parent { job: id.parse().ok()?, any_end }));
    Ok((job, parents.collect()))
}

fn run(row: &Row, id: RunId) -> rusqlite::Result<Run> {
    let gpus = gpu_set(row.get_ref(9)?.as_str()?).map_err(|error| wrong(9, error))?;
    let (pid, since): (Option<u32>, Option<i64>) = (row.get(12)?, row.get(13)?);
    let stop: Option<String> = row.get(14)?;
    let (milli, vram_mib): (Option<u16>, Option<u32>) = (row.get(15)?, row.get(16)?);
    Ok(Run {
        id,
        lease: Lease {
            machine: row.get::<_, Option<u32>>(26)?.map_or(MachineId::LOCAL, MachineId),
            gpus,
            beside: vec![],
            share: milli.map(|milli| HeldShare { milli, vram_mib }),
            cpus: row.get(10)?,
            ram_mib: row.get(17)?,
            driver: row.get(27)?,
        },
        planned_at: Time(row.get(11)?),
        phase: match (pid, since) {
            (Some(pid), Some(since)) => Phase::Running { pid, since: Time(since) },
            _ => Phase::Starting,
        },
        stop: stop.map(|word| if word == "user" { StopCause::User } else { StopCause::Stopped }),
        peak_mib: row.get::<_, Option<u32>>(18)?.unwrap_or(0),
    })
}

fn job_id(row: &Row, column: usize) -> rusqlite::Result<JobId> {
    row.get_ref(column)?.as_str()?.parse().map_err(|error| wrong(column, error))
}

/// Jobs that a spec comes after, by id, and whether any end of them will do.
pub fn parents(spec: &JobSpec) -> impl Iterator<Item = (&str, bool)> {
    let after = spec.after.iter().map(|id| (id.as_str(), false));
    after.chain(spec.after_any.iter().map(|id| (id.as_str(), true)))
}

/// Reads what [`GpuSet`]'s Display wrote.
pub(super) fn gpu_set(text: &str) -> Result<GpuSet, std::num::ParseIntError> {
    text.split(',').filter(|part| !part.is_empty()).map(|part| part.parse::<u16>()).collect()
}

fn wrong(column: usize, error: impl std::error::Error + Send + Sync + 'static) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_are_not_tidy_are_found_without_a_look_at_the_others() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("nexus.db"), false).unwrap();
        let mut explained = store.db.prepare(&format!("EXPLAIN QUERY PLAN {UNTIDY}")).unwrap();
        let steps = explained.query_map([0], |row| row.get::<_, String>(3)).unwrap();
        let steps: Vec<String> = steps.collect::<Result<_, _>>().unwrap();
        let of =
            |table: &str| steps.iter().find(|step| step.contains(&format!(" {table}"))).cloned().unwrap_or_default();
        assert!(of("runs").contains("INDEX runs_untidy"), "{steps:?}");
        assert!(of("jobs").starts_with("SEARCH jobs USING INTEGER PRIMARY KEY"), "{steps:?}");
    }
}
