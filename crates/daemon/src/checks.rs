//! What a submission must satisfy before the engine sees it.

use std::path::Path;

use nexus_api::amount::GpuAmount;
use nexus_api::jobs::{Code, JobSpec};
use nexus_api::problem::Problem;
use nexus_api::queue_text::told;
use nexus_api::results::Extract;
use nexus_api::sweeps::is_sweep_name;
use nexus_api::values::{LONGEST_SECONDS, environment, option_name};
use nexus_core::ids::JobId;
use nexus_core::request::{MAX_GPUS, Model};
use rustix::fs::{Access, access};

use crate::store::{self, Reader};
use crate::workplace;

/// Names, projects and tags are shown in tables and stand in selectors.
const LONGEST_WORD: usize = 200;

/// What a pattern may take of memory, as in a shim.
const PATTERN_BYTES: usize = 1 << 20;

/// Checks a spec, and takes out what is said twice.
pub fn spec(spec: &mut JobSpec) -> Result<(), Problem> {
    spec.command.check().map_err(|bad| Problem::BadCommand { bad })?;
    match spec.request.runs_elsewhere() {
        false if spec.code.is_some() && Path::new(&spec.cwd).is_absolute() => {}
        false => folder(&spec.cwd)?,
        // It is there that the folder must be.
        true if workplace::is_whole(&spec.cwd) => {}
        true => {
            return Err(bad("cwd", &format!("{:?}", spec.cwd), "an absolute path, or one that begins with ~/".into()));
        }
    }
    results(spec)?;
    options(spec)
}

/// The same for a job that has ended, perhaps elsewhere: its folder need not be here.
pub fn past_spec(spec: &mut JobSpec) -> Result<(), Problem> {
    spec.command.check().map_err(|bad| Problem::BadCommand { bad })?;
    match workplace::is_whole(&spec.cwd) {
        true => options(spec),
        false => Err(bad("cwd", &format!("{:?}", spec.cwd), "an absolute path".into())),
    }
}

fn options(spec: &mut JobSpec) -> Result<(), Problem> {
    for (field, value) in [("name", &spec.name), ("project", &spec.project)] {
        if let Some(value) = value {
            word(field, value)?;
        }
    }
    for tag in &spec.tags {
        word("tag", tag)?;
    }
    for (field, value) in [("class", &spec.request.class), ("machine", &spec.request.machine)] {
        if let Some(value) = value {
            word(field, value)?;
        }
    }
    code(spec)?;
    if let Some(id) = spec.checkpoint_of.as_ref().filter(|id| id.parse::<JobId>().is_err()) {
        return Err(bad("checkpoint_of", id, "the id of a job".into()));
    }
    extracts(spec)?;
    environments(spec)?;
    output(spec)?;
    if let Some(option) = &spec.gpu_arg {
        option_name(option).map_err(|want| bad("gpu_arg", &format!("{option:?}"), want))?;
    }
    let by_rule = spec.by_rule.as_ref().map(|rule| format!(" by the rule {rule}")).unwrap_or_default();
    let request = &mut spec.request;
    let amount = *request.gpus.get_or_insert(GpuAmount::ONE);
    if amount.is_none() && request.cpus == Some(0) {
        return Err(bad("cpus", &0, "a job without a GPU takes at least 1 CPU".into()));
    }
    if amount.is_none() && request.vram.is_some() {
        return Err(bad("vram", &"memory of a GPU", "a job that asks for a GPU".into()));
    }
    if let Some(model) = request.gpu_model.as_ref().filter(|model| Model::new(model).is_none()) {
        return Err(bad("gpu-model", model, format!("1 to {} bytes of a GPU's name", Model::LONGEST)));
    }
    if !spec.retry_on.is_empty() && spec.retries == 0 {
        return Err(bad("retry-on", &"timeout", "retries too: how often it is tried again".into()));
    }
    for (field, seconds) in [("time", request.time_seconds), ("grace", request.grace_seconds)] {
        if seconds.is_some_and(|seconds| seconds > LONGEST_SECONDS) {
            return Err(bad(field, &"that long", "at most 100 years".into()));
        }
    }
    if let Some(before) = request.signal.filter(|before| !(1..=64).contains(&before.signal)) {
        return Err(bad("signal", &before.signal, "a number from 1 to 64".into()));
    }
    if let Some(on) = &mut request.on {
        on.sort_unstable();
        on.dedup();
        if let Some(index) = on.iter().find(|index| **index >= MAX_GPUS) {
            return Err(bad("on", index, format!("GPU numbers go up to {}", MAX_GPUS - 1)));
        }
        if on.len() < usize::from(amount.count()) {
            let want = format!("{amount} GPUs are asked for{by_rule}, and only {} allowed", on.len());
            return Err(bad("on", &join(on), want));
        }
    }
    for (name, value) in &spec.env {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            let want = "a name without = and no NUL bytes".into();
            return Err(bad("env", &format!("{name:?}"), want));
        }
    }
    params(spec)
}

