//! The exit code of `run`: that of its job, as a shell would give it.

use nexus_api::jobs::{Job, State};

use crate::error::code;

const TIMED_OUT: u8 = 124;
const NOT_STARTED: u8 = 127;
const SIGNALLED: i32 = 128;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    pub code: u8,
    /// Whether the code alone would leave the user guessing.
    pub needs_words: bool,
}

/// `signal`: the one that had it killed from here.
pub fn of_job(job: &Job, signal: Option<i32>) -> Exit {
    let told = |code: u8| Exit { code, needs_words: true };
    let low_byte = |code: i32| (code & 0xff) as u8;
    match (job.state, job.reason.as_deref()) {
        (State::Completed, _) => Exit { code: 0, needs_words: false },
        (State::Failed, Some("exit")) => {
            // A code of which nothing is known is no success.
            let code = job.exit_code.map_or(code::CANNOT_BE_MET, low_byte);
            Exit { code: if code == 0 { code::CANNOT_BE_MET } else { code }, needs_words: false }
        }
        (State::Failed, Some("signal")) => told(low_byte(SIGNALLED + job.signal.unwrap_or(0))),
        (State::Failed, Some("gpu-oom" | "host-oom")) => {
            let code = job.exit_code.or(job.signal.map(|signal| SIGNALLED + signal)).map(low_byte);
            told(code.filter(|code| *code != 0).unwrap_or(code::CANNOT_BE_MET))
        }
        (State::Failed, Some("timeout")) => told(TIMED_OUT),
        (State::Failed, Some("start-error")) => told(job.exit_code.map_or(NOT_STARTED, low_byte)),
        (State::Killed, _) => told(signal.map_or(code::CANNOT_BE_MET, |signal| low_byte(SIGNALLED + signal))),
        _ => told(code::CANNOT_BE_MET),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::samples;

    #[test]
    fn codes_are_those_a_shell_would_give() {
        let of = |state, reason: &str, exit_code, signal, killed_by| {
            let mut job = samples::ended("abc", state, reason);
            (job.exit_code, job.signal) = (exit_code, signal);
            let end = of_job(&job, killed_by);
            (end.code, end.needs_words)
        };
        assert_eq!(of(State::Completed, "", Some(0), None, None), (0, false));
        assert_eq!(of(State::Completed, "", Some(0), None, Some(15)), (0, false), "it was faster than the signal");
        assert_eq!(of(State::Failed, "exit", Some(3), None, None), (3, false));
        assert_eq!(of(State::Failed, "exit", Some(256), None, None), (1, false));
        assert_eq!(of(State::Failed, "signal", None, Some(9), None), (137, true));
        assert_eq!(of(State::Failed, "gpu-oom", Some(1), None, None), (1, true));
        assert_eq!(of(State::Failed, "host-oom", None, Some(9), None), (137, true));
        assert_eq!(of(State::Failed, "timeout", None, Some(15), None), (124, true));
        assert_eq!(of(State::Failed, "start-error", None, None, None), (127, true));
        assert_eq!(of(State::Failed, "start-error", Some(126), None, None), (126, true));
        for word in ["lost", "dependency", "session-closed"] {
            assert_eq!(of(State::Failed, word, None, None, None), (1, true), "{word}");
        }
        for word in ["user", "removed", "stopped"] {
            assert_eq!(of(State::Killed, word, None, Some(15), None), (1, true), "{word}");
        }
        assert_eq!(of(State::Killed, "user", None, Some(15), Some(2)), (130, true));
        assert_eq!(of(State::Killed, "removed", None, None, Some(15)), (143, true));
    }
}
