//! Watches a command from its start until nothing of it is left.
//!
//! ```text
//!   Running ── stop asked, time limit, or the command ended and left children ──> Ending ── grace over ──> Killing
//!      └───────────────────────────── no descendant is left ─────────────────────────┴─────────────────────┘──> end
//! ```
//! The shim inherits every orphan of the job, so "there is no child to wait for" is the exact test that all is gone.

use std::io::{self, Read};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nexus_api::run_dir::{Cause, ExitStatus};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::finds::Finds;
use super::output::Output;
use super::terminal::Sources;
use super::time_limit::Limits;
use super::tree::Tree;
use super::viewers::{Seen, Viewers};
use crate::signals::Signals;

/// What is read at once. Large enough for a full pipe; memory is used only as far as it is filled.
pub const CHUNK_BYTES: usize = 64 << 10;

/// A full pipe or terminal, and then some: more cannot be left when all processes of the job are gone, unless one
/// that is none of the job's writes on.
const LEFT_BYTES: usize = 4 << 20;

/// Processes that KILL ended of which the numbers are kept.
const MOST_KILLED: usize = 1000;

/// A terminal gives no more than this at once; less is the last of it.
const TERMINAL_PART: usize = 4095;

/// A run that is over sooner is told as such, at once: two messages, two decisions and two commits would take more of the
/// machine than an empty job does itself.
const TOLD_AFTER: Duration = Duration::from_millis(5);

/// A run that has lasted this long will last longer: what its start left in memory is given back.
const LASTS: Duration = Duration::from_secs(1);

const LOOK_FOR_FENCE: Duration = Duration::from_secs(5);

const FIRST_KILL_AGAIN: Duration = Duration::from_millis(10);
const LAST_KILL_AGAIN: Duration = Duration::from_secs(1);

pub struct Watch {
    pub main: u32,
    pub signals: Signals,
    pub sources: Sources,
    pub output: Output,
    pub finds: Finds,
    pub tree: Tree,
    pub limits: Limits,
    pub viewers: Viewers,
    /// On a cluster: where it is told that the run has been given up.
    pub fence: Option<Fence>,
}

/// A file whose presence ends the run. It comes from another machine, of which no event tells.
pub struct Fence {
    path: PathBuf,
    look_at: Instant,
}

impl Fence {
    pub fn at(path: PathBuf) -> Fence {
        Fence { path, look_at: Instant::now() + LOOK_FOR_FENCE }
    }

    fn is_up(&mut self, now: Instant) -> bool {
        if self.look_at > now {
            return false;
        }
        self.look_at = now + LOOK_FOR_FENCE;
        self.path.exists()
    }
}

/// How the command itself ended.
pub struct End {
    pub status: ExitStatus,
    pub cause: Cause,
    /// Processes that KILL ended, as far as they were seen, and not more than so many.
    pub killed: Vec<u32>,
}

enum Phase {
    Running,
    Ending { kill_at: Instant },
    Killing { again_at: Instant, wait: Duration },
}

struct Progress {
    phase: Phase,
    cause: Cause,
    status: Option<ExitStatus>,
    killed: Vec<u32>,
}

impl Watch {
    /// Comes back when no process of the job is left and all its output is kept. That it began is told if it lasts.
    pub fn until_gone(&mut self, buffer: &mut [u8], mut tell_start: impl FnMut()) -> End {
        let mut progress = Progress { phase: Phase::Running, cause: Cause::Own, status: None, killed: Vec::new() };
        let now = Instant::now();
        let (mut told_at, mut rests_at) = (Some(now + TOLD_AFTER), Some(now + LASTS));
        loop {
            self.mind_session(&mut progress);
            let due = self.act_on_time(&mut progress);
            if is_due(&mut told_at) {
                tell_start();
            }
            if is_due(&mut rests_at) {
                give_memory_back();
            }
            let ready = self.wait(due.into_iter().chain(told_at).chain(rests_at).min());
            if ready.stdout {
                self.read_all(false, buffer);
            }
            if ready.stderr {
                self.read_all(true, buffer);
            }
            if ready.viewers || self.viewers.has_typed() {
                self.serve_viewers(&progress);
            }
            if !ready.signals {
                continue;
            }
            let arrived = self.signals.take();
            // A cluster asks the job and its shim at once: who ended with the request ended by it.
            if arrived.stop
                && self.fence.is_some()
                && progress.status.is_none()
                && matches!(progress.phase, Phase::Running)
            {
                progress.cause = Cause::Asked;
            }
            // Elsewhere, who ended before the request was read ended by itself.
            if arrived.child_ended && self.reap(&mut progress) {
                break;
            }
            if arrived.stop && progress.status.is_none() && matches!(progress.phase, Phase::Running) {
                progress.cause = Cause::Asked;
                self.begin_ending(&mut progress);
            }
        }
        self.drain(buffer);
        let status = progress.status.unwrap_or(ExitStatus::MachineError { error: "its end was not seen".into() });
        End { status, cause: progress.cause, killed: progress.killed }
    }

    fn serve_viewers(&mut self, progress: &Progress) {
        let Sources { stdout, stderr, .. } = &self.sources;
        let seen = Seen { stdout: stdout.as_ref(), stderr: stderr.as_ref(), printed: self.output.kept() };
        self.viewers.serve(&seen);
        let goes_on = progress.status.is_none() && matches!(progress.phase, Phase::Running);
        let (limits, now) = (&mut self.limits, Instant::now());
        self.viewers.answer_limits(|limit| {
            if !goes_on {
                return Err("it is ending already");
            }
            limits.change(limit.limit_ms, now);
            Ok(())
        });
    }

