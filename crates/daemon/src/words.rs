//! Core's decisions in the words of the API.

use std::time::Duration;

use nexus_api::amount::{GpuAmount, Vram as VramWord};
use nexus_api::jobs::{GpusMissing, JobSpec, RetryOn, RunOutcome, State, Waiting as WaitingWord};
use nexus_api::run_dir::gpu_is_held;
use nexus_api::values;
use nexus_core::event::{Needs, QueuePause};
use nexus_core::free::GpuCount;
use nexus_core::job::{End, Failure, KillReason};
use nexus_core::request::{GpuSet, Model, Request, Same, Share, Target, Vram};
use nexus_core::run::{Outcome, StopCause};
use nexus_core::sweep::Stopped;
use nexus_core::waiting::Waiting;

use crate::clock;
use crate::names::{DEFAULT_CLASS, Names};

/// Reasons of jobs that failed, and of those that were killed.
pub const FAILURES: &[&str] = &[
    "exit",
    "signal",
    "timeout",
    "gpu-oom",
    "host-oom",
    "lost",
    "preempted",
    "cancelled",
    "start-error",
    "dependency",
    "session-closed",
];
pub const KILLS: &[&str] = &["user", "removed", "stopped"];

/// Outcome of a run that never began, since another service held its GPU: no end of its job.
pub const GPU_LOCKED: &str = "gpu-locked";

/// State and reason of an ended job.
pub fn end(end: &End) -> (State, Option<&'static str>) {
    match end {
        End::Completed => (State::Completed, None),
        End::Failed(failure) => (
            State::Failed,
            Some(match failure {
                Failure::Exit { .. } => "exit",
                Failure::Signal { .. } => "signal",
                Failure::Timeout => "timeout",
                Failure::Dependency { .. } => "dependency",
                Failure::Lost => "lost",
                Failure::Preempted => "preempted",
                Failure::Cancelled => "cancelled",
                Failure::StartError => "start-error",
                Failure::SessionClosed => "session-closed",
                Failure::GpuOom => "gpu-oom",
                Failure::HostOom => "host-oom",
            }),
        ),
        End::Killed(reason) => (
            State::Killed,
            Some(match reason {
                KillReason::User => "user",
                KillReason::Removed => "removed",
                KillReason::Stopped => "stopped",
            }),
        ),
    }
}

/// Exit code and signal, as far as there were any.
pub fn exit_of(outcome: &Outcome) -> (Option<i32>, Option<i32>) {
    match outcome {
        Outcome::Exited { code } => (Some(*code), None),
        Outcome::Signaled { signal } => (None, Some(*signal)),
        Outcome::Stopped { code, signal }
        | Outcome::TimedOut { code, signal }
        | Outcome::OutOfMemory { code, signal, .. }
        | Outcome::SessionClosed { code, signal } => (*code, *signal),
        Outcome::StartError { code, .. } => (*code, None),
        Outcome::MachineError { .. } | Outcome::Lost { .. } | Outcome::GpuLocked { .. } => (None, None),
        Outcome::Cancelled { code, signal } => (*code, *signal),
        Outcome::Preempted | Outcome::NeverStarted => (None, None),
    }
}

pub fn run_outcome(outcome: &Outcome, stop: Option<StopCause>) -> RunOutcome {
    let (exit_code, signal) = exit_of(outcome);
    let (state, reason) = end(&End::of(outcome, stop));
    let error = match outcome {
        Outcome::StartError { error, .. } | Outcome::MachineError { error } | Outcome::Lost { error } => {
            Some(error.clone())
        }
        Outcome::GpuLocked { uuid, user, pid } => Some(gpu_is_held(uuid, user.as_deref(), *pid)),
        _ => None,
    };
    if let (Outcome::GpuLocked { .. }, None) = (outcome, stop) {
        return RunOutcome { word: GPU_LOCKED.into(), exit_code, signal, error };
    }
    RunOutcome { word: reason.unwrap_or(state.word()).to_string(), exit_code, signal, error }
}

