//! What a run is launched from: the spec as stored, and its environment.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use nexus_api::env::Env;
use nexus_api::jobs::{JobSpec, RunOutcome};
use nexus_api::variables::Hidden;
use nexus_core::ids::{JobId, RunId};
use rusqlite::{OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Store, StoreError};

/// Environments kept at hand; most jobs of an hour share a few.
const CACHED_ENVS: usize = 64;

pub(super) type EnvCache = BTreeMap<String, Arc<Env>>;

/// Everything a start needs to know of a job.
pub struct Launch {
    pub spec: JobSpec,
    pub env: Arc<Env>,
    pub secrets: Env,
    pub dir: PathBuf,
    /// How the run before this one ended.
    pub last_failure: Option<String>,
    /// Its variables, with the values of now.
    pub hidden: Vec<Hidden>,
}

/// A spec as it lies in the database.
#[derive(Deserialize)]
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

/// An environment as text, behind its content hash.
pub(super) fn env_text(env: &Env) -> (String, String) {
    let text = serde_json::to_string(env).expect("an environment is plain data");
    let digest = Sha256::digest(text.as_bytes());
    let digit = |half: u8| char::from_digit(half.into(), 16).expect("half a byte is a digit");
    let hash = digest.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect();
    (hash, text)
}

/// What is stored of a job that is taken over: its spec, and its environment behind its hash.
pub fn past_texts(spec: &JobSpec, secret_names: Vec<String>, env: &Env) -> (String, (String, String)) {
    (stored_spec(spec, secret_names), env_text(env))
}

impl Store {
    /// None for a job that does not exist.
    pub fn launch(&mut self, run: RunId) -> Result<Option<Launch>, StoreError> {
        type Texts = (String, String, Option<String>, Option<String>, String);
        let row: Option<Texts> = self
            .db
            .prepare_cached(
                "SELECT spec, env, (SELECT data FROM secrets WHERE hash = jobs.secrets),
                        (SELECT outcome FROM runs WHERE runs.n = jobs.n AND number = ?2 - 1), runs.dir
                 FROM jobs JOIN runs ON runs.n = jobs.n AND runs.number = ?2 WHERE id = ?1",
            )
            .and_then(|mut statement| {
                let texts = |row: &Row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?));
                statement.query_row(params![run.job.as_str(), run.number], texts).optional()
            })
            .map_err(|source| self.read_error(source))?;
        let Some((spec, env_hash, secrets, last_outcome, dir)) = row else { return Ok(None) };
        let decode = |source| StoreError::Decode { path: self.path.clone(), source };
        let stored: StoredSpec = serde_json::from_str(&spec).map_err(decode)?;
        let secrets = match secrets {
            Some(text) => serde_json::from_str(&text).map_err(decode)?,
            None => Env::new(),
        };
        let last_failure = match last_outcome {
            Some(text) => Some(serde_json::from_str::<RunOutcome>(&text).map_err(decode)?.word),
            None => None,
        };
        let env = self.env(&env_hash)?;
        let hidden = match stored.spec.variables.is_empty() {
            true => vec![],
            false => self.values_of(run.job.as_str())?,
        };
        Ok(Some(Launch { spec: stored.spec, env, secrets, dir: dir.into(), last_failure, hidden }))
    }

    /// The command as shown.
    pub fn command(&self, job: JobId) -> Result<String, StoreError> {
        self.db
            .prepare_cached("SELECT command FROM jobs WHERE id = ?1")
            .and_then(|mut statement| statement.query_row([job.as_str()], |row| row.get(0)))
            .map_err(|source| self.read_error(source))
    }

    fn env(&mut self, hash: &str) -> Result<Arc<Env>, StoreError> {
        if let Some(env) = self.env_cache.get(hash) {
            return Ok(env.clone());
        }
        let text: String = self
            .db
            .prepare_cached("SELECT data FROM envs WHERE hash = ?1")
            .and_then(|mut statement| statement.query_row([hash], |row| row.get(0)))
            .map_err(|source| self.read_error(source))?;
        let env: Env =
            serde_json::from_str(&text).map_err(|source| StoreError::Decode { path: self.path.clone(), source })?;
        if self.env_cache.len() >= CACHED_ENVS {
            self.env_cache.clear();
        }
        let env = Arc::new(env);
        self.env_cache.insert(hash.to_string(), env.clone());
        Ok(env)
    }
}
