//! The status view.

use jiff::Zoned;
use nexus_api::jobs::Job;
use nexus_api::machines::MachineState;
use nexus_api::service::{Gpu, Machine, Status};

use super::paint::Paint;
use super::{gpus, outcome, place, slurm, text, time};

/// Below this the disk is told about.
const LITTLE_DISK_BYTES: u64 = 1 << 30;

pub fn status(status: &Status, now: &Zoned, paint: Paint) -> String {
    let mut lines = head(status, now, paint);
    for machine in &status.machines {
        lines.push(String::new());
        lines.extend(of_machine(machine, status, now, paint));
    }
    let cpu_jobs: Vec<&Job> =
        status.active.iter().filter(|job| job.request.amount().is_none()).filter(|job| job.waiting.is_none()).collect();
    if !cpu_jobs.is_empty() {
        lines.extend([String::new(), "CPU:".into()]);
        lines.extend(cpu_jobs.into_iter().flat_map(|job| job_lines(job, None, now, paint)));
    }
    lines.push(String::new());
    lines.join("\n")
}

fn head(status: &Status, now: &Zoned, paint: Paint) -> Vec<String> {
    let mut lines = trouble(status, paint);
    let held = if status.held > 0 { format!(", {} held", status.held) } else { String::new() };
    let queue = format!("{} pending{held}", text::counted(status.pending, "job"));
    let state = if status.queue_paused { "[PAUSED]" } else { "[RUNNING]" };
    lines.push(format!("Queue: {} {}", paint.queue(&queue), paint.state(state)));

    let mut history = format!("History: {} completed", text::counted(status.completed, "job"));
    for (count, word) in [(status.failed, "failed"), (status.killed, "killed")] {
        if count > 0 {
            history.push_str(&format!(", {count} {word}"));
        }
    }
    lines.push(history);
    lines.extend(status.failures.iter().take(3).map(|seen| format!("Failed: {}", outcome::failure(seen, now, paint))));
    if status.disk_free_bytes < LITTLE_DISK_BYTES {
        let free = status.disk_free_bytes >> 20;
        lines.push(paint.error(&format!("Disk: only {free}MB free where nexus keeps its files; make room")));
    }
    lines
}

/// What a person has to mend before anything else counts.
fn trouble(status: &Status, paint: Paint) -> Vec<String> {
    let Some(trouble) = &status.trouble else { return standstill(status, paint) };
    let mut lines = vec![paint.error(&trouble.title)];
    lines.extend(trouble.why.iter().chain(&trouble.hint).map(|text| format!("  {text}")));
    lines.push(String::new());
    lines
}

/// Why jobs wait that only a person can let start.
fn standstill(status: &Status, paint: Paint) -> Vec<String> {
    let Some(standstill) = &status.standstill else { return vec![] };
    let mut lines = vec![paint.error(&text::printable(&standstill.title))];
    for reason in &standstill.reasons {
        lines.push(format!("  {}", text::first_line(&reason.text)));
        lines.push(format!("    {}", text::printable(&reason.hint)));
    }
    lines.push(String::new());
    lines
}

fn of_machine(machine: &Machine, status: &Status, now: &Zoned, paint: Paint) -> Vec<String> {
    let whose = if status.machines.len() > 1 { format!(" of {}", machine.name) } else { String::new() };
    let state = standing(machine, paint);
    if let Some(slurm) = machine.pool.as_ref().and_then(|pool| pool.slurm.as_ref()) {
        let state = state.map(|state| format!("{state}; ")).unwrap_or_default();
        let mut lines = vec![format!("Slurm{whose}: {state}{}", slurm::in_short(slurm))];
        let is_there = |job: &&Job| job.machine.as_ref() == Some(&machine.name) && job.waiting.is_none();
        let jobs = status.active.iter().filter(is_there).filter(|job| !job.request.amount().is_none());
        lines.extend(jobs.flat_map(|job| job_lines(job, None, now, paint)));
        return lines;
    }
    if machine.gpus.is_empty()
        && let Some(state) = &state
    {
        return vec![format!("GPUs{whose}: {state}")];
    }
    if let Some(error) = machine.error.as_ref().filter(|_| machine.gpus.is_empty()) {
        let error = paint.error(&format!("cannot be read: {}", text::first_line(error)));
        return vec![format!("GPUs{whose}: {error}"), "  nexus doctor".into()];
    }
    if machine.gpus.is_empty() {
        return vec![
            format!("GPUs{whose}: none found"),
            "  nexus add --gpus 0 \"command\" runs a job on the CPU".into(),
        ];
    }
    let state = state.map(|state| format!(" {state}")).unwrap_or_default();
    let mut lines = vec![format!("GPUs{whose}:{state}")];
    lines.extend(machine.gpus.iter().flat_map(|gpu| gpu_lines(gpu, status, now, paint)));
    lines
}

