//! The spec as stored, and what a run is launched from: that and its environment.
//!
//! Jobs that come in thousands differ in their commands and hardly in anything else, so what they have in common is
//! stored once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nexus_api::command::Command;
use nexus_api::env::Env;
use nexus_api::jobs::{JobSpec, RunOutcome};
use nexus_api::run_dir::of_run;
use nexus_api::variables::Hidden;
use nexus_core::ids::{JobId, RunId};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, ToSql, params};
use serde::{Deserialize, Serialize};

use super::{Store, StoreError};
use crate::digest;

/// Environments kept at hand; most jobs of an hour share a few.
const CACHED_ENVS: usize = 64;

/// So it is with what their specs have in common.
const CACHED_SPECS: usize = 256;

pub(super) type EnvCache = BTreeMap<i64, Arc<Env>>;

/// Everything a start needs to know of a job.
pub struct Launch {
    pub spec: JobSpec,
    pub env: Arc<Env>,
    pub secrets: Env,
    pub dir: PathBuf,
    /// How the run before this one ended.
    pub last_failure: Option<String>,
    /// Runs before it that found a GPU locked by another service: no attempts of the job.
    pub locked_starts: u32,
    /// Its variables, with the values of now.
    pub hidden: Vec<Hidden>,
}

/// What is asked for again while a run goes on.
pub(super) struct Launched {
    pub run: RunId,
    pub dir: PathBuf,
    /// As shown.
    pub command: String,
}

/// A spec as it lies in the database, in one piece.
#[derive(Clone, Deserialize)]
pub(super) struct StoredSpec {
    #[serde(flatten)]
    pub spec: JobSpec,
    /// Names whose values are dropped when the job has ended.
    #[serde(default)]
    pub secret_names: Vec<String>,
}

pub(super) fn stored_spec(spec: &JobSpec, secret_names: Vec<String>) -> String {
    /// The same as [`StoredSpec`], for one that is only lent.
    #[derive(Serialize)]
    struct Lent<'a> {
        #[serde(flatten)]
        spec: &'a JobSpec,
        secret_names: Vec<String>,
    }
    serde_json::to_string(&Lent { spec, secret_names }).expect("a spec is plain data")
}

/// What is a job's own of its spec; the rest is stored once for all that have it in common.
#[derive(Serialize, Deserialize)]
struct Own {
    command: Command,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    out: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rerun_of: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    params: BTreeMap<String, String>,
}

/// The spec of a new job in the two parts that are stored: text where it is the job's own, and the rest once for all that
/// come together, so that a hundred thousand of them take little memory.
#[derive(Clone)]
pub struct NewSpec {
    /// What it has in common with others.
    pub common: Arc<JobSpec>,
    pub rerun_of: Option<String>,
    /// The command as shown, and behind it the text of what is its own: one piece of memory is made and freed for each.
    text: String,
    shown: usize,
}

impl NewSpec {
    /// `last`: the common part of one that comes with it, and is this one's too if it fits.
    pub fn of(spec: JobSpec, last: Option<&Arc<JobSpec>>) -> NewSpec {
        let JobSpec { command, out, rerun_of, params, .. } = &spec;
        let (text, shown) = Lent { command, out, rerun_of, params }.behind_the_command();
        let common = match last.filter(|last| have_in_common(last, &spec)) {
            Some(last) => last.clone(),
            None => Arc::new(common(&spec)),
        };
        NewSpec { common, rerun_of: spec.rerun_of, text, shown }
    }

    /// Of a job that has all but its command in common with others.
    pub fn like(common: Arc<JobSpec>, command: &Command) -> NewSpec {
        let own = Lent { command, out: &None, rerun_of: &None, params: &BTreeMap::new() };
        let (text, shown) = own.behind_the_command();
        NewSpec { common, rerun_of: None, text, shown }
    }

    /// Whether nothing was said of it but what was said of the other.
    pub fn is(&self, other: &NewSpec) -> bool {
        Arc::ptr_eq(&self.common, &other.common) && self.own() == other.own()
    }

    /// Put together again.
    pub fn whole(&self) -> JobSpec {
        let Own { command, out, rerun_of, params } = serde_json::from_str(self.own()).expect("it was written here");
        JobSpec { command, out, rerun_of, params, ..JobSpec::clone(&self.common) }
    }

    /// As shown.
    pub fn command(&self) -> &str {
        &self.text[..self.shown]
    }

    /// The text of what is its own.
    pub(super) fn own(&self) -> &str {
        &self.text[self.shown..]
    }
}

