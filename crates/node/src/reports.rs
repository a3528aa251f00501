//! The socket on which shims report, a line each. A line is more than its messages: a shim whose run has ended listens on
//! it for the next, until it is closed.

use std::fs::{self, File};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nexus_api::run_dir::{FORMAT, RunSpec, ShimMessage};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recv, sendmsg};
use serde::{Deserialize, Serialize};

use crate::sockets;

/// Longer than any message of a shim, and than any run that is handed to one.
pub const MESSAGE_BYTES: usize = 128 << 10;

/// Messages taken from one line, and connections accepted, before the caller goes on: a job that writes to the socket without end
/// must not keep the ends of other jobs waiting.
const MAX_MESSAGES: usize = 64;
const MAX_ACCEPTS: usize = 64;

const ACCEPT_AGAIN: Duration = Duration::from_millis(20);

/// A shim's connection, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Line {
    number: u64,
    /// The process that connected, as the kernel says; 0 where it cannot be seen from here.
    pub peer: u32,
}

pub enum Heard {
    Message(Line, ShimMessage),
    /// Nothing more will come, nor be heard there.
    Closed(Line),
}

/// Word of a run to a shim that listens.
#[derive(Deserialize, Serialize)]
pub enum Next<Spec> {
    /// It comes once its start is in the database, which mostly it is in a moment: to be made ready for.
    Announced(Spec),
    Begin {
        /// None for the one that was announced.
        spec: Option<Spec>,
        /// The end of the run before is in the database: a record of it is of no use any more.
        last_settled: bool,
    },
}

pub struct Reports {
    path: PathBuf,
    listener: OwnedFd,
    lines: Vec<(Line, Arc<OwnedFd>)>,
    next: u64,
    buffer: Vec<u8>,
}

impl Reports {
    /// Binds the socket, in the place of one that an earlier service left behind.
    pub fn open(path: &Path) -> io::Result<Reports> {
        let listener = sockets::listen_for_packets(path)?;
        Ok(Reports { path: path.to_owned(), listener, lines: Vec::new(), next: 0, buffer: vec![0; MESSAGE_BYTES] })
    }

    /// Goes on at another socket. Lines that are open stay.
    pub fn move_to(&mut self, listener: OwnedFd, path: PathBuf) {
        (self.listener, self.path) = (listener, path);
    }

    /// What to poll for input: the lines, and last where new ones come from.
    pub fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.lines.iter().map(|(_, socket)| socket.as_fd()).chain([self.listener.as_fd()])
    }

    /// What has come on the lines that are ready, by their place among the sockets, and on new ones. What is beyond the limits is
    /// still there at the next poll.
    pub fn take(&mut self, is_ready: impl Fn(usize) -> bool) -> Vec<Heard> {
        let mut heard = Vec::new();
        let lines = std::mem::take(&mut self.lines);
        let has_new = is_ready(lines.len());
        for (place, (line, socket)) in lines.into_iter().enumerate() {
            match is_ready(place) {
                true => self.hear(line, socket, &mut heard),
                false => self.lines.push((line, socket)),
            }
        }
        if has_new {
            self.accept(&mut heard);
        }
        heard
    }

    fn accept(&mut self, heard: &mut Vec<Heard>) {
        for _ in 0..MAX_ACCEPTS {
            match sockets::accept(&self.listener) {
                Ok(Some(socket)) => {
                    self.next += 1;
                    let peer = socket_peercred(&socket).map_or(0, |peer| peer.pid.as_raw_nonzero().get() as u32);
                    self.hear(Line { number: self.next, peer }, Arc::new(socket), heard);
                }
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // Out of descriptors, say: without a rest the waiting connection would wake us for ever.
                Err(_) => return std::thread::sleep(ACCEPT_AGAIN),
            }
        }
    }

    fn hear(&mut self, line: Line, socket: Arc<OwnedFd>, heard: &mut Vec<Heard>) {
        for _ in 0..MAX_MESSAGES {
            match recv(&socket, &mut self.buffer[..], RecvFlags::empty()) {
                Ok((length @ 1.., _)) => {
                    heard.extend(parse(&self.buffer[..length]).map(|message| Heard::Message(line, message)));
                }
                // What was sent before comes after a reset as well.
                Err(Errno::INTR | Errno::CONNRESET) => {}
                Err(Errno::AGAIN) => break,
                Ok((0, _)) | Err(_) => return heard.push(Heard::Closed(line)),
            }
        }
        self.lines.push((line, socket));
    }

    /// Where a line that is open is written to.
    pub fn socket(&self, line: Line) -> Option<Arc<OwnedFd>> {
        self.lines.iter().find(|(other, _)| *other == line).map(|(_, socket)| socket.clone())
    }

    /// Lets go of all shims.
    pub fn close(&mut self) {
        self.lines.clear();
    }
}

impl Drop for Reports {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Tells the shim at the other end of its next run, with the guard of its start if it is to begin. Returns whether that is on
/// its way; the line closes if the shim does not take it.
pub fn tell(socket: &OwnedFd, next: &Next<&RunSpec>, guard: Option<&File>) -> bool {
    let Ok(text) = serde_json::to_vec(next) else { return false };
    if text.len() > MESSAGE_BYTES {
        return false;
    }
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = SendAncillaryBuffer::new(&mut room);
    let guard = guard.map(AsFd::as_fd);
    if let Some(guard) = &guard {
        beside.push(SendAncillaryMessage::ScmRights(std::slice::from_ref(guard)));
    }
    sendmsg(socket, &[IoSlice::new(&text)], &mut beside, SendFlags::NOSIGNAL).is_ok()
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

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use rustix::net::send;

    use super::*;

    #[test]
    fn a_flood_on_one_line_is_taken_in_parts() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("reports.sock");
        let mut reports = Reports::open(&path).unwrap();
        let floods = sockets::connect_packets(&path, Instant::now()).unwrap();
        let ended = |run: &str| {
            format!(
                r#"{{"say":"ended","format":1,"run":"{run}","status":{{"kind":"exited","code":0}},"cause":"own","pid":1,"started_at_ms":1,"ended_at_ms":2,"lost_output_bytes":0}}"#
            )
        };
        for number in 0..MAX_MESSAGES + 10 {
            send(&floods, ended(&format!("aaa.{number}")).as_bytes(), SendFlags::DONTWAIT).unwrap();
        }
        let took: Vec<usize> = (0..3).map(|_| reports.take(|_| true).len()).collect();
        assert_eq!(took, [MAX_MESSAGES, 10, 0]);
        assert_eq!(reports.sockets().count(), 2, "the line is still heard");
    }

    #[test]
    fn connections_without_end_are_accepted_in_parts() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("reports.sock");
        let mut reports = Reports::open(&path).unwrap();
        let lines: Vec<OwnedFd> =
            (0..MAX_ACCEPTS + 10).map(|_| sockets::connect_packets(&path, Instant::now()).unwrap()).collect();
        reports.take(|_| true);
        assert_eq!(reports.lines.len(), MAX_ACCEPTS);
        reports.take(|_| true);
        assert_eq!(reports.lines.len(), lines.len());
    }
}
