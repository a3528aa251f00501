//! Tells the service what happened, if there is one: never waits longer than an instant, since the job's end must
//! not hang on a service that is down or busy. What is not heard is found in the run directory later.

use std::path::Path;
use std::time::{Duration, Instant};

use nexus_api::run_dir::{ExitRecord, ShimMessage, Started};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, send, socket_with};

const PATIENCE: Duration = Duration::from_millis(20);

/// Sends one message on a connection of its own. Returns whether it was taken. On a cluster there is a folder instead of
/// a socket, in which a file named as the run says that there is something to see.
pub fn report(reports: &Path, message: &ShimMessage) -> bool {
    if reports.is_dir() {
        let (ShimMessage::Started(Started { run, .. }) | ShimMessage::Ended(ExitRecord { run, .. })) = message;
        // Whoever waits for it asks Slurm too.
        let _ = std::fs::write(reports.join(run), []);
        return false;
    }
    let Ok(text) = serde_json::to_vec(message) else { return false };
    let Ok(address) = SocketAddrUnix::new(reports) else { return false };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let Ok(socket) = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None) else { return false };
    let until = Instant::now() + PATIENCE;
    loop {
        match connect(&socket, &address) {
            Ok(()) => break,
            // The queue of connections is full, of which a unix socket gives no notice.
            Err(Errno::AGAIN) if Instant::now() < until => std::thread::sleep(Duration::from_millis(2)),
            Err(_) => return false,
        }
    }
    loop {
        match send(&socket, &text, SendFlags::NOSIGNAL) {
            Ok(_) => return true,
            Err(Errno::AGAIN) => {}
            Err(_) => return false,
        }
        let left = until.saturating_duration_since(Instant::now());
        let Ok(left) = Timespec::try_from(left) else { return false };
        if poll(&mut [PollFd::new(&socket, PollFlags::OUT)], Some(&left)) != Ok(1) {
            return false;
        }
    }
}
