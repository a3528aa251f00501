//! Reads an ended job of an export: what it must be to stand in the history of this home.

use std::path::Path;

use nexus_api::env::{Env, split_secrets};
use nexus_api::export::{Exported, FORMAT, Head};
use nexus_api::jobs::{Job, JobSpec, Run, State};
use nexus_api::results::{Found, ResultsState};
use nexus_api::run_dir::of_run;
use nexus_api::select::RESERVED;
use nexus_core::ids::JobId;
use nexus_core::request::{GpuSet, MAX_GPUS};
use nexus_core::time::Time;

use crate::identity::identity;
use crate::same::same;
use crate::store::{Left, PastJob, PastRun, past_texts};
use crate::{checks, clock, words};

/// A line, or what is wrong with it. Its runs have the folders that this home would give them, wherever they were: so
/// nothing that belongs to somebody else is ever deleted with the job.
pub fn read(line: &[u8], log_dir: &Path) -> Result<PastJob, String> {
    let line = std::str::from_utf8(line).map_err(|_| "it is not text in UTF-8".to_string())?;
    let exported = match Exported::read(line) {
        Ok(exported) => exported,
        Err(error) => return Err(unreadable(line, &error)),
    };
    if exported.format > FORMAT {
        return Err(newer(exported.format));
    }
    let job = &exported.job;
    let id: JobId = job.id.parse().map_err(|error| format!("{error} of a job"))?;
    if RESERVED.binary_search(&id.as_str()).is_ok() {
        return Err(format!("{id} is a word of nexus, and no id of a job"));
    }
    if !job.state.has_ended() {
        return Err(format!("{id} is {}, and only what has ended is history", job.state.word()));
    }
    reason(job)?;
    let ended_at = job.ended_at.as_deref().ok_or_else(|| format!("{id} has no ended_at"))?;
    let times = (time("submitted_at", &job.submitted_at)?, time("ended_at", ended_at)?);
    let started_at = job.started_at.as_deref().map(|text| time("started_at", text)).transpose()?;
    for parent in exported
        .beside
        .after
        .iter()
        .chain(&exported.beside.after_any)
        .chain(&job.rerun_of)
        .chain(&exported.beside.failed_by)
    {
        parent.parse::<JobId>().map_err(|error| format!("{error} of a job"))?;
    }
    let runs = runs(&exported, id, log_dir)?;
    let spec = Spec::of(&exported)?;
    let (spec_text, env) = past_texts(&spec.spec, spec.secret_names, &spec.env);
    let left = left(&exported)?;
    let Exported { job, beside, .. } = exported;
    Ok(PastJob {
        id,
        state: job.state,
        reason: job.reason,
        exit_code: job.exit_code,
        signal: job.signal,
        command: spec.spec.command.text(),
        spec: spec_text,
        name: job.name,
        project: job.project,
        priority: job.priority,
        tags: job.tags,
        env,
        submitted_at: times.0,
        started_at,
        ended_at: times.1,
        same: same(&spec.spec).0,
        identity: identity(&spec.spec).0,
        failed_by: beside.failed_by,
        left,
        runs,
    })
}

/// What it left behind, wherever that is.
fn left(exported: &Exported) -> Result<Left, String> {
    let job = &exported.job;
    let state = ResultsState::ALL.into_iter().find(|state| state.word() == job.results_state);
    let state = state.ok_or_else(|| format!("results_state cannot be {:?}", job.results_state))?;
    let found = Found {
        results: job.results_named.clone(),
        results_left_out: 0,
        values: job.extracted.clone().unwrap_or_default(),
    };
    // Nobody is copying any more.
    let state = if state == ResultsState::Copying { ResultsState::Failed } else { state };
    Ok(Left { found, folder: job.results.clone(), state, error: exported.beside.results_error.clone() })
}

fn unreadable(line: &str, error: &serde_json::Error) -> String {
    if let Ok(Head { format }) = serde_json::from_str(line)
        && format > FORMAT
    {
        return newer(format);
    }
    let text = error.to_string();
    // Its line is always the first: the true one is told by others.
    format!("it is no job of an export: {}", text.split(" at line 1").next().unwrap_or(&text))
}

fn newer(format: u32) -> String {
    format!("it was written by a newer nexus: it has format {format}, and this one knows up to {FORMAT}")
}

/// The word must fit the state.
fn reason(job: &Job) -> Result<(), String> {
    let fits = match (job.state, job.reason.as_deref()) {
        (State::Completed, None) => true,
        (State::Failed, Some(word)) => words::FAILURES.contains(&word),
        (State::Killed, Some(word)) => words::KILLS.contains(&word),
        _ => false,
    };
    match (fits, &job.reason) {
        (true, _) => Ok(()),
        (false, Some(word)) => Err(format!("a job that is {} cannot have the reason {word:?}", job.state.word())),
        (false, None) => Err(format!("a job that is {} has a reason, and there is none", job.state.word())),
    }
}

