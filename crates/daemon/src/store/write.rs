//! Commits a batch: the events of many inputs in one transaction, one fsync.

use std::collections::{BTreeMap, btree_map};
use std::iter::Peekable;
use std::sync::Arc;
use std::time::Duration;

use nexus_api::env::Env;
use nexus_api::jobs::JobSpec;
use nexus_api::run_dir;
use nexus_core::event::{Event, NewJob, QueuePause, Requeue};
use nexus_core::ids::{JobId, RunId};
use nexus_core::job::{End, Failure};
use nexus_core::learned::Learned;
use nexus_core::request::{Raise, Same};
use nexus_core::run::{Lease, Outcome, StopCause};
use nexus_core::time::Time;
use rusqlite::{OptionalExtension, params};

use super::batch::{Batch, EditedRow, JobEnv, NewRow, TagChange};
use super::begin::Begun;
use super::learned;
use super::new_jobs::{NewJobs, Numbers};
use super::records::raised;
use super::spec::{Specs, StoredSpec, common_text, env_text, have_in_common, numbered, stored_spec};
use super::together::Together;
use super::{Store, StoreError, twins};
use crate::identity::{Identity, identity};
use crate::{clock, words};

/// So many new jobs at once are worth more memory, and for so long: there may be more of them.
pub(super) const MANY: usize = 1_000;
const ROOM_FOR: Duration = Duration::from_secs(1);

/// Of an environment and of its secrets.
type EnvNumbers = (i64, Option<i64>);

impl Store {
    pub fn commit(&mut self, batch: &Batch) -> Result<(), StoreError> {
        let path = self.path.clone();
        let fail = |source| StoreError::Write { path: path.clone(), source };
        let begun = self.begun.take();
        let transaction = match begun {
            Some(_) => Together::begun(&self.db),
            None => {
                let is_much = batch.new.len() >= MANY;
                if is_much || self.room_since.is_some_and(|since| since + ROOM_FOR <= clock::instant()) {
                    self.make_room(is_much).map_err(fail)?;
                }
                Together::begin(&self.db).map_err(fail)?
            }
        };
        let Begun { jobs: written, next_n, live } =
            begun.unwrap_or_else(|| Begun { jobs: 0, next_n: self.next_n, live: Vec::new() });
        let (next_n, secrets_dropped, live) = {
            let mut writer = Writer { live, ..Writer::new(&transaction, &batch.new, next_n) };
            writer.batch(batch, written).map_err(fail)?;
            (writer.next_n, writer.secrets_dropped, writer.live)
        };
        transaction.keep().map_err(fail)?;
        self.next_n = next_n;
        self.live.follow(&live);
        self.commits += 1;
        self.unreturned += 1;
        self.secrets_dropped |= secrets_dropped;
        // Secrets do not outlive their job in memory either.
        self.ahead.take_if(|(run, _)| !batch.is_of_runs() || batch.ends(run.job));
        let gone = batch.tidied.iter().map(|run| &run.job).chain(batch.edited.keys()).chain(&batch.forgotten);
        gone.for_each(|job| drop(self.launched.remove(job)));
        Ok(())
    }
}

pub(super) struct Writer<'a> {
    pub(super) db: &'a Together<'a>,
    pub(super) new_jobs: NewJobs<'a>,
    /// Those of new jobs.
    new: &'a BTreeMap<JobId, NewRow>,
    /// Many come in the order of their ids, and are not searched for then.
    rows: Peekable<btree_map::Iter<'a, JobId, NewRow>>,
    pub(super) next_n: i64,
    /// Runs that began, with their processes. Often the end is heard of together with the start: then both are
    /// written at once.
    pub(super) begun: BTreeMap<RunId, (u32, Time)>,
    pub(super) live: Vec<twins::Change>,
    /// What becomes of a job follows its run's end: that run's outcome, and when it began if that is not written yet.
    last_run: Option<(RunId, Outcome, Option<Time>)>,
    /// The environment stored last, with its numbers: many jobs in a row share one.
    pub(super) last_env: Option<(Arc<JobEnv>, EnvNumbers)>,
    /// So it is with what their specs have in common.
    pub(super) last_spec: Option<(Arc<JobSpec>, Arc<JobEnv>, i64)>,
    pub(super) secrets_dropped: bool,
}

