//! The service's side of the launcher: its process and the stream to it. Never blocks: what the launcher does not
//! take yet is kept, or else both sides could wait for each other with full buffers.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nexus_api::run_dir::RunSpec;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use crate::frame;
use crate::launcher::Reply;
use crate::processes;

/// A launcher has little to finish when its stream ends.
const CLOSE_PATIENCE: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };

pub struct Launcher {
    process: Child,
    stream: UnixStream,
    outgoing: Vec<u8>,
    incoming: Vec<u8>,
    /// When it is next looked at, while it owes an answer.
    look_at: Option<Instant>,
}

/// How long a launcher may owe an answer before it is looked at: a job that stops it (SIGSTOP) would keep all others from starting.
const ANSWER_PATIENCE: Duration = Duration::from_secs(2);

/// What came from the launcher.
pub struct Heard {
    pub replies: Vec<Reply>,
    /// Whether it has gone: nothing will come any more.
    pub ended: bool,
}

impl Launcher {
    /// Starts `command`, a program and its arguments, with the stream as its standard input and the guard as its
    /// standard output.
    pub fn start(command: &[OsString], guard: Option<&File>) -> io::Result<Launcher> {
        let [program, arguments @ ..] = command else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no launcher is named"));
        };
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let guard = match guard {
            Some(guard) => Stdio::from(guard.try_clone()?),
            None => Stdio::null(),
        };
        let process = Command::new(program)
            .args(arguments)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(guard)
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Launcher { process, stream: ours, outgoing: Vec::new(), incoming: Vec::new(), look_at: None })
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Continues a launcher that was stopped and owes an answer. Returns when to call again.
    pub fn keep_awake(&mut self, owes: bool) -> Option<Instant> {
        let now = Instant::now();
        match self.look_at.filter(|_| owes) {
            Some(at) if at > now => return self.look_at,
            // The launcher is a child that nobody has collected: no other process has its pid.
            Some(_) if processes::stat(self.pid()).is_some_and(|stat| processes::is_stopped(stat.process)) => {
                let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
                let _ = pid.map(|pid| kill_process(pid, Signal::CONT));
            }
            _ => {}
        }
        self.look_at = owes.then(|| now + ANSWER_PATIENCE);
        self.look_at
    }

    pub fn stream(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Whether there is more to write once the stream takes it.
    pub fn is_behind(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Puts a request at the end of those to be written.
    pub fn ask(&mut self, spec: &RunSpec) -> io::Result<()> {
        frame::append(&mut self.outgoing, spec)
    }

    /// Writes as much as the stream takes now. An error shows up as an end when reading.
    pub fn write(&mut self) {
        let mut done = 0;
        while done < self.outgoing.len() {
            match self.stream.write(&self.outgoing[done..]) {
                Ok(count) if count > 0 => done += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                _ => {
                    done = self.outgoing.len();
                }
            }
        }
        self.outgoing.drain(..done);
    }

    pub fn read(&mut self) -> Heard {
        let mut heard = Heard { replies: Vec::new(), ended: false };
        let mut chunk = [0; 4096];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(count) if count > 0 => self.incoming.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                _ => {
                    heard.ended = true;
                    break;
                }
            }
        }
        loop {
            match frame::take(&mut self.incoming) {
                Ok(Some(reply)) => heard.replies.push(reply),
                Ok(None) => break,
                Err(_) => {
                    heard.ended = true;
                    break;
                }
            }
        }
        heard
    }

    /// Closes the stream, at which the launcher ends, and waits for that. One that hangs is killed: its shims
    /// do not need it.
    pub fn close(self) {
        let Launcher { mut process, stream, .. } = self;
        drop(stream);
        let pid = i32::try_from(process.id()).ok().and_then(Pid::from_raw);
        let ended = pid
            .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
            .is_some_and(|process| poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&CLOSE_PATIENCE)) == Ok(1));
        if !ended {
            let _ = process.kill();
        }
        let _ = process.wait();
    }
}
