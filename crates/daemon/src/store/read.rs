//! What clients read: rows of jobs and runs, found by index.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use nexus_api::env::Env;
use nexus_api::jobs::{JobSpec, RunOutcome, State};
use nexus_core::ids::RunId;
use nexus_core::time::Time;
use rusqlite::{Connection, OptionalExtension, Params, Row, params};

use super::StoreError;
use super::left::Left;
use super::narrow::Narrow;
use super::restore::gpu_set;
use super::spec::{Specs, StoredSpec};

/// Nobody reads a queue position beyond this; counting stops here.
const LAST_POSITION: u64 = 10_000;

/// So many jobs behind one are counted at once.
const FEW_BEHIND: u64 = 100;

/// How long the queue was at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Length {
    pub pending: u64,
    /// Jobs that came later have it, or a larger one.
    pub next_turn: i64,
}

/// One consistent view of the database.
pub struct Reader<'a> {
    pub(super) db: &'a Connection,
    pub(super) path: &'a Path,
    specs: RefCell<Specs>,
}

/// A job with its newest run.
#[derive(Clone)]
pub struct JobRow {
    pub n: i64,
    pub id: String,
    pub state: State,
    pub reason: Option<String>,
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    pub command: String,
    pub spec: JobSpec,
    pub secret_names: Vec<String>,
    pub attempt: u32,
    pub tags: Vec<String>,
    pub submitted_at: Time,
    pub started_at: Option<Time>,
    pub ended_at: Option<Time>,
    pub machine: Option<String>,
    pub gpus: Vec<u16>,
    pub simulated: bool,
    pub pid: Option<u32>,
    pub outcome: Option<RunOutcome>,
    pub place: (i64, i64),
    /// Directory of the newest run.
    pub dir: Option<PathBuf>,
    /// The job that it was to come after, and that did not complete.
    pub failed_by: Option<String>,
    /// The job of the same sweep that repeats it.
    pub replaced_by: Option<String>,
    /// When the newest run ended.
    pub run_ended_at: Option<Time>,
    pub left: Left,
}

impl JobRow {
    /// Whether its newest run is another machine's.
    pub fn is_away(&self) -> bool {
        self.machine.as_deref().is_some_and(|machine| machine != "local")
    }

    /// One that has never run.
    pub fn planned(id: String, spec: JobSpec, submitted_at: Time) -> JobRow {
        JobRow {
            n: 0,
            id,
            state: if spec.hold { State::Held } else { State::Queued },
            reason: None,
            exit_code: None,
            signal: None,
            command: spec.command.text(),
            tags: spec.tags.clone(),
            spec,
            secret_names: vec![],
            attempt: 0,
            submitted_at,
            started_at: None,
            ended_at: None,
            machine: None,
            gpus: vec![],
            simulated: false,
            pid: None,
            outcome: None,
            place: (0, 0),
            dir: None,
            failed_by: None,
            replaced_by: None,
            run_ended_at: None,
            left: Left::default(),
        }
    }

    /// Whether it was taken over as history: then little is known of its environment.
    pub fn is_past(&self) -> bool {
        self.n < 0
    }

    /// The job by which the folder of its checkpoints is named: itself, or the one that it goes on from.
    pub fn checkpoints_of(&self) -> &str {
        self.spec.checkpoint_of.as_deref().unwrap_or(&self.id)
    }
}

/// Where a run is, or was.
pub struct RunSite {
    pub run: RunId,
    pub machine: String,
    /// All that it printed is on this machine.
    pub is_here: bool,
    /// Where that is, or is brought to.
    pub dir: PathBuf,
}

pub struct RunRow {
    pub number: u32,
    pub machine: String,
    pub gpus: Vec<u16>,
    pub pid: Option<u32>,
    pub planned_at: Time,
    pub started_at: Option<Time>,
    pub ended_at: Option<Time>,
    pub outcome: Option<RunOutcome>,
    pub dir: PathBuf,
    /// What it held of each GPU, where it shared them.
    pub milli: Option<u16>,
    pub vram_mib: Option<u64>,
    pub peak_mib: Option<u64>,
}

