//! One answer to "why": what a job needs, what there is, who holds it, how it ended, and what to type.

use jiff::Zoned;
use nexus_api::amount::Vram;
use nexus_api::command::quote;
use nexus_api::jobs::{GpusMissing, Job, Run, State, Waiting};
use nexus_api::service::{Gpu, Machine, Obstacle};
use nexus_api::why::Why;

use super::paint::Paint;
use super::reason::{self, Capacity};
use super::{failure, gpus, machines, outcome, place, show, slurm, text, time};

/// Column of the values.
const VALUE_COLUMN: usize = 12;

/// Jobs named as holders; the rest is counted.
const HOLDERS_NAMED: usize = 8;

const NEVER: &str = "to ask for what there is; as it is it never starts here";

pub fn why(why: &Why, now: &Zoned, paint: Paint) -> String {
    let mut answer = Answer { text: String::new(), paint };
    let job = &why.job;
    let head = match job.state {
        State::Held | State::Queued => paint.state(&waiting(why, now)),
        State::Starting if job.waiting.is_some() => paint.state(&waiting(why, now)),
        State::Starting | State::Running | State::Copying => does_not_wait(job, now, paint),
        State::Completed | State::Failed | State::Killed => ended(job, now, paint),
    };
    answer.text.push_str(&format!("{}: {head}\n", paint.id(&job.id)));
    answer.rows("Command", &[paint.command(&text::hanging(&job.command, VALUE_COLUMN))]);
    match job.state {
        State::Held | State::Queued => of_waiting(&mut answer, why, now),
        State::Starting if job.waiting.is_some() => of_waiting(&mut answer, why, now),
        State::Copying => answer.typed(&[
            (format!("nexus results {}", job.id), "to see how far the copy is, and wait for it".into()),
            (format!("nexus kill {}", job.id), "to give up the copy; the job has completed then".into()),
        ]),
        State::Starting | State::Running => answer.typed(&[
            (format!("nexus logs -f {}", job.id), "to see what it prints".into()),
            (format!("nexus kill {}", job.id), "to end it".into()),
        ]),
        State::Completed => of_completed(&mut answer, why),
        State::Failed | State::Killed => of_ended(&mut answer, why),
    }
    answer.text
}

struct Answer {
    text: String,
    paint: Paint,
}

impl Answer {
    /// A key and what belongs to it, one thing a line; nothing where there is nothing.
    fn rows(&mut self, key: &str, values: &[String]) {
        for (index, value) in values.iter().enumerate() {
            let key = if index == 0 { format!("{key}:") } else { String::new() };
            let blanks = " ".repeat(VALUE_COLUMN.saturating_sub(2 + key.chars().count()).max(1));
            self.text.push_str(&format!("  {key}{blanks}{value}\n"));
        }
    }

    /// Command lines, and what each is good for.
    fn typed(&mut self, commands: &[(String, String)]) {
        let width = commands.iter().map(|(command, _)| command.chars().count()).max().unwrap_or(0);
        let line = |(command, what): &(String, String)| {
            let blanks = " ".repeat(width - command.chars().count());
            format!("{}{blanks}  {what}", self.paint.command(command))
        };
        let lines: Vec<String> = commands.iter().map(line).collect();
        self.rows("Type", &lines);
    }
}

/// The same words as in `queue` and `show`.
fn waiting(why: &Why, now: &Zoned) -> String {
    let reason = reason::of_job(&why.job, Capacity::of_machines(&why.machines), now);
    if reason.is_empty() { "queued".into() } else { reason }
}

fn does_not_wait(job: &Job, now: &Zoned, paint: Paint) -> String {
    let place = place::on_place(job);
    let since = job.started_at.as_ref().map(|started| {
        let spent = time::seconds_since(started, now).map(|seconds| format!(" ({})", time::span(seconds)));
        format!(" since {}{}", time::clock(started, now), spent.unwrap_or_default())
    });
    let pid = job.pid.map(|pid| format!(", pid {pid}")).unwrap_or_default();
    match job.state {
        State::Starting => format!("does not wait: it is starting{place}"),
        State::Copying => "does not wait: it has run, and its results are being copied".into(),
        _ => format!("does not wait: it runs{place}{}{pid}", paint.time(&since.unwrap_or_default())),
    }
}

