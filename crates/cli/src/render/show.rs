//! Everything known about one job, a line for each thing that is known.

use jiff::Zoned;
use nexus_api::amount::Vram;
use nexus_api::jobs::{Code, Job, JobDetail, JobRequest, Run, SlurmJob, State};
use nexus_api::screens::Screen;
use nexus_api::values::mebibytes_text;

use super::expected;
use super::paint::Paint;
use super::reason::{self, Capacity};
use super::{outcome, place, text, time};
use crate::signals;

/// Column of the values: the longest key, its colon and a blank.
const VALUE_COLUMN: usize = 13;

pub fn show(detail: &JobDetail, screen: Option<&Screen>, capacity: Capacity, now: &Zoned, paint: Paint) -> String {
    let mut lines = Lines(String::new());
    what(&mut lines, detail, paint);
    let code = |code: &Code| format!("a copy of {} as it was, {}", code.of, &code.content[..8.min(code.content.len())]);
    lines.some("Code", detail.code.as_ref().map(code).as_deref());
    lines.some("Conda", detail.conda.as_deref());
    lines.some("Venv", detail.venv.as_deref());
    lines.some("GPU option", detail.gpu_arg.as_deref());
    let list = |list: &[String]| (!list.is_empty()).then(|| list.join(" "));
    lines.some("After", list(&detail.after).as_deref());
    lines.some("After any", list(&detail.after_any).as_deref());
    let retry_on: Vec<String> = detail.retry_on.iter().map(|on| on.word().to_string()).collect();
    lines.some("Retry on", list(&retry_on).as_deref());
    lines.some("Unique", detail.unique.then_some("yes"));
    lines.some("Notify", detail.notify.then_some("when it ends"));
    state(&mut lines, &detail.job, capacity, now, paint);
    times(&mut lines, &detail.job, now, paint);
    files(&mut lines, &detail.job);
    lines.some("Copy", detail.runs.last().and_then(|run| run.out.as_deref()));
    results(&mut lines, detail);
    lines.some("Checkpoints", detail.checkpoint_dir.as_deref());
    lines.some("Screen", screen.map(|screen| screen.command.as_str()));
    for run in &detail.runs {
        lines.add(&format!("Attempt {}", run.attempt), &attempt(run, &detail.job, now));
    }
    environment(&mut lines, detail);
    lines.0
}

struct Lines(String);

impl Lines {
    fn add(&mut self, key: &str, value: &str) {
        let blanks = " ".repeat(VALUE_COLUMN.saturating_sub(key.chars().count() + 1).max(1));
        self.0.push_str(&format!("{key}:{blanks}{value}\n"));
    }

    fn some(&mut self, key: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.add(key, &text::hanging(value, VALUE_COLUMN));
        }
    }
}

fn what(lines: &mut Lines, detail: &JobDetail, paint: Paint) {
    let job = &detail.job;
    lines.add("Job ID", &paint.id(&job.id));
    lines.some("Name", job.name.as_deref());
    lines.some("Project", job.project.as_deref());
    lines.add("Command", &paint.command(&text::hanging(&job.command, VALUE_COLUMN)));
    lines.add("Runs as", if job.argv.is_some() { "exact arguments, no shell" } else { "shell command" });
    lines.some("Folder", Some(&job.cwd));
    lines.add("Needs", &needs(&job.request));
    lines.some("By rule", detail.by_rule.as_deref());
    lines.add("Priority", &format!("{} (low first)", job.priority));
    if !job.tags.is_empty() {
        lines.some("Tags", Some(&job.tags.join(" ")));
    }
    lines.some("Sweep", job.sweep.as_deref());
    lines.some("Parameters", job.params.as_ref().map(|params| params.to_string()).as_deref());
    lines.some("Rerun of", job.rerun_of.as_deref());
}