/// The same as [`Own`], for one that is only lent.
#[derive(Serialize)]
struct Lent<'a> {
    command: &'a Command,
    #[serde(skip_serializing_if = "Option::is_none")]
    out: &'a Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rerun_of: &'a Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    params: &'a BTreeMap<String, String>,
}

/// What is its own is written in a few more bytes than it is shown in.
const A_LITTLE: usize = 48;

/// Of quotes and a comma around each word.
const AROUND: usize = 3;

impl Lent<'_> {
    /// As text behind its command as shown, and where it begins.
    fn behind_the_command(&self) -> (String, usize) {
        let length = match self.command {
            Command::Shell(text) => text.len(),
            Command::Argv(words) => words.iter().map(|word| word.len() + AROUND).sum(),
        };
        let mut text = String::with_capacity(2 * length + A_LITTLE);
        self.command.write_text(&mut text);
        let shown = text.len();
        let mut bytes = text.into_bytes();
        serde_json::to_writer(&mut bytes, self).expect("a spec is plain data");
        (String::from_utf8(bytes).expect("JSON is text"), shown)
    }
}

/// What it has in common with others.
fn common(spec: &JobSpec) -> JobSpec {
    JobSpec { command: Command::Argv(vec![]), out: None, rerun_of: None, params: BTreeMap::new(), ..spec.clone() }
}

/// Whether two specs are the same but for what is a job's own.
pub(super) fn have_in_common(one: &JobSpec, other: &JobSpec) -> bool {
    // Named one by one, so that a new field cannot be left out.
    #[rustfmt::skip]
    let JobSpec {
        command: _, out: _, rerun_of: _, params: _,
        cwd, env, env_given, name, project, tags, request, priority, retries, retry_on, after, after_any, unique, hold,
        notify, tty, window, out_dir, checkpoint_of, by_rule, session, one_terminal, conda, venv, gpu_arg, results, extract, sweep,
        variables, export_env, code,
    } = one;
    *cwd == other.cwd
        && (env, env_given, name, project, tags)
            == (&other.env, &other.env_given, &other.name, &other.project, &other.tags)
        && (request, priority, retries) == (&other.request, &other.priority, &other.retries)
        && (retry_on, after, after_any) == (&other.retry_on, &other.after, &other.after_any)
        && (unique, hold, notify) == (&other.unique, &other.hold, &other.notify)
        && (tty, window) == (&other.tty, &other.window)
        && (out_dir, checkpoint_of, by_rule) == (&other.out_dir, &other.checkpoint_of, &other.by_rule)
        && (session, one_terminal, conda, venv) == (&other.session, &other.one_terminal, &other.conda, &other.venv)
        && (gpu_arg, results, extract) == (&other.gpu_arg, &other.results, &other.extract)
        && (sweep, variables, export_env, code) == (&other.sweep, &other.variables, &other.export_env, &other.code)
}

/// Specs that were read, by the number of what they share.
#[derive(Default)]
pub(super) struct Specs(BTreeMap<i64, StoredSpec>);

impl Specs {
    /// Puts a spec together: its text, and the number of what it shares.
    pub fn whole(&mut self, db: &Connection, text: &str, shared: Option<i64>) -> rusqlite::Result<StoredSpec> {
        let Some(shared) = shared else { return decoded(text) };
        if !self.0.contains_key(&shared) {
            let mut found = db.prepare_cached("SELECT data FROM specs WHERE n = ?1")?;
            let common = found.query_row([shared], |row| decoded(row.get_ref(0)?.as_str()?))?;
            if self.0.len() >= CACHED_SPECS {
                self.0.clear();
            }
            self.0.insert(shared, common);
        }
        let StoredSpec { spec, secret_names } = self.0[&shared].clone();
        let Own { command, out, rerun_of, params } = decoded(text)?;
        Ok(StoredSpec { spec: JobSpec { command, out, rerun_of, params, ..spec }, secret_names })
    }

    /// The same for the columns `spec` and `shared` of a row.
    pub fn of_row(&mut self, db: &Connection, row: &Row, spec: usize, shared: usize) -> rusqlite::Result<StoredSpec> {
        self.whole(db, row.get_ref(spec)?.as_str()?, row.get(shared)?)
    }
}

pub(super) fn decoded<T: serde::de::DeserializeOwned>(text: &str) -> rusqlite::Result<T> {
    serde_json::from_str(text)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(0, Type::Text, Box::new(error)))
}

/// The text of what specs have in common, behind a number made from it and from their environment's.
pub(super) fn common_text(spec: &JobSpec, secret_names: Vec<String>, env: i64) -> (i64, String) {
    let text = stored_spec(&common(spec), secret_names);
    (digest::of([&text, &env.to_string()]), text)
}

