//! Sweeps: their rows, and what their jobs' ends and repetitions make of them. A row holds how many of its jobs ended in
//! which way, so that nothing is counted to show it.

use std::time::Duration;

use nexus_api::sweeps::Plan;
use nexus_core::ids::{JobId, SweepId};
use nexus_core::job::{End, KillReason};
use nexus_core::sweep::{First, InSweep, Stopped, Sweep};
use nexus_core::time::Time;
use rusqlite::{OptionalExtension, Row, params};

use super::read::{JOB, JobRow, Reader};
use super::spec::decoded;
use super::write::Writer;
use super::{Store, StoreError};
use crate::words;

/// A sweep to be stored, but for its jobs.
pub struct NewSweepRow {
    pub of: InSweep,
    pub name: String,
    pub project: Option<String>,
    /// With its `{names}`.
    pub command: String,
    pub params: Vec<String>,
    pub extract: Vec<String>,
    pub plan: Plan,
    pub copies: u32,
    pub jobs: u64,
    pub at: Time,
}

pub struct SweepRow {
    pub id: SweepId,
    pub name: String,
    pub project: Option<String>,
    pub command: String,
    pub params: Vec<String>,
    pub extract: Vec<String>,
    pub plan: Plan,
    pub copies: u32,
    pub max_running: Option<u32>,
    pub stop_after: u32,
    pub stopped: Option<Stopped>,
    pub submitted_at: Time,
    pub jobs: u64,
    pub completed: u64,
    pub failed: u64,
    pub killed: u64,
    /// How long those that completed ran, all of them together.
    pub completed_time: Duration,
}

const SWEEP: &str = "SELECT n, name, project, command, params, extract, plan, copies, max_running, stop_after, stopped,
        submitted_at, jobs, completed, failed, killed, completed_ms
    FROM sweeps";

fn sweep_row(row: &Row) -> rusqlite::Result<SweepRow> {
    let text = |column: usize| -> rusqlite::Result<&str> { Ok(row.get_ref(column)?.as_str()?) };
    let count = |column: usize| -> rusqlite::Result<u64> { Ok(row.get::<_, i64>(column)?.unsigned_abs()) };
    Ok(SweepRow {
        id: SweepId(row.get(0)?),
        name: row.get(1)?,
        project: row.get(2)?,
        command: row.get(3)?,
        params: decoded(text(4)?)?,
        extract: decoded(text(5)?)?,
        plan: decoded(text(6)?)?,
        copies: row.get(7)?,
        max_running: row.get(8)?,
        stop_after: row.get(9)?,
        stopped: row.get::<_, Option<String>>(10)?.and_then(|text| words::stopped_of(&text)),
        submitted_at: Time(row.get(11)?),
        jobs: count(12)?,
        completed: count(13)?,
        failed: count(14)?,
        killed: count(15)?,
        completed_time: Duration::from_millis(count(16)?),
    })
}

impl Reader<'_> {
    /// The oldest first.
    pub fn sweeps(&self) -> Result<Vec<SweepRow>, StoreError> {
        self.db
            .prepare_cached(&format!("{SWEEP} ORDER BY n"))
            .and_then(|mut statement| statement.query_map([], sweep_row)?.collect())
            .map_err(|source| self.fail(source))
    }

    pub fn sweep(&self, name: &str) -> Result<Option<SweepRow>, StoreError> {
        self.db
            .prepare_cached(&format!("{SWEEP} WHERE name = ?1"))
            .and_then(|mut statement| statement.query_row([name], sweep_row).optional())
            .map_err(|source| self.fail(source))
    }

    pub fn sweep_by_id(&self, id: SweepId) -> Result<Option<SweepRow>, StoreError> {
        self.db
            .prepare_cached(&format!("{SWEEP} WHERE n = ?1"))
            .and_then(|mut statement| statement.query_row([id.0], sweep_row).optional())
            .map_err(|source| self.fail(source))
    }

    /// All of its jobs, repeated ones too, in the order of their submission.
    pub fn of_sweep(&self, name: &str) -> Result<Vec<JobRow>, StoreError> {
        self.jobs(&format!("{JOB} WHERE sweep = (SELECT n FROM sweeps WHERE name = ?1) ORDER BY jobs.n"), [name])
    }

    /// Those that count behind a number, at most so many.
    pub fn points_of_sweep(
        &self,
        name: &str,
        after: Option<i64>,
        limit: Option<u64>,
    ) -> Result<Vec<JobRow>, StoreError> {
        let sql = format!(
            "{JOB} WHERE sweep = (SELECT n FROM sweeps WHERE name = ?1) AND jobs.n > ?2 AND replaced_by IS NULL
             ORDER BY jobs.n LIMIT ?3"
        );
        let limit = limit.map_or(-1, |limit| i64::try_from(limit).unwrap_or(i64::MAX));
        self.jobs(&sql, params![name, after.unwrap_or(i64::MIN), limit])
    }
}

impl Store {
    pub fn next_sweep(&self) -> Result<i64, StoreError> {
        self.db
            .prepare_cached("SELECT coalesce(max(n), 0) + 1 FROM sweeps")
            .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
            .map_err(|source| self.read_error(source))
    }

    pub fn in_sweep(&self, name: &str) -> Result<Option<InSweep>, StoreError> {
        let limits =
            |row: &Row| Ok(InSweep { id: SweepId(row.get(0)?), max_running: row.get(1)?, stop_after: row.get(2)? });
        self.db
            .prepare_cached("SELECT n, max_running, stop_after FROM sweeps WHERE name = ?1")
            .and_then(|mut statement| statement.query_row([name], limits).optional())
            .map_err(|source| self.read_error(source))
    }