fn state(lines: &mut Lines, job: &Job, capacity: Capacity, now: &Zoned, paint: Paint) {
    lines.add("State", &outcome::painted_state(job, paint));
    lines.some("Detail", job.detail.as_deref());
    let reason = reason::of_job(job, capacity, now);
    if !reason.is_empty() {
        lines.add("Waiting", &paint.state(&reason));
    }
    lines.some("Position", job.position.map(|position| position.to_string()).as_deref());
    lines.some("Exit code", job.exit_code.map(|code| code.to_string()).as_deref());
    lines.some("Signal", job.signal.map(signals::described).as_deref());
    lines.some("Machine", job.machine.as_deref());
    let on_nodes = |slurm: &SlurmJob| match slurm.nodes.is_empty() {
        true => slurm.job.clone(),
        false => format!("{} on {}", slurm.job, slurm.nodes),
    };
    lines.some("Slurm", job.slurm.as_ref().map(on_nodes).as_deref());
    lines.some("Class", job.class.as_deref());
    lines.some("GPU", place::of_job(job).as_deref());
    lines.some("PID", job.pid.map(|pid| pid.to_string()).as_deref());
    if job.retries > 0 {
        lines.add("Retries", &format!("{} at most", job.retries));
    }
}

fn times(lines: &mut Lines, job: &Job, now: &Zoned, paint: Paint) {
    let stamp = |time: &String| paint.time(&time::clock(time, now));
    lines.add("Submitted", &stamp(&job.submitted_at));
    // Painted text goes past `some`, which shows control characters of others instead of obeying them.
    for (key, time) in [("Started", &job.started_at), ("Ended", &job.ended_at)] {
        if let Some(time) = time {
            lines.add(key, &stamp(time));
        }
    }
    let start = expected::start(job, now);
    lines.some("Starts", (!start.is_empty()).then_some(start).as_deref());
    lines.some("Ends", expected::end(job, now).as_deref());
    if let Some(seconds) = runtime_seconds(job, now) {
        lines.add("Runtime", &paint.time(&time::span(seconds)));
    }
}

fn runtime_seconds(job: &Job, now: &Zoned) -> Option<u64> {
    match (&job.ended_at, &job.started_at) {
        (None, Some(started)) if job.state != State::Copying => time::seconds_since(started, now),
        (_, None) => None,
        _ => job.runtime_seconds.map(|seconds| seconds.max(0.0) as u64),
    }
}

fn files(lines: &mut Lines, job: &Job) {
    if job.attempt > 0 {
        lines.some("Stdout", Some(&job.stdout_path));
        lines.some("Stderr", Some(&job.stderr_path));
    }
    for link in &job.links {
        lines.some("Link", Some(link));
    }
}

/// Where they are, what was named, how far the copy is.
fn results(lines: &mut Lines, detail: &JobDetail) {
    let job = &detail.job;
    let state = match (job.results_state.as_str(), &detail.results_copy) {
        ("none", None) => None,
        (_, Some(copy)) => Some(format!("copying, {} of {} bytes", copy.done_bytes, copy.total_bytes)),
        (word, None) => Some(word.to_string()),
    };
    let state = state.map(|state| format!(" ({state})")).unwrap_or_default();
    lines.some("Results", job.results.as_ref().map(|folder| format!("{folder}{state}")).as_deref());
    lines.some("Trouble", detail.results_copy.as_ref().and_then(|copy| copy.trouble.as_deref()));
    lines.some("Not copied", detail.results_error.as_deref());
    lines.some("Named", (!job.results_named.is_empty()).then(|| job.results_named.join("\n")).as_deref());
    lines.some("Own results", detail.results_folder.as_deref());
    let extract: Vec<String> = detail.extract.iter().map(|one| one.text()).collect();
    lines.some("Extract", (!extract.is_empty()).then(|| extract.join("\n")).as_deref());
    for (name, value) in job.extracted.iter().flatten() {
        lines.some("Value", Some(&format!("{name} = {value}")));
    }
}

