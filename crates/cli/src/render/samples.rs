//! Jobs and GPUs to draw in tests.

use jiff::Zoned;
use nexus_api::amount::GpuAmount;
use nexus_api::jobs::{GpusMissing, Job, JobDetail, JobRequest, Run, State, Waiting};
use nexus_api::service::{Gpu, GpuProcess, Machine, Obstacle, RecentFailure, Status};
use nexus_api::sweeps::{Axis, Plan, STOP_AFTER, States, Sweep};

pub fn now() -> Zoned {
    "2024-10-24T17:45:00+02:00[Europe/Berlin]".parse().unwrap()
}

pub fn gpu(index: u16) -> Gpu {
    Gpu {
        index,
        uuid: format!("GPU-{index}"),
        name: "NVIDIA GeForce RTX 3090".into(),
        memory_mib: 24268,
        ..Gpu::default()
    }
}

/// At work.
pub fn read_gpu(index: u16) -> Gpu {
    Gpu { used_mib: Some(20012), load_percent: Some(97), temperature_c: Some(71), power_w: Some(342), ..gpu(index) }
}

/// With somebody else's process.
pub fn foreign_gpu(index: u16) -> Gpu {
    Gpu {
        used_mib: Some(700),
        load_percent: Some(0),
        temperature_c: Some(34),
        processes: vec![process(4312, None)],
        obstacle: Some(Obstacle::InUse { pids: vec![4312] }),
        ..gpu(index)
    }
}

pub fn process(pid: u32, job: Option<&str>) -> GpuProcess {
    GpuProcess {
        pid,
        user: Some("alice".into()),
        name: Some("python".into()),
        memory_mib: Some(642),
        graphics: false,
        job: job.map(String::from),
        foreign: job.is_none(),
    }
}

pub fn queued(id: &str) -> Job {
    Job {
        id: id.into(),
        name: None,
        project: None,
        command: "python train.py".into(),
        argv: None,
        state: State::Queued,
        reason: None,
        detail: None,
        waiting: None,
        slurm: None,
        exit_code: None,
        signal: None,
        request: JobRequest::default(),
        machine: None,
        class: None,
        gpus: vec![],
        pid: None,
        priority: 0,
        attempt: 0,
        retries: 0,
        tags: vec![],
        sweep: None,
        params: None,
        submitted_at: "2024-10-24T13:00:00Z".into(),
        started_at: None,
        ended_at: None,
        runtime_seconds: None,
        cwd: "/work".into(),
        log_dir: format!("/h/logs/job_{id}"),
        stdout_path: format!("/h/logs/job_{id}/stdout.log"),
        stderr_path: format!("/h/logs/job_{id}/stderr.log"),
        results: None,
        results_state: "none".into(),
        results_named: vec![],
        extracted: None,
        links: vec![],
        simulated: false,
        position: None,
        rerun_of: None,
        replaced_by: None,
        expected: None,
    }
}

/// Free, held, in use outside, paused, unreadable.
pub fn gpus_needed(need: u16, [free, held, outside, paused, unreadable]: [u16; 5]) -> Waiting {
    let exist = free + held + outside + paused + unreadable;
    Waiting::Gpus(GpusMissing { need, exist, free, held, outside, paused, unreadable, ..GpusMissing::default() })
}

pub fn no_such_gpus(need: u16, exist: u16) -> Waiting {
    Waiting::NoSuchGpus(GpusMissing { need, exist, ..GpusMissing::default() })
}

/// On since 15:30, two hours and a quarter.
pub fn running(id: &str, gpus: &[u16]) -> Job {
    let request = JobRequest { gpus: Some(GpuAmount::whole(gpus.len() as u16)), ..JobRequest::default() };
    Job {
        state: State::Running,
        request,
        gpus: gpus.to_vec(),
        machine: Some("local".into()),
        pid: Some(4312),
        attempt: 1,
        started_at: Some("2024-10-24T13:30:00Z".into()),
        ..queued(id)
    }
}

pub fn ended(id: &str, state: State, reason: &str) -> Job {
    Job {
        state,
        reason: (!reason.is_empty()).then(|| reason.to_string()),
        pid: None,
        ended_at: Some("2024-10-24T13:32:10Z".into()),
        runtime_seconds: Some(130.0),
        ..running(id, &[0])
    }
}

/// Ten jobs over two values and five.
pub fn sweep(name: &str) -> Sweep {
    let axis = |name: &str, values: &str| Axis { name: name.into(), values: values.into() };
    Sweep {
        name: name.into(),
        project: None,
        command: "train --lr {lr} --seed {seed}".into(),
        params: vec!["lr".into(), "seed".into()],
        extract: vec![],
        plan: Plan { axes: vec![axis("lr", "0.1,0.01"), axis("seed", "1..5")], ..Plan::default() },
        copies: 1,
        jobs: 10,
        states: States { queued: 7, running: 2, failed: 1, ..States::default() },
        max_running: None,
        stop_after: STOP_AFTER,
        stopped: None,
        submitted_at: "2024-10-24T13:00:00Z".into(),
        expected_end: Some("2024-10-24T16:30:00Z".into()),
    }
}

/// One attempt on GPU 0.
pub fn run() -> Run {
    Run {
        attempt: 1,
        machine: "local".into(),
        gpus: vec![0],
        pid: None,
        planned_at: "2024-10-24T15:40:00Z".into(),
        started_at: None,
        ended_at: None,
        outcome: None,
        log_dir: "/h/logs/job_abc".into(),
        part: None,
        vram_mib: None,
        peak_vram_mib: None,
        out: None,
    }
}

pub fn failure(id: &str) -> RecentFailure {
    RecentFailure {
        id: id.into(),
        ended_at: "2024-10-24T15:41:30Z".into(),
        reason: "exit".into(),
        exit_code: Some(1),
        signal: None,
        detail: None,
        last_line: Some("ModuleNotFoundError: No module named 'foo'".into()),
    }
}

pub fn machine(gpus: Vec<Gpu>) -> Machine {
    Machine { name: "local".into(), cpus: 8, gpus, ..Machine::default() }
}

pub fn status(gpus: Vec<Gpu>, active: Vec<Job>) -> Status {
    Status {
        queue_paused: false,
        pending: 3,
        held: 0,
        completed: 25,
        failed: 0,
        killed: 0,
        failures: vec![],
        machines: vec![machine(gpus)],
        active,
        disk_free_bytes: 1 << 40,
        trouble: None,
        standstill: None,
    }
}

/// Nothing is known beyond the job.
pub fn detail(job: Job) -> JobDetail {
    JobDetail {
        job,
        runs: vec![],
        conda: None,
        venv: None,
        gpu_arg: None,
        code: None,
        env_names: vec![],
        env: None,
        checkpoint_dir: None,
        by_rule: None,
        after: vec![],
        after_any: vec![],
        retry_on: vec![],
        unique: false,
        notify: false,
        extract: vec![],
        results_folder: None,
        results_error: None,
        results_copy: None,
    }
}