/// `failed (exit 1) on GPU 0 at 15:32 after 2m 10s`
fn ended(job: &Job, now: &Zoned, paint: Paint) -> String {
    let at = job.ended_at.as_ref().map(|ended| format!(" at {}", paint.time(&time::clock(ended, now))));
    let after = job
        .runtime_seconds
        .filter(|_| job.attempt > 0)
        .map(|seconds| format!(" after {}", paint.time(&time::span(seconds.max(0.0) as u64))));
    let [at, after] = [at, after].map(Option::unwrap_or_default);
    format!("{}{}{at}{after}", outcome::painted_state(job, paint), place::on_place(job))
}

fn of_waiting(answer: &mut Answer, why: &Why, now: &Zoned) {
    let job = &why.job;
    if let Some(position) = job.position {
        answer.rows("Position", &[format!("{position} of {}", why.pending.max(position))]);
    }
    answer.rows("Needs", &[show::needs(&job.request)]);
    answer.rows("Asks now", &asks_now(why).into_iter().collect::<Vec<_>>());
    answer.rows("There is", &[machines::there_is(&why.machines)]);
    answer.rows("Held by", &holders(&why.holders, now, answer.paint));
    answer.rows("Not free", &not_free(why, answer.paint));
    answer.rows("Not ready", &machines::not_ready(why));
    if let Some(run) = why.runs.last()
        && let Some(end) = &run.outcome
    {
        let cause = outcome::cause(&end.word, end.exit_code, end.signal);
        // Where nexus itself could not, it says why.
        let error = end.error.as_ref().map(|error| format!(": {}", text::first_line(error))).unwrap_or_default();
        answer.rows("Before", &[format!("attempt {} failed: {cause}{error}", run.attempt)]);
        answer.rows("Printed", &printed(why));
    }
    let waiting = match (&job.waiting, job.state) {
        (Some(waiting), _) => waiting,
        (None, State::Held) => &Waiting::Held,
        // It was just decided about.
        (None, _) => &Waiting::Next,
    };
    answer.typed(&to_type_while_waiting(waiting, why));
}

/// What it asks for, where that is not what was asked of it: memory that was learned, or more after a failure.
fn asks_now(why: &Why) -> Option<String> {
    let request = &why.job.request;
    let Some(Waiting::Gpus(now) | Waiting::NoSuchGpus(now)) = &why.job.waiting else { return None };
    let alone = request.shares() && now.part.is_none() && now.vram_mib.is_none();
    let failed = |run: &Run| run.outcome.as_ref().is_some_and(|end| end.word == "gpu-oom");
    let oom = why.runs.iter().any(failed).then_some("since it ran out of GPU memory");
    let asked = match request.vram {
        Some(Vram::Mib(mib)) => Some(u64::from(mib)),
        Some(Vram::Auto) | None => None,
    };
    match (now.vram_mib, oom, request.vram) {
        (None, Some(oom), _) if alone => Some(format!("GPUs of its own, {oom}")),
        (None, None, Some(Vram::Auto)) if alone => Some("GPUs of its own: no run of this command was seen yet".into()),
        (Some(mib), Some(oom), _) if asked != Some(mib) => Some(format!("{} of each, {oom}", text::memory(mib))),
        (Some(mib), None, Some(Vram::Auto)) => {
            Some(format!("{} of each: a tenth more than earlier runs reached", text::memory(mib)))
        }
        _ => None,
    }
}

