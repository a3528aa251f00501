//! Commits a batch: the events of many inputs in one transaction, one fsync.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use nexus_api::env::{Env, split_secrets};
use nexus_api::jobs::JobSpec;
use nexus_api::results::Found;
use nexus_api::run_dir;
use nexus_core::event::{Event, NewJob, QueuePause, Requeue};
use nexus_core::ids::{JobId, MachineId, RunId};
use nexus_core::job::{End, Failure};
use nexus_core::request::{GpuSet, Raise};
use nexus_core::run::{Lease, Outcome, StopCause};
use nexus_core::time::Time;
use rusqlite::types::Type;
use rusqlite::{OptionalExtension, Transaction, params};

use super::left::Copied;
use super::spec::{StoredSpec, env_text, stored_spec};
use super::{Store, StoreError, WatchChange};
use crate::identity::{Identity, identity};
use crate::words;

/// What a commit needs beside the events.
#[derive(Default)]
pub struct Batch {
    pub events: Vec<Event>,
    /// The whole of each submitted job.
    pub new: BTreeMap<JobId, NewRow>,
    /// What each changed job is now.
    pub edited: BTreeMap<JobId, EditedRow>,
    /// Lines for service.log, told when the rest is on disk.
    pub notes: Vec<String>,
    /// Ended jobs to delete.
    pub forgotten: Vec<JobId>,
    /// Runs whose directory was cleared.
    pub tidied: Vec<RunId>,
    pub meta: Vec<(&'static str, String)>,
    pub watches: Vec<WatchChange>,
    /// What the output of runs that end said of their results.
    pub found: BTreeMap<RunId, Found>,
    pub copied: Vec<Copied>,
    /// Which GPUs do not exist.
    pub simulated: GpuSet,
    /// Where new runs keep their files.
    pub log_dir: PathBuf,
}

impl Batch {
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
            && self.forgotten.is_empty()
            && self.tidied.is_empty()
            && self.meta.is_empty()
            && self.watches.is_empty()
            && self.copied.is_empty()
    }
}

pub struct NewRow {
    /// Its environment is empty: that lies beside it.
    pub spec: JobSpec,
    pub env: Arc<JobEnv>,
    pub identity: Identity,
}

/// The environment of a job, or of many.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct JobEnv {
    /// Stored for good.
    pub open: Env,
    /// Dropped when the last job that needs them has ended.
    pub secrets: Env,
}

impl JobEnv {
    pub fn of(env: Env) -> JobEnv {
        let (open, secrets) = split_secrets(env);
        JobEnv { open, secrets }
    }
}

/// A job that was changed.
pub struct EditedRow {
    /// Its environment is empty.
    pub spec: JobSpec,
    pub secret_names: Vec<String>,
    /// What is stored for good, and the secrets; none where they stay.
    pub env: Option<(Env, Env)>,
}

impl Store {
    pub fn commit(&mut self, batch: &Batch) -> Result<(), StoreError> {
        let path = self.path.clone();
        let fail = |source| StoreError::Write { path: path.clone(), source };
        self.make_room(false).map_err(fail)?;
        let transaction = self.db.transaction().map_err(fail)?;
        let mut writer = Writer {
            db: &transaction,
            next_n: self.next_n,
            last_outcome: None,
            last_env: None,
            secrets_dropped: false,
        };
        writer.batch(batch).map_err(fail)?;
        let (next_n, secrets_dropped) = (writer.next_n, writer.secrets_dropped);
        transaction.commit().map_err(fail)?;
        self.next_n = next_n;
        self.secrets_dropped |= secrets_dropped;
        Ok(())
    }
}

pub(super) struct Writer<'a> {
    db: &'a Transaction<'a>,
    next_n: i64,
    /// A job's end follows its last run's: that run's outcome.
    last_outcome: Option<(RunId, Outcome)>,
    /// The environment stored last, with its hashes: many jobs in a row share one.
    last_env: Option<(Arc<JobEnv>, String, Option<String>)>,
    pub(super) secrets_dropped: bool,
}

