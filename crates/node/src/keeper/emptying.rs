//! Ends all processes of a run whose shim stands still, and then the shim, on a thread of its own: processes may take long to die.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nexus_api::run_dir::{Cause, EXIT, EXIT_PART, ExitRecord, ExitStatus, FORMAT, Started};
use nexus_core::ids::RunId;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::leftovers::Leftovers;
use crate::processes::{self, Process};
use crate::run_file;
use crate::subreaper::Subreaper;
use crate::words::Mailbox;

/// Between two looks at processes that were killed.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// How long a cgroup may take to become empty once all of its processes are killed. One that is left is harmless.
const GROUP_PATIENCE: Duration = Duration::from_secs(5);

/// A run whose shim stands still, for a thread that ends it.
pub(super) struct Standstill {
    pub run: RunId,
    pub dir: PathBuf,
    pub shim: Arc<OwnedFd>,
    pub process: Process,
    pub started: Option<Started>,
    pub group: Option<PathBuf>,
    pub cause: Cause,
}

impl Standstill {
    fn leftovers(&self) -> Leftovers {
        Leftovers::of(&self.dir, self.started.as_ref(), self.group.clone())
    }

    /// Whether none is left, or the shim itself has ended: then the keeper finds out what became of the run.
    pub fn empty(&self, mailbox: &Mailbox) -> bool {
        let (mut leftovers, mut descendants) = (self.leftovers(), Subreaper::new(self.process));
        loop {
            // An error, such as EMFILE, tells nothing of what is left.
            if self.kill_rest(&mut leftovers, &mut descendants).unwrap_or(false) {
                return true;
            }
            if self.is_over(LOOK_AGAIN) || mailbox.closed.load(Ordering::Relaxed) {
                return false;
            }
        }
    }

    /// Kills all that descends from the shim, which inherits every orphan, and what else is known as the run's. Returns whether
    /// nothing of both was left.
    fn kill_rest(&self, leftovers: &mut Leftovers, descendants: &mut Subreaper) -> io::Result<bool> {
        leftovers.kill_group();
        let others = leftovers.find().map(|mut found| {
            found.retain(|process| *process != self.process);
            for process in &found {
                process.signal(libc::SIGKILL);
            }
            found.is_empty()
        });
        // A shim that has another run by now has its processes.
        let is_shim = processes::is_shim_of(self.process, &self.run.to_string())?;
        // The last look: what descends from a stopped shim that has no descendants cannot come back.
        let is_alone = !is_shim || descendants.kill_descendants()?;
        Ok(others? && is_alone)
    }

    /// The record that stands for the shim's own; none where the shim has ended before, or may see to its end itself.
    pub fn replace(&self, mailbox: &Mailbox) -> Option<ExitRecord> {
        let is_shim = processes::is_shim_of(self.process, &self.run.to_string()).unwrap_or(false);
        // What was proved of its descendants is true of a stopped shim alone, and no other is killed.
        if !is_shim || !self.empty(mailbox) || !processes::is_stopped(self.process) || self.is_over(Duration::ZERO) {
            return None;
        }
        let record = self.record();
        // Before the shim goes: who looks later must find how it ended. Without it the run counts as lost.
        let _ = write_record(&self.dir, &record);
        processes::send_signal(&self.shim, libc::SIGKILL).ok()?;
        // It gives the locks of its GPUs back with its last breath.
        while !self.is_over(Duration::from_secs(1)) {
            if mailbox.closed.load(Ordering::Relaxed) {
                return None;
            }
        }
        self.remove_group();
        super::clearing::forget_script(&self.dir);
        Some(record)
    }

    /// Killed processes stay in their group until they are collected, which the shim cannot do any more.
    fn remove_group(&self) {
        let leftovers = self.leftovers();
        let until = Instant::now() + GROUP_PATIENCE;
        while !leftovers.remove_group() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits this long for the end of the shim.
    fn is_over(&self, wait: Duration) -> bool {
        let wait = Timespec::try_from(wait).ok();
        poll(&mut [PollFd::new(&self.shim, PollFlags::IN)], wait.as_ref()) == Ok(1)
    }

    fn record(&self) -> ExitRecord {
        let started = self.started.as_ref();
        let status = started.and_then(|started| processes::left_with(started.pid, self.process.pid));
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as i64;
        // The shim lives, so it began on this boot.
        let began = |started: &Started| processes::started_by_now(started.started_at_ms, started.started_ticks, now_ms);
        ExitRecord {
            format: FORMAT,
            run: self.run.to_string(),
            status: status.unwrap_or(ExitStatus::Signaled { signal: libc::SIGKILL }),
            cause: self.cause,
            pid: started.map(|started| started.pid),
            started_at_ms: started.map(began),
            ended_at_ms: now_ms,
            lost_output_bytes: 0,
            oom: None,
            found: Default::default(),
        }
    }
}

fn write_record(dir: &Path, record: &ExitRecord) -> io::Result<()> {
    run_file::write_whole(&dir.join(EXIT), &dir.join(EXIT_PART), &serde_json::to_vec(record)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_written_over_whatever_stands_there() {
        let temporary = tempfile::tempdir().unwrap();
        let dir = temporary.path();
        let pipe = rustix::fs::mkfifoat(rustix::fs::CWD, dir.join(EXIT_PART), 0o600.into());
        pipe.unwrap();
        std::os::unix::fs::symlink("/nowhere/else", dir.join(EXIT)).unwrap();
        let still = Standstill {
            run: "abc.1".parse().unwrap(),
            dir: dir.to_owned(),
            shim: Arc::new(std::fs::File::open(dir).unwrap().into()),
            process: Process { pid: 0, start: 0 },
            started: None,
            group: None,
            cause: Cause::Timeout,
        };
        let record = still.record();
        write_record(dir, &record).unwrap();
        assert_eq!(crate::inspect::inspect(dir).unwrap(), crate::inspect::Seen::Exited(record));
    }
}