fn to_type_while_waiting(waiting: &Waiting, why: &Why) -> Vec<(String, String)> {
    let (job, id) = (&why.job, &why.job.id);
    let line = |command: String, what: &str| (command, what.to_string());
    let remove = line(format!("nexus remove {id}"), "to take it out of the queue");
    match waiting {
        Waiting::SweepStopped { .. } => {
            let sweep = job.sweep.clone().unwrap_or_default();
            vec![
                line(
                    format!("nexus history --sweep {sweep} --state failed"),
                    "to see which failed, and nexus why ID for one",
                ),
                line(format!("nexus release sweep:{sweep}"), "to let the rest start"),
                line(format!("nexus cancel sweep:{sweep}"), "to give it up"),
            ]
        }
        Waiting::SweepFull { .. } => {
            let sweep = job.sweep.clone().unwrap_or_default();
            vec![line(format!("nexus sweep show {sweep}"), "to see how it goes"), remove]
        }
        Waiting::Held => vec![line(format!("nexus release {id}"), "to let it start")],
        Waiting::QueuePaused { .. } => vec![line("nexus resume".into(), "to let the queue go on")],
        Waiting::DiskFull => vec![
            line(
                "nexus forget …".into(),
                "to delete ended jobs and their logs; it goes on by itself when there is room",
            ),
            line(format!("df -h {}", quote(&job.log_dir)), "to see how much there is"),
        ],
        Waiting::Stopping => vec![line("nexus start".into(), "to have it back; the queue stays")],
        Waiting::Delayed { .. } => vec![remove],
        Waiting::Retry { .. } => {
            vec![line(format!("nexus logs {id}"), "to see all it printed"), remove]
        }
        Waiting::NoSuchGpus(missing) => vec![line(less(missing, why), NEVER), remove],
        Waiting::NoSuchRam { exist_mib, .. } => {
            vec![line(format!("nexus edit {id} --ram {exist_mib}M"), NEVER), remove]
        }
        Waiting::After { jobs, .. } => {
            let first = jobs.first().cloned().unwrap_or_default();
            vec![
                line(format!("nexus why {first}"), "to see how that one stands"),
                line(format!("nexus edit {id} --after \"\" --after-any \"\""), "to let it start without"),
                remove,
            ]
        }
        Waiting::Kept { job: before, .. } => vec![
            line(format!("nexus why {before}"), "to see how that one stands"),
            line(format!("nexus edit {id} --time 30m"), "to let it start where it is gone in time"),
            line(format!("nexus first {id}"), "to put it before that one"),
        ],
        Waiting::Slurm { machine, .. } => slurm::to_type(machine, id),
        Waiting::ClusterFull { .. } => vec![line("nexus machine ls".into(), "to see what is there"), remove],
        Waiting::NoSuchCpus { exist, .. } => {
            vec![line(format!("nexus edit {id} --cpus {exist}"), NEVER), remove]
        }
        Waiting::Gpus(_) | Waiting::Cpus { .. } | Waiting::Ram { .. } => in_the_way(why),
        Waiting::Machines { .. } | Waiting::NoSuchMachines { .. } => about_machines(waiting, id, remove),
        Waiting::Next => vec![line(format!("nexus show {id}"), "to look again: it starts at once")],
    }
}

fn about_machines(waiting: &Waiting, id: &str, remove: (String, String)) -> Vec<(String, String)> {
    let line = |command: String, what: &str| (command, what.to_string());
    match waiting {
        Waiting::Machines { machine: Some(machine), unreachable: 0, .. } => {
            vec![line(format!("nexus machine resume {machine}"), "to let it take jobs again"), remove]
        }
        Waiting::Machines { machine: Some(machine), .. } => vec![
            line(format!("nexus machine show {machine}"), "to see why it cannot be reached"),
            line(format!("nexus edit {id} --machine \"\""), "to let it run elsewhere"),
        ],
        Waiting::Machines { .. } => vec![line("nexus machine ls".into(), "to see why each takes none")],
        Waiting::NoSuchMachines { machine: Some(machine), .. } => vec![
            line(format!("nexus machine add {machine}"), "to have it back"),
            line(format!("nexus edit {id} --machine \"\""), "to let it run elsewhere"),
        ],
        Waiting::NoSuchMachines { class, .. } => {
            let class = class.as_deref().unwrap_or("default");
            vec![line(format!("nexus machine mv {class} MACHINE"), "to have one of that class"), remove]
        }
        _ => vec![],
    }
}

/// What to type so that it asks for what there is: what it asks for in vain goes.
fn less(missing: &GpusMissing, why: &Why) -> String {
    let id = &why.job.id;
    let largest = why.machines.iter().flat_map(|machine| &machine.gpus).map(|gpu| gpu.memory_mib).max();
    if missing.exist > 0 {
        return format!("nexus edit {id} --gpus {}", missing.exist);
    }
    if missing.model.is_some() && !missing.other_model.is_empty() {
        return format!("nexus edit {id} --gpu-model \"\"");
    }
    match (missing.too_small.is_empty(), largest, &missing.on) {
        (false, Some(mib), _) => format!("nexus edit {id} --vram {mib}M"),
        (_, Some(_), Some(_)) => format!("nexus edit {id} --on \"\""),
        // Nothing that is about GPUs may be left.
        _ => {
            let vram = if why.job.request.vram.is_some() { " --vram \"\"" } else { "" };
            let model = if missing.model.is_some() { " --gpu-model \"\"" } else { "" };
            let on = if missing.on.is_some() { " --on \"\"" } else { "" };
            format!("nexus edit {id} --gpus 0{vram}{model}{on}")
        }
    }
}

