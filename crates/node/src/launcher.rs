//! The launcher: a small process with one thread that forks a shim for each request. It exists because a fork
//! of the service itself, with its memory and threads, would be slow and unsafe. Shims outlive it.

use std::fs::File;
use std::io;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd, RawFd};

use nexus_api::run_dir::RunSpec;
use serde::{Deserialize, Serialize};

use crate::frame;
use crate::shim::{self, Known};
use crate::signals;
use crate::system_file;

/// Where the launcher keeps the socket to the service and the guard; 0, 1 and 2 are `/dev/null`.
const SOCKET: RawFd = 3;
const GUARD: RawFd = 4;

/// The answer to one request, a [`RunSpec`].
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Reply {
    Forked { run: String, shim_pid: u32 },
    Failed { run: String, error: String },
}

/// Serves requests that come on standard input, a stream socket, until its end. Standard output is no output but
/// the guard: the home's lock, held for as long as a start may be on its way.
pub fn main() -> ! {
    let code = match serve() {
        Ok(()) => 0,
        Err(_) => 1,
    };
    // SAFETY: ends this process. Nothing is buffered that an ordinary exit would write.
    unsafe { libc::_exit(code) }
}

fn serve() -> io::Result<()> {
    let socket = File::from(take_over_descriptors()?);
    signals::prepare_launcher();
    let _ = rustix::process::setsid();
    let _ = rustix::process::chdir("/");
    let known = Known::learn()?;
    known.title.set(c"nexus-launcher", "nexus: launcher");
    while let Some(spec) = frame::read::<RunSpec>(&socket)? {
        let run = spec.run.clone();
        let reply = match fork_shim(spec, &known) {
            Ok(shim_pid) => Reply::Forked { run, shim_pid },
            Err(error) => Reply::Failed { run, error: format!("failed to fork a process for the run: {error}") },
        };
        frame::write(&socket, &reply)?;
    }
    Ok(())
}

/// Leaves only the socket and three times `/dev/null`: what else was open belongs to somebody else, and shims
/// would hold it for as long as their jobs run.
fn take_over_descriptors() -> io::Result<OwnedFd> {
    // SAFETY: descriptors are plain numbers; nothing in this process uses those that are replaced and closed.
    unsafe {
        // The guard first: on its way it may lie where the socket goes.
        for (from, to) in [(libc::STDOUT_FILENO, GUARD), (libc::STDIN_FILENO, SOCKET)] {
            if libc::dup3(from, to, libc::O_CLOEXEC) < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        let null = system_file::null()?.into_raw_fd();
        for standard in 0..=2 {
            if libc::dup2(null, standard) < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        close_from(GUARD + 1);
        Ok(OwnedFd::from_raw_fd(SOCKET))
    }
}

fn close_from(first: RawFd) {
    // SAFETY: closes descriptors nobody here owns.
    if unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) } == 0 {
        return;
    }
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return };
    let open: Vec<RawFd> = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for descriptor in open.into_iter().filter(|descriptor| *descriptor >= first) {
        // SAFETY: as above.
        unsafe { libc::close(descriptor) };
    }
}

fn fork_shim(spec: RunSpec, known: &Known) -> io::Result<u32> {
    // A signal for the shim may come as soon as it exists: it is born with them blocked and reads them later.
    let unblocked = signals::block_for_shim();
    // SAFETY: this process has one thread, so the child may do anything.
    let pid = unsafe { libc::fork() };
    match pid {
        0 => {
            // SAFETY: the child's copy of the socket, which it must not keep open.
            unsafe { libc::close(SOCKET) };
            // SAFETY: the child's copy of the guard, which nobody else in it uses.
            shim::run(spec, known, unsafe { OwnedFd::from_raw_fd(GUARD) })
        }
        pid => {
            let error = io::Error::last_os_error();
            unblocked.restore();
            if pid < 0 { Err(error) } else { Ok(pid as u32) }
        }
    }
}
