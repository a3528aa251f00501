//! How a run ended: by the record of its shim, with Slurm's word beside it; where there is none, by that word alone.

use nexus_api::results::Found;
use nexus_api::run_dir::{Cause, ExitRecord, ExitStatus, FORMAT, Oom, Started};
use nexus_core::ids::RunId;

use super::parse::{State, Word};

/// What Slurm says of a job that is over for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Word(Word),
    /// It does not know of it any more. `was_seen`: it did, a moment ago: a task of an array that is cancelled before it
    /// begins goes without a word.
    Forgotten {
        was_seen: bool,
    },
}

impl Verdict {
    /// Whether its processes may go on all the same.
    pub fn may_live_on(&self) -> bool {
        match self {
            Verdict::Word(word) => {
                matches!(word.state, State::NodeFail | State::BootFail | State::Requeued) || was_fenced(word)
            }
            Verdict::Forgotten { .. } => true,
        }
    }
}

/// What is reported of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judged {
    Ended(ExitRecord),
    Lost(String),
}

/// Whether Slurm may have had a hand in this end, so that its word is worth waiting for.
pub fn is_unclear(record: &ExitRecord) -> bool {
    match (record.cause, &record.status) {
        (Cause::Asked, _) => true,
        (Cause::Own, ExitStatus::Exited { code }) => *code != 0,
        (Cause::Own, ExitStatus::Signaled { .. }) => true,
        _ => false,
    }
}

/// What a job of Slurm ends with whose run had begun before: Slurm has run it a second time.
pub const FENCED: i32 = 76;

/// What a job of Slurm ends with that asked for GPUs and was given none, before its run begins: a controller that was
/// just restarted has been seen to do that.
pub const NO_GPUS: i32 = 77;

/// Whether a run that never began may begin when it is submitted once more.
pub fn was_given_none(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Word(word) if word.exit.is_some_and(|exit| exit.code == NO_GPUS))
}

pub fn was_fenced(word: &Word) -> bool {
    word.exit.is_some_and(|exit| exit.code == FENCED)
}

/// The shim has written its record.
pub fn with_record(mut record: ExitRecord, verdict: Option<&Verdict>) -> Judged {
    let Some(Verdict::Word(word)) = verdict.filter(|_| is_unclear(&record)) else { return Judged::Ended(record) };
    match word.state {
        // Its own code would be the same.
        _ if was_fenced(word) && record.status != (ExitStatus::Exited { code: FENCED }) => {
            record.cause = Cause::Preempted;
        }
        State::TimedOut | State::Deadline => record.cause = Cause::Timeout,
        State::Preempted | State::Requeued => record.cause = Cause::Preempted,
        State::Cancelled => record.cause = Cause::Cancelled,
        // It was asked to end as it ended.
        State::Completed if record.status == (ExitStatus::Exited { code: 0 }) => record.cause = Cause::Own,
        State::NodeFail | State::BootFail => return Judged::Lost(on(word, "Slurm says that its node failed")),
        State::OutOfMemory if record.oom.is_none() => {
            (record.cause, record.oom) = (Cause::Own, Some(Oom::Host));
        }
        _ => {}
    }
    Judged::Ended(record)
}

/// Its shim began and left no record: it was killed, or its node is gone.
pub fn without_record(run: RunId, started: Option<&Started>, verdict: &Verdict, at_ms: i64) -> Judged {
    let killed = |cause, oom| {
        Judged::Ended(ExitRecord {
            format: FORMAT,
            run: run.to_string(),
            status: ExitStatus::Signaled { signal: libc::SIGKILL },
            cause,
            pid: started.map(|started| started.pid),
            started_at_ms: started.map(|started| started.started_at_ms),
            ended_at_ms: at_ms,
            lost_output_bytes: 0,
            oom,
            found: Found::default(),
        })
    };
    let Verdict::Word(word) = verdict else {
        return Judged::Lost("Slurm does not know of it any more, and it left no record".into());
    };
    match word.state {
        _ if was_fenced(word) => killed(Cause::Preempted, None),
        State::TimedOut | State::Deadline => killed(Cause::Timeout, None),
        State::Cancelled => killed(Cause::Cancelled, None),
        State::OutOfMemory => killed(Cause::Own, Some(Oom::Host)),
        State::Preempted | State::Requeued => killed(Cause::Preempted, None),
        State::NodeFail | State::BootFail => Judged::Lost(on(word, "Slurm says that its node failed")),
        _ => Judged::Lost(on(word, &format!("Slurm says {}, and it left no record", said(word)))),
    }
}

/// Slurm is done with it, and its shim never began. `said_by_script`: what the batch script complained of.
pub fn unstarted(run: RunId, verdict: &Verdict, said_by_script: &str, at_ms: i64) -> Judged {
    let complaint = said_by_script.trim();
    let failed = |error: String| Judged::Ended(never_began(run, ExitStatus::MachineError { error }, at_ms));
    let cancelled = || {
        let record = never_began(run, ExitStatus::NeverBegan, at_ms);
        Judged::Ended(ExitRecord { cause: Cause::Cancelled, ..record })
    };
    let word = match verdict {
        Verdict::Word(word) => word,
        Verdict::Forgotten { was_seen: true } => {
            return cancelled();
        }
        Verdict::Forgotten { was_seen: false } => {
            return failed("Slurm does not know of it any more, and it never began".into());
        }
    };
    match word.state {
        State::Cancelled => cancelled(),
        State::NodeFail | State::BootFail => failed(on(word, "its node failed before it began")),
        State::Preempted | State::Requeued => failed(on(word, "it was preempted before it began")),
        _ if !complaint.is_empty() => failed(on(word, complaint)),
        _ if word.exit.is_some_and(|exit| matches!(exit.code, 126 | 127)) => failed(on(
            word,
            "nexus cannot be started there: is its folder on a file system that the compute nodes see?",
        )),
        _ => failed(on(word, &format!("Slurm says {} before it began", said(word)))),
    }
}

/// The record of a run that never began, and never will.
pub fn refused(run: RunId, error: &str, at_ms: i64) -> ExitRecord {
    never_began(run, ExitStatus::StartError { error: error.to_string(), code: None }, at_ms)
}

fn never_began(run: RunId, status: ExitStatus, at_ms: i64) -> ExitRecord {
    ExitRecord {
        format: FORMAT,
        run: run.to_string(),
        status,
        cause: Cause::Own,
        pid: None,
        started_at_ms: None,
        ended_at_ms: at_ms,
        lost_output_bytes: 0,
        oom: None,
        found: Found::default(),
    }
}

fn said(word: &Word) -> String {
    match word.exit {
        Some(exit) => format!("{} (exit {}, signal {})", word.state.word(), exit.code, exit.signal),
        None => word.state.word().to_string(),
    }
}

fn on(word: &Word, what: &str) -> String {
    match word.nodes.is_empty() {
        true => what.to_string(),
        false => format!("{what} ({})", word.nodes),
    }
}