/// GPUs it may have on which no job runs, with their machines.
fn idle(why: &Why) -> impl Iterator<Item = (&Machine, &Gpu)> {
    let on = match &why.job.waiting {
        Some(Waiting::Gpus(missing)) => Some(missing.on.as_deref()),
        _ => None,
    };
    let all = why.machines.iter().flat_map(|machine| machine.gpus.iter().map(move |gpu| (machine, gpu)));
    let all = all.filter(|(_, gpu)| gpu.jobs.is_empty());
    all.filter(move |(_, gpu)| on.is_some_and(|on| on.is_none_or(|allowed| allowed.contains(&gpu.index))))
}

/// `GPU 1: in use outside nexus (pid 4312 alice python, 642MB)`
fn not_free(why: &Why, paint: Paint) -> Vec<String> {
    let paused = |gpu: &Gpu| gpu.paused.then(|| paint.state("paused"));
    let why_not = |gpu| paused(gpu).into_iter().chain(gpus::obstacle(gpu, paint)).collect::<Vec<_>>().join(", ");
    let told = idle(why).filter(|(_, gpu)| gpu.paused || gpu.obstacle.is_some());
    told.map(|(machine, gpu)| format!("GPU {}{}: {}", gpu.index, place::of_machine(&machine.name), why_not(gpu)))
        .collect()
}

/// What brings GPUs back on which nothing of ours runs.
fn to_free(why: &Why) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    for machine in &why.machines {
        let of_it = idle(why).filter(|(of, gpu)| of.name == machine.name && gpu.paused);
        let paused: Vec<u16> = of_it.map(|(_, gpu)| gpu.index).collect();
        if !paused.is_empty() {
            let on = if machine.name == "local" { String::new() } else { format!("{}:", machine.name) };
            let gpus = format!("{on}{}", place::index_list(&paused));
            lines.push((format!("nexus resume {gpus}"), "to let jobs start there again".to_string()));
        }
    }
    let blocked = |is: fn(&Obstacle) -> bool| idle(why).any(|(_, gpu)| gpu.obstacle.as_ref().is_some_and(is));
    if blocked(|obstacle| matches!(obstacle, Obstacle::InUse { .. })) {
        let ignore = "nexus config set gpus.ignore NAME".to_string();
        lines.push((ignore, "if that program or user need not count".to_string()));
    }
    if blocked(|obstacle| matches!(obstacle, Obstacle::Unreadable { .. })) {
        lines.push(("nexus doctor".to_string(), "to see what is wrong with the driver".to_string()));
    }
    lines
}

/// To free what is not, to come first, and to end whom it waits for: the one that has run longest.
fn in_the_way(why: &Why) -> Vec<(String, String)> {
    let id = &why.job.id;
    let mut lines = to_free(why);
    let (mut busy, mut nearly_full) = (false, false);
    if let Some(Waiting::Gpus(missing)) = &why.job.waiting {
        busy = missing.busy > 0;
        nearly_full = missing.low_memory > 0 && missing.vram_mib.is_none();
    }
    if busy {
        let what = "to share GPUs whatever their load".to_string();
        lines.push(("nexus config set gpus.load_threshold 1".to_string(), what));
    }
    if nearly_full {
        lines.push((format!("nexus edit {id} --vram 4G"), "to go by the memory that it needs".to_string()));
        let what = "to share GPUs however full they are".to_string();
        lines.push(("nexus config set gpus.mem_threshold 1".to_string(), what));
    }
    if why.job.position.is_some_and(|position| position > 1) {
        lines.push((format!("nexus first {id}"), "to put it before the others".to_string()));
    }
    if let Some(longest) = why.holders.iter().filter(|job| job.started_at.is_some()).min_by_key(|job| &job.started_at) {
        let what = format!("to end what runs longest{}", place::on_place(longest));
        lines.push((format!("nexus kill {}", longest.id), what));
    }
    lines.push((format!("nexus wait {id}"), "to wait for its end".to_string()));
    lines
}