/// When a job ended, and its number: no two have the same.
pub type EndedAt = (i64, i64);

/// Which jobs a listing wants.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Empty = everything alive.
    pub states: Vec<State>,
    pub since: Option<Time>,
    /// The newest this many.
    pub limit: Option<u64>,
    pub narrow: Narrow,
}

pub(super) const JOB: &str = "SELECT jobs.n, id, state, reason, exit_code, signal, command, spec, jobs.runs,
        (SELECT group_concat(tag, char(10)) FROM tags WHERE tags.n = jobs.n),
        submitted_at, jobs.started_at, jobs.ended_at,
        runs.machine, runs.gpus, runs.simulated, runs.pid, runs.outcome, place_priority, turn, runs.dir,
        failed_by, shared, replaced_by, runs.ended_at, found, results, results_state, results_error
    FROM jobs LEFT JOIN runs ON runs.n = jobs.n AND runs.number = jobs.runs";

impl<'a> Reader<'a> {
    pub(super) fn new(db: &'a Connection, path: &'a Path) -> Reader<'a> {
        Reader { db, path, specs: RefCell::default() }
    }

    pub fn job(&self, id: &str) -> Result<Option<JobRow>, StoreError> {
        Ok(self.jobs(&format!("{JOB} WHERE id = ?1"), [id])?.pop())
    }

    /// The newest `count` jobs, oldest first.
    pub fn newest(&self, count: u64) -> Result<Vec<JobRow>, StoreError> {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let mut rows = self.jobs(&format!("{JOB} ORDER BY jobs.n DESC LIMIT ?1"), [count])?;
        rows.reverse();
        Ok(rows)
    }

    pub fn tagged(&self, tag: &str) -> Result<Vec<JobRow>, StoreError> {
        self.jobs(&format!("{JOB} WHERE jobs.n IN (SELECT n FROM tags WHERE tag = ?1) ORDER BY jobs.n"), [tag])
    }

    pub fn named(&self, name: &str) -> Result<Vec<JobRow>, StoreError> {
        self.jobs(&format!("{JOB} WHERE name = ?1 ORDER BY jobs.n"), [name])
    }

    pub fn of_project(&self, project: &str) -> Result<Vec<JobRow>, StoreError> {
        self.jobs(&format!("{JOB} WHERE project = ?1 ORDER BY jobs.n"), [project])
    }

    /// Jobs whose command matches.
    pub fn matching(&self, regex: &regex::Regex) -> Result<Vec<JobRow>, StoreError> {
        let ids: Vec<String> = self
            .db
            .prepare_cached("SELECT id, command FROM jobs ORDER BY n")
            .and_then(|mut statement| {
                let mut ids = Vec::new();
                let mut rows = statement.query([])?;
                while let Some(row) = rows.next()? {
                    if regex.is_match(row.get_ref(1)?.as_str()?) {
                        ids.push(row.get(0)?);
                    }
                }
                Ok(ids)
            })
            .map_err(|source| self.fail(source))?;
        let mut found = Vec::with_capacity(ids.len());
        for id in ids {
            found.extend(self.job(&id)?);
        }
        Ok(found)
    }

    /// Live jobs first those that run, then the queue in its order; ended ones by their end, newest last.
    pub fn list(&self, filter: &Filter) -> Result<Vec<JobRow>, StoreError> {
        let wanted = |state: &State| filter.states.is_empty() && !state.has_ended() || filter.states.contains(state);
        let since = filter.since.map_or(i64::MIN, |time| time.0);
        let mut ended = Vec::new();
        for state in State::ALL.iter().filter(|state| state.has_ended() && wanted(state)) {
            ended.push(*state);
        }
        let mut rows = self.list_ended(&ended, since, filter)?;
        if [State::Starting, State::Running, State::Copying].iter().any(wanted) {
            let active = self.active()?.into_iter().chain(self.copying()?);
            rows.extend(
                active.filter(|row| wanted(&row.state) && row.submitted_at.0 >= since && filter.narrow.fits(row)),
            );
        }
        if [State::Held, State::Queued].iter().any(wanted) {
            let waiting = self.jobs(
                &format!(
                    "{JOB} WHERE jobs.ended_at IS NULL AND state IN ('queued', 'held') AND submitted_at >= ?1 {}
                     ORDER BY place_priority, turn",
                    filter.narrow.sql()
                ),
                [since],
            )?;
            rows.extend(waiting.into_iter().filter(|row| wanted(&row.state)));
        }
        if let Some(limit) = filter.limit {
            let surplus = rows.len().saturating_sub(usize::try_from(limit).unwrap_or(usize::MAX));
            rows.drain(..surplus);
        }
        Ok(rows)
    }

    /// The queue in its order, held jobs among it.
    pub fn waiting(&self) -> Result<Vec<JobRow>, StoreError> {
        self.jobs(
            &format!("{JOB} WHERE jobs.ended_at IS NULL AND state IN ('queued', 'held') ORDER BY place_priority, turn"),
            [],
        )
    }

    /// Whether more than so many jobs wait.
    pub fn is_queue_over(&self, count: usize) -> Result<bool, StoreError> {
        self.db
            .prepare_cached(
                "SELECT 1 FROM jobs WHERE ended_at IS NULL AND state IN ('queued', 'held')
                 ORDER BY place_priority, turn LIMIT 1 OFFSET ?1",
            )
            .and_then(|mut statement| statement.exists([i64::try_from(count).unwrap_or(i64::MAX)]))
            .map_err(|source| self.fail(source))
    }

    /// Jobs that hold a lease, by an index of their own: the queue beside them may be long.
    pub fn active(&self) -> Result<Vec<JobRow>, StoreError> {
        self.jobs(
            &format!(
                "{JOB} WHERE jobs.ended_at IS NULL AND state IN ('starting', 'running') ORDER BY place_priority, turn"
            ),
            [],
        )
    }

    fn list_ended(&self, states: &[State], since: i64, filter: &Filter) -> Result<Vec<JobRow>, StoreError> {
        let narrow = filter.narrow.sql();
        let limit = filter.limit.map_or(-1, |limit| i64::try_from(limit).unwrap_or(i64::MAX));
        let newest_first = "ORDER BY jobs.ended_at DESC, jobs.n DESC LIMIT ?2";
        let mut rows = match states {
            [] => return Ok(vec![]),
            // All of them: one walk along the index of ends.
            [_, _, _] => self.jobs(
                &format!("{JOB} WHERE jobs.ended_at IS NOT NULL AND jobs.ended_at >= ?1 {narrow} {newest_first}"),
                [since, limit],
            )?,
            some => {
                let mut rows = Vec::new();
                for state in some {
                    rows.extend(self.jobs(
                        &format!(
                            "{JOB} WHERE state = ?3 AND jobs.ended_at IS NOT NULL AND jobs.ended_at >= ?1 {narrow}
                             {newest_first}"
                        ),
                        params![since, limit, state.word()],
                    )?);
                }
                rows.sort_by_key(|row| std::cmp::Reverse((row.ended_at, row.n)));
                rows
            }
        };
        rows.reverse();
        Ok(rows)
    }

    /// Failed here since `since`, newest first. What was taken over is no news.
    pub fn failures(&self, since: Time, limit: u64) -> Result<Vec<JobRow>, StoreError> {
        // The plus keeps the walk on the index of ends, and the first job submitted here, give or take a day by a clock that
        // was wrong, keeps it from going through a long history of elsewhere.
        let sql = format!(
            "{JOB} WHERE state = 'failed' AND jobs.ended_at IS NOT NULL AND +jobs.n > 0
             AND jobs.ended_at > max(?1, coalesce((SELECT submitted_at - 86400000 FROM jobs AS own WHERE own.n > 0
                                                   ORDER BY own.n LIMIT 1), {}))
             ORDER BY jobs.ended_at DESC, jobs.n DESC LIMIT ?2",
            i64::MAX
        );
        self.jobs(&sql, [since.0, i64::try_from(limit).unwrap_or(i64::MAX)])
    }

    /// Place in the queue, from 1; none beyond a reader's patience. Counted from the end that is nearer: a job that was just
    /// added is mostly the last.
    pub fn position(&self, row: &JobRow, queue: Length) -> Result<Option<u64>, StoreError> {
        // Jobs that came after the queue was measured are not in its length.
        let behind = self.counted(">", row, queue.next_turn, FEW_BEHIND)?;
        if behind < FEW_BEHIND {
            return Ok(Some(queue.pending.saturating_sub(behind).max(1)));
        }
        let before = self.counted("<", row, i64::MAX, LAST_POSITION)?;
        Ok((before < LAST_POSITION).then_some(before + 1))
    }

    /// Waiting jobs before a job or behind it, up to a limit.
    fn counted(&self, side: &str, row: &JobRow, next_turn: i64, limit: u64) -> Result<u64, StoreError> {
        let sql = format!(
            "SELECT count(*) FROM (SELECT 1 FROM jobs WHERE ended_at IS NULL AND state IN ('queued', 'held')
             AND (place_priority, turn) {side} (?1, ?2) AND turn < ?3 LIMIT ?4)"
        );
        self.db
            .prepare_cached(&sql)
            .and_then(|mut statement| {
                statement
                    .query_row(params![row.place.0, row.place.1, next_turn, limit as i64], |row| row.get::<_, i64>(0))
            })
            .map(i64::unsigned_abs)
            .map_err(|source| self.fail(source))
    }

    pub fn runs(&self, n: i64) -> Result<Vec<RunRow>, StoreError> {
        self.db
            .prepare_cached(
                "SELECT number, machine, gpus, pid, planned_at, started_at, ended_at, outcome, dir, milli,
                        vram_mib, peak_mib
                 FROM runs WHERE n = ?1 ORDER BY number",
            )
            .and_then(|mut statement| statement.query_map([n], run_row)?.collect())
            .map_err(|source| self.fail(source))
    }

    /// Where a run is, or was; none where there is no such run.
    pub fn run_site(&self, id: &str, number: u32) -> Result<Option<RunSite>, StoreError> {
        let site = |row: &Row| {
            let (machine, dir): (String, String) = (row.get(0)?, row.get(1)?);
            let is_here = machine == "local" || row.get(2)? || row.get(3)?;
            Ok((machine, PathBuf::from(dir), is_here))
        };
        let found = self
            .db
            .prepare_cached(
                "SELECT machine, dir, driver, tidied FROM runs
                 WHERE n = (SELECT n FROM jobs WHERE id = ?1) AND number = ?2",
            )
            .and_then(|mut statement| statement.query_row(params![id, number], site).optional())
            .map_err(|source| self.fail(source))?;
        let job = id.parse().ok();
        Ok(found.zip(job).map(|((machine, dir, is_here), job)| RunSite {
            run: RunId { job, number },
            machine,
            is_here,
            dir,
        }))
    }

    /// Jobs whose checkpoints other jobs go on from. Looks at every job there is.
    pub fn checkpoints_used(&self) -> Result<Vec<String>, StoreError> {
        self.in_specs("checkpoint_of", "$.checkpoint_of")
    }

    /// Contents of folders that jobs, ended ones too, were added with. Looks at every job there is.
    pub fn copies_used(&self) -> Result<Vec<String>, StoreError> {
        self.in_specs("code", "$.code.content")
    }

    /// What specs say at a place of their JSON, each once. Only those that have the field are read as JSON.
    fn in_specs(&self, field: &str, place: &str) -> Result<Vec<String>, StoreError> {
        self.db
            .prepare_cached(
                "SELECT DISTINCT json_extract(text, ?2) FROM
                     (SELECT spec AS text FROM jobs WHERE shared IS NULL UNION ALL SELECT data FROM specs)
                 WHERE instr(text, ?1) > 0 AND json_extract(text, ?2) IS NOT NULL",
            )
            .and_then(|mut found| found.query_map([&format!("\"{field}\""), place], |row| row.get(0))?.collect())
            .map_err(|source| self.fail(source))
    }

    /// Jobs that ended before a time, the first of them first, each with the place that the next ones lie behind.
    pub fn ended_before(
        &self,
        before: Time,
        behind: Option<EndedAt>,
        limit: u64,
    ) -> Result<Vec<(EndedAt, String)>, StoreError> {
        let (at, n) = behind.unwrap_or((i64::MIN, 0));
        self.db
            .prepare_cached(
                "SELECT ended_at, n, id FROM jobs
                 WHERE ended_at IS NOT NULL AND ended_at < ?1 AND (ended_at, n) > (?2, ?3)
                 ORDER BY ended_at, n LIMIT ?4",
            )
            .and_then(|mut statement| {
                let found = |row: &Row| Ok(((row.get(0)?, row.get(1)?), row.get(2)?));
                statement.query_map(params![before.0, at, n, limit as i64], found)?.collect()
            })
            .map_err(|source| self.fail(source))
    }

    /// A job that has not ended and keeps its checkpoints in the folder named by this job.
    pub fn live_on_checkpoints(&self, of: &str) -> Result<Option<(String, State)>, StoreError> {
        self.db
            .prepare_cached(
                "SELECT id, state FROM
                     (SELECT id, state, coalesce(data, spec) AS text
                      FROM jobs LEFT JOIN specs ON specs.n = shared WHERE ended_at IS NULL)
                 WHERE coalesce(CASE WHEN instr(text, '\"checkpoint_of\"') > 0
                                     THEN json_extract(text, '$.checkpoint_of') END, id) = ?1 LIMIT 1",
            )
            .and_then(|mut found| found.query_row([of], |row| Ok((row.get(0)?, state(row, 1)?))).optional())
            .map_err(|source| self.fail(source))
    }

    /// The environment of a job: what is stored for good, and the secrets while it lives.
    pub fn env(&self, id: &str) -> Result<Env, StoreError> {
        let texts: Option<(String, Option<String>)> = self
            .db
            .prepare_cached(
                "SELECT (SELECT data FROM envs WHERE n = jobs.env), (SELECT data FROM secrets WHERE n = jobs.secrets)
                 FROM jobs WHERE id = ?1",
            )
            .and_then(|mut statement| statement.query_row([id], |row| Ok((row.get(0)?, row.get(1)?))).optional())
            .map_err(|source| self.fail(source))?;
        let mut env = Env::new();
        let (plain, secret) = texts.unwrap_or_default();
        for text in [Some(plain).filter(|text| !text.is_empty()), secret].into_iter().flatten() {
            let part: Env = serde_json::from_str(&text)
                .map_err(|source| StoreError::Decode { path: self.path.to_path_buf(), source })?;
            env.extend(part);
        }
        Ok(env)
    }

    /// How many jobs ended as completed, failed, killed.
    pub fn totals(&self) -> Result<(u64, u64, u64), StoreError> {
        let of = |state: &str| {
            self.db
                .prepare_cached("SELECT count FROM totals WHERE state = ?1")
                .and_then(|mut statement| statement.query_row([state], |row| row.get::<_, i64>(0)))
                .map(i64::unsigned_abs)
                .map_err(|source| self.fail(source))
        };
        Ok((of("completed")?, of("failed")?, of("killed")?))
    }

    pub fn meta(&self, key: &str) -> Result<Option<String>, StoreError> {
        self.db
            .prepare_cached("SELECT value FROM meta WHERE key = ?1")
            .and_then(|mut statement| statement.query_row([key], |row| row.get(0)).optional())
            .map_err(|source| self.fail(source))
    }

    pub(super) fn jobs(&self, sql: &str, parameters: impl Params) -> Result<Vec<JobRow>, StoreError> {
        self.db
            .prepare_cached(sql)
            .and_then(|mut statement| statement.query_map(parameters, |row| self.job_row(row))?.collect())
            .map_err(|source| self.fail(source))
    }

    pub(super) fn job_row(&self, row: &Row) -> rusqlite::Result<JobRow> {
        let stored: StoredSpec = self.specs.borrow_mut().of_row(self.db, row, 7, 22)?;
        let gpus: Option<String> = row.get(14)?;
        let tags: Option<String> = row.get(9)?;
        let outcome: Option<String> = row.get(17)?;
        Ok(JobRow {
            n: row.get(0)?,
            id: row.get(1)?,
            state: state(row, 2)?,
            reason: row.get(3)?,
            exit_code: row.get(4)?,
            signal: row.get(5)?,
            command: row.get(6)?,
            spec: stored.spec,
            secret_names: stored.secret_names,
            attempt: row.get(8)?,
            tags: tags.map(|text| text.split('\n').map(String::from).collect()).unwrap_or_default(),
            submitted_at: Time(row.get(10)?),
            started_at: row.get::<_, Option<i64>>(11)?.map(Time),
            ended_at: row.get::<_, Option<i64>>(12)?.map(Time),
            machine: row.get(13)?,
            gpus: indices(gpus.as_deref().unwrap_or_default()),
            simulated: row.get::<_, Option<bool>>(15)?.unwrap_or(false),
            pid: row.get(16)?,
            outcome: outcome.and_then(|text| serde_json::from_str(&text).ok()),
            place: (row.get(18)?, row.get(19)?),
            dir: row.get::<_, Option<String>>(20)?.map(PathBuf::from),
            failed_by: row.get(21)?,
            replaced_by: row.get(23)?,
            run_ended_at: row.get::<_, Option<i64>>(24)?.map(Time),
            left: Left::of(row, 25)?,
        })
    }

    pub(super) fn fail(&self, source: rusqlite::Error) -> StoreError {
        StoreError::Read { path: self.path.to_path_buf(), source }
    }
}

