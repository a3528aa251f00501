//! Tells the service what happened, if there is one: never waits longer than an instant, since the job's end must
//! not hang on a service that is down or busy. What is not heard is found in the run directory later.
//!
//! The same line brings the next run to a shim that is done with one: see `keeper.rs` for who is handed which.

use std::fs::symlink_metadata;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nexus_api::run_dir::{ExitRecord, RunSpec, ShimMessage, Started};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, recv, recvmsg, send};
use rustix::process::geteuid;
use serde::de::IgnoredAny;

use crate::reports::{MESSAGE_BYTES, Next};
use crate::run_file;
use crate::sockets;

const PATIENCE: Duration = Duration::from_millis(20);

/// How long a shim without a run waits for one. Longer than a service needs to find one, and not so long that many of
/// them lie about.
pub const IDLE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// The word to begin what was announced is no longer.
const SHORT_BYTES: usize = 128;

/// Whether the end of the run before is in the database.
pub struct Settled(pub bool);

/// The way to the service, opened when there is something to say.
pub struct Line {
    reports: PathBuf,
    socket: Option<OwnedFd>,
}

impl Line {
    pub fn to(reports: PathBuf) -> Line {
        Line { reports, socket: None }
    }

    /// Returns whether the message was taken. On a cluster there is a folder instead of a socket, in which a file named as
    /// the run says that there is something to see.
    pub fn tell(&mut self, message: &ShimMessage) -> bool {
        let Ok(text) = serde_json::to_vec(message) else { return false };
        if self.socket.as_ref().is_some_and(|socket| send_soon(socket, &text, Instant::now() + PATIENCE)) {
            return true;
        }
        self.socket = None;
        if is_own_folder(&self.reports) {
            let (ShimMessage::Started(Started { run, .. }) | ShimMessage::Ended(ExitRecord { run, .. })) = message;
            // Whoever waits for it asks Slurm too.
            let _ = run_file::create(&self.reports.join(run));
            return false;
        }
        let until = Instant::now() + PATIENCE;
        // Whoever else listens there must not hand this process a run.
        self.socket = sockets::connect_packets(&self.reports, until).ok();
        self.socket.as_ref().is_some_and(|socket| send_soon(socket, &text, until))
    }

    /// This shim takes no other run: what was handed to it goes to another.
    pub fn close(&mut self) {
        self.socket = None;
    }

    /// Whether the run that was announced is to begin, and whether the one before is settled; none if there is other word, or
    /// none so soon. The word stays to be taken, and the guard with it.
    pub fn begins(&self, patience: &Timespec) -> Option<Settled> {
        let mut text = [0; SHORT_BYTES];
        let (_, length) = recv(self.readable(patience)?, &mut text[..], RecvFlags::PEEK | RecvFlags::TRUNC).ok()?;
        match serde_json::from_slice(text.get(..length)?).ok()? {
            Next::<IgnoredAny>::Begin { spec: None, last_settled } => Some(Settled(last_settled)),
            _ => None,
        }
    }

    fn readable(&self, patience: &Timespec) -> Option<&OwnedFd> {
        let socket = self.socket.as_ref()?;
        (poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(patience)) == Ok(1)).then_some(socket)
    }

    /// Word of the next run, with the guard of its start; none if there is none so soon, or will be none.
    pub fn next(&self, patience: &Timespec) -> Option<(Next<RunSpec>, Option<OwnedFd>)> {
        let socket = self.readable(patience)?;
        // Only its length: room for the longest would be more memory than all the rest of this process.
        let (_, length) = recv(socket, &mut [0; 0][..], RecvFlags::PEEK | RecvFlags::TRUNC).ok()?;
        let mut text = vec![0; length.min(MESSAGE_BYTES)];
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut beside = RecvAncillaryBuffer::new(&mut room);
        let came = recvmsg(socket, &mut [IoSliceMut::new(&mut text)], &mut beside, RecvFlags::CMSG_CLOEXEC).ok()?;
        let guard = beside.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        let next = serde_json::from_slice(text.get(..came.bytes)?).ok()?;
        Some((next, guard))
    }
}

/// A folder of another user is no cluster's: a link in it would lead the file elsewhere.
fn is_own_folder(path: &Path) -> bool {
    symlink_metadata(path).is_ok_and(|about| about.is_dir() && about.uid() == geteuid().as_raw())
}

fn send_soon(socket: &OwnedFd, text: &[u8], until: Instant) -> bool {
    loop {
        match send(socket, text, SendFlags::NOSIGNAL) {
            Ok(_) => return true,
            Err(Errno::AGAIN) => {}
            Err(_) => return false,
        }
        let left = until.saturating_duration_since(Instant::now());
        let Ok(left) = Timespec::try_from(left) else { return false };
        if poll(&mut [PollFd::new(socket, PollFlags::OUT)], Some(&left)) != Ok(1) {
            return false;
        }
    }
}