/// `def on GPU 0 for 2h 15m, at most 4h: python train.py`
fn holders(jobs: &[Job], now: &Zoned, paint: Paint) -> Vec<String> {
    let of = |job: &Job| {
        let spent = job.started_at.as_ref().and_then(|started| time::seconds_since(started, now));
        let spent = spent.map_or(", starting".into(), |seconds| format!(" for {}", paint.time(&time::span(seconds))));
        let limit = job.request.time_seconds.map(|seconds| format!(", at most {}", time::limit(seconds)));
        let command = paint.command(&text::first_line(&job.command));
        format!("{}{}{spent}{}: {command}", paint.id(&job.id), place::on_place(job), limit.unwrap_or_default())
    };
    let mut lines: Vec<String> = jobs.iter().take(HOLDERS_NAMED).map(of).collect();
    if jobs.len() > HOLDERS_NAMED {
        lines.push(format!("and {} more: nexus ls", jobs.len() - HOLDERS_NAMED));
    }
    lines
}

fn of_completed(answer: &mut Answer, why: &Why) {
    let id = &why.job.id;
    let mut lines = vec![(format!("nexus logs {id}"), "to see what it printed".to_string())];
    if let Some(error) = &why.results_error {
        answer.rows("Results", &[format!("not copied: {}", text::first_line(error))]);
        lines.insert(0, (format!("nexus results {id}"), "to copy them again".into()));
        lines.insert(1, (format!("nexus results {id} --to DIR"), "to copy them elsewhere".into()));
    }
    answer.typed(&lines);
}

fn of_ended(answer: &mut Answer, why: &Why) {
    let job = &why.job;
    answer.rows("Meaning", &failure::meaning(job, why.cwd_exists));
    if job.attempt > 1 || job.attempt > 0 && job.retries > 0 {
        let tried = text::counted(job.attempt.into(), "time");
        answer.rows("Tried", &[format!("{tried}, with at most {} of --retries", job.retries)]);
    }
    answer.rows("Printed", &printed(why));
    let id = &job.id;
    let mut lines = Vec::new();
    if job.attempt > 0 {
        lines.push((format!("nexus logs {id}"), "to see all it printed".to_string()));
    }
    match job.reason.as_deref().unwrap_or_default() {
        "start-error" if !why.cwd_exists => {
            lines.push((format!("mkdir -p {}", quote(&job.cwd)), "to make its folder".into()))
        }
        "start-error" => lines.push((format!("nexus show --env {id}"), "to see the PATH it had".into())),
        "timeout" => {
            let seconds = job.request.time_seconds.unwrap_or(3600).saturating_mul(2);
            let longer = format!("nexus edit $(nexus rerun {id}) --time {}", time::limit(seconds));
            lines.push((longer, "to queue it again with twice the time".into()));
        }
        "gpu-oom" => lines.push(("nexus gpus".into(), "to see how much memory each GPU has, and who uses it".into())),
        "host-oom" => lines.push(("free -h".into(), "to see how much memory the machine has".into())),
        "dependency" => {
            if let Some(parent) = &why.failed_by {
                lines.push((format!("nexus why {parent}"), "to see what became of that one".into()));
                lines.push((format!("nexus rerun {parent} {id}"), "to queue both again, one after the other".into()));
            }
            lines.push((format!("nexus rerun {id}"), "to queue it alone, after nothing".into()));
            return answer.typed(&lines);
        }
        _ => {}
    }
    lines.push((format!("nexus rerun {id}"), "to queue it again as it was".to_string()));
    answer.typed(&lines);
}

fn printed(why: &Why) -> Vec<String> {
    why.last_lines.iter().map(|line| text::printable(line)).collect()
}

#[cfg(test)]
mod tests {
    use nexus_api::jobs::RunOutcome;

    use nexus_api::amount::GpuAmount;

    use super::*;
    use crate::render::paint::PLAIN;
    use crate::render::samples;

    fn facts(job: Job) -> Why {
        Why {
            job,
            runs: vec![],
            holders: vec![],
            machines: vec![Machine {
                name: "local".into(),
                cpus: 8,
                gpus: vec![samples::gpu(0), samples::gpu(1)],
                error: None,
                pool: None,
            }],
            pending: 5,
            last_lines: vec![],
            cwd_exists: true,
            disk_free_bytes: 1 << 40,
            failed_by: None,
            results_error: None,
        }
    }

