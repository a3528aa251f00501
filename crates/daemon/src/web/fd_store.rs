//! The listener's socket in the file descriptor store of systemd: with the unit of `nexus service install` the port stays bound
//! while the service restarts, and connections made meanwhile wait. `sd_notify(3)`, `sd_listen_fds(3)`, and
//! `FileDescriptorStoreMax=` in `systemd.service(5)`.
//!
//! Without systemd all of this does nothing. What cannot be stored is not told: the port is then free during a restart, which
//! the proof of `proof.rs` covers.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;

use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
    sendmsg_addr, socket_with, sockopt,
};

/// The name under which the socket is stored.
const NAME: &str = "nexus-web";

/// The first descriptor that systemd passes, and no more than so many of them are looked at.
const FIRST_FD: RawFd = 3;
const MAX_FDS: usize = 16;

/// Variables of systemd that are meant for the service, and not for its jobs.
pub const VARIABLES: [&str; 4] = ["NOTIFY_SOCKET", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"];

/// Takes over the descriptors that systemd passed to this process, and returns the stored listener. Called once, before any
/// other process is started: systemd passes descriptors without close-on-exec.
pub fn take_over() -> Option<TcpListener> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<usize>().ok();
    if number("LISTEN_PID")? != usize::try_from(std::process::id()).ok()? {
        return None;
    }
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':');
    let mut found = None;
    for fd in (FIRST_FD..).take(number("LISTEN_FDS")?.min(MAX_FDS)) {
        // SAFETY: the borrow ends with the call, which reports a descriptor that is not open.
        let is_open = fcntl_getfd(unsafe { BorrowedFd::borrow_raw(fd) }).is_ok();
        if !is_open {
            break;
        }
        // SAFETY: it is open, and LISTEN_PID says that it was opened for this process; nothing else here owns it, since this
        // is called once, before the service opens anything by number.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let is_ours = names.next() == Some(NAME) && sockopt::socket_acceptconn(&fd).unwrap_or(false);
        // One that cannot be kept from jobs is closed.
        if fcntl_setfd(&fd, FdFlags::CLOEXEC).is_ok() && is_ours {
            found = Some(TcpListener::from(fd));
        }
    }
    found
}

/// Stores the listener in place of the one before.
pub fn store(listener: &impl AsFd) {
    notify(&format!("FDSTOREREMOVE=1\nFDNAME={NAME}"), None);
    notify(&format!("FDSTORE=1\nFDNAME={NAME}"), Some(listener.as_fd()));
}

pub fn remove() {
    notify(&format!("FDSTOREREMOVE=1\nFDNAME={NAME}"), None);
}

#[expect(clippy::disallowed_methods, reason = "the service manager, which started this process, says where it listens")]
fn notify(text: &str, fd: Option<BorrowedFd>) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let address = match path.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddrUnix::new_abstract_name(name),
        None => SocketAddrUnix::new(path.as_bytes()),
    };
    let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None);
    let (Ok(address), Ok(socket)) = (address, socket) else { return };
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = SendAncillaryBuffer::new(&mut room);
    if let Some(fd) = &fd {
        beside.push(SendAncillaryMessage::ScmRights(std::slice::from_ref(fd)));
    }
    // Nobody listens there: then nothing is stored.
    let _ = sendmsg_addr(&socket, &address, &[IoSlice::new(text.as_bytes())], &mut beside, SendFlags::NOSIGNAL);
}
