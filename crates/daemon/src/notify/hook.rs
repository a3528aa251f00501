//! Runs a command of the configuration for a notice: what matters in its environment, all of it as JSON on its standard
//! input. One that takes too long is killed, with whatever it started; one that failed is told of and not run again,
//! since it may have done half of its work.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nexus_api::notify::Notice;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use super::form::{head, shortened};
use super::trouble::Trouble;

/// A variable that is longer keeps a program from starting at all.
const LONGEST_VALUE: usize = 32 << 10;

/// Of what it wrote to standard error.
const WORDS: usize = 200;

/// How it ended, if it succeeded.
pub fn run(command: &str, notice: &Notice, limit: Duration) -> Result<String, Trouble> {
    let failed = |error: io::Error| Trouble::lasting(format!("it could not be run: {error}"));
    let stdin = in_memory("notice", serde_json::to_string(notice).expect("a notice is plain data").as_bytes());
    let (stdin, mut stderr) = stdin.and_then(|stdin| Ok((stdin, in_memory("stderr", b"")?))).map_err(failed)?;
    let said = stderr.try_clone().map_err(failed)?;
    let mut child = Command::new("sh")
        .args(["-c", command])
        .envs(variables(notice))
        .process_group(0)
        .stdin(stdin)
        .stdout(Stdio::null())
        .stderr(said)
        .spawn()
        .map_err(failed)?;
    match ended(&mut child, limit).map_err(failed)? {
        Some(status) if status.success() => Ok("exit 0".into()),
        Some(status) => Err(Trouble::lasting(format!("{}{}", in_words(status), words_of(&mut stderr)))),
        None => Err(Trouble::lasting(format!("it was killed after {}s", limit.as_secs_f64()))),
    }
}