    fn told(facts: &Why) -> String {
        why(facts, &samples::now(), PLAIN)
    }

    fn waiting_for(waiting: Waiting) -> String {
        let mut job = samples::queued("abc");
        (job.position, job.waiting) = (Some(2), Some(waiting));
        told(&facts(job))
    }

    #[test]
    fn who_holds_it_and_what_to_type() {
        let mut job = samples::queued("abc");
        (job.position, job.waiting) = (Some(2), Some(samples::gpus_needed(1, [0, 2, 0, 0, 0])));
        let mut facts = facts(job);
        for (gpu, id) in facts.machines[0].gpus.iter_mut().zip(["def", "ghi"]) {
            gpu.jobs = vec![id.into()];
        }
        let mut limited = samples::running("ghi", &[1]);
        (limited.request.time_seconds, limited.started_at) = (Some(14400), Some("2024-10-24T15:44:00Z".into()));
        facts.holders = vec![samples::running("def", &[0]), limited];
        assert_eq!(
            told(&facts),
            "\
abc: needs 1 GPU: 2 held by jobs
  Command:  python train.py
  Position: 2 of 5
  Needs:    1 GPU
  There is: 2 GPUs (2 with jobs), 8 CPUs
  Held by:  def on GPU 0 for 2h 15m: python train.py
            ghi on GPU 1 for 1m 0s, at most 4h: python train.py
  Type:     nexus first abc  to put it before the others
            nexus kill def   to end what runs longest on GPU 0
            nexus wait abc   to wait for its end
"
        );
    }

    #[test]
    fn what_keeps_jobs_off_each_gpu_is_named() {
        let mut job = samples::queued("abc");
        (job.position, job.waiting) = (Some(1), Some(samples::gpus_needed(1, [0, 0, 1, 1, 0])));
        let mut facts = facts(job);
        facts.machines[0].gpus[0].paused = true;
        facts.machines[0].gpus[1] = samples::foreign_gpu(1);
        let told = told(&facts);
        assert!(
            told.contains("  Not free: GPU 0: paused\n            GPU 1: in use outside nexus (pid 4312 "),
            "{told}"
        );
        assert!(told.contains("  Type:     nexus resume 0 "), "{told}");
        assert!(told.contains("nexus config set gpus.ignore NAME "), "{told}");
    }

    #[test]
    fn each_way_to_wait_has_something_to_type() {
        for (waiting, command) in [
            (Waiting::Held, "nexus release abc"),
            (Waiting::QueuePaused { after_failures: None }, "nexus resume"),
            (Waiting::DiskFull, "nexus forget"),
            (Waiting::Stopping, "nexus start"),
            (Waiting::Retry { until: "2024-10-24T15:50:00Z".into() }, "nexus logs abc"),
            (Waiting::Delayed { until: "2024-10-24T15:50:00Z".into() }, "nexus remove abc"),
            (samples::no_such_gpus(1, 0), "nexus edit abc --gpus 0"),
            (samples::no_such_gpus(4, 2), "nexus edit abc --gpus 2"),
            (samples::gpus_needed(1, [0, 1, 0, 0, 0]), "nexus first abc"),
            (Waiting::NoSuchCpus { need: 64, exist: 8 }, "nexus edit abc --cpus 8"),
            (Waiting::Cpus { need: 8, free: 2 }, "nexus wait abc"),
            (Waiting::Next, "nexus show abc"),
        ] {
            let told = waiting_for(waiting.clone());
            let (_, typed) = told.split_once("  Type:").unwrap_or_else(|| panic!("{told}"));
            assert!(typed.contains(command), "{waiting:?}: {told}");
        }
    }