/// `2 GPUs of 0-3`, `0.5 GPU`, `1 A100 GPU, shared, 8G of it`
fn gpus(request: &JobRequest) -> String {
    let amount = request.amount();
    let model = request.gpu_model.as_ref().map(|model| format!("{model} ")).unwrap_or_default();
    let count = match amount.milli() {
        _ if amount.is_none() => return "no GPU".into(),
        Some(_) => format!("{amount} {model}GPU"),
        None => text::counted(amount.count().into(), &format!("{model}GPU")),
    };
    let on = request.on.as_ref().map(|on| format!(" of {}", place::index_list(on)));
    let memory = request.vram.map(|vram| match vram {
        Vram::Auto => ", shared, with the memory that earlier runs reached".to_string(),
        Vram::Mib(mib) => format!(", shared, {} of each", mebibytes_text(mib.into())),
    });
    format!("{count}{}{}", on.unwrap_or_default(), memory.unwrap_or_default())
}

/// `2 GPUs of 0-3, 4 CPUs, at most 4h, USR1 2m before the end, grace 10s`
pub fn needs(request: &JobRequest) -> String {
    let mut parts = vec![gpus(request)];
    if request.force {
        parts[0].push_str(", paused or not");
    }
    if let Some(cpus) = request.cpus {
        parts.push(text::counted(cpus.into(), "CPU"));
    }
    if let Some(mib) = request.ram_mib {
        parts.push(format!("{} of memory", mebibytes_text(mib)));
    }
    if let Some(seconds) = request.time_seconds {
        parts.push(format!("at most {}", time::limit(seconds)));
    }
    if let Some(warning) = request.signal {
        let before = time::limit(warning.before_seconds);
        parts.push(format!("{} {before} before the end", signals::name(warning.signal)));
    }
    if let Some(seconds) = request.grace_seconds {
        parts.push(format!("grace {}", time::limit(seconds)));
    }
    parts.join(", ")
}

/// `GPU 0, 15:30 to 15:32, exit 1`
fn attempt(run: &Run, job: &Job, now: &Zoned) -> String {
    let simulated = if job.simulated { " (simulated)" } else { "" };
    let place = match run.gpus.is_empty() {
        true => "CPU".to_string(),
        false => format!("{}{simulated}", place::gpu_words(&run.gpus)),
    };
    let mut parts = vec![format!("{place} on {}", run.machine)];
    let held =
        [run.part.map(|part| format!("{part} of it")), run.vram_mib.map(|mib| format!("{} of it", text::memory(mib)))];
    parts.extend(held.into_iter().flatten());
    let began = run.started_at.as_ref().unwrap_or(&run.planned_at);
    match &run.ended_at {
        Some(ended) => parts.push(format!("{} to {}", time::clock(began, now), time::clock(ended, now))),
        None => parts.push(format!("since {}", time::clock(began, now))),
    }
    if let Some(end) = &run.outcome {
        let mut words = outcome::cause(&end.word, end.exit_code, end.signal);
        if let Some(error) = &end.error {
            words.push_str(&format!(": {}", text::first_line(error)));
        }
        parts.push(words);
    }
    parts.extend(run.peak_vram_mib.map(|mib| format!("at most {} on a GPU", text::memory(mib))));
    parts.push(run.log_dir.clone());
    parts.join(", ")
}

fn environment(lines: &mut Lines, detail: &JobDetail) {
    match &detail.env {
        Some(env) => {
            let values: Vec<String> = env.iter().map(|(name, value)| format!("{name}={value}")).collect();
            lines.some("Environment", Some(&values.join("\n")));
        }
        None if detail.env_names.is_empty() => {}
        None => {
            let count = text::counted(detail.env_names.len() as u64, "variable");
            lines.add("Environment", &format!("{count} (nexus show {} --env)", detail.job.id));
        }
    }
}

#[cfg(test)]
mod tests {
    use nexus_api::amount::GpuAmount;
    use nexus_api::jobs::{RetryOn, RunOutcome, SignalBefore};

    use super::*;
    use crate::render::paint::{COLOURED, PLAIN};
    use crate::render::samples;

