//! The lock of a node's home: one node a home, and the newest counts. An older one, whose connection is dead and has
//! not been noticed yet, is ended. Its launcher and shims on their way hold the lock too, so that nothing that the older
//! one began is still to start when the lock is ours.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::own_file;
use crate::processes::{self, Process};

/// How long the older node has to end by itself.
const GRACE: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };

/// Until then a node that was ended, and its launcher, have let go.
const PATIENCE: Duration = Duration::from_secs(20);
const AGAIN: Duration = Duration::from_millis(2);

#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("failed to {operation} {}: {source}", path.display())]
    File { operation: &'static str, path: PathBuf, source: io::Error },
    #[error("{} is held by {holder}, which does not let go", path.display())]
    Held { path: PathBuf, holder: String },
    #[error("{} is held by a node on another machine; each machine needs a folder of its own", path.display())]
    Elsewhere { path: PathBuf },
}

/// Who holds it, as the lock says.
struct Holder {
    process: Process,
    boot_id: String,
}

/// Takes the lock, from an older node if need be.
pub fn take(path: &Path, boot_id: &str) -> Result<File, LockError> {
    let fail = |operation| move |source: io::Error| LockError::File { operation, path: path.to_owned(), source };
    let writable = own_file::open_lock(path).map_err(fail("make"))?;
    // The launcher has the lock as its standard output: it must not be able to write to it.
    let file = own_file::open(path).map_err(fail("open"))?;
    let until = Instant::now() + PATIENCE;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => break,
            Err(Errno::WOULDBLOCK | Errno::INTR) => {}
            Err(errno) => return Err(fail("lock")(errno.into())),
        }
        match holder(&file) {
            Some(holder) if holder.boot_id != boot_id => return Err(LockError::Elsewhere { path: path.to_owned() }),
            Some(holder) if Instant::now() > until => {
                let holder = format!("process {}", holder.process.pid);
                return Err(LockError::Held { path: path.to_owned(), holder });
            }
            None if Instant::now() > until => {
                return Err(LockError::Held { path: path.to_owned(), holder: "somebody".into() });
            }
            Some(holder) => end(holder.process),
            // It has not signed yet.
            None => {}
        }
        std::thread::sleep(AGAIN);
    }
    let own = processes::stat(std::process::id()).map_or(0, |stat| stat.process.start);
    let text = format!("{} {own} {boot_id}\n", std::process::id());
    // Over that of the last one, which may be longer: only the first line counts.
    writable.write_all_at(text.as_bytes(), 0).map_err(fail("write"))?;
    Ok(file)
}

fn holder(file: &File) -> Option<Holder> {
    let mut bytes = [0; 256];
    let count = file.read_at(&mut bytes, 0).ok()?;
    let (line, _) = std::str::from_utf8(&bytes[..count]).ok()?.split_once('\n')?;
    let mut words = line.split(' ');
    let process = Process { pid: words.next()?.parse().ok()?, start: words.next()?.parse().ok()? };
    Some(Holder { process, boot_id: words.next()?.to_owned() })
}

/// Ends a node, if it is still the one that signed.
fn end(node: Process) {
    let Some(pid) = Pid::from_raw(node.pid as i32) else { return };
    let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    if !node.is_current() {
        return;
    }
    for signal in [libc::SIGTERM, libc::SIGKILL] {
        let _ = processes::send_signal(&pidfd, signal);
        if poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&GRACE)) == Ok(1) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use super::*;

    /// Somebody else who holds the lock, as a process that signs for itself.
    fn held_by(path: &Path, trap: &str) -> std::process::Child {
        let text = format!("{trap} exec 9>>'{0}'; flock 9; echo; exec sleep 60", path.display());
        let mut child = Command::new("bash").args(["-c", &text]).stdout(Stdio::piped()).spawn().unwrap();
        io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        child
    }

    fn sign(path: &Path, process: Process, boot_id: &str) {
        std::fs::write(path, format!("{} {} {boot_id}\n", process.pid, process.start)).unwrap();
    }

    #[test]
    fn who_signed_is_ended_and_nobody_else() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("node.lock");
        let mut holder = held_by(&path, "");
        let process = processes::stat(holder.id()).unwrap().process;
        sign(&path, process, "another");
        assert!(matches!(take(&path, "boot"), Err(LockError::Elsewhere { .. })));
        sign(&path, process, "boot");
        let lock = take(&path, "boot").unwrap();
        assert!(!holder.wait().unwrap().success());
        let signed = super::holder(&lock).unwrap();
        assert_eq!((signed.process.pid, signed.boot_id.as_str()), (std::process::id(), "boot"));
        assert!((&lock).write_all(b"x").is_err(), "who has the lock cannot sign for another");
        drop(lock);
        // Its pid belongs to another by now.
        let mut bystander = Command::new("sleep").arg("60").spawn().unwrap();
        let other = processes::stat(bystander.id()).unwrap().process;
        end(Process { start: other.start + 1, ..other });
        assert!(bystander.try_wait().unwrap().is_none());
        end(other);
        assert!(!bystander.wait().unwrap().success());
    }
}