/// Each becomes a variable of the job's environment.
fn params(spec: &JobSpec) -> Result<(), Problem> {
    let cannot_be = |(name, value): &(&String, &String)| name.contains(['=', '\0']) || value.contains('\0');
    match spec.params.iter().find(cannot_be) {
        Some((name, _)) => Err(bad("params", &format!("{name:?}"), "a name without = and no NUL bytes".into())),
        None => Ok(()),
    }
}

/// What it names is below our own folders.
fn code(spec: &JobSpec) -> Result<(), Problem> {
    let Some(code) = &spec.code else { return Ok(()) };
    if !Code::is_content(&code.content) {
        let want = "the name of a content, as nexus add --sync makes it".into();
        return Err(bad("code", &format!("{:?}", code.content), want));
    }
    match Path::new(&code.of).is_absolute() {
        true => Ok(()),
        false => Err(bad("code", &format!("{:?}", code.of), "an absolute path".into())),
    }
}

/// Jobs that a spec comes after must be there. One that its job came after before and that was forgotten since had ended
/// as it should: it is no parent any more, in neither spec.
pub fn parents(reader: &Reader, before: Option<&mut JobSpec>, after: &mut JobSpec) -> Result<(), Problem> {
    let exists = |id: &str| reader.job(id).map(|row| row.is_some()).map_err(|error| error.problem());
    if let Some(before) = before {
        let known: Vec<String> = store::parents(before).map(|(id, _)| id.to_string()).collect();
        for id in known {
            if !exists(&id)? {
                [&mut *before, &mut *after].into_iter().for_each(|spec| forget_parent(spec, &id));
            }
        }
    }
    for (id, _) in store::parents(after) {
        if !exists(id)? {
            return Err(Problem::NoSuchJob { id: id.to_string() });
        }
    }
    Ok(())
}

fn forget_parent(spec: &mut JobSpec, parent: &str) {
    spec.after.retain(|id| id != parent);
    spec.after_any.retain(|id| id != parent);
}

/// A signal before a time limit needs one that is longer. What was said before may stay: the limit of a job that runs
/// can be shortened under its signal, which then comes at once.
pub fn signal(before: Option<&JobSpec>, after: &JobSpec) -> Result<(), Problem> {
    let said = |spec: &JobSpec| (spec.request.signal, spec.request.time_seconds);
    let (Some(signal), limit) = said(after) else { return Ok(()) };
    if before.is_some_and(|before| said(before) == said(after)) || limit.is_some_and(|it| signal.before_seconds < it) {
        return Ok(());
    }
    let want = match limit {
        None => "it comes before a time limit, and there is none",
        Some(_) => "it would come before the job starts: a shorter time after @, or a longer time limit",
    };
    Err(bad("signal", &told(after, "signal").unwrap_or_default(), want.into()))
}