pub(super) fn run_row(row: &Row) -> rusqlite::Result<RunRow> {
    let outcome: Option<String> = row.get(7)?;
    Ok(RunRow {
        number: row.get(0)?,
        machine: row.get(1)?,
        gpus: indices(row.get_ref(2)?.as_str()?),
        pid: row.get(3)?,
        planned_at: Time(row.get(4)?),
        started_at: row.get::<_, Option<i64>>(5)?.map(Time),
        ended_at: row.get::<_, Option<i64>>(6)?.map(Time),
        outcome: outcome.and_then(|text| serde_json::from_str(&text).ok()),
        dir: PathBuf::from(row.get::<_, String>(8)?),
        milli: row.get(9)?,
        vram_mib: row.get::<_, Option<u32>>(10)?.map(u64::from),
        peak_mib: row.get::<_, Option<u32>>(11)?.map(u64::from),
    })
}

fn indices(text: &str) -> Vec<u16> {
    gpu_set(text).map(|set| set.iter().collect()).unwrap_or_default()
}

fn state(row: &Row, column: usize) -> rusqlite::Result<State> {
    let word = row.get_ref(column)?.as_str()?;
    let known = State::ALL.into_iter().find(|state| state.word() == word);
    known.ok_or_else(|| rusqlite::Error::InvalidColumnType(column, word.to_string(), rusqlite::types::Type::Text))
}