/// What is to be said of a machine of a pool that does not take jobs.
fn standing(machine: &Machine, paint: Paint) -> Option<String> {
    let pool = machine.pool.as_ref()?;
    let word = match pool.state {
        MachineState::Ready => return None,
        state @ (MachineState::Unreachable | MachineState::Quarantined) => paint.error(state.word()),
        state => paint.state(state.word()),
    };
    match &pool.detail {
        Some(detail) => Some(format!("{word}: {}", text::first_line(detail))),
        None => Some(word),
    }
}

fn gpu_lines(gpu: &Gpu, status: &Status, now: &Zoned, paint: Paint) -> Vec<String> {
    let header = paint.gpu(&format!("GPU {} ({}):", gpu.index, place::model(gpu)));
    let mut also: Vec<String> = gpu.paused.then(|| paint.state("paused")).into_iter().collect();
    also.extend(gpus::obstacle(gpu, paint));
    if gpu.jobs.is_empty() {
        // What is to be said first stands where Available would.
        let first = if also.is_empty() { paint.available("Available") } else { also.remove(0) };
        let mut lines = vec![format!("{header} {first}")];
        lines.extend(also.into_iter().map(|line| format!("  {line}")));
        return lines;
    }
    let mut lines = vec![header];
    for id in &gpu.jobs {
        match status.active.iter().find(|job| &job.id == id) {
            Some(job) => lines.extend(job_lines(job, gpus::share(gpu, id), now, paint)),
            None => lines.push(format!("  Job ID: {}", paint.id(id))),
        }
    }
    lines.extend(gpus::left(gpu).map(|left| format!("  Left: {left}")));
    lines.extend(gpus::load(gpu).map(|load| format!("  Load: {load}")));
    lines.extend(also.into_iter().map(|line| format!("  {line}")));
    lines
}

/// `share` is what it holds of the GPU that it is shown under, where it has not all of it.
fn job_lines(job: &Job, share: Option<String>, now: &Zoned, paint: Paint) -> Vec<String> {
    let several = (job.gpus.len() > 1).then(|| place::gpu_words(&job.gpus)).filter(|_| job.slurm.is_none());
    let in_cluster = job.slurm.as_ref().map(|slurm| format!("{} on {}", slurm.job, slurm.nodes));
    let several = several.or(in_cluster);
    let also: Vec<String> = several.into_iter().chain(share).collect();
    let also = if also.is_empty() { String::new() } else { format!(" ({})", also.join(", ")) };
    let mut lines = vec![
        format!("  Job ID: {}{also}", paint.id(&job.id)),
        format!("  Command: {}", paint.command(&text::hanging(&job.command, 11))),
    ];
    match &job.started_at {
        Some(started) => {
            let runtime = time::span(time::seconds_since(started, now).unwrap_or(0));
            lines.push(format!("  Runtime: {}", paint.time(&runtime)));
            lines.push(format!("  Started: {}", paint.time(&time::clock(started, now))));
        }
        None => lines.push(format!("  Runtime: {}", paint.time("starting"))),
    }
    lines
}

