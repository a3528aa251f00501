//! All jobs in the order of their submission, with their runs: a stretch at a time, so that it does not matter how many
//! there are.

use std::collections::BTreeMap;

use nexus_api::env::Env;
use rusqlite::OptionalExtension;

use super::read::{Filter, JOB, JobRow, Reader, RunRow, run_row};
use super::together::{KEEP, READ, say};
use super::{Connection, Readers, StoreError};

/// Jobs looked at at once.
const STRETCH: i64 = 256;

/// Environments kept at hand.
const KNOWN_ENVS: usize = 64;

/// A view of the database that is kept for a while. Dropped, it is over.
pub struct View {
    db: Connection,
    path: std::path::PathBuf,
}

impl View {
    pub fn reader(&self) -> Reader<'_> {
        Reader::new(&self.db, &self.path)
    }
}

impl Readers {
    pub fn view(&self) -> Result<View, StoreError> {
        let db = self.connection()?;
        say(&db, READ).map_err(|source| StoreError::Read { path: self.path.clone(), source })?;
        Ok(View { db, path: self.path.clone() })
    }

    /// Ends a view; its connection is there for others.
    pub fn close(&self, view: View) {
        if say(&view.db, KEEP).is_ok() {
            self.keep(view.db);
        }
    }
}

/// Environments that were read, by their number.
#[derive(Default)]
pub struct Envs(BTreeMap<i64, Env>);

impl Reader<'_> {
    /// The number of the newest job; none where there is no job.
    pub fn last_number(&self) -> Result<Option<i64>, StoreError> {
        self.db
            .prepare_cached("SELECT max(n) FROM jobs")
            .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
            .map_err(|source| self.fail(source))
    }

    /// Where a stretch ends that begins after one number and does not go beyond another; none where nothing is left.
    pub fn stretch_end(&self, after: i64, last: i64) -> Result<Option<i64>, StoreError> {
        self.db
            .prepare_cached("SELECT max(n) FROM (SELECT n FROM jobs WHERE n > ?1 AND n <= ?2 ORDER BY n LIMIT ?3)")
            .and_then(|mut statement| statement.query_row([after, last, STRETCH], |row| row.get(0)))
            .map_err(|source| self.fail(source))
    }

    /// The jobs of a stretch that a filter lets through, with their runs. A filter without states lets all through.
    pub fn stretch(&self, after: i64, end: i64, filter: &Filter) -> Result<Vec<(JobRow, Vec<RunRow>)>, StoreError> {
        let words: Vec<String> = filter.states.iter().map(|state| format!("'{}'", state.word())).collect();
        let states = match words.as_slice() {
            [] => String::new(),
            words => format!("AND state IN ({})", words.join(", ")),
        };
        let sql = format!(
            "{JOB} WHERE jobs.n > ?1 AND jobs.n <= ?2 {states} AND coalesce(jobs.ended_at, submitted_at) >= ?3 {}
             ORDER BY jobs.n",
            filter.narrow.sql()
        );
        let since = filter.since.map_or(i64::MIN, |time| time.0);
        self.db
            .prepare_cached(&sql)
            .and_then(|mut statement| {
                let jobs: Vec<JobRow> =
                    statement.query_map([after, end, since], |row| self.job_row(row))?.collect::<Result<_, _>>()?;
                self.with_runs(jobs, after, end)
            })
            .map_err(|source| self.fail(source))
    }

    /// Both are in the order of their numbers: each run goes to the job that comes next.
    fn with_runs(&self, jobs: Vec<JobRow>, after: i64, end: i64) -> rusqlite::Result<Vec<(JobRow, Vec<RunRow>)>> {
        let mut found: Vec<(JobRow, Vec<RunRow>)> = jobs.into_iter().map(|job| (job, vec![])).collect();
        if found.is_empty() {
            return Ok(found);
        }
        let mut statement = self.db.prepare_cached(
            "SELECT number, machine, gpus, pid, planned_at, started_at, ended_at, outcome, dir, milli, vram_mib,
                    peak_mib, n
             FROM runs WHERE n > ?1 AND n <= ?2 ORDER BY n, number",
        )?;
        let mut rows = statement.query([after, end])?;
        let mut place = 0;
        while let Some(row) = rows.next()? {
            let n: i64 = row.get(12)?;
            while found.get(place).is_some_and(|(job, _)| job.n < n) {
                place += 1;
            }
            match found.get_mut(place) {
                Some((job, runs)) if job.n == n => runs.push(run_row(row)?),
                // Of a job that was not let through.
                Some(_) => {}
                None => break,
            }
        }
        Ok(found)
    }

    /// Variables that were given for a job itself, without secrets.
    pub fn given_env(&self, job: &JobRow, known: &mut Envs) -> Result<Env, StoreError> {
        let names: Vec<&String> = job.spec.env_given.iter().filter(|name| !job.secret_names.contains(name)).collect();
        if names.is_empty() {
            return Ok(Env::new());
        }
        let number: i64 = self
            .db
            .prepare_cached("SELECT env FROM jobs WHERE n = ?1")
            .and_then(|mut statement| statement.query_row([job.n], |row| row.get(0)))
            .map_err(|source| self.fail(source))?;
        if !known.0.contains_key(&number) {
            if known.0.len() >= KNOWN_ENVS {
                known.0.clear();
            }
            known.0.insert(number, self.stored_env(number)?);
        }
        let env = &known.0[&number];
        Ok(names.into_iter().filter_map(|name| Some((name.clone(), env.get(name)?.clone()))).collect())
    }

    fn stored_env(&self, number: i64) -> Result<Env, StoreError> {
        let text: Option<String> = self
            .db
            .prepare_cached("SELECT data FROM envs WHERE n = ?1")
            .and_then(|mut statement| statement.query_row([number], |row| row.get(0)).optional())
            .map_err(|source| self.fail(source))?;
        let decode = |source| StoreError::Decode { path: self.path.to_path_buf(), source };
        text.map_or(Ok(Env::new()), |text| serde_json::from_str(&text).map_err(decode))
    }
}
