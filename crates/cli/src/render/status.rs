//! The status view.

use jiff::Zoned;
use nexus_api::jobs::Job;
use nexus_api::service::{Gpu, Machine, Status};

use super::paint::Paint;
use super::{outcome, place, text, time};

/// Below this the disk is told about.
const LITTLE_DISK_BYTES: u64 = 1 << 30;

pub fn status(status: &Status, now: &Zoned, paint: Paint) -> String {
    let mut lines = head(status, now, paint);
    for machine in &status.machines {
        lines.push(String::new());
        lines.extend(gpus(machine, status, now, paint));
    }
    let cpu_jobs: Vec<&Job> = status.active.iter().filter(|job| job.request.gpus == 0).collect();
    if !cpu_jobs.is_empty() {
        lines.extend([String::new(), "CPU:".into()]);
        lines.extend(cpu_jobs.into_iter().flat_map(|job| job_lines(job, now, paint)));
    }
    lines.push(String::new());
    lines.join("\n")
}

fn head(status: &Status, now: &Zoned, paint: Paint) -> Vec<String> {
    let held = if status.held > 0 { format!(", {} held", status.held) } else { String::new() };
    let queue = format!("{} pending{held}", text::counted(status.pending, "job"));
    let state = if status.queue_paused { "[PAUSED]" } else { "[RUNNING]" };
    let mut lines = vec![format!("Queue: {} {}", paint.queue(&queue), paint.state(state))];

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

fn gpus(machine: &Machine, status: &Status, now: &Zoned, paint: Paint) -> Vec<String> {
    let of_machine = if status.machines.len() > 1 { format!(" of {}", machine.name) } else { String::new() };
    if machine.gpus.is_empty() {
        return vec![
            format!("GPUs{of_machine}: none found"),
            "  nexus add --gpus 0 \"command\" runs a job on the CPU".into(),
        ];
    }
    let mut lines = vec![format!("GPUs{of_machine}:")];
    lines.extend(machine.gpus.iter().flat_map(|gpu| gpu_lines(gpu, status, now, paint)));
    lines
}

fn gpu_lines(gpu: &Gpu, status: &Status, now: &Zoned, paint: Paint) -> Vec<String> {
    let header = paint.gpu(&format!("GPU {} ({}):", gpu.index, place::model(gpu)));
    if gpu.jobs.is_empty() {
        return vec![format!("{header} {}", paint.available("Available"))];
    }
    let mut lines = vec![header];
    for id in &gpu.jobs {
        match status.active.iter().find(|job| &job.id == id) {
            Some(job) => lines.extend(job_lines(job, now, paint)),
            None => lines.push(format!("  Job ID: {}", paint.id(id))),
        }
    }
    lines
}

fn job_lines(job: &Job, now: &Zoned, paint: Paint) -> Vec<String> {
    let also = if job.gpus.len() > 1 { format!(" ({})", place::gpu_words(&job.gpus)) } else { String::new() };
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
    fn wide_simulated_and_cpu_jobs() {
        let mut gpus = vec![samples::gpu(0), samples::gpu(1), samples::gpu(2)];
        for gpu in &mut gpus {
            (gpu.simulated, gpu.jobs) = (true, vec!["abc".into()]);
        }
        gpus.truncate(1);
        let mut wide = samples::running("abc", &[0, 1, 2]);
        wide.command = "for i in 1 2\ndo echo $i; done".into();
        let mut on_cpu = samples::running("cpu", &[]);
        (on_cpu.request.gpus, on_cpu.started_at) = (0, None);
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
    fn colours_of_the_specification() {
        let seen = samples::status(vec![samples::gpu(0)], vec![]);
        let text = status(&seen, &samples::now(), Paint { on: true });
        assert!(text.starts_with("Queue: \x1b[34m3 jobs pending\x1b[0m \x1b[33m[RUNNING]\x1b[0m\n"), "{text:?}");
        assert!(text.ends_with("\x1b[37mGPU 0 (RTX 3090, 24GB):\x1b[0m \x1b[92mAvailable\x1b[0m\n"), "{text:?}");
    }
}
