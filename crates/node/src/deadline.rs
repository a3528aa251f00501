//! Runs a program that may hang, for a time and no longer.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

/// What is kept of each stream.
const MOST_BYTES: usize = 64 << 20;

/// How a program ended and what it printed.
pub struct Ended {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("cannot be run: {0}")]
    Start(io::Error),
    #[error("did not end within {} s and was killed", .0.as_secs_f32())]
    Late(Duration),
}

/// Runs it to its end. One that does not end in time is killed with all that it started; if it cannot even be
/// killed this waits on, so that there is never more than one.
pub fn run(program: &Path, arguments: &[&str], limit: Duration) -> Result<Ended, RunError> {
    let mut command = Command::new(program);
    command.args(arguments);
    run_command(command, limit)
}

/// The same for a command with an environment of its own.
pub fn run_command(mut command: Command, limit: Duration) -> Result<Ended, RunError> {
    let mut child = command
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(RunError::Start)?;
    let ended = watch(&mut child, Instant::now() + limit);
    if !matches!(ended, Ok(Some(_)))
        && let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw)
    {
        // Whoever is gone already need not be killed.
        let _ = kill_process_group(group, Signal::KILL);
    }
    let status = child.wait().map_err(RunError::Start)?;
    let (stdout, stderr) = ended.map_err(RunError::Start)?.ok_or(RunError::Late(limit))?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok(Ended { status, stdout: text(stdout), stderr: text(stderr) })
}

type Printed = (Vec<u8>, Vec<u8>);

/// Reads until the program itself has ended; `None` when the time is over before that.
fn watch(child: &mut Child, until: Instant) -> io::Result<Option<Printed>> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
    let ended = pidfd_open(pid, PidfdFlags::empty())?;
    let mut streams = (child.stdout.take(), child.stderr.take());
    if let (Some(stdout), Some(stderr)) = &streams {
        rustix::io::ioctl_fionbio(stdout, true)?;
        rustix::io::ioctl_fionbio(stderr, true)?;
    }
    let mut printed = Printed::default();
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        let mut polled = vec![PollFd::new(&ended, PollFlags::IN)];
        polled.extend(streams.0.as_ref().map(|stream| PollFd::from_borrowed_fd(stream.as_fd(), PollFlags::IN)));
        polled.extend(streams.1.as_ref().map(|stream| PollFd::from_borrowed_fd(stream.as_fd(), PollFlags::IN)));
        let left = Timespec::try_from(left).map_err(|_| io::ErrorKind::InvalidInput)?;
        match poll(&mut polled, Some(&left)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let is_over = !polled[0].revents().is_empty();
        drain(&mut streams.0, &mut printed.0);
        drain(&mut streams.1, &mut printed.1);
        if is_over {
            return Ok(Some(printed));
        }
    }
}

/// Reads what is there, and forgets a stream that has ended.
fn drain(stream: &mut Option<impl Read>, printed: &mut Vec<u8>) {
    let mut chunk = [0; 4096];
    while let Some(open) = stream {
        match open.read(&mut chunk) {
            Ok(0) => *stream = None,
            Ok(count) => {
                let room = MOST_BYTES.saturating_sub(printed.len());
                printed.extend_from_slice(&chunk[..count.min(room)]);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => *stream = None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(text: &str, limit: Duration) -> Result<Ended, RunError> {
        run(Path::new("/bin/sh"), &["-c", text], limit)
    }

    #[test]
    fn both_streams_and_the_end_are_kept() {
        let ended = shell("echo out; echo err >&2; exit 3", Duration::from_secs(60)).unwrap();
        assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("out\n", "err\n"));
        assert_eq!(ended.status.code(), Some(3));
        let long = shell("head -c 300000 /dev/zero", Duration::from_secs(60)).unwrap();
        assert_eq!(long.stdout.len(), 300_000);
    }

    #[test]
    fn one_that_hangs_is_killed_with_its_children() {
        let marked = tempfile::tempdir().unwrap();
        let file = marked.path().join("pid");
        let text = format!("sleep 600 & echo $! > {}; wait", file.display());
        let error = shell(&text, Duration::from_millis(500)).err().unwrap();
        assert!(matches!(error, RunError::Late(_)), "{error}");
        let pid: u32 = std::fs::read_to_string(file).unwrap().trim().parse().unwrap();
        nexus_testkit::until("its child is gone", || (!nexus_testkit::alive(pid)).then_some(()));
    }

    #[test]
    fn a_program_that_is_not_there_cannot_be_run() {
        assert!(matches!(run(Path::new("/nowhere"), &[], Duration::from_secs(1)), Err(RunError::Start(_))));
    }
}