    /// Whoever closes the screen session that the run is in ends the run.
    fn mind_session(&mut self, progress: &mut Progress) {
        let may_end = progress.status.is_none() && matches!(progress.phase, Phase::Running);
        if may_end && self.viewers.session_is_closed() {
            progress.cause = Cause::SessionClosed;
            self.begin_ending(progress);
        }
    }

    fn begin_ending(&mut self, progress: &mut Progress) {
        self.tree.ask_to_end();
        if let Phase::Running = progress.phase {
            progress.phase = Phase::Ending { kill_at: Instant::now() + self.limits.grace };
        }
    }

    /// Does what is due, and tells when the next thing will be.
    fn act_on_time(&mut self, progress: &mut Progress) -> Option<Instant> {
        let now = Instant::now();
        if let Phase::Running = progress.phase {
            if let Some(signal) = self.limits.warning_due(now) {
                self.tree.warn(signal);
            }
            if self.limits.is_over(now) {
                progress.cause = Cause::Timeout;
                self.begin_ending(progress);
            } else if self.fence.as_mut().is_some_and(|fence| fence.is_up(now)) {
                progress.cause = Cause::Asked;
                self.begin_ending(progress);
            }
        }
        let wait = match progress.phase {
            Phase::Running => {
                let fence = self.fence.as_ref().map(|fence| fence.look_at);
                return self.limits.next().into_iter().chain(fence).min();
            }
            Phase::Ending { kill_at } if kill_at > now => return Some(kill_at),
            Phase::Killing { again_at, .. } if again_at > now => return Some(again_at),
            Phase::Ending { .. } => FIRST_KILL_AGAIN,
            Phase::Killing { wait, .. } => (wait * 2).min(LAST_KILL_AGAIN),
        };
        self.tree.kill();
        let again_at = Instant::now() + wait;
        progress.phase = Phase::Killing { again_at, wait };
        Some(again_at)
    }

    /// Collects the dead. Returns whether no descendant is left.
    fn reap(&mut self, progress: &mut Progress) -> bool {
        loop {
            let mut status = 0;
            // SAFETY: the status is ours to write.
            match unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG) } {
                -1 => return true,
                0 => break,
                pid => {
                    if was_killed(status) && progress.killed.len() < MOST_KILLED {
                        progress.killed.push(pid as u32);
                    }
                    if pid as u32 == self.main {
                        progress.status = Some(exit_status(status));
                    }
                }
            }
        }
        if progress.status.is_some() {
            // Those left behind are asked as well; who was asked before is left alone.
            self.begin_ending(progress);
        }
        false
    }

    fn wait(&self, due: Option<Instant>) -> Ready {
        let mut watched = vec![(PollFd::new(&self.signals, PollFlags::IN), 0)];
        let typed = if self.viewers.has_typed() { PollFlags::OUT } else { PollFlags::empty() };
        let sources = [(&self.sources.stdout, 1, typed), (&self.sources.stderr, 2, PollFlags::empty())];
        watched.extend(sources.iter().filter_map(|(file, mark, further)| {
            file.as_ref().map(|file| (PollFd::new(file, PollFlags::IN | *further), *mark))
        }));
        watched.extend(self.viewers.polled().map(|(one, flags)| (PollFd::from_borrowed_fd(one, flags), 3)));
        let (mut polled, marks): (Vec<_>, Vec<_>) = watched.into_iter().unzip();
        let left = due.map(|due| due.saturating_duration_since(Instant::now()));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        let _ = poll(&mut polled, left.as_ref());
        let is_ready = |mark| polled.iter().zip(&marks).any(|(one, own)| *own == mark && !one.revents().is_empty());
        Ready { signals: is_ready(0), stdout: is_ready(1), stderr: is_ready(2), viewers: is_ready(3) }
    }

    fn drain(&mut self, buffer: &mut [u8]) {
        for stderr in [false, true] {
            let mut left = LEFT_BYTES;
            while left > 0 {
                match self.read_once(stderr, buffer) {
                    0 => break,
                    count => left = left.saturating_sub(count),
                }
            }
        }
    }

    /// A terminal gives long lines in parts: all that is there is read before the other stream has its turn, so that
    /// the two do not mix within a line.
    fn read_all(&mut self, stderr: bool, buffer: &mut [u8]) {
        let mut left = LEFT_BYTES;
        loop {
            match self.read_once(stderr, buffer) {
                count if count < TERMINAL_PART || count >= left => break,
                count => left -= count,
            }
        }
    }

    /// Reads what is there and forgets a source that has ended.
    fn read_once(&mut self, stderr: bool, buffer: &mut [u8]) -> usize {
        let source = if stderr { &mut self.sources.stderr } else { &mut self.sources.stdout };
        let Some(file) = source else { return 0 };
        match file.read(buffer) {
            Ok(0) => *source = None,
            Ok(count) => {
                self.output.take(stderr, &buffer[..count]);
                self.finds.take(stderr, &buffer[..count]);
                self.viewers.show(&buffer[..count]);
                return count;
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(_) => *source = None,
        }
        0
    }
}

/// Once, when the time has come.
fn is_due(at: &mut Option<Instant>) -> bool {
    at.take_if(|at| *at <= Instant::now()).is_some()
}

struct Ready {
    signals: bool,
    stdout: bool,
    stderr: bool,
    viewers: bool,
}

/// The environment of the job, which is with the command now, was the largest part of this process.
fn give_memory_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: has no conditions.
    unsafe {
        libc::malloc_trim(0);
    }
}

fn was_killed(status: i32) -> bool {
    libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGKILL
}

fn exit_status(status: i32) -> ExitStatus {
    if libc::WIFSIGNALED(status) {
        ExitStatus::Signaled { signal: libc::WTERMSIG(status) }
    } else {
        ExitStatus::Exited { code: libc::WEXITSTATUS(status) }
    }
}