/// A file that no pipe's size limits: neither side waits for the other.
fn in_memory(name: &str, bytes: &[u8]) -> io::Result<File> {
    let mut file = File::from(memfd_create(name, MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}

/// None where it had to be killed.
fn ended(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData)?;
    // It is our child and was not waited for: the number is its own.
    let watch = pidfd_open(pid, PidfdFlags::empty())?;
    let until = Instant::now() + limit;
    loop {
        let left = Timespec::try_from(until.saturating_duration_since(Instant::now())).unwrap_or_default();
        match poll(&mut [PollFd::new(&watch, PollFlags::IN)], Some(&left)) {
            Ok(0) => break,
            Ok(_) => return child.wait().map(Some),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    // It may have ended in this very moment.
    let _ = kill_process_group(pid, Signal::KILL);
    child.wait()?;
    Ok(None)
}

fn in_words(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit {code}"),
        (None, signal) => format!("signal {}", signal.unwrap_or(0)),
    }
}

fn words_of(stderr: &mut File) -> String {
    let mut bytes = Vec::new();
    // What cannot be read is not told; that it failed is.
    let _ = stderr.rewind().and_then(|()| stderr.take(64 << 10).read_to_end(&mut bytes));
    let text = String::from_utf8_lossy(&bytes);
    let last = text.lines().rev().map(str::trim).find(|line| !line.is_empty());
    last.map(|line| format!(": {}", shortened(line, WORDS))).unwrap_or_default()
}

/// What a notice does not say is empty, so that a script need not ask whether it is set.
fn variables(notice: &Notice) -> Vec<(&'static str, String)> {
    let job = notice.job.as_ref();
    let text = |text: Option<&str>| text.unwrap_or_default().to_string();
    let number = |number: Option<String>| number.unwrap_or_default();
    let counts = notice.digest.as_ref().map(|it| (it.completed, it.failed, it.killed));
    let counts = counts.or(notice.sweep.as_ref().map(|it| (it.completed, it.failed, it.killed)));
    let sweep = notice.sweep.as_ref().map(|sweep| sweep.name.as_str()).or(job.and_then(|job| job.sweep.as_deref()));
    let variables = vec![
        ("NEXUS_EVENT", notice.event.word().to_string()),
        ("NEXUS_TEXT", notice.text.clone()),
        ("NEXUS_HOST", notice.host.clone()),
        ("NEXUS_JOB_ID", text(job.map(|job| job.id.as_str()))),
        ("NEXUS_NAME", text(job.and_then(|job| job.name.as_deref()))),
        ("NEXUS_PROJECT", text(job.and_then(|job| job.project.as_deref()))),
        ("NEXUS_COMMAND", text(job.map(|job| job.command.as_str()))),
        ("NEXUS_STATE", text(job.map(|job| job.state.word()))),
        ("NEXUS_REASON", text(job.and_then(|job| job.reason.as_deref()))),
        ("NEXUS_EXIT_CODE", number(job.and_then(|job| job.exit_code).map(|code| code.to_string()))),
        ("NEXUS_RUNTIME", number(job.and_then(|job| job.runtime_seconds).map(|seconds| format!("{seconds:.0}")))),
        ("NEXUS_ATTEMPT", number(job.map(|job| job.attempt.to_string()))),
        ("NEXUS_MACHINE", text(job.and_then(|job| job.machine.as_deref()))),
        ("NEXUS_GPUS", number(job.map(|job| job.gpus.iter().map(u16::to_string).collect::<Vec<_>>().join(",")))),
        ("NEXUS_LOG_DIR", text(job.map(|job| job.log_dir.as_str()))),
        ("NEXUS_LAST_LINE", text(notice.last_line.as_deref())),
        ("NEXUS_SWEEP", text(sweep)),
        ("NEXUS_COMPLETED", number(counts.map(|(completed, _, _)| completed.to_string()))),
        ("NEXUS_FAILED", number(counts.map(|(_, failed, _)| failed.to_string()))),
        ("NEXUS_KILLED", number(counts.map(|(_, _, killed)| killed.to_string()))),
    ];
    let fitting = |value: String| head(&value, LONGEST_VALUE).replace('\0', "");
    variables.into_iter().map(|(name, value)| (name, fitting(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notify::sample;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn it_has_what_matters_in_its_environment_and_all_of_it_on_standard_input() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("told");
        let mut notice = sample::failure();
        notice.job.as_mut().unwrap().command = format!("echo 'a\0b' {}", "x".repeat(300_000));
        let command = format!(
            "echo $NEXUS_EVENT $NEXUS_JOB_ID $NEXUS_STATE $NEXUS_EXIT_CODE \"<$NEXUS_SWEEP>\" > {0}; cat >> {0}",
            file.display()
        );
        assert_eq!(run(&command, &notice, LONG), Ok("exit 0".into()));
        let told = std::fs::read_to_string(&file).unwrap();
        let (env, json) = told.split_once('\n').unwrap();
        assert_eq!(env, "failure abc failed 1 <>");
        assert_eq!(serde_json::from_str::<Notice>(json).unwrap(), notice);
    }

    #[test]
    fn how_it_failed_is_told() {
        let why = |command| run(command, &sample::test("box"), LONG).unwrap_err().why;
        assert_eq!(why("echo one >&2; echo two >&2; exit 3"), "exit 3: two");
        assert_eq!(why("kill -9 $$"), "signal 9");
        assert!(why("no-such-program-at-all").starts_with("exit 127: "));
    }

    #[test]
    fn one_that_hangs_is_killed_with_all_it_started() {
        let dir = tempfile::tempdir().unwrap();
        let pid = dir.path().join("pid");
        let command = format!("sleep 1000 & echo $! > {}; wait", pid.display());
        let told = run(&command, &sample::test("box"), Duration::from_millis(300)).unwrap_err();
        assert_eq!(told.why, "it was killed after 0.3s");
        let pid: u32 = std::fs::read_to_string(&pid).unwrap().trim().parse().unwrap();
        nexus_testkit::until("it is gone", || (!nexus_testkit::alive(pid)).then_some(()));
    }
}