/// An environment as text, behind its content hash.
pub(super) fn env_text(env: &Env) -> (String, String) {
    let text = plain_env_text(env);
    (digest::hex(&text), text)
}

fn plain_env_text(env: &Env) -> String {
    serde_json::to_string(env).expect("an environment is plain data")
}

/// What is stored of a job that is taken over: its spec, and its environment.
pub fn past_texts(spec: &JobSpec, secret_names: Vec<String>, env: &Env) -> (String, String) {
    (stored_spec(spec, secret_names), plain_env_text(env))
}

/// The number of a text in one of the tables that hold each once.
pub(super) fn numbered(db: &Connection, table: &str, hash: &dyn ToSql, text: &str) -> rusqlite::Result<i64> {
    let known = format!("SELECT n FROM {table} WHERE hash = ?1");
    if let Some(number) = db.prepare_cached(&known)?.query_row([hash], |row| row.get(0)).optional()? {
        return Ok(number);
    }
    db.prepare_cached(&format!("INSERT INTO {table} (hash, data) VALUES (?1, ?2)"))?.execute(params![hash, text])?;
    Ok(db.last_insert_rowid())
}

impl Store {
    /// None for a job that does not exist. A run that is not stored yet will have its directory among the logs.
    pub fn launch(&mut self, run: RunId, logs: &Path) -> Result<Option<Launch>, StoreError> {
        let launch = match self.ahead.take_if(|(ahead, _)| *ahead == run) {
            Some((_, launch)) => Some(launch),
            None => self.read_launch(run, logs)?,
        };
        if let Some(Launch { spec, dir, .. }) = &launch {
            self.launched.insert(run.job, Launched { run, dir: dir.clone(), command: spec.command.text() });
        }
        Ok(launch)
    }

    /// Reads what a run that may come next would be launched from, while nobody waits for it.
    pub fn look_ahead(&mut self, run: RunId, logs: &Path) {
        if self.ahead.as_ref().is_none_or(|(ahead, _)| *ahead != run) {
            // What cannot be read now is said when the run is to start.
            self.ahead = self.read_launch(run, logs).ok().flatten().map(|launch| (run, launch));
        }
    }

    fn read_launch(&mut self, run: RunId, logs: &Path) -> Result<Option<Launch>, StoreError> {
        type Found = (StoredSpec, i64, Option<String>, Option<String>, u32, Option<String>);
        let specs = &mut self.specs;
        let row: Option<Found> = self
            .db
            .prepare_cached(
                "SELECT spec, shared, env, (SELECT data FROM secrets WHERE n = jobs.secrets),
                        (SELECT outcome FROM runs WHERE runs.n = jobs.n AND number < ?2
                             AND json_extract(outcome, '$.word') IS NOT 'gpu-locked' ORDER BY number DESC LIMIT 1),
                        (SELECT count(*) FROM runs WHERE runs.n = jobs.n AND number < ?2
                             AND json_extract(outcome, '$.word') = 'gpu-locked'), runs.dir
                 FROM jobs LEFT JOIN runs ON runs.n = jobs.n AND runs.number = ?2 WHERE id = ?1",
            )
            .and_then(|mut statement| {
                let found = |row: &Row| {
                    let spec = specs.of_row(&self.db, row, 0, 1)?;
                    Ok((spec, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?, row.get(6)?))
                };
                statement.query_row(params![run.job.as_str(), run.number], found).optional()
            })
            .map_err(|source| StoreError::Read { path: self.path.clone(), source })?;
        let Some((stored, env_number, secrets, last_outcome, locked_starts, dir)) = row else { return Ok(None) };
        let decode = |source| StoreError::Decode { path: self.path.clone(), source };
        let secrets = match secrets {
            Some(text) => serde_json::from_str(&text).map_err(decode)?,
            None => Env::new(),
        };
        let last_failure = match last_outcome {
            Some(text) => Some(serde_json::from_str::<RunOutcome>(&text).map_err(decode)?.word),
            None => None,
        };
        let env = self.env(env_number)?;
        let hidden = match stored.spec.variables.is_empty() {
            true => vec![],
            false => self.values_of(run.job.as_str())?,
        };
        let spec = stored.spec;
        let dir = dir.map_or_else(|| of_run(logs, run.job.as_str(), run.number), PathBuf::from);
        Ok(Some(Launch { spec, env, secrets, dir, last_failure, locked_starts, hidden }))
    }

    /// What was read for runs that may not be.
    pub fn forget_launched(&mut self) {
        self.launched.clear();
        self.ahead = None;
    }

