//! Core's decisions in the words of the API.

use nexus_api::jobs::{JobRequest, RunOutcome, State, Waiting as WaitingWord};
use nexus_core::job::{End, Failure, KillReason};
use nexus_core::request::{GpuSet, Request};
use nexus_core::run::{Outcome, StopCause};
use nexus_core::waiting::Waiting;

use crate::clock;

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
                Failure::Lost => "lost",
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
        | Outcome::SessionClosed { code, signal }
        | Outcome::OutOfMemory { code, signal, .. } => (*code, *signal),
        Outcome::StartError { code, .. } => (*code, None),
        Outcome::MachineError { .. } | Outcome::Lost { .. } | Outcome::NeverStarted => (None, None),
    }
}

pub fn run_outcome(outcome: &Outcome, stop: Option<StopCause>) -> RunOutcome {
    let (exit_code, signal) = exit_of(outcome);
    let (state, reason) = end(&End::of(outcome, stop));
    let error = match outcome {
        Outcome::StartError { error, .. } | Outcome::MachineError { error } | Outcome::Lost { error } => {
            Some(error.clone())
        }
        _ => None,
    };
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
            Some(limit) => format!("it ran longer than its limit of {limit} seconds"),
            None => "it ran longer than its limit".into(),
        },
        "lost" => error.unwrap_or_else(|| "its supervisor is gone".into()),
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

/// What scheduling needs of a request.
pub fn request(request: &JobRequest) -> Request {
    Request {
        gpus: request.gpus,
        cpus: request.cpus.unwrap_or(if request.gpus == 0 { 1 } else { 0 }),
        on: request.on.as_ref().map(|indices| indices.iter().copied().collect()),
        force: request.force,
    }
}

pub fn waiting(waiting: &Waiting) -> WaitingWord {
    let indices = |set: GpuSet| set.iter().collect::<Vec<u16>>();
    let list = |set: &Option<GpuSet>| set.map(indices);
    match waiting {
        Waiting::Held => WaitingWord::Held,
        Waiting::QueuePaused => WaitingWord::QueuePaused,
        Waiting::DiskFull => WaitingWord::DiskFull,
        Waiting::Stopping => WaitingWord::Stopping,
        Waiting::Retry { until } => WaitingWord::Retry { until: clock::rfc3339(*until) },
        Waiting::NoSuchGpus { need, on, count } => WaitingWord::NoSuchGpus {
            need: *need,
            exist: count.exist(),
            on: list(on),
            mig: indices(count.mig),
            left_out: indices(count.left_out),
        },
        Waiting::Gpus { need, on, count } => WaitingWord::Gpus {
            need: *need,
            free: count.free,
            on: list(on),
            held: count.held,
            outside: count.outside,
            paused: count.paused,
            unreadable: count.unreadable,
            mig: indices(count.mig),
            left_out: indices(count.left_out),
        },
        Waiting::NoSuchCpus { need, exist } => WaitingWord::NoSuchCpus { need: *need, exist: *exist },
        Waiting::Cpus { need, free } => WaitingWord::Cpus { need: *need, free: *free },
        Waiting::Next => WaitingWord::Next,
    }
}