#[cfg(test)]
mod tests {
    use nexus_api::amount::GpuAmount;
    use nexus_api::problem::Problem;
    use nexus_api::service::Obstacle;
    use nexus_api::standstill::{BlockReason, Standstill};

    use super::*;
    use crate::render::paint::PLAIN;
    use crate::render::samples;

    fn drawn(seen: &Status) -> String {
        status(seen, &samples::now(), PLAIN)
    }

    #[test]
    fn the_view_of_the_specification() {
        let mut busy = samples::gpu(1);
        busy.jobs = vec!["def".into()];
        let mut job = samples::running("def", &[1]);
        job.command = "python train.py --model gpt2".into();
        let mut seen = samples::status(vec![samples::gpu(0), busy], vec![job]);
        (seen.failed, seen.killed) = (2, 1);
        seen.failures = vec![samples::failure("abc")];
        assert_eq!(
            drawn(&seen),
            "\
Queue: 3 jobs pending [RUNNING]
History: 25 jobs completed, 2 failed, 1 killed
Failed: abc 3m ago, exit 1: ModuleNotFoundError: No module named 'foo'

GPUs:
GPU 0 (RTX 3090, 24GB): Available
GPU 1 (RTX 3090, 24GB):
  Job ID: def
  Command: python train.py --model gpt2
  Runtime: 2h 15m
  Started: 15:30
"
        );
    }

    #[test]
    fn a_damaged_database_stands_first() {
        let mut seen = samples::status(vec![samples::gpu(0)], vec![]);
        let (path, error) = ("/h/nexus.db".into(), "database disk image is malformed".into());
        seen.trouble = Some(Problem::DatabaseDamaged { path, error, backup: None }.told());
        let expected = "\
the database is damaged: nexus takes no jobs and starts none
  /h/nexus.db: database disk image is malformed; running jobs go on, and their folders keep how they end
  nexus stop; nexus start --new-database   (there is no backup: begins empty, keeps the damaged file)

Queue: 3 jobs pending [RUNNING]
";
        assert!(drawn(&seen).starts_with(expected), "{}", drawn(&seen));
    }

    #[test]
    fn a_queue_that_stands_still_is_said_first() {
        let mut seen = samples::status(vec![samples::gpu(0)], vec![]);
        let error = Some("Driver/library version mismatch".into());
        let unreadable = BlockReason::GpusUnreadable { machine: "local".into(), gpus: vec![0], error };
        let reasons = vec![BlockReason::QueuePaused { after_failures: None }, unreadable];
        seen.standstill = Some(Standstill::new("2024-10-24T15:30:15.123Z".into(), 3, Some(720), reasons));
        let expected = "\
the queue stands still: 3 jobs wait, and none has started for 12m
  the queue is paused
    nexus resume
  GPU 0 cannot be read: Driver/library version mismatch
    nvidia-smi must work; after an update of the driver the machine has to be restarted

Queue: 3 jobs pending [RUNNING]
";
        assert!(drawn(&seen).starts_with(expected), "{}", drawn(&seen));
    }

    #[test]
    fn one_job_pause_held_and_little_disk() {
        let mut seen = samples::status(vec![], vec![]);
        (seen.pending, seen.held, seen.completed, seen.queue_paused) = (1, 1, 1, true);
        seen.disk_free_bytes = 300 << 20;
        assert_eq!(
            drawn(&seen),
            "\
Queue: 1 job pending, 1 held [PAUSED]
History: 1 job completed
Disk: only 300MB free where nexus keeps its files; make room

GPUs: none found
  nexus add --gpus 0 \"command\" runs a job on the CPU
"
        );
    }

    #[test]
    fn a_driver_that_fails_is_not_a_box_without_gpus() {
        let mut seen = samples::status(vec![], vec![]);
        seen.machines[0].error = Some("the driver hangs".into());
        assert!(drawn(&seen).ends_with("GPUs: cannot be read: the driver hangs\n  nexus doctor\n"));
    }

