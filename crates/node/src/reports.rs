//! The socket on which shims report: one message a connection, taken as soon as it is there.

use std::fs::{self, Permissions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nexus_api::run_dir::{FORMAT, ShimMessage};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, recv, socket_with,
};

/// Longer than any message of a shim.
const MESSAGE_BYTES: usize = 128 << 10;

/// Connections that wait to be accepted; the kernel has a limit of its own below this.
const WAITING: i32 = 4096;

const ACCEPT_AGAIN: Duration = Duration::from_millis(20);

pub struct Reports {
    path: PathBuf,
    listener: OwnedFd,
    /// Accepted, and silent so far.
    silent: Vec<OwnedFd>,
    buffer: Vec<u8>,
}

impl Reports {
    /// Binds the socket, in the place of one that an earlier service left behind.
    pub fn open(path: &Path) -> io::Result<Reports> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let listener = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        bind(&listener, &SocketAddrUnix::new(path)?)?;
        fs::set_permissions(path, Permissions::from_mode(0o600))?;
        listen(&listener, WAITING)?;
        Ok(Reports { path: path.to_owned(), listener, silent: Vec::new(), buffer: vec![0; MESSAGE_BYTES] })
    }

    /// What to poll for input.
    pub fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.silent.iter().chain([&self.listener]).map(AsFd::as_fd)
    }

    /// All messages that have come.
    pub fn take(&mut self) -> Vec<ShimMessage> {
        let mut messages = Vec::new();
        for connection in std::mem::take(&mut self.silent) {
            self.hear(connection, &mut messages);
        }
        loop {
            match accept_with(&self.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(connection) => self.hear(connection, &mut messages),
                Err(Errno::AGAIN) => return messages,
                Err(Errno::INTR) => {}
                Err(_) => {
                    // Out of descriptors, say: without a rest the waiting connection would wake us for ever.
                    std::thread::sleep(ACCEPT_AGAIN);
                    return messages;
                }
            }
        }
    }

    fn hear(&mut self, connection: OwnedFd, messages: &mut Vec<ShimMessage>) {
        match recv(&connection, &mut self.buffer[..], RecvFlags::empty()) {
            Ok((length, _)) => messages.extend(parse(&self.buffer[..length])),
            Err(Errno::AGAIN) => self.silent.push(connection),
            Err(_) => {}
        }
    }
}

impl Drop for Reports {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// A message of a later format is left alone: the run directory tells, with the reason, what cannot be read.
fn parse(bytes: &[u8]) -> Option<ShimMessage> {
    let message: ShimMessage = serde_json::from_slice(bytes).ok()?;
    let format = match &message {
        ShimMessage::Started(started) => started.format,
        ShimMessage::Ended(record) => record.format,
    };
    (format <= FORMAT).then_some(message)
}