impl<'a> Writer<'a> {
    pub(super) fn new(db: &'a Together<'a>, new: &'a BTreeMap<JobId, NewRow>, next_n: i64) -> Writer<'a> {
        Writer {
            db,
            new_jobs: NewJobs::new(),
            new,
            rows: new.iter().peekable(),
            next_n,
            begun: BTreeMap::new(),
            live: Vec::new(),
            last_run: None,
            last_env: None,
            last_spec: None,
            secrets_dropped: false,
        }
    }

    /// `written`: so many of its new jobs are there already, the first.
    fn batch(&mut self, batch: &'a Batch, mut written: usize) -> rusqlite::Result<()> {
        for sweep in &batch.sweeps {
            self.new_sweep(sweep)?;
        }
        for (class, name) in &batch.classes {
            self.new_class(*class, name)?;
        }
        for event in &batch.events {
            match event {
                Event::Submitted(_) if written > 0 => {
                    written -= 1;
                    continue;
                }
                Event::Submitted(_) => {}
                _ => self.new_jobs.put(self.db)?,
            }
            self.event(event, batch)?;
        }
        self.new_jobs.put(self.db)?;
        for (run, (pid, at)) in std::mem::take(&mut self.begun) {
            self.running(run, pid, at)?;
        }
        for copied in &batch.copied {
            self.copied(copied)?;
        }
        for job in &batch.forgotten {
            self.forget(*job)?;
        }
        for run in &batch.tidied {
            let id = run.job.as_str();
            self.run(
                "UPDATE runs SET tidied = 1 WHERE n = (SELECT n FROM jobs WHERE id = ?1) AND number = ?2",
                params![id, run.number],
            )?;
        }
        for submission in &batch.submissions {
            self.submission(submission)?;
        }
        for change in &batch.watches {
            self.watch(change)?;
        }
        for TagChange { job, tag, take_off } in &batch.tags {
            let sql = match take_off {
                true => "DELETE FROM tags WHERE tag = ?1 AND n = (SELECT n FROM jobs WHERE id = ?2)",
                false => "INSERT OR IGNORE INTO tags SELECT ?1, n FROM jobs WHERE id = ?2",
            };
            self.run(sql, params![tag, job.as_str()])?;
        }
        for change in &batch.variables {
            self.variable(change)?;
        }
        for (key, value) in &batch.meta {
            self.set_meta(key, value)?;
        }
        Ok(())
    }

    pub(super) fn run(&self, sql: &str, parameters: impl rusqlite::Params) -> rusqlite::Result<usize> {
        self.db.prepare_cached(sql)?.execute(parameters)
    }

    fn set_meta(&self, key: &str, value: &str) -> rusqlite::Result<usize> {
        self.run(
            "INSERT INTO meta VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            [key, value],
        )
    }

    fn event(&mut self, event: &'a Event, batch: &'a Batch) -> rusqlite::Result<()> {
        match event {
            Event::Submitted(new) => self.submitted(new)?,
            Event::Held { job } => {
                self.run("UPDATE jobs SET state = 'held', not_before = NULL WHERE id = ?1", [job.as_str()])?;
            }
            Event::Orphaned { job, parent } => self.orphaned(*job, *parent)?,
            Event::Released { job } => drop(self.run("UPDATE jobs SET state = 'queued' WHERE id = ?", [job.as_str()])?),
            Event::Delayed { job, until } => {
                self.run("UPDATE jobs SET not_before = ?2 WHERE id = ?1", params![job.as_str(), until.0])?;
            }
            Event::Edited { job, needs } => self.edited(*job, needs.is_some(), &batch.edited[job])?,
            Event::Moved { job, place } | Event::Placed { job, place } => {
                self.run(
                    "UPDATE jobs SET place_priority = ?2, turn = ?3 WHERE id = ?1",
                    params![job.as_str(), place.priority, place.turn],
                )?;
            }
            Event::Planned { run, lease, at } => self.planned(*run, lease, *at, batch)?,
            Event::Running { run, pid, at } => drop(self.begun.insert(*run, (*pid, *at))),
            Event::StopAsked { run, cause } => {
                let word = match cause {
                    StopCause::User => "user",
                    StopCause::Stopped => "stopped",
                };
                self.run(
                    "UPDATE runs SET stop = ?3 WHERE n = (SELECT n FROM jobs WHERE id = ?1) AND number = ?2",
                    params![run.job.as_str(), run.number, word],
                )?;
            }
            Event::ClockSet { .. } => self.clock_set(event)?,
            Event::RunEnded { run, outcome, at } => {
                self.run_ended(*run, outcome, *at)?;
                self.found(*run, batch.found.get(run))?;
            }
            Event::Copying { job, .. } => {
                let of_it = self.last_run.as_ref().filter(|(run, ..)| run.job == *job);
                self.copying(*job, of_it.and_then(|(_, _, began)| *began))?;
            }
            Event::CopyStopped { job } => self.copy_stopped(*job)?,
            Event::Peaked { run, mib } => {
                self.run(
                    "UPDATE runs SET peak_mib = ?3 WHERE n = (SELECT n FROM jobs WHERE id = ?1) AND number = ?2",
                    params![run.job.as_str(), run.number, mib],
                )?;
            }
            Event::Requeued { job, why, not_before, raise } => self.requeued(*job, *why, *not_before, *raise)?,
            Event::JobEnded { job, end, at } => self.job_ended(*job, end, *at)?,
            Event::SweepStopped { sweep, stopped } => self.stopped(*sweep, Some(stopped))?,
            Event::SweepReleased { sweep } => self.stopped(*sweep, None)?,
            Event::QueuePaused(QueuePause::ByUser) => drop(self.set_meta("queue", "paused")?),
            Event::QueuePaused(QueuePause::AfterFailures(count)) => {
                self.set_meta("queue", &format!("paused after {count}"))?;
            }
            Event::QueueResumed => drop(self.set_meta("queue", "running")?),
            Event::GpuPaused { .. }
            | Event::GpuResumed { .. }
            | Event::MachineAdded { .. }
            | Event::MachineMoved { .. }
            | Event::MachineSetUp { .. }
            | Event::MachinePaused { .. }
            | Event::MachineResumed { .. }
            | Event::MachineQuarantined { .. }
            | Event::MachineLeaving { .. }
            | Event::MachineRemoved { .. } => self.machine(event, &batch.machines)?,
            Event::MachineRead(_) | Event::DiskFull { .. } | Event::Stopping => {}
        }
        Ok(())
    }

    fn running(&self, run: RunId, pid: u32, at: Time) -> rusqlite::Result<()> {
        self.run("UPDATE jobs SET state = 'running', started_at = ?2 WHERE id = ?1", params![run.job.as_str(), at.0])?;
        self.run(
            "UPDATE runs SET pid = ?3, started_at = ?4
             WHERE n = (SELECT n FROM jobs WHERE id = ?1) AND number = ?2",
            params![run.job.as_str(), run.number, pid, at.0],
        )?;
        Ok(())
    }

    fn requeued(
        &self,
        job: JobId,
        why: Requeue,
        not_before: Option<Time>,
        raise: Option<Raise>,
    ) -> rusqlite::Result<()> {
        let (retries, failures) = match why {
            Requeue::Retry => (1, "0"),
            Requeue::StartFailed => (0, "start_failures + 1"),
            Requeue::GpuLocked => (0, "start_failures"),
            Requeue::Preempted => (0, "0"),
        };
        let sql = format!(
            "UPDATE jobs SET state = 'queued', started_at = NULL, not_before = ?2, retries_used = retries_used + ?3,
             start_failures = {failures}, raised = coalesce(?4, raised) WHERE id = ?1"
        );
        self.run(&sql, params![job.as_str(), not_before.map(|at| at.0), retries, raise.map(raised)])?;
        Ok(())
    }

    pub(super) fn submitted(&mut self, new: &'a NewJob) -> rusqlite::Result<()> {
        let next = self.rows.next_if(|(id, _)| **id == new.id);
        let row = next.map_or_else(|| &self.new[&new.id], |(_, row)| row);
        let (env, secrets) = self.shared_environment(&row.env)?;
        let of = Numbers { env, secrets, spec: self.shared_spec(row, env)? };
        let spec = &row.spec;
        let n = self.next_n;
        self.next_n += 1;
        self.new_jobs.add(self.db, n, (new, row), of)?;
        self.live.push(twins::Change::Came(row.identity, new.id));
        if let (Some(old), Some(sweep)) = (&spec.rerun_of, row.sweep) {
            self.repeats(new.id, old, sweep)?;
        }
        if !spec.common.variables.is_empty() {
            self.needs_variables(n, &spec.common.variables)?;
        }
        self.tag(n, &spec.common.tags)
    }

    /// The number of what its spec has in common with others, once that is stored.
    fn shared_spec(&mut self, row: &NewRow, env: i64) -> rusqlite::Result<i64> {
        let common = &row.spec.common;
        if let Some((last, its_env, number)) = &self.last_spec
            && Arc::ptr_eq(its_env, &row.env)
            && (Arc::ptr_eq(last, common) || have_in_common(last, common))
        {
            return Ok(*number);
        }
        let (hash, text) = common_text(common, row.env.secrets.keys().cloned().collect(), env);
        let mut known = self.db.prepare_cached("SELECT n FROM specs WHERE hash = ?1")?;
        let number = match known.query_row([hash], |row| row.get(0)).optional()? {
            Some(number) => number,
            None => {
                self.run("INSERT INTO specs (hash, data, env) VALUES (?1, ?2, ?3)", params![hash, text, env])?;
                self.db.last_insert_rowid()
            }
        };
        self.last_spec = Some((common.clone(), row.env.clone(), number));
        Ok(number)
    }

    fn tag(&self, n: i64, tags: &[String]) -> rusqlite::Result<()> {
        for tag in tags {
            self.run("INSERT OR IGNORE INTO tags VALUES (?1, ?2)", params![tag, n])?;
        }
        Ok(())
    }

    fn shared_environment(&mut self, env: &Arc<JobEnv>) -> rusqlite::Result<EnvNumbers> {
        if let Some((_, numbers)) = self.last_env.as_ref().filter(|(last, _)| Arc::ptr_eq(last, env)) {
            return Ok(*numbers);
        }
        let numbers = self.environment(&env.open, &env.secrets)?;
        self.last_env = Some((env.clone(), numbers));
        Ok(numbers)
    }

    fn environment(&self, env: &Env, secrets: &Env) -> rusqlite::Result<EnvNumbers> {
        let (hash, text) = env_text(env);
        let env = numbered(self.db, "envs", &hash, &text)?;
        if secrets.is_empty() {
            return Ok((env, None));
        }
        let (hash, text) = env_text(secrets);
        Ok((env, Some(numbered(self.db, "secrets", &hash, &text)?)))
    }

    /// `needs`: what was raised goes, since all that it asks for is said anew.
    fn edited(&mut self, job: JobId, needs: bool, row: &EditedRow) -> rusqlite::Result<()> {
        let (id, spec) = (job.as_str(), &row.spec);
        type Before = (i64, i64, Option<i64>, Option<i64>, Option<i64>);
        let (n, env_before, shared, secrets_before, identity_before): Before = self
            .db
            .prepare_cached("SELECT n, env, shared, secrets, identity FROM jobs WHERE id = ?1")?
            .query_row([id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?)))?;
        let (same, identity) = (crate::same::same(spec).0, identity(spec));
        self.live.extend(identity_before.map(|before| twins::Change::Gone(Identity(before), job)));
        self.live.push(twins::Change::Came(identity, job));
        self.run(
            "UPDATE jobs SET command = ?2, spec = ?3, shared = NULL, name = ?4, project = ?5, same = ?6, identity = ?7
             WHERE id = ?1",
            params![
                id,
                spec.command.text(),
                stored_spec(spec, row.secret_names.clone()),
                spec.name,
                spec.project,
                same,
                identity.0
            ],
        )?;
        if needs {
            self.run("UPDATE jobs SET raised = NULL WHERE id = ?1", [id])?;
        }
        if let Some(shared) = shared {
            self.drop_spec(shared)?;
        }
        self.run("DELETE FROM tags WHERE n = ?1", [n])?;
        self.tag(n, &spec.tags)?;
        self.needs_variables(n, &spec.variables)?;
        let Some((env, secrets)) = &row.env else { return Ok(()) };
        if let Some(secrets) = secrets_before {
            self.drop_secrets(n, secrets)?;
        }
        let (env, secrets) = self.environment(env, secrets)?;
        self.run("UPDATE jobs SET env = ?2, secrets = ?3 WHERE id = ?1", params![id, env, secrets])?;
        self.drop_env(env_before)
    }

