//! Ended jobs of elsewhere, put into the history as they are told.
//!
//! They stand before all jobs of this home: their numbers count up from far below zero. So the newest job is one that was
//! submitted here, and the order of the queue has nothing to do with them.

use std::collections::BTreeMap;
use std::time::Duration;

use nexus_api::jobs::State;
use nexus_core::ids::JobId;
use nexus_core::learned::Learned;
use nexus_core::request::Same;
use nexus_core::time::Time;
use nexus_node::memory;
use rusqlite::params;

use super::learned;
use super::left::Left;
use super::together::Together;
use super::{CACHE_KIB, Connection, LOG_PAGES, Store, StoreError};
use crate::{clock, digest};

/// The number of the first of them. There are two thousand million until those of this home begin.
const FIRST: i64 = -(1 << 31);

/// An ended job with its runs, as it will lie in the database.
pub struct PastJob {
    pub id: JobId,
    pub state: State,
    pub reason: Option<String>,
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    /// As shown.
    pub command: String,
    /// As stored.
    pub spec: String,
    pub name: Option<String>,
    pub project: Option<String>,
    pub priority: i32,
    pub tags: Vec<String>,
    /// What is known of its environment, as stored.
    pub env: String,
    pub submitted_at: Time,
    pub started_at: Option<Time>,
    pub ended_at: Time,
    pub same: i64,
    pub identity: i64,
    pub failed_by: Option<String>,
    pub left: Left,
    /// In the order of their numbers; the last has the number of attempts.
    pub runs: Vec<PastRun>,
}

pub struct PastRun {
    pub number: u32,
    pub machine: String,
    /// Comma separated.
    pub gpus: String,
    pub simulated: bool,
    pub dir: String,
    pub planned_at: Time,
    pub pid: Option<u32>,
    pub started_at: Option<Time>,
    pub ended_at: Option<Time>,
    /// As stored.
    pub outcome: Option<String>,
    pub milli: Option<u16>,
    pub vram_mib: Option<u32>,
    pub peak_mib: Option<u32>,
    /// If it completed.
    pub took: Option<Duration>,
}

/// What became of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Took {
    Taken,
    /// It was there.
    Known,
    /// Its id is that of another job.
    Another,
    /// Its id is that of a job that has not ended.
    Live,
}

impl Store {
    /// All of them in one transaction. `is_live`: ids that are in use and may not be on disk yet.
    pub fn take_over(&mut self, jobs: &[PastJob], is_live: impl Fn(JobId) -> bool) -> Result<Vec<Took>, StoreError> {
        let path = self.path.clone();
        let fail = |source| StoreError::Write { path: path.clone(), source };
        self.make_room(true).map_err(fail)?;
        let transaction = Together::begin(&self.db).map_err(fail)?;
        let mut writer = Writer {
            db: &transaction,
            next: self.next_past,
            env: None,
            ended: BTreeMap::new(),
            learned: BTreeMap::new(),
        };
        let mut took = Vec::with_capacity(jobs.len());
        for job in jobs {
            took.push(match is_live(job.id) {
                true => Took::Live,
                false => writer.job(job).map_err(fail)?,
            });
        }
        writer.totals().map_err(fail)?;
        let next = writer.next;
        transaction.keep().map_err(fail)?;
        self.next_past = next;
        Ok(took)
    }

    /// Each job touches other pages of the indices: kept in memory they are read once, and written back to the database
    /// once for several transactions. Quiet gives the memory back, or an ordinary commit that comes much later.
    pub(super) fn make_room(&mut self, room: bool) -> rusqlite::Result<()> {
        let before = self.room_since;
        match room {
            true => self.room_since = Some(clock::instant()),
            false => self.room_since = None,
        }
        if before.is_some() == room {
            return Ok(());
        }
        let (cache_kib, log_pages) = if room { (128 << 10, 64_000) } else { (CACHE_KIB, LOG_PAGES) };
        self.db.pragma_update(None, "cache_size", -cache_kib)?;
        self.db.pragma_update_and_check(None, "wal_autocheckpoint", log_pages, |_| Ok(()))?;
        if room {
            memory::keep();
        } else {
            self.db.execute_batch("PRAGMA shrink_memory")?;
            self.give_memory_back();
        }
        Ok(())
    }

    /// How many there are, or were.
    pub(super) fn past_jobs(&self) -> u64 {
        (self.next_past - FIRST).unsigned_abs()
    }
}

/// The number of the next.
pub(super) fn next_number(db: &Connection) -> rusqlite::Result<i64> {
    let last: Option<i64> = db.query_row("SELECT max(n) FROM jobs WHERE n < 0", [], |row| row.get(0))?;
    Ok(last.map_or(FIRST, |last| last.max(FIRST - 1) + 1))
}