fn time(field: &str, text: &str) -> Result<Time, String> {
    clock::parse(text).ok_or_else(|| format!("{field} cannot be {text:?}: a time as in 2026-01-31T12:00:00Z"))
}

/// A spec without its environment, and that.
struct Spec {
    spec: JobSpec,
    env: Env,
    secret_names: Vec<String>,
}

impl Spec {
    fn of(exported: &Exported) -> Result<Spec, String> {
        let mut spec = exported.spec();
        spec.sweep.as_deref().map_or(Ok(()), checks::sweep_name).map_err(|problem| problem.to_string())?;
        checks::past_spec(&mut spec).map_err(|problem| problem.to_string())?;
        // What looks like a secret does not outlive its job, whoever wrote it down.
        let (env, secrets) = split_secrets(std::mem::take(&mut spec.env));
        let mut secret_names: Vec<String> =
            exported.beside.secret_names.iter().chain(secrets.keys()).cloned().collect();
        secret_names.sort();
        secret_names.dedup();
        spec.env_given = env.keys().chain(&secret_names).cloned().collect();
        Ok(Spec { spec, env, secret_names })
    }
}

fn runs(exported: &Exported, id: JobId, log_dir: &Path) -> Result<Vec<PastRun>, String> {
    let newest = exported.beside.runs.last().map_or(0, |run| run.attempt);
    let ascend = exported.beside.runs.windows(2).all(|pair| pair[0].attempt < pair[1].attempt);
    if newest != exported.job.attempt || !ascend || exported.beside.runs.first().is_some_and(|run| run.attempt == 0) {
        return Err(format!("it had {} attempts, and runs does not tell of them in order", exported.job.attempt));
    }
    exported.beside.runs.iter().map(|run| past_run(run, exported.job.simulated, id, log_dir)).collect()
}

fn past_run(run: &Run, simulated: bool, id: JobId, log_dir: &Path) -> Result<PastRun, String> {
    let wrong = |problem: nexus_api::problem::Problem| format!("attempt {}: {problem}", run.attempt);
    checks::word("machine", &run.machine).map_err(wrong)?;
    if let Some(index) = run.gpus.iter().find(|index| **index >= MAX_GPUS) {
        return Err(format!("attempt {}: there is no GPU {index}", run.attempt));
    }
    if let Some(outcome) = &run.outcome {
        let known = |word: &str| word == "completed" || words::FAILURES.contains(&word) || words::KILLS.contains(&word);
        if !known(&outcome.word) {
            return Err(format!("attempt {}: {:?} is no way to end", run.attempt, outcome.word));
        }
    }
    let mib = |field: &str, mib: Option<u64>| match mib.map(u32::try_from) {
        None => Ok(None),
        Some(Ok(mib)) => Ok(Some(mib)),
        Some(Err(_)) => Err(format!("attempt {}: {field} is more than any GPU has", run.attempt)),
    };
    let at = |field: &str, text: &Option<String>| text.as_deref().map(|text| time(field, text)).transpose();
    let part = run.part.map(|part| part.milli().ok_or(format!("attempt {}: {part} is no part", run.attempt)));
    let (planned_at, ended_at) = (time("planned_at", &run.planned_at)?, at("ended_at", &run.ended_at)?);
    let completed = run.outcome.as_ref().is_some_and(|outcome| outcome.word == "completed");
    Ok(PastRun {
        took: ended_at.filter(|_| completed).map(|at| at.since(planned_at)),
        number: run.attempt,
        machine: run.machine.clone(),
        gpus: run.gpus.iter().copied().collect::<GpuSet>().to_string(),
        simulated,
        dir: of_run(log_dir, id.as_str(), run.attempt).to_string_lossy().into_owned(),
        planned_at,
        pid: run.pid,
        started_at: at("started_at", &run.started_at)?,
        ended_at,
        outcome: run.outcome.as_ref().map(|it| serde_json::to_string(it).expect("an outcome is plain data")),
        // Memory alone is a share without a part.
        milli: part.transpose()?.or(run.vram_mib.map(|_| 0)),
        vram_mib: mib("vram_mib", run.vram_mib)?,
        peak_mib: mib("peak_vram_mib", run.peak_vram_mib)?,
    })
}

#[cfg(test)]
mod tests {
    use nexus_core::job::{End, Failure, KillReason};
    use serde_json::{Value, json};

    use super::*;