    #[test]
    fn a_failure_is_explained() {
        let mut job = samples::ended("abc", State::Failed, "exit");
        (job.exit_code, job.attempt, job.retries) = (Some(137), 3, 2);
        let mut facts = facts(job);
        facts.last_lines = vec!["epoch 3".into(), "\x1b[31mkilled".into()];
        assert_eq!(
            told(&facts),
            "\
abc: failed (exit 137) on GPU 0 at 15:32 after 2m 10s
  Command:  python train.py
  Meaning:  137 = 128 + 9: a program in it was ended by signal 9 (KILL); KILL mostly comes from the kernel when memory runs out, or from somebody's kill -9
  Tried:    3 times, with at most 2 of --retries
  Printed:  epoch 3
            \\x1b[31mkilled
  Type:     nexus logs abc   to see all it printed
            nexus rerun abc  to queue it again as it was
"
        );
    }

    #[test]
    fn failures_have_hints_of_their_kind() {
        let mut job = samples::ended("abc", State::Failed, "timeout");
        job.request.time_seconds = Some(1800);
        let seen = told(&facts(job));
        assert!(seen.contains("  Meaning:  it ran longer than its --time 30m\n"), "{seen}");
        assert!(seen.contains("nexus edit $(nexus rerun abc) --time 1h"), "{seen}");
        assert!(told(&facts(samples::ended("abc", State::Failed, "gpu-oom"))).contains("nexus gpus "));
        assert!(told(&facts(samples::ended("abc", State::Failed, "host-oom"))).contains("free -h "));
        let mut job = samples::ended("abc", State::Failed, "start-error");
        job.argv = Some(vec!["pyton".into()]);
        let mut facts = facts(job);
        assert!(told(&facts).contains("nexus show --env abc"));
        facts.cwd_exists = false;
        assert!(told(&facts).contains("mkdir -p /work "));
    }

    #[test]
    fn the_others_do_not_wait() {
        let seen = told(&facts(samples::running("abc", &[0])));
        let first = "abc: does not wait: it runs on GPU 0 since 15:30 (2h 15m), pid 4312\n";
        assert!(seen.starts_with(first) && seen.contains("nexus logs -f abc"), "{seen}");
        let seen = told(&facts(samples::ended("abc", State::Completed, "")));
        assert!(seen.starts_with("abc: completed on GPU 0 at 15:32 after 2m 10s\n"), "{seen}");
        let seen = told(&facts(samples::ended("abc", State::Killed, "stopped")));
        assert!(seen.contains("nexus stop") && seen.contains("nexus rerun abc"), "{seen}");
    }

    #[test]
    fn what_it_asks_for_now_is_said_where_it_is_not_what_was_asked() {
        let asks = |vram: Option<Vram>, now: Option<u64>, oom: bool| {
            let mut job = samples::queued("abc");
            (job.request.vram, job.request.gpus) = (vram, vram.is_none().then(|| GpuAmount::part(250)).flatten());
            job.waiting = Some(Waiting::Gpus(GpusMissing { need: 1, vram_mib: now, ..GpusMissing::default() }));
            let mut facts = facts(job);
            if oom {
                let outcome = RunOutcome { word: "gpu-oom".into(), exit_code: Some(1), signal: None, error: None };
                facts.runs = vec![Run { outcome: Some(outcome), ..samples::run() }];
            }
            asks_now(&facts)
        };
        let since = "since it ran out of GPU memory";
        assert_eq!(asks(None, None, true), Some(format!("GPUs of its own, {since}")));
        assert_eq!(asks(Some(Vram::Mib(4096)), Some(85_344), true), Some(format!("83.3G of each, {since}")));
        assert_eq!(asks(Some(Vram::Mib(4096)), Some(4096), false), None);
        assert!(asks(Some(Vram::Auto), None, false).unwrap().contains("no run of this command"));
        assert!(asks(Some(Vram::Auto), Some(7181), false).unwrap().starts_with("7G of each: "));
    }

    #[test]
    fn a_retry_tells_of_the_attempt_before() {
        let mut job = samples::queued("abc");
        (job.attempt, job.waiting) = (1, Some(Waiting::Retry { until: "2024-10-24T15:50:00Z".into() }));
        let mut facts = facts(job);
        let outcome = RunOutcome { word: "exit".into(), exit_code: Some(3), signal: None, error: None };
        facts.runs = vec![Run { outcome: Some(outcome), ..samples::run() }];
        facts.last_lines = vec!["oh no".into()];
        let seen = told(&facts);
        assert!(seen.starts_with("abc: tried again at 17:50\n"), "{seen}");
        assert!(seen.contains("  Before:   attempt 1 failed: exit 3\n  Printed:  oh no\n"), "{seen}");
    }
}