    /// The command as shown.
    pub fn command(&self, job: JobId) -> Result<String, StoreError> {
        if let Some(launched) = self.launched.get(&job) {
            return Ok(launched.command.clone());
        }
        self.db
            .prepare_cached("SELECT command FROM jobs WHERE id = ?1")
            .and_then(|mut statement| statement.query_row([job.as_str()], |row| row.get(0)))
            .map_err(|source| self.read_error(source))
    }

    fn env(&mut self, number: i64) -> Result<Arc<Env>, StoreError> {
        if let Some(env) = self.env_cache.get(&number) {
            return Ok(env.clone());
        }
        let text: String = self
            .db
            .prepare_cached("SELECT data FROM envs WHERE n = ?1")
            .and_then(|mut statement| statement.query_row([number], |row| row.get(0)))
            .map_err(|source| self.read_error(source))?;
        let env: Env =
            serde_json::from_str(&text).map_err(|source| StoreError::Decode { path: self.path.clone(), source })?;
        if self.env_cache.len() >= CACHED_ENVS {
            self.env_cache.clear();
        }
        let env = Arc::new(env);
        self.env_cache.insert(number, env.clone());
        Ok(env)
    }
}

#[cfg(test)]
mod tests {
    use nexus_core::event::Event;
    use nexus_core::job::{End, KillReason};
    use nexus_core::time::Time;

    use super::super::{Batch, EditedRow};
    use super::*;

    #[test]
    fn the_parts_of_a_spec_make_the_whole_and_alike_ones_share_theirs() {
        let one = JobSpec {
            out: Some("/logs/\"1\".log".into()),
            params: [("lr".to_string(), "0.1".to_string())].into(),
            tags: vec!["t".into()],
            sweep: Some("s1".into()),
            ..JobSpec::new(Command::Shell("train --lr 0.1 'é\n'".into()), "/work".into())
        };
        let words = ["train", "a b"].map(String::from).to_vec();
        let repeats = JobSpec { command: Command::Argv(words), rerun_of: Some("abc".into()), ..one.clone() };
        let other = JobSpec { priority: 3, ..one.clone() };
        let parts = NewSpec::of(one.clone(), None);
        for (spec, shares) in [(one, true), (repeats, true), (other, false)] {
            let part = NewSpec::of(spec.clone(), Some(&parts.common));
            assert_eq!(part.whole(), spec);
            assert_eq!((part.command(), &part.rerun_of), (spec.command.text().as_str(), &spec.rerun_of));
            assert_eq!(Arc::ptr_eq(&part.common, &parts.common), shares, "{spec:?}");
        }
    }

    #[test]
    fn what_was_read_ahead_is_launched_unless_the_job_may_be_another_by_then() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open(&dir.path().join("nexus.db"), false).unwrap();
        let new = super::super::new_jobs::tests::batch(0..2);
        let [job, other] = [0, 1].map(|number| JobId::from_number(4, number));
        store.commit(&new).unwrap();
        let run = RunId { job, number: 1 };
        let mut launched = |change: &dyn Fn(&mut Store)| {
            store.look_ahead(run, dir.path());
            change(&mut store);
            store.launch(run, dir.path()).unwrap().unwrap().spec.command.text()
        };
        let behind_its_back = |store: &mut Store| {
            store.db.execute("UPDATE jobs SET spec = replace(spec, 'train', 'other')", []).unwrap();
        };
        assert_eq!(launched(&behind_its_back), "train 0", "it was read before");
        assert_eq!(launched(&|store| store.commit(&Batch::default()).unwrap()), "other 0");
        let spec = JobSpec::new(Command::Shell("edited".into()), "/".into());
        let row = || EditedRow { spec: spec.clone(), secret_names: vec![], env: None };
        let edit = |store: &mut Store| {
            let edited = [(job, row())].into();
            let events = vec![Event::Edited { job, needs: None }];
            store.commit(&Batch { events, edited, ..Batch::default() }).unwrap();
        };
        assert_eq!(launched(&edit), "edited");
        let orphan = |store: &mut Store| {
            behind_its_back(store);
            store.db.execute("UPDATE jobs SET spec = replace(spec, 'edited', 'orphaned')", []).unwrap();
            let events = vec![Event::Orphaned { job, parent: other }];
            store.commit(&Batch { events, ..Batch::default() }).unwrap();
        };
        assert_eq!(launched(&orphan), "orphaned");
        let end = |job| {
            let events = vec![Event::JobEnded { job, end: End::Killed(KillReason::Removed), at: Time(0) }];
            Batch { events, ..Batch::default() }
        };
        store.look_ahead(run, dir.path());
        store.commit(&end(other)).unwrap();
        assert!(store.ahead.is_some());
        store.commit(&end(job)).unwrap();
        assert!(store.ahead.is_none(), "with its secrets");
    }
}
