//! Which process is the service of a home, when nobody answers on its socket.
//!
//! The lock of the home is an flock(2) that the launcher and shims share, so the kernel does not say whose it is. The file has the
//! service's pid; `/proc` says whether that process is still a service that has the file open.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nexus_api::paths::LOCK_FILE;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, geteuid, pidfd_open};

use crate::{own_file, processes, system_file};

/// As `nexus start` and the unit of systemd start it.
const SERVICE_ARGUMENT: &[u8] = b"__service";

/// Who has the lock says so in two lines.
const MAX_LOCK_BYTES: u64 = 16 << 10;

/// How long a service may take to end that was asked to.
const END_LIMIT: Duration = Duration::from_secs(10);

/// What the file of the lock says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    pub pid: u32,
    pub socket: PathBuf,
}

/// A process that holds the lock of a home.
pub struct Holder {
    pub signature: Signature,
    process: OwnedFd,
}

/// How a service was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    BySignal,
    /// It did not end when asked to.
    Killed,
}

/// Written by the service once it listens; the one of a service that has ended stays.
pub fn signature(home: &Path) -> Option<Signature> {
    let text = own_file::read_text(&home.join(LOCK_FILE), MAX_LOCK_BYTES).ok()?;
    let mut lines = text.lines();
    let (pid, socket) = (lines.next()?.parse().ok()?, lines.next()?);
    Some(Signature { pid, socket: socket.into() })
}

/// The service that holds the lock of this home now.
pub fn holder(home: &Path) -> Option<Holder> {
    let signature = signature(home)?;
    let pid = Pid::from_raw(i32::try_from(signature.pid).ok()?)?;
    let process = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    // Looked at with the pidfd in hand: should the pid be another's by now, that one is looked at and refused.
    let is_it = is_own(signature.pid) && is_service(signature.pid) && has_open(signature.pid, &home.join(LOCK_FILE));
    (is_it && is_alive(&process)).then_some(Holder { signature, process })
}

/// The pid of the service that holds the lock of this home, if a signal or a debugger has stopped its process.
pub fn stopped_service(home: &Path) -> Option<u32> {
    let pid = holder(home)?.signature.pid;
    processes::stat(pid).is_some_and(|stat| processes::is_stopped(stat.process)).then_some(pid)
}

impl Holder {
    /// Asks the service to end; running jobs go on. One that does not is killed: what it has told anybody is on the disk.
    pub fn end(&self) -> io::Result<Ended> {
        processes::send_signal(&self.process, libc::SIGTERM)?;
        processes::send_signal(&self.process, libc::SIGCONT)?;
        if self.is_gone_within(END_LIMIT)? {
            return Ok(Ended::BySignal);
        }
        processes::send_signal(&self.process, libc::SIGKILL)?;
        match self.is_gone_within(END_LIMIT)? {
            true => Ok(Ended::Killed),
            false => Err(io::Error::new(io::ErrorKind::TimedOut, "it hangs in the kernel")),
        }
    }

    fn is_gone_within(&self, limit: Duration) -> io::Result<bool> {
        let limit = Timespec::try_from(limit).unwrap_or_default();
        let ready = rustix::io::retry_on_intr(|| poll(&mut [PollFd::new(&self.process, PollFlags::IN)], Some(&limit)))?;
        Ok(ready > 0)
    }
}

/// A pidfd is readable once its process has ended.
fn is_alive(process: &OwnedFd) -> bool {
    poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&Timespec::default())) == Ok(0)
}

fn is_own(pid: u32) -> bool {
    let status = system_file::read_text(format!("/proc/{pid}/status")).unwrap_or_default();
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    let effective = ids.and_then(|ids| ids.split_whitespace().nth(1)?.parse().ok());
    effective == Some(geteuid().as_raw())
}

fn is_service(pid: u32) -> bool {
    let arguments = system_file::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    arguments.split(|byte| *byte == 0).nth(1) == Some(SERVICE_ARGUMENT)
}

fn has_open(pid: u32, file: &Path) -> bool {
    let Ok(wanted) = fs::symlink_metadata(file) else { return false };
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let mut open = entries.filter_map(|entry| fs::metadata(entry.path()).ok());
    open.any(|about| (about.dev(), about.ino()) == (wanted.dev(), wanted.ino()))
}