    #[test]
    fn wide_simulated_and_cpu_jobs() {
        let mut gpus = vec![samples::gpu(0), samples::gpu(1), samples::gpu(2)];
        for gpu in &mut gpus {
            (gpu.simulated, gpu.jobs) = (true, vec!["abc".into()]);
        }
        gpus.truncate(1);
        let mut wide = samples::running("abc", &[0, 1, 2]);
        wide.command = "for i in 1 2\ndo echo $i; done".into();
        let mut on_cpu = samples::running("cpu", &[]);
        (on_cpu.request.gpus, on_cpu.started_at) = (Some(GpuAmount::NONE), None);
        assert_eq!(
            drawn(&samples::status(gpus, vec![wide, on_cpu])),
            "\
Queue: 3 jobs pending [RUNNING]
History: 25 jobs completed

GPUs:
GPU 0 (simulated, 24GB):
  Job ID: abc (GPUs 0-2)
  Command: for i in 1 2
           do echo $i; done
  Runtime: 2h 15m
  Started: 15:30

CPU:
  Job ID: cpu
  Command: python train.py
  Runtime: starting
"
        );
    }

    #[test]
    fn what_is_in_the_way_of_jobs_is_said() {
        let paused = Gpu { paused: true, ..samples::gpu(0) };
        let foreign = samples::foreign_gpu(1);
        let both = Gpu { paused: true, ..samples::foreign_gpu(2) };
        let with = |index, obstacle| Gpu { obstacle: Some(obstacle), ..samples::gpu(index) };
        let unreadable = with(3, Obstacle::Unreadable { error: "it fell off the bus".into() });
        let mut busy = Gpu { paused: true, jobs: vec!["abc".into()], ..samples::foreign_gpu(6) };
        (busy.used_mib, busy.load_percent) = (Some(20012), Some(97));
        let gpus = vec![
            paused,
            foreign,
            both,
            unreadable,
            with(4, Obstacle::Mig),
            with(5, Obstacle::LeftOut),
            busy,
            with(7, Obstacle::Locked { user: Some("bob".into()), pid: Some(7) }),
        ];
        let drawn = drawn(&samples::status(gpus, vec![samples::running("abc", &[6])]));
        assert_eq!(
            drawn.split_once("GPUs:\n").unwrap().1,
            "\
GPU 0 (RTX 3090, 24GB): paused
GPU 1 (RTX 3090, 24GB): in use outside nexus (pid 4312 alice python, 642MB)
GPU 2 (RTX 3090, 24GB): paused
  in use outside nexus (pid 4312 alice python, 642MB)
GPU 3 (RTX 3090, 24GB): cannot be read: it fell off the bus; takes no job
GPU 4 (RTX 3090, 24GB): in MIG mode: takes no job
GPU 5 (RTX 3090, 24GB): left out by gpus.use: takes no job
GPU 6 (RTX 3090, 24GB):
  Job ID: abc
  Command: python train.py
  Runtime: 2h 15m
  Started: 15:30
  Load: 97%, 19.5 of 24GB
  paused
  in use outside nexus (pid 4312 alice python, 642MB)
GPU 7 (RTX 3090, 24GB): in use outside nexus (nexus of bob)
"
        );
    }

    #[test]
    fn colours_of_the_specification() {
        let seen = samples::status(vec![samples::gpu(0)], vec![]);
        let text = status(&seen, &samples::now(), Paint { on: true });
        assert!(text.starts_with("Queue: \x1b[34m3 jobs pending\x1b[0m \x1b[33m[RUNNING]\x1b[0m\n"), "{text:?}");
        assert!(text.ends_with("\x1b[37mGPU 0 (RTX 3090, 24GB):\x1b[0m \x1b[92mAvailable\x1b[0m\n"), "{text:?}");
        let paused = Gpu { paused: true, ..samples::gpu(0) };
        let text = status(&samples::status(vec![paused], vec![]), &samples::now(), Paint { on: true });
        assert!(text.ends_with(" \x1b[33mpaused\x1b[0m\n"), "{text:?}");
    }
}