    fn line(change: impl FnOnce(&mut Value)) -> Vec<u8> {
        let mut job: Value = serde_json::from_str(include_str!("../../../api/frozen/v1/exported_ended.json")).unwrap();
        change(&mut job);
        job.to_string().into_bytes()
    }

    #[test]
    fn a_job_is_taken_as_it_was_but_for_its_folder_and_its_secrets() {
        let read = read(&line(|job| job["env"]["MY_TOKEN"] = json!("xyzzy")), Path::new("/logs")).unwrap();
        assert_eq!((read.id.as_str(), read.state, read.exit_code), ("abc", State::Failed, Some(3)));
        let dirs: Vec<&str> = read.runs.iter().map(|run| run.dir.as_str()).collect();
        assert_eq!(dirs, ["/logs/job_abc", "/logs/job_abc/attempt_2"]);
        assert_eq!((read.env.as_str(), read.runs[1].peak_mib), (r#"{"SEED":"3"}"#, Some(20480)));
        assert!(!read.spec.contains("xyzzy") && read.spec.contains("MY_TOKEN"), "{}", read.spec);
    }

    #[test]
    fn what_cannot_be_history_is_told() {
        type Wrong = (&'static str, fn(&mut Value));
        let wrong: &[Wrong] = &[
            ("\"ABC\" is no id of a job", |job| job["id"] = json!("ABC")),
            ("queue is a word of nexus, and no id of a job", |job| job["id"] = json!("queue")),
            ("\"aal\" is no id", |job| job["id"] = json!("aal")),
            ("abc is running, and only what has ended is history", |job| job["state"] = json!("running")),
            ("cannot have the reason \"user\"", |job| job["reason"] = json!("user")),
            ("a job that is killed cannot have the reason \"exit\"", |job| job["state"] = json!("killed")),
            ("has a reason, and there is none", |job| job["reason"] = Value::Null),
            ("abc has no ended_at", |job| job["ended_at"] = Value::Null),
            ("submitted_at cannot be \"soon\"", |job| job["submitted_at"] = json!("soon")),
            ("it had 3 attempts", |job| job["attempt"] = json!(3)),
            ("it had 2 attempts", |job| job["runs"][0]["attempt"] = json!(2)),
            ("it had 2 attempts", |job| job["runs"][0]["attempt"] = json!(0)),
            ("attempt 1: there is no GPU 128", |job| job["runs"][0]["gpus"] = json!([128])),
            ("attempt 2: \"well\" is no way to end", |job| job["runs"][1]["outcome"]["word"] = json!("well")),
            ("attempt 1: vram_mib is more than any GPU has", |job| job["runs"][0]["vram_mib"] = json!(1u64 << 33)),
            ("checkpoint_of cannot be ../..", |job| job["checkpoint_of"] = json!("../..")),
            ("\"../x\" is no id", |job| job["after"] = json!(["../x"])),
            ("cwd cannot be \"here\"", |job| job["cwd"] = json!("here")),
            ("this command cannot run: it is empty", |job| job["argv"] = json!([])),
            ("tag cannot be \"a\\nb\"", |job| job["tags"] = json!(["a\nb"])),
            ("it is no job of an export: missing field `id`", |job| drop(job.as_object_mut().unwrap().remove("id"))),
            ("written by a newer nexus: it has format 2", |job| job["format"] = json!(2)),
            ("written by a newer nexus: it has format 7", |job| *job = json!({"format": 7})),
        ];
        for (words, change) in wrong {
            let error = read(&line(change), Path::new("/logs")).map(|job| job.id).unwrap_err();
            assert!(error.contains(words), "{words}: {error}");
        }
        for nonsense in ["", "null", "[]", "{\"format\":1", "\u{1}"] {
            assert!(read(nonsense.as_bytes(), Path::new("/logs")).is_err(), "{nonsense}");
        }
    }

    #[test]
    fn every_end_has_a_word_that_is_known() {
        let failures = [
            Failure::Exit { code: 1 },
            Failure::Signal { signal: 9 },
            Failure::Timeout,
            Failure::Dependency { parent: "abc".parse().unwrap() },
            Failure::Lost,
            Failure::Preempted,
            Failure::Cancelled,
            Failure::StartError,
            Failure::SessionClosed,
            Failure::GpuOom,
            Failure::HostOom,
        ];
        for failure in failures {
            assert!(words::FAILURES.contains(&words::end(&End::Failed(failure)).1.unwrap()));
        }
        for reason in [KillReason::User, KillReason::Removed, KillReason::Stopped] {
            assert!(words::KILLS.contains(&words::end(&End::Killed(reason)).1.unwrap()));
        }
    }
}
