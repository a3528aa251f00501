//! What an end means: exit codes, signals and reason words, explained.

use nexus_api::jobs::{Job, State};

use super::time;
use crate::signals;

/// Codes above this are, by the custom of shells, signals.
const SIGNALLED: i32 = 128;

/// What is known about an end beyond its word; nothing where the word says it all.
pub fn meaning(job: &Job, cwd_exists: bool) -> Vec<String> {
    let detail = job.detail.clone();
    match (job.state, job.reason.as_deref().unwrap_or_default()) {
        (State::Killed, "user") => lines(["somebody ended it with nexus kill or cancel, or Ctrl-C in nexus run"]),
        (State::Killed, "removed") => lines(["somebody took it out of the queue: nexus remove or cancel"]),
        (State::Killed, "stopped") => lines(["it was ended together with the service: nexus stop"]),
        (_, "exit") => of_code(job.exit_code.unwrap_or(0)).into_iter().collect(),
        (_, "signal") => of_signal(job.signal.unwrap_or(0)).map(String::from).into_iter().collect(),
        (_, "timeout") => match job.request.time_seconds {
            Some(seconds) => vec![format!("it ran longer than its --time {}", time::limit(seconds))],
            None => detail.into_iter().collect(),
        },
        (_, "start-error") => start_error(job, cwd_exists),
        (_, "lost") => {
            let known = "nobody saw its end: its watcher or the whole machine went down".to_string();
            detail.into_iter().chain([known]).collect()
        }
        (_, "session-closed") => lines(["its screen session was closed, and it ended with that"]),
        (_, "dependency") => detail.into_iter().collect(),
        (_, "gpu-oom") => {
            lines(["the memory of the GPU did not suffice: a smaller batch or model, or a GPU with more of it"])
        }
        (_, "host-oom") => {
            lines(["the memory of the machine did not suffice, and the kernel ended it or a process of it"])
        }
        _ => detail.into_iter().collect(),
    }
}

fn lines<const N: usize>(texts: [&str; N]) -> Vec<String> {
    texts.map(String::from).to_vec()
}

/// What a shell says by an exit code; none where it is the program's own.
pub fn of_code(code: i32) -> Option<String> {
    match code {
        126 => Some("126: the shell found the program and could not run it: is it executable?".into()),
        127 => Some("127: the shell found no such program: is it installed, and in the job's PATH?".into()),
        code if code > SIGNALLED && code <= SIGNALLED + 64 => {
            let signal = code - SIGNALLED;
            let what = signals::described(signal);
            let more = of_signal(signal).map(|more| format!("; {more}")).unwrap_or_default();
            Some(format!("{code} = 128 + {signal}: a program in it was ended by {what}{more}"))
        }
        _ => None,
    }
}

fn of_signal(signal: i32) -> Option<&'static str> {
    Some(match signal {
        libc::SIGKILL => "KILL mostly comes from the kernel when memory runs out, or from somebody's kill -9",
        libc::SIGSEGV => "SEGV: it touched memory that is not its own, a fault in the program or a library of it",
        libc::SIGBUS => "BUS: often a full /dev/shm, or a file that was cut while it was in use",
        libc::SIGABRT => "ABRT: it gave up by itself, mostly with a message before that",
        libc::SIGILL => "ILL: the program was built for another kind of CPU",
        libc::SIGFPE => "FPE: a division by zero, or the like",
        libc::SIGTERM => "TERM: somebody outside nexus asked it to end",
        libc::SIGINT => "INT: somebody pressed Ctrl-C in it",
        libc::SIGHUP => "HUP: its terminal was closed",
        libc::SIGPIPE => "PIPE: whoever read its output had left",
        libc::SIGXCPU => "XCPU: it used up a limit on CPU time (ulimit -t)",
        libc::SIGXFSZ => "XFSZ: it wrote a file larger than allowed (ulimit -f)",
        _ => return None,
    })
}

fn start_error(job: &Job, cwd_exists: bool) -> Vec<String> {
    let detail = job.detail.clone().filter(|_| job.exit_code.is_none());
    let shell = job.exit_code.and_then(of_code);
    let folder = (!cwd_exists).then(|| format!("its folder {} is not there", job.cwd));
    detail.into_iter().chain(shell).chain(folder).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::samples;

    #[test]
    fn codes_and_signals_are_explained() {
        assert_eq!(of_code(1), None);
        assert!(of_code(127).unwrap().starts_with("127: the shell found no such program"));
        let oom = of_code(137).unwrap();
        assert!(
            oom.starts_with("137 = 128 + 9: a program in it was ended by signal 9 (KILL); ") && oom.contains("memory")
        );
        assert!(of_code(139).unwrap().contains("signal 11 (SEGV); SEGV: it touched memory"));
        assert_eq!(of_code(255), None);
    }

    #[test]
    fn every_reason_has_its_words() {
        for (state, reason) in [
            (State::Killed, "user"),
            (State::Killed, "removed"),
            (State::Killed, "stopped"),
            (State::Failed, "timeout"),
            (State::Failed, "lost"),
            (State::Failed, "start-error"),
            (State::Failed, "session-closed"),
            (State::Failed, "dependency"),
            (State::Failed, "gpu-oom"),
            (State::Failed, "host-oom"),
            (State::Failed, "of a later version"),
        ] {
            let mut job = samples::ended("abc", state, reason);
            job.detail = Some("so it is".into());
            assert!(!meaning(&job, true).is_empty(), "{reason}");
        }
        let mut job = samples::ended("abc", State::Failed, "start-error");
        job.detail = Some("cannot enter /work: No such file or directory".into());
        let told = meaning(&job, false);
        assert_eq!(told, ["cannot enter /work: No such file or directory", "its folder /work is not there"]);
        job = samples::ended("abc", State::Failed, "exit");
        job.exit_code = Some(1);
        assert!(meaning(&job, true).is_empty(), "1 is the program's own");
    }
}