/// A folder that is there, or that can be made where it is to be.
fn results(spec: &JobSpec) -> Result<(), Problem> {
    let Some(text) = &spec.results else { return Ok(()) };
    let path = Path::new(text);
    if !path.is_absolute() || text.contains(char::is_control) {
        return Err(bad("results", &format!("{text:?}"), "an absolute path, in one line".into()));
    }
    let there = path.ancestors().find_map(|folder| Some((folder, std::fs::metadata(folder).ok()?)));
    match there {
        Some((folder, about)) if !about.is_dir() => {
            Err(bad("results", text, format!("a folder, and {} is a file", folder.display())))
        }
        Some((folder, _)) if access(folder, Access::WRITE_OK | Access::EXEC_OK).is_err() => {
            Err(bad("results", text, format!("a folder that nexus may write to, and {} is not", folder.display())))
        }
        _ => Ok(()),
    }
}

/// Patterns that can be read, each with a group that is the value.
fn extracts(spec: &JobSpec) -> Result<(), Problem> {
    let list = Extract::list_text(&spec.extract).map_or(Ok(vec![]), |text| Extract::read_list(&text));
    list.map_err(|want| bad("extract", &"that", want))?;
    for Extract { name, pattern } in &spec.extract {
        let read = regex::bytes::RegexBuilder::new(pattern).size_limit(PATTERN_BYTES).build();
        let groups =
            read.map_err(|error| bad("extract", &format!("{name}={pattern}"), one_line(&error)))?.captures_len();
        if groups < 2 {
            let want = "a pattern with a group for the value, as in 'loss: ([0-9.]+)'".into();
            return Err(bad("extract", &format!("{name}={pattern}"), want));
        }
    }
    Ok(())
}

fn one_line(error: &regex::Error) -> String {
    match error.to_string().lines().last() {
        Some(last) => format!("a regular expression; {}", last.trim_start_matches("error: ")),
        None => "a regular expression".into(),
    }
}

/// At most one, and one that can be meant.
fn environments(spec: &JobSpec) -> Result<(), Problem> {
    for (field, value) in [("conda", &spec.conda), ("venv", &spec.venv)] {
        if let Some(value) = value {
            environment(value).map_err(|want| bad(field, &format!("{value:?}"), want))?;
        }
    }
    match (&spec.conda, &spec.venv) {
        (Some(conda), Some(venv)) => {
            let want = format!("a job runs in one environment, and conda says {conda}: take one of them away");
            Err(bad("venv", venv, want))
        }
        _ => Ok(()),
    }
}

/// One further copy of the output at most.
fn output(spec: &JobSpec) -> Result<(), Problem> {
    match (&spec.out, &spec.out_dir) {
        (Some(file), Some(folder)) => {
            let want = format!("one further copy of the output, and out says {file}: take one of them away");
            Err(bad("out-dir", folder, want))
        }
        (None, Some(folder)) if !Path::new(folder).is_absolute() => {
            Err(bad("out-dir", folder, "an absolute path".into()))
        }
        _ => Ok(()),
    }
}

fn folder(cwd: &str) -> Result<(), Problem> {
    let unusable = |error: String| Problem::NoSuchFolder { path: cwd.to_string(), error };
    let cwd = workplace::in_home(cwd, &nexus_node::own_home());
    if !cwd.is_absolute() {
        return Err(unusable("it is not an absolute path".into()));
    }
    match std::fs::metadata(cwd) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(unusable("it is not a folder".into())),
        Err(error) => Err(unusable(error.to_string())),
    }
}

/// A sweep is named in selectors and in paths.
pub fn sweep_name(name: &str) -> Result<(), Problem> {
    if !is_sweep_name(name) {
        let shown: String = name.chars().take(40).collect();
        return Err(bad("name", &format!("{shown:?}"), "letters, digits, - _ and .".into()));
    }
    Ok(())
}

pub fn word(field: &str, value: &str) -> Result<(), Problem> {
    if value.is_empty() || value.chars().count() > LONGEST_WORD || value.chars().any(char::is_control) {
        let shown: String = value.chars().take(40).collect();
        return Err(bad(field, &format!("{shown:?}"), format!("1 to {LONGEST_WORD} printable characters")));
    }
    Ok(())
}

fn bad(field: &str, value: &dyn std::fmt::Display, want: String) -> Problem {
    Problem::BadField { field: field.to_string(), value: value.to_string(), want }
}

fn join(indices: &[u16]) -> String {
    indices.iter().map(u16::to_string).collect::<Vec<_>>().join(",")
}
