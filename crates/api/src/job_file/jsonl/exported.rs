//! A job as it was exported: what waits is queued again, what ran or ended is told apart.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use super::object::Object;
use super::{Meant, OTHER_KEYS, entry, id, option, value_text, variables};
use crate::command::Command;
use crate::env::is_reserved;
use crate::job_file::line::Text;
use crate::job_file::{Past, checks};
use crate::jobs::{JobRequest, JobSpec, State};
use crate::queue_text::{HOLD, SET, told};
use crate::results::Extract;

/// Keys that say nothing of a new job: what became of the old one, and what the service alone says.
const PASSED_OVER: &[&str] = &[
    "attempt",
    "by_rule",
    "checkpoint_dir",
    "checkpoint_of",
    "class",
    "detail",
    "ended_at",
    "env_names",
    "exit_code",
    "extract",
    "failed_by",
    "gpus",
    "links",
    "log_dir",
    "machine",
    "one_terminal",
    "params",
    "pid",
    "position",
    "reason",
    "replaced_by",
    "request",
    "rerun_of",
    "results",
    "results_named",
    "extracted",
    "results_error",
    "results_state",
    "runs",
    "runtime_seconds",
    "secret_names",
    "session",
    "signal",
    "simulated",
    "started_at",
    "state",
    "stderr_path",
    "stdout_path",
    "submitted_at",
    "sweep",
    "tty",
    "slurm",
    "waiting",
];

/// What a request says, by the names of the options.
const OF_REQUEST: [&str; 12] =
    ["vram", "cpus", "ram", "on", "gpu-model", "class", "machine", "driver", "time", "signal", "grace", "force"];

/// A word where a key is not known; each is told once.
pub fn meant(
    object: &Object,
    state: &Value,
    text: &Text,
    ignored: &mut BTreeSet<String>,
) -> Result<(Meant, Option<String>), String> {
    let state = State::deserialize(state).map_err(|_| {
        let words: Vec<&str> = State::ALL.iter().map(|state| state.word()).collect();
        format!("state: {} is none of {}", checks::head(&state.to_string()), words.join(", "))
    })?;
    let id = id(object)?.ok_or("a job with a state was exported, and has an id")?;
    if !matches!(state, State::Held | State::Queued) {
        let (ended, completed) = (state.has_ended(), state == State::Completed);
        let past = Past { line: text.number, id, ended, completed, written: text.written.clone() };
        return Ok((Meant::Past(past), None));
    }
    let mut options = of_request(object.get("request"))?;
    let mut unknown = Vec::new();
    let others = |key: &str| !OTHER_KEYS.contains(&key) && !PASSED_OVER.contains(&key);
    for (key, value) in object.iter().filter(|(key, _)| others(key)) {
        match option(key) {
            Some(name) => {
                let value = value_text(name, value)?.filter(|value| !value.is_empty());
                options.extend(value.map(|value| (name.to_string(), value)));
            }
            None => unknown.extend(ignored.insert(key.clone()).then(|| checks::head(key))),
        }
    }
    if state == State::Held {
        options.insert(HOLD.into(), SET.into());
    }
    let mut env = variables(object.get("env"))?;
    // The submitter's own had them; no job is given them from there.
    env.retain(|name, _| !is_reserved(name));
    if object.get("tty") == Some(&Value::Bool(false)) {
        options.insert("no-tty".into(), SET.into());
    }
    if object.get("session").and_then(Value::as_str) == Some("screen") {
        options.insert("screen".into(), SET.into());
    }
    // It was to go into a folder of its own there.
    let copied_to = object.get("results").and_then(Value::as_str).and_then(|path| path.rsplit_once('/'));
    options.extend(copied_to.map(|(folder, _)| ("results".to_string(), folder.to_string())));
    let extract = object.get("extract").cloned().map(Vec::<Extract>::deserialize).transpose();
    let extract = extract.map_err(|error| format!("extract: {error}"))?.unwrap_or_default();
    options.extend(Extract::list_text(&extract).map(|text| ("extract".to_string(), text)));
    let entry = entry(object, text, options, env)?;
    Ok((Meant::Job(entry), doubt(&unknown, object.get("secret_names"))))
}

/// What a job lacks that it had.
fn doubt(unknown: &[String], secrets: Option<&Value>) -> Option<String> {
    let names = secrets.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let names: Vec<String> = names.iter().filter_map(Value::as_str).map(checks::head).collect();
    let secret = (!names.is_empty())
        .then(|| format!("{} is not in an export: the value of whoever imports is taken", names.join(", ")));
    let unknown = (!unknown.is_empty())
        .then(|| format!("it is taken without what this nexus does not know: {}", unknown.join(", ")));
    let words: Vec<String> = secret.into_iter().chain(unknown).collect();
    (!words.is_empty()).then(|| words.join("; "))
}

fn of_request(request: Option<&Value>) -> Result<BTreeMap<String, String>, String> {
    let request = match request {
        None | Some(Value::Null) => JobRequest::default(),
        Some(request) => JobRequest::deserialize(request).map_err(|error| format!("request: {error}"))?,
    };
    let mut options = BTreeMap::new();
    // One GPU is said too: a rule of this machine must not make it another amount.
    options.extend(request.gpus.map(|gpus| ("gpus".to_string(), gpus.to_string())));
    let spec = JobSpec { request, ..JobSpec::new(Command::Argv(vec![]), String::new()) };
    let said = OF_REQUEST.into_iter().filter_map(|name| Some((name.to_string(), told(&spec, name)?)));
    options.extend(said);
    Ok(options)
}