impl Writer<'_> {
    fn batch(&mut self, batch: &Batch) -> rusqlite::Result<()> {
        for event in &batch.events {
            self.event(event, batch)?;
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
        for change in &batch.watches {
            self.watch(change)?;
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

    fn event(&mut self, event: &Event, batch: &Batch) -> rusqlite::Result<()> {
        match event {
            Event::Submitted(new) => self.submitted(new, &batch.new[&new.id])?,
            Event::Held { job } => {
                self.run("UPDATE jobs SET state = 'held', not_before = NULL WHERE id = ?1", [job.as_str()])?;
            }
            Event::Orphaned { job, parent } => self.orphaned(*job, *parent)?,
            Event::Released { job } => {
                self.run("UPDATE jobs SET state = 'queued' WHERE id = ?1", [job.as_str()])?;
            }
            Event::Edited { job, needs } => self.edited(*job, needs.is_some(), &batch.edited[job])?,
            Event::Moved { job, place } | Event::Placed { job, place } => {
                self.run(
                    "UPDATE jobs SET place_priority = ?2, turn = ?3 WHERE id = ?1",
                    params![job.as_str(), place.priority, place.turn],
                )?;
            }
            Event::Planned { run, lease, at } => self.planned(*run, lease, *at, batch)?,
            Event::Running { run, pid, at } => {
                self.run(
                    "UPDATE jobs SET state = 'running', started_at = ?2 WHERE id = ?1",
                    params![run.job.as_str(), at.0],
                )?;
                self.run(
                    "UPDATE runs SET pid = ?3, started_at = ?4
                     WHERE n = (SELECT n FROM jobs WHERE id = ?1) AND number = ?2",
                    params![run.job.as_str(), run.number, pid, at.0],
                )?;
            }
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
            Event::RunEnded { run, outcome, at } => {
                self.run_ended(*run, outcome, *at)?;
                self.found(*run, batch.found.get(run))?;
            }
            Event::Copying { job, .. } => self.copying(*job)?,
            Event::CopyStopped { job } => self.copy_stopped(*job)?,
            Event::Peaked { run, mib } => {
                self.run(
                    "UPDATE runs SET peak_mib = ?3 WHERE n = (SELECT n FROM jobs WHERE id = ?1) AND number = ?2",
                    params![run.job.as_str(), run.number, mib],
                )?;
            }
            Event::Requeued { job, why, not_before, raise } => self.requeued(*job, *why, *not_before, *raise)?,
            Event::JobEnded { job, end, at } => self.job_ended(*job, end, *at)?,
            Event::QueuePaused(QueuePause::ByUser) => drop(self.set_meta("queue", "paused")?),
            Event::QueuePaused(QueuePause::AfterFailures(count)) => {
                self.set_meta("queue", &format!("paused after {count}"))?;
            }
            Event::QueueResumed => drop(self.set_meta("queue", "running")?),
            Event::GpuPaused { machine, uuid, .. } => {
                self.run("INSERT OR IGNORE INTO paused_gpus VALUES (?1, ?2)", [&machine_name(*machine), uuid])?;
            }
            Event::GpuResumed { machine, uuid, .. } => {
                self.run("DELETE FROM paused_gpus WHERE machine = ?1 AND uuid = ?2", [&machine_name(*machine), uuid])?;
            }
            Event::MachineRead(_) | Event::DiskFull { .. } | Event::Stopping => {}
        }
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
        };
        let sql = format!(
            "UPDATE jobs SET state = 'queued', started_at = NULL, not_before = ?2, retries_used = retries_used + ?3,
             start_failures = {failures}, raised = coalesce(?4, raised) WHERE id = ?1"
        );
        self.run(&sql, params![job.as_str(), not_before.map(|at| at.0), retries, raise.map(raised)])?;
        Ok(())
    }

    fn submitted(&mut self, new: &NewJob, row: &NewRow) -> rusqlite::Result<()> {
        let (env_hash, secrets_hash) = self.shared_environment(&row.env)?;
        let spec = &row.spec;
        let n = self.next_n;
        self.next_n += 1;
        self.run(
            "INSERT INTO jobs (n, id, state, command, spec, name, project, place_priority, turn, env, secrets, submitted_at,
                               same, identity)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?1, ?9, ?10, ?11, ?12, ?13)",
            params![
                n,
                new.id.as_str(),
                if new.held { "held" } else { "queued" },
                spec.command.text(),
                stored_spec(spec, row.env.secrets.keys().cloned().collect()),
                spec.name,
                spec.project,
                new.priority,
                env_hash,
                secrets_hash,
                new.at.0,
                new.needs.same.0,
                row.identity.0
            ],
        )?;
        self.tag(n, &spec.tags)
    }

    fn tag(&self, n: i64, tags: &[String]) -> rusqlite::Result<()> {
        for tag in tags {
            self.run("INSERT OR IGNORE INTO tags VALUES (?1, ?2)", params![tag, n])?;
        }
        Ok(())
    }

    fn shared_environment(&mut self, env: &Arc<JobEnv>) -> rusqlite::Result<(String, Option<String>)> {
        if let Some((last, open, secrets)) = &self.last_env
            && Arc::ptr_eq(last, env)
        {
            return Ok((open.clone(), secrets.clone()));
        }
        let (open, secrets) = self.environment(&env.open, &env.secrets)?;
        self.last_env = Some((env.clone(), open.clone(), secrets.clone()));
        Ok((open, secrets))
    }

    /// Hashes of an environment and of its secrets, once they are stored.
    fn environment(&self, env: &Env, secrets: &Env) -> rusqlite::Result<(String, Option<String>)> {
        let (env_hash, env) = env_text(env);
        self.run("INSERT OR IGNORE INTO envs VALUES (?1, ?2)", [&env_hash, &env])?;
        if secrets.is_empty() {
            return Ok((env_hash, None));
        }
        let (hash, secrets) = env_text(secrets);
        self.run("INSERT OR IGNORE INTO secrets VALUES (?1, ?2)", [&hash, &secrets])?;
        Ok((env_hash, Some(hash)))
    }

    /// `needs`: what was raised goes, since all that it asks for is said anew.
    fn edited(&mut self, job: JobId, needs: bool, row: &EditedRow) -> rusqlite::Result<()> {
        let (id, spec) = (job.as_str(), &row.spec);
        let same = crate::same::same(spec).0;
        self.run(
            "UPDATE jobs SET command = ?2, spec = ?3, name = ?4, project = ?5, same = ?6, identity = ?7
             WHERE id = ?1",
            params![
                id,
                spec.command.text(),
                stored_spec(spec, row.secret_names.clone()),
                spec.name,
                spec.project,
                same,
                identity(spec).0
            ],
        )?;
        if needs {
            self.run("UPDATE jobs SET raised = NULL WHERE id = ?1", [id])?;
        }
        let (n, env_before): (i64, String) = self
            .db
            .prepare_cached("SELECT n, env FROM jobs WHERE id = ?1")?
            .query_row([id], |row| Ok((row.get(0)?, row.get(1)?)))?;
        self.run("DELETE FROM tags WHERE n = ?1", [n])?;
        self.tag(n, &spec.tags)?;
        let Some((env, secrets)) = &row.env else { return Ok(()) };
        self.drop_secrets(job)?;
        let (env_hash, secrets_hash) = self.environment(env, secrets)?;
        self.run("UPDATE jobs SET env = ?2, secrets = ?3 WHERE id = ?1", params![id, env_hash, secrets_hash])?;
        self.drop_env(&env_before)
    }

    /// Held, and its spec no longer names the parent: whoever reads it anew finds nothing that failed.
    fn orphaned(&self, job: JobId, parent: JobId) -> rusqlite::Result<()> {
        let text: String = self
            .db
            .prepare_cached("SELECT spec FROM jobs WHERE id = ?1")?
            .query_row([job.as_str()], |row| row.get(0))?;
        let StoredSpec { mut spec, secret_names } = serde_json::from_str(&text)
            .map_err(|error| rusqlite::Error::FromSqlConversionFailure(0, Type::Text, Box::new(error)))?;
        for parents in [&mut spec.after, &mut spec.after_any] {
            parents.retain(|id| id != parent.as_str());
        }
        self.run(
            "UPDATE jobs SET state = 'held', not_before = NULL, spec = ?2 WHERE id = ?1",
            params![job.as_str(), stored_spec(&spec, secret_names)],
        )?;
        Ok(())
    }

    /// No job needs it any more.
    fn drop_env(&mut self, hash: &str) -> rusqlite::Result<()> {
        self.last_env = None;
        self.run("DELETE FROM envs WHERE hash = ?1 AND NOT EXISTS (SELECT 1 FROM jobs WHERE env = ?1)", [hash])?;
        Ok(())
    }

    fn planned(&self, run: RunId, lease: &Lease, at: Time, batch: &Batch) -> rusqlite::Result<()> {
        self.run(
            "UPDATE jobs SET state = 'starting', runs = ?2, started_at = NULL, not_before = NULL WHERE id = ?1",
            params![run.job.as_str(), run.number],
        )?;
        self.run(
            "INSERT INTO runs (n, number, machine, gpus, cpus, simulated, planned_at, dir, milli, vram_mib, ram_mib)
             SELECT n, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11 FROM jobs WHERE id = ?1",
            params![
                run.job.as_str(),
                run.number,
                machine_name(lease.machine),
                lease.gpus.to_string(),
                lease.cpus,
                lease.gpus.overlaps(batch.simulated),
                at.0,
                run_dir::of_run(&batch.log_dir, run.job.as_str(), run.number).to_string_lossy(),
                lease.share.map(|share| share.milli),
                lease.share.and_then(|share| share.vram_mib),
                lease.ram_mib
            ],
        )?;
        Ok(())
    }

    fn run_ended(&mut self, run: RunId, outcome: &Outcome, at: Time) -> rusqlite::Result<()> {
        let (stop, peak_mib): (Option<String>, Option<u32>) = self
            .db
            .prepare_cached(
                "SELECT stop, peak_mib FROM runs WHERE n = (SELECT n FROM jobs WHERE id = ?1) AND number = ?2",
            )?
            .query_row(params![run.job.as_str(), run.number], |row| Ok((row.get(0)?, row.get(1)?)))?;
        if let Some(peak_mib) = peak_mib {
            self.run(
                "INSERT INTO learned SELECT same, ?2 FROM jobs WHERE id = ?1
                 ON CONFLICT (same) DO UPDATE SET peak_mib = max(peak_mib, excluded.peak_mib)",
                params![run.job.as_str(), peak_mib],
            )?;
        }
        let stop = stop.as_deref().map(|word| if word == "user" { StopCause::User } else { StopCause::Stopped });
        let told = serde_json::to_string(&words::run_outcome(outcome, stop)).expect("an outcome is plain data");
        self.run(
            "UPDATE runs SET ended_at = ?3, outcome = ?4 WHERE n = (SELECT n FROM jobs WHERE id = ?1) AND number = ?2",
            params![run.job.as_str(), run.number, at.0, told],
        )?;
        self.last_outcome = Some((run, outcome.clone()));
        Ok(())
    }

    fn job_ended(&mut self, job: JobId, end: &End, at: Time) -> rusqlite::Result<()> {
        let (state, reason) = words::end(end);
        let (code, signal) = match self.last_outcome.take() {
            Some((run, outcome)) if run.job == job => words::exit_of(&outcome),
            // Its results were copied since.
            _ if *end == End::Completed => (Some(0), None),
            _ => (None, None),
        };
        let failed_by = match end {
            End::Failed(Failure::Dependency { parent }) => Some(parent.as_str()),
            _ => None,
        };
        self.run(
            "UPDATE jobs SET state = ?2, reason = ?3, exit_code = ?4, signal = ?5, ended_at = ?6, not_before = NULL,
                             failed_by = ?7
             WHERE id = ?1",
            params![job.as_str(), state.word(), reason, code, signal, at.0, failed_by],
        )?;
        self.run("UPDATE totals SET count = count + 1 WHERE state = ?1", [state.word()])?;
        self.drop_secrets(job)
    }

    /// The last job that needed them has ended: its secrets go.
    fn drop_secrets(&mut self, job: JobId) -> rusqlite::Result<()> {
        let hash: Option<String> = self
            .db
            .prepare_cached("SELECT secrets FROM jobs WHERE id = ?1")?
            .query_row([job.as_str()], |row| row.get(0))?;
        let Some(hash) = hash else { return Ok(()) };
        self.last_env = None;
        self.run("UPDATE jobs SET secrets = NULL WHERE id = ?1", [job.as_str()])?;
        self.run("DELETE FROM secrets WHERE hash = ?1 AND NOT EXISTS (SELECT 1 FROM jobs WHERE secrets = ?1)", [hash])?;
        self.secrets_dropped = true;
        Ok(())
    }

    fn forget(&mut self, job: JobId) -> rusqlite::Result<()> {
        let id = job.as_str();
        self.run("UPDATE totals SET count = count - 1 WHERE state = (SELECT state FROM jobs WHERE id = ?1)", [id])?;
        self.run("DELETE FROM tags WHERE n = (SELECT n FROM jobs WHERE id = ?1)", [id])?;
        self.run("DELETE FROM runs WHERE n = (SELECT n FROM jobs WHERE id = ?1)", [id])?;
        let env: Option<String> = self
            .db
            .prepare_cached("DELETE FROM jobs WHERE id = ?1 RETURNING env")?
            .query_row([id], |row| row.get(0))
            .optional()?;
        env.map_or(Ok(()), |env| self.drop_env(&env))
    }
}

/// As in the column `raised`.
fn raised(raise: Raise) -> String {
    match raise {
        Raise::Alone => ALONE.into(),
        Raise::Mib(mib) => mib.to_string(),
    }
}

/// Reads what [`raised`] wrote.
pub(super) fn raise(text: &str) -> Option<Raise> {
    match text {
        ALONE => Some(Raise::Alone),
        number => number.parse().ok().map(Raise::Mib),
    }
}

const ALONE: &str = "alone";

/// The machine of a name in records.
pub(super) fn machine_named(name: &str) -> Option<MachineId> {
    match name.strip_prefix("machine ") {
        Some(number) => number.parse().ok().map(MachineId),
        None => (name == "local").then_some(MachineId::LOCAL),
    }
}

/// The name a machine goes by in records.
pub fn machine_name(id: MachineId) -> String {
    match id {
        MachineId::LOCAL => "local".into(),
        MachineId(number) => format!("machine {number}"),
    }
}