    pub fn sweep_name(&self, id: SweepId) -> Result<Option<String>, StoreError> {
        self.db
            .prepare_cached("SELECT name FROM sweeps WHERE n = ?1")
            .and_then(|mut statement| statement.query_row([id.0], |row| row.get(0)).optional())
            .map_err(|source| self.read_error(source))
    }

    /// What the World keeps of sweeps that have live jobs.
    pub(super) fn live_sweeps(&self) -> Result<Vec<(SweepId, Sweep)>, StoreError> {
        let live = "WHERE n IN (SELECT sweep FROM jobs WHERE ended_at IS NULL AND sweep IS NOT NULL)";
        let rows: Vec<SweepRow> = self
            .db
            .prepare(&format!("{SWEEP} {live}"))
            .and_then(|mut statement| statement.query_map([], sweep_row)?.collect())
            .map_err(|source| self.read_error(source))?;
        rows.into_iter()
            .map(|row| {
                let of = InSweep { id: row.id, max_running: row.max_running, stop_after: row.stop_after };
                let first = if row.stopped.is_some() { First::Settled } else { self.first_ends(&of)? };
                Ok((row.id, Sweep { first, stopped: row.stopped, ..Sweep::new(&of) }))
            })
            .collect()
    }

    /// How its first jobs ended.
    fn first_ends(&self, of: &InSweep) -> Result<First, StoreError> {
        let mut first = Sweep::new(of).first;
        let ends = |row: &Row| {
            let (reason, code, signal): (Option<String>, _, _) = (row.get(1)?, row.get(2)?, row.get(3)?);
            let end = match (row.get_ref(0)?.as_str()?, reason) {
                ("failed", Some(reason)) => words::failure_of(&reason, code, signal).map(End::Failed),
                ("completed", _) => Some(End::Completed),
                _ => Some(End::Killed(KillReason::User)),
            };
            Ok((end, row.get::<_, Option<i64>>(4)?))
        };
        let ended: Vec<(Option<End>, Option<i64>)> = self
            .db
            .prepare_cached(
                "SELECT state, reason, exit_code, signal, ended_at - started_at FROM jobs
                 WHERE sweep = ?1 AND ended_at IS NOT NULL ORDER BY ended_at, n",
            )
            .and_then(|mut statement| statement.query_map([of.id.0], ends)?.collect())
            .map_err(|source| self.read_error(source))?;
        for (end, ran) in ended {
            let ran = ran.map(|ms| Duration::from_millis(ms.max(0).unsigned_abs()));
            first = end.map_or(First::Settled, |end| first.after(&end, ran));
            if first == First::Settled {
                break;
            }
        }
        Ok(first)
    }
}

impl Writer<'_> {
    pub(super) fn new_sweep(&self, row: &NewSweepRow) -> rusqlite::Result<()> {
        let json = |list: &[String]| serde_json::to_string(list).expect("names are plain data");
        self.run(
            "INSERT INTO sweeps (n, name, project, command, params, extract, plan, copies, max_running, stop_after,
                                 submitted_at, jobs)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
            params![
                row.of.id.0,
                row.name,
                row.project,
                row.command,
                json(&row.params),
                json(&row.extract),
                serde_json::to_string(&row.plan).expect("a plan is plain data"),
                row.copies,
                row.of.max_running,
                row.of.stop_after,
                row.at.0,
                row.jobs as i64
            ],
        )?;
        Ok(())
    }

    /// A job that repeats one of the same sweep takes its place; that one counts no more.
    pub(super) fn repeats(&self, new: JobId, old: &str, sweep: SweepId) -> rusqlite::Result<()> {
        let state: Option<String> = self
            .db
            .prepare_cached(
                "UPDATE jobs SET replaced_by = ?2
                 WHERE id = ?1 AND sweep = ?3 AND replaced_by IS NULL AND ended_at IS NOT NULL RETURNING state",
            )?
            .query_row(params![old, new.as_str(), sweep.0], |row| row.get(0))
            .optional()?;
        match state {
            Some(state) => self.uncount(&state, sweep.0),
            None => self.run("UPDATE sweeps SET jobs = jobs + 1 WHERE n = ?1", [sweep.0]).map(drop),
        }
    }

    fn uncount(&self, state: &str, sweep: i64) -> rusqlite::Result<()> {
        self.run(&format!("UPDATE sweeps SET {state} = {state} - 1 WHERE n = ?1"), [sweep])?;
        Ok(())
    }

    /// One of its jobs ended, having run for so long.
    pub(super) fn ended_in(&self, sweep: i64, state: &str, ran_ms: Option<i64>) -> rusqlite::Result<()> {
        let ran_ms = if state == "completed" { ran_ms.unwrap_or(0).max(0) } else { 0 };
        self.run(
            &format!("UPDATE sweeps SET {state} = {state} + 1, completed_ms = completed_ms + ?2 WHERE n = ?1"),
            [sweep, ran_ms],
        )?;
        Ok(())
    }

    pub(super) fn stopped(&self, sweep: SweepId, stopped: Option<&Stopped>) -> rusqlite::Result<()> {
        self.run("UPDATE sweeps SET stopped = ?2 WHERE n = ?1", params![sweep.0, stopped.map(words::stopped)])?;
        Ok(())
    }

    /// One of its jobs is forgotten, and with the last of them the sweep.
    pub(super) fn forgotten_in(&self, sweep: i64, state: &str, counted: bool) -> rusqlite::Result<()> {
        if counted {
            self.uncount(state, sweep)?;
            self.run("UPDATE sweeps SET jobs = jobs - 1 WHERE n = ?1", [sweep])?;
        }
        self.run("DELETE FROM sweeps WHERE n = ?1 AND NOT EXISTS (SELECT 1 FROM jobs WHERE sweep = ?1)", [sweep])?;
        Ok(())
    }
}