/// One sentence on how a job ended; none for one that completed.
pub fn detail(reason: &str, outcome: Option<&RunOutcome>, time_seconds: Option<u64>) -> String {
    let error = outcome.and_then(|outcome| outcome.error.clone());
    let code = outcome.and_then(|outcome| outcome.exit_code);
    let signal = outcome.and_then(|outcome| outcome.signal);
    let left = || match (code, signal) {
        (Some(code), _) => format!("exited with code {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".into(),
    };
    match reason {
        "exit" => format!("it exited with code {}", code.unwrap_or(-1)),
        "signal" => format!("it was ended by signal {}", signal.unwrap_or(0)),
        "timeout" => match time_seconds {
            Some(limit) => format!("it ran longer than its limit of {}", values::limit(limit)),
            None => "it ran longer than its limit".into(),
        },
        "lost" => error.unwrap_or_else(|| "its supervisor is gone".into()),
        "preempted" => "the cluster took its place back".into(),
        "cancelled" => match (code, signal) {
            (None, None) => "it was cancelled in Slurm, past nexus, before it began".into(),
            _ => "it was cancelled in Slurm, past nexus".into(),
        },
        "start-error" => error.unwrap_or_else(|| "it could not be started".into()),
        "session-closed" => "the screen session that it ran in was closed".into(),
        "gpu-oom" => format!("the memory of its GPU did not suffice, and it {}", left()),
        "host-oom" => format!("the memory of the machine did not suffice, and it {}", left()),
        "user" => "it was killed by the user".into(),
        "removed" => "it was taken out of the queue".into(),
        "stopped" => "it was ended with the service".into(),
        other => other.to_string(),
    }
}

/// What scheduling needs of a spec, as far as that says it: who else is there is not known here.
pub fn needs(spec: &JobSpec, same: Same, names: &Names) -> Needs {
    Needs {
        request: request(spec, same, names),
        same,
        limit: longest(spec),
        retries: spec.retries,
        copies: spec.results.is_some(),
        retry_on_timeout: spec.retry_on.contains(&RetryOn::Timeout),
        ..Needs::default()
    }
}

/// How long it may hold its GPUs: its limit, and the grace that it asks for then.
fn longest(spec: &JobSpec) -> Option<Duration> {
    let grace = spec.request.grace_seconds.unwrap_or(0);
    spec.request.time_seconds.map(|limit| Duration::from_secs(limit.saturating_add(grace)))
}

fn request(spec: &JobSpec, same: Same, names: &Names) -> Request {
    let request = &spec.request;
    let amount = request.amount();
    let vram = match request.vram {
        None => Vram::Unsaid,
        Some(VramWord::Mib(mib)) => Vram::Mib(mib),
        Some(VramWord::Auto) => Vram::Learned(same),
    };
    Request {
        gpus: amount.count(),
        share: (request.shares() && !amount.is_none()).then(|| Share { milli: amount.milli().unwrap_or(0), vram }),
        cpus: request.cpus.unwrap_or(if amount.is_none() { 1 } else { 0 }).into(),
        ram_mib: request.ram_mib.map_or(0, |mib| u32::try_from(mib).unwrap_or(u32::MAX)),
        on: request.on.as_ref().map(|indices| indices.iter().copied().collect()),
        model: request.gpu_model.as_deref().and_then(Model::new),
        force: request.force,
        within: None,
        target: names.target(request),
        driver: request.driver,
    }
}

/// How a job failed, in a few words: `exit 1`, `signal 9`, `timeout`.
pub fn failure(failure: &Failure) -> String {
    match failure {
        Failure::Exit { code } => format!("exit {code}"),
        Failure::Signal { signal } => format!("signal {signal}"),
        other => end(&End::Failed(other.clone())).1.unwrap_or("failed").to_string(),
    }
}

/// Reads the reason and the numbers of a job that failed; none for a reason that says nothing of itself.
pub fn failure_of(reason: &str, code: Option<i32>, signal: Option<i32>) -> Option<Failure> {
    Some(match reason {
        "exit" => Failure::Exit { code: code? },
        "signal" => Failure::Signal { signal: signal? },
        "timeout" => Failure::Timeout,
        "gpu-oom" => Failure::GpuOom,
        "host-oom" => Failure::HostOom,
        "lost" => Failure::Lost,
        "preempted" => Failure::Preempted,
        "cancelled" => Failure::Cancelled,
        "start-error" => Failure::StartError,
        "session-closed" => Failure::SessionClosed,
        _ => return None,
    })
}

/// Why a sweep is held, as stored: `3 exit 1`.
pub fn stopped(stopped: &Stopped) -> String {
    format!("{} {}", stopped.failures, failure(&stopped.failure))
}

/// Reads what [`stopped`] wrote.
pub fn stopped_of(text: &str) -> Option<Stopped> {
    let mut words = text.split(' ');
    let (failures, reason) = (words.next()?.parse().ok()?, words.next()?);
    let number = words.next().and_then(|number| number.parse().ok());
    Some(Stopped { failures, failure: failure_of(reason, number, number)? })
}

pub fn stopped_sentence(stopped: &Stopped) -> String {
    match stopped.failures {
        1 => format!("its first job failed: {}", failure(&stopped.failure)),
        count => format!("its first {count} jobs all failed: {}", failure(&stopped.failure)),
    }
}

pub fn waiting(waiting: &Waiting, names: &Names) -> WaitingWord {
    match waiting {
        Waiting::Held => WaitingWord::Held,
        Waiting::SweepStopped(stopped) => {
            WaitingWord::SweepStopped { failures: stopped.failures, failure: failure(&stopped.failure) }
        }
        Waiting::SweepFull { running, limit } => WaitingWord::SweepFull { running: *running, limit: *limit },
        Waiting::QueuePaused(pause) => WaitingWord::QueuePaused {
            after_failures: match pause {
                QueuePause::ByUser => None,
                QueuePause::AfterFailures(count) => Some(*count),
            },
        },
        Waiting::DiskFull => WaitingWord::DiskFull,
        Waiting::Stopping => WaitingWord::Stopping,
        Waiting::Delayed { until } => WaitingWord::Delayed { until: clock::rfc3339(*until) },
        Waiting::Retry { until } => WaitingWord::Retry { until: clock::rfc3339(*until) },
        Waiting::After { jobs, count } => {
            WaitingWord::After { jobs: jobs.iter().map(ToString::to_string).collect(), count: *count }
        }
        Waiting::NoSuchGpus { request, count } => WaitingWord::NoSuchGpus(gpus_missing(request, count)),
        Waiting::Gpus { request, count } => WaitingWord::Gpus(gpus_missing(request, count)),
        Waiting::Kept { job, at } => WaitingWord::Kept { job: job.to_string(), at: at.map(clock::rfc3339) },
        Waiting::ClusterFull { runs, most } => WaitingWord::ClusterFull { runs: *runs, most: *most },
        Waiting::NoSuchCpus { need, exist } => WaitingWord::NoSuchCpus { need: *need, exist: *exist },
        Waiting::Cpus { need, free } => WaitingWord::Cpus { need: *need, free: *free },
        Waiting::NoSuchRam { need_mib, exist_mib } => {
            WaitingWord::NoSuchRam { need_mib: (*need_mib).into(), exist_mib: *exist_mib }
        }
        Waiting::Ram { need_mib, free_mib } => WaitingWord::Ram { need_mib: (*need_mib).into(), free_mib: *free_mib },
        Waiting::Machines { target, unreachable, paused, quarantined } => {
            let (class, machine) = target_names(*target, names);
            let (unreachable, paused, quarantined) = (*unreachable, *paused, *quarantined);
            WaitingWord::Machines { class, machine, unreachable, paused, quarantined }
        }
        Waiting::NoSuchMachines { target } => {
            let (class, machine) = target_names(*target, names);
            WaitingWord::NoSuchMachines { class, machine }
        }
        Waiting::Next => WaitingWord::Next,
    }
}

/// The class that it may be on, or the machine.
fn target_names(target: Target, names: &Names) -> (Option<String>, Option<String>) {
    match target {
        Target::Default => (Some(DEFAULT_CLASS.into()), None),
        Target::Class(class) => (Some(names.class_name(class).into()), None),
        Target::Machine(machine) => (None, Some(names.machine_name(machine).into())),
    }
}

fn gpus_missing(request: &Request, count: &GpuCount) -> GpusMissing {
    let indices = |set: GpuSet| set.iter().collect::<Vec<u16>>();
    let share = request.share;
    GpusMissing {
        need: request.gpus,
        part: share.filter(|share| share.milli > 0).and_then(|share| GpuAmount::part(share.milli)),
        vram_mib: share.and_then(|share| match share.vram {
            Vram::Mib(mib) => Some(mib.into()),
            Vram::Unsaid | Vram::Learned(_) => None,
        }),
        on: request.on.map(indices),
        model: request.model.map(|model| model.as_str().to_string()),
        exist: count.exist(),
        free: count.free,
        held: count.held,
        shared: count.shared,
        full: count.full,
        low_memory: count.low_memory,
        busy: count.busy,
        outside: count.outside,
        paused: count.paused,
        unreadable: count.unreadable,
        most_part: share.map(|_| GpuAmount::part(count.most_milli).unwrap_or(GpuAmount::ONE)),
        most_free_mib: share.map(|_| count.most_free_mib),
        mig: indices(count.mig),
        left_out: indices(count.left_out),
        other_model: indices(count.other_model),
        too_small: indices(count.too_small),
    }
}