    #[test]
    fn all_that_is_known() {
        let mut job = samples::ended("abc", State::Failed, "exit");
        (job.exit_code, job.simulated, job.retries) = (Some(1), true, 2);
        job.tags = vec!["a".into(), "b".into()];
        job.detail = Some("the command ended with 1".into());
        let run = Run {
            attempt: 1,
            machine: "local".into(),
            gpus: vec![0],
            pid: Some(4312),
            planned_at: "2024-10-24T13:30:00Z".into(),
            started_at: job.started_at.clone(),
            ended_at: job.ended_at.clone(),
            outcome: Some(RunOutcome { word: "exit".into(), exit_code: Some(1), signal: None, error: None }),
            log_dir: job.log_dir.clone(),
            part: None,
            vram_mib: None,
            peak_vram_mib: None,
            out: None,
        };
        let detail = JobDetail {
            runs: vec![run],
            code: Some(Code { content: "0123456789abcdef".into(), of: "/work".into() }),
            conda: Some("torch".into()),
            gpu_arg: Some("--cuda".into()),
            env_names: vec!["PATH".into()],
            by_rule: Some("--llm q*".into()),
            after: vec!["abd".into(), "abe".into()],
            retry_on: vec![RetryOn::Timeout],
            unique: true,
            ..samples::detail(job)
        };
        assert_eq!(
            show(&detail, None, Capacity { gpus: 2, cpus: 8 }, &samples::now(), PLAIN),
            "\
Job ID:      abc
Command:     python train.py
Runs as:     shell command
Folder:      /work
Needs:       1 GPU
By rule:     --llm q*
Priority:    0 (low first)
Tags:        a b
Code:        a copy of /work as it was, 01234567
Conda:       torch
GPU option:  --cuda
After:       abd abe
Retry on:    timeout
Unique:      yes
State:       failed (exit 1)
Detail:      the command ended with 1
Exit code:   1
Machine:     local
GPU:         GPU 0 (simulated)
Retries:     2 at most
Submitted:   15:00
Started:     15:30
Ended:       15:32
Runtime:     2m 10s
Stdout:      /h/logs/job_abc/stdout.log
Stderr:      /h/logs/job_abc/stderr.log
Attempt 1:   GPU 0 (simulated) on local, 15:30 to 15:32, exit 1, /h/logs/job_abc
Environment: 1 variable (nexus show abc --env)
"
        );
    }

    #[test]
    fn colours_of_nexus_are_obeyed_and_those_of_others_shown() {
        let mut job = samples::ended("abc", State::Failed, "exit");
        job.name = Some("a\x1b[31mb".into());
        let shown = show(&samples::detail(job), None, Capacity { gpus: 2, cpus: 8 }, &samples::now(), COLOURED);
        let escaped: Vec<&str> = shown.lines().filter(|line| line.contains("\\x1b")).collect();
        assert_eq!(escaped, ["Name:        a\\x1b[31mb"], "{shown}");
    }

    #[test]
    fn needs_in_one_line() {
        let request = JobRequest {
            gpus: Some(GpuAmount::whole(2)),
            cpus: Some(4),
            ram_mib: Some(16384),
            on: Some(vec![0, 1, 2, 3]),
            time_seconds: Some(14400),
            signal: Some(SignalBefore { signal: 10, before_seconds: 120 }),
            grace_seconds: Some(10),
            force: true,
            ..JobRequest::default()
        };
        let half = JobRequest { gpus: GpuAmount::part(500), ..JobRequest::default() };
        assert_eq!(needs(&half), "0.5 GPU");
        let model = Some("A100".to_string());
        let shared = JobRequest { vram: Some(Vram::Mib(8192)), gpu_model: model, ..JobRequest::default() };
        assert_eq!(needs(&shared), "1 A100 GPU, shared, 8G of each");
        assert_eq!(
            needs(&request),
            "2 GPUs of 0-3, paused or not, 4 CPUs, 16G of memory, at most 4h, USR1 2m before the end, grace 10s"
        );
    }
}