    /// Held, and its spec no longer names the parent: whoever reads it anew finds nothing that failed.
    fn orphaned(&mut self, job: JobId, parent: JobId) -> rusqlite::Result<()> {
        let (StoredSpec { mut spec, secret_names }, shared): (_, Option<i64>) = self
            .db
            .prepare_cached("SELECT spec, shared FROM jobs WHERE id = ?1")?
            .query_row([job.as_str()], |row| Ok((Specs::default().of_row(self.db, row, 0, 1)?, row.get(1)?)))?;
        for parents in [&mut spec.after, &mut spec.after_any] {
            parents.retain(|id| id != parent.as_str());
        }
        self.run(
            "UPDATE jobs SET state = 'held', not_before = NULL, spec = ?2, shared = NULL WHERE id = ?1",
            params![job.as_str(), stored_spec(&spec, secret_names)],
        )?;
        shared.map_or(Ok(()), |shared| self.drop_spec(shared))
    }

    fn planned(&self, run: RunId, lease: &Lease, at: Time, batch: &Batch) -> rusqlite::Result<()> {
        self.run(
            "UPDATE jobs SET state = 'starting', runs = ?2, started_at = NULL, not_before = NULL WHERE id = ?1",
            params![run.job.as_str(), run.number],
        )?;
        self.run(
            "INSERT INTO runs (n, number, machine, gpus, cpus, simulated, planned_at, dir, milli, vram_mib, ram_mib, driver)
             SELECT n, ?2, (SELECT name FROM machines WHERE n = ?3), ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12
             FROM jobs WHERE id = ?1",
            params![
                run.job.as_str(),
                run.number,
                lease.machine.0,
                lease.gpus.to_string(),
                lease.cpus,
                batch.simulated.get(&lease.machine).is_some_and(|simulated| lease.gpus.overlaps(*simulated)),
                at.0,
                run_dir::of_run(&batch.log_dir, run.job.as_str(), run.number).to_string_lossy(),
                lease.share.map(|share| share.milli),
                lease.share.and_then(|share| share.vram_mib),
                lease.ram_mib,
                lease.driver
            ],
        )?;
        Ok(())
    }