struct Writer<'a> {
    db: &'a Together<'a>,
    next: i64,
    /// The environment that was stored last, and its number: mostly it is that of the next, too.
    env: Option<(&'a str, i64)>,
    /// How many ended in each way.
    ended: BTreeMap<State, i64>,
    /// What runs of them were like.
    learned: BTreeMap<Same, Learned>,
}

impl<'a> Writer<'a> {
    fn job(&mut self, job: &'a PastJob) -> rusqlite::Result<Took> {
        let n = self.next;
        assert!(n < 0, "nobody has that much history");
        let attempts = job.runs.last().map_or(0, |run| run.number);
        let env = self.env(&job.env)?;
        let new = self.run(
            "INSERT INTO jobs (n, id, state, reason, exit_code, signal, command, spec, name, project, place_priority,
                               turn, runs, env, submitted_at, started_at, ended_at, same, identity, failed_by,
                               found, results, results_state, results_error)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?1, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21,
                     ?22, ?23)
             ON CONFLICT (id) DO NOTHING",
            params![
                n,
                job.id.as_str(),
                job.state.word(),
                job.reason,
                job.exit_code,
                job.signal,
                job.command,
                job.spec,
                job.name,
                job.project,
                job.priority,
                attempts,
                env,
                job.submitted_at.0,
                job.started_at.map(|at| at.0),
                job.ended_at.0,
                job.same,
                job.identity,
                job.failed_by,
                job.left.found_text(),
                job.left.folder,
                job.left.state_word(),
                job.left.error
            ],
        )?;
        if new == 0 {
            return self.known(job);
        }
        self.next += 1;
        *self.ended.entry(job.state).or_default() += 1;
        for tag in &job.tags {
            self.run("INSERT OR IGNORE INTO tags VALUES (?1, ?2)", params![tag, n])?;
        }
        for run in &job.runs {
            self.past_run(n, job.same, run)?;
        }
        Ok(Took::Taken)
    }

    fn env(&mut self, text: &'a str) -> rusqlite::Result<i64> {
        if let Some((_, number)) = self.env.filter(|(last, _)| *last == text) {
            return Ok(number);
        }
        let number = super::spec::numbered(self.db, "envs", &digest::hex(text), text)?;
        self.env = Some((text, number));
        Ok(number)
    }

    /// Its directory is this home's to clear, and there is nothing in it to be cleared.
    fn past_run(&mut self, n: i64, same: i64, run: &PastRun) -> rusqlite::Result<()> {
        self.run(
            "INSERT INTO runs (n, number, machine, gpus, cpus, simulated, dir, planned_at, pid, started_at, ended_at,
                               outcome, tidied, milli, vram_mib, peak_mib)
             VALUES (?1, ?2, ?3, ?4, 0, ?5, ?6, ?7, ?8, ?9, ?10, ?11, 1, ?12, ?13, ?14)",
            params![
                n,
                run.number,
                run.machine,
                run.gpus,
                run.simulated,
                run.dir,
                run.planned_at.0,
                run.pid,
                run.started_at.map(|at| at.0),
                run.ended_at.map(|at| at.0),
                run.outcome,
                run.milli,
                run.vram_mib,
                run.peak_mib
            ],
        )?;
        self.learned.entry(Same(same)).or_default().add(run.peak_mib.unwrap_or(0), run.took);
        Ok(())
    }

    /// A job of this id is there: the same one, or another.
    fn known(&self, job: &PastJob) -> rusqlite::Result<Took> {
        let mut found = self.db.prepare_cached("SELECT command, submitted_at, ended_at FROM jobs WHERE id = ?1")?;
        found.query_row([job.id.as_str()], |row| {
            let is_same = row.get_ref(0)?.as_str()? == job.command && row.get::<_, i64>(1)? == job.submitted_at.0;
            Ok(match row.get::<_, Option<i64>>(2)? {
                None => Took::Live,
                Some(_) if is_same => Took::Known,
                Some(_) => Took::Another,
            })
        })
    }

    fn totals(&self) -> rusqlite::Result<()> {
        for (state, count) in &self.ended {
            self.run("UPDATE totals SET count = count + ?2 WHERE state = ?1", params![state.word(), count])?;
        }
        for (same, learned) in &self.learned {
            learned::add(self.db, *same, learned)?;
        }
        Ok(())
    }

    fn run(&self, sql: &str, parameters: impl rusqlite::Params) -> rusqlite::Result<usize> {
        self.db.prepare_cached(sql)?.execute(parameters)
    }
}
