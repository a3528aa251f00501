//! A job as it was exported: what waits is queued again, what ran or ended is told apart.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Map, Value};

use super::object::Object;
use super::{Meant, OTHER_KEYS, entry, id, option, value_text, variables};
use crate::command::Command;
use crate::env::is_reserved;
use crate::export::params_text;
use crate::job_file::line::Text;
use crate::job_file::{Carried, Past, checks};
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
    "expected",
    "extract",
    "failed_by",
    "gpus",
    "links",
    "log_dir",
    "machine",
    "pid",
    "position",
    "reason",
    "replaced_by",
    "request",
    "rerun_of",
    "results",
    "results_named",
    "extracted",
    "results_copy",
    "results_error",
    "results_folder",
    "results_state",
    "results_to",
    "runs",
    "runtime_seconds",
    "signal",
    "simulated",
    "started_at",
    "state",
    "stderr_path",
    "stdout_path",
    "submitted_at",
    "sweep",
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
    let elsewhere = |key: &str| OTHER_KEYS.contains(&key) || PASSED_OVER.contains(&key) || Carried::KEYS.contains(&key);
    for (key, value) in object.iter().filter(|(key, _)| !elsewhere(key)) {
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
    options.extend(results(object).map(|folder| ("results".to_string(), folder)));
    let extract = object.get("extract").cloned().map(Vec::<Extract>::deserialize).transpose();
    let extract = extract.map_err(|error| format!("extract: {error}"))?.unwrap_or_default();
    options.extend(Extract::list_text(&extract).map(|text| ("extract".to_string(), text)));
    let mut entry = entry(object, text, options, env)?;
    entry.carried = carried(object)?;
    Ok((Meant::Job(entry), doubt(object, &unknown, ignored)))
}

/// None where it has none of these fields.
fn carried(object: &Object) -> Result<Option<Box<Carried>>, String> {
    let said = |key: &&str| Some((key.to_string(), object.get(*key).filter(|value| !value.is_null())?.clone()));
    let mut fields: Map<String, Value> = Carried::KEYS.iter().filter_map(said).collect();
    if let Some(params) = fields.get_mut("params").filter(|params| params.is_object()) {
        *params = serde_json::json!(params_text(params));
    }
    if fields.is_empty() {
        return Ok(None);
    }
    // Each by itself, so that an error names it.
    for (key, value) in &fields {
        let alone = Map::from_iter([(key.clone(), value.clone())]);
        Carried::deserialize(Value::Object(alone)).map_err(|error| format!("{key}: {error}"))?;
    }
    let carried = Carried::deserialize(Value::Object(fields)).map_err(|error| error.to_string())?;
    Ok((carried != Carried::default()).then(|| carried.into()))
}

/// The folder that was given. An export of an older nexus has the job's own folder in it alone.
fn results(object: &Object) -> Option<String> {
    let text = |key: &str| object.get(key).and_then(Value::as_str);
    let parent = |path: &str| path.rsplit_once('/').map(|(folder, _)| folder.to_string());
    text("results_to").map(String::from).or_else(|| text("results").and_then(parent))
}

/// What a job lacks that it had.
fn doubt(object: &Object, unknown: &[String], told: &mut BTreeSet<String>) -> Option<String> {
    let text = |key: &str| object.get(key).and_then(Value::as_str).map(checks::head);
    let mut words = Vec::new();
    if let (Some(id), Some(of)) = (text("id"), text("checkpoint_of")) {
        words.push(format!("{id} starts from the beginning, since the checkpoints of {of} are not in an export"));
    }
    // A sweep may have thousands of jobs.
    if let Some(sweep) = text("sweep").filter(|sweep| told.insert(format!("sweep {sweep}"))) {
        words.push(format!("jobs of the sweep {sweep} keep their parameters, and are queued without the sweep"));
    }
    let printed_by_show = object.contains_key("env_names") && !object.contains_key("format");
    if printed_by_show && told.insert("printed by show".into()) {
        words.push("nexus show leaves options and variables out; nexus export has all of them".into());
    }
    if !unknown.is_empty() {
        words.push(format!("it is taken without what this nexus does not know: {}", unknown.join(", ")));
    }
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