    fn run_ended(&mut self, run: RunId, outcome: &Outcome, at: Time) -> rusqlite::Result<()> {
        let (n, stop, peak_mib, planned_at, same): (i64, Option<String>, Option<u32>, i64, i64) = self
            .db
            .prepare_cached(
                "SELECT jobs.n, stop, peak_mib, planned_at, same FROM jobs JOIN runs ON runs.n = jobs.n AND number = ?2
                 WHERE id = ?1",
            )?
            .query_row(params![run.job.as_str(), run.number], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
            })?;
        let took = (*outcome == Outcome::Exited { code: 0 }).then(|| at.since(Time(planned_at)));
        let mut learned = Learned::default();
        learned.add(peak_mib.unwrap_or(0), took);
        learned::add(self.db, Same(same), &learned)?;
        let stop = stop.as_deref().map(|word| if word == "user" { StopCause::User } else { StopCause::Stopped });
        let told = serde_json::to_string(&words::run_outcome(outcome, stop)).expect("an outcome is plain data");
        let (pid, began) = self.begun.remove(&run).unzip();
        self.run(
            "UPDATE runs SET ended_at = ?3, outcome = ?4, pid = coalesce(?5, pid), started_at = coalesce(?6, started_at)
             WHERE n = ?1 AND number = ?2",
            params![n, run.number, at.0, told, pid, began.map(|at| at.0)],
        )?;
        self.last_run = Some((run, outcome.clone(), began));
        Ok(())
    }

    fn job_ended(&mut self, job: JobId, end: &End, at: Time) -> rusqlite::Result<()> {
        let (state, reason) = words::end(end);
        let ((code, signal), began) = match self.last_run.take() {
            Some((run, outcome, began)) if run.job == job => (words::exit_of(&outcome), began),
            // Its results were copied since.
            _ if *end == End::Completed => ((Some(0), None), None),
            _ => ((None, None), None),
        };
        let failed_by = match end {
            End::Failed(Failure::Dependency { parent }) => Some(parent.as_str()),
            _ => None,
        };
        type Ended = (i64, Option<i64>, Option<i64>, Option<i64>, Option<i64>);
        let (n, sweep, ran_ms, secrets, identity): Ended = self
            .db
            .prepare_cached(
                "UPDATE jobs SET state = ?2, reason = ?3, exit_code = ?4, signal = ?5, ended_at = ?6, not_before = NULL,
                                 failed_by = ?7, started_at = coalesce(?8, started_at)
                 WHERE id = ?1 RETURNING n, sweep, ended_at - started_at, secrets, identity",
            )?
            .query_row(
                params![job.as_str(), state.word(), reason, code, signal, at.0, failed_by, began.map(|at| at.0)],
                |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?)),
            )?;
        self.live.extend(identity.map(|identity| twins::Change::Gone(Identity(identity), job)));
        if let Some(sweep) = sweep {
            self.ended_in(sweep, state.word(), ran_ms)?;
        }
        self.run("UPDATE totals SET count = count + 1 WHERE state = ?1", [state.word()])?;
        self.needs_variables(n, &[])?;
        secrets.map_or(Ok(()), |secrets| self.drop_secrets(n, secrets))
    }
}
