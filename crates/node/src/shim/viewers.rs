//! All who look at the run's terminal: they see the same, all may type, and the window is as large as the smallest
//! of theirs. Nothing here ever waits for one of them, and with none of them there is nothing but a socket.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nexus_api::run_dir::{ExitRecord, RunSpec};
use nexus_api::terminal::{FORMAT, FromShim, FromViewer, SCROLLBACK, ShimHello, TimeLimit, ViewerHello};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{Winsize, tcsetwinsize};

use super::viewer::{Gone, Viewer};
use crate::logs::{LogReader, Which};
use crate::{rendezvous, sockets};

/// More are turned away.
const MOST: usize = 32;

/// Connections accepted before the shim looks after its job again: the name of the socket stands in /proc/net/unix, so that any
/// user can connect without end.
const MAX_ACCEPTS: usize = 16;

/// What was typed and the job has not read yet; with more than this viewers are not heard.
const TYPED_BYTES: usize = 64 << 10;

/// How long the shim stays for viewers that have yet to take the last output; all else is done by then.
const FAREWELL: Duration = Duration::from_secs(1);

pub struct Viewers {
    listener: Option<UnixListener>,
    /// Where it listens.
    pub name: Option<String>,
    dir: PathBuf,
    tty: bool,
    /// Columns and rows of a run that nobody looks at, and those that are in force.
    usual_window: (u16, u16),
    window: (u16, u16),
    viewers: Vec<Viewer>,
    typed: Vec<u8>,
    /// The listener failed: it is left alone until something else happens.
    rests: bool,
    /// Whether a GNU screen session shows the run, and whether that has been closed.
    session: Session,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Session {
    None,
    Awaited,
    Open(String),
    Closed,
}

/// The run's terminals, and how much they have printed.
pub struct Seen<'a> {
    pub stdout: Option<&'a File>,
    pub stderr: Option<&'a File>,
    pub printed: u64,
}

impl Viewers {
    /// A run whose socket cannot be made has no viewers; it runs all the same.
    pub fn open(spec: &RunSpec) -> Viewers {
        let (listener, name) = rendezvous::listen(&spec.run).ok().unzip();
        let usual_window = (spec.columns, spec.rows);
        Viewers {
            listener,
            name,
            dir: spec.dir.clone(),
            tty: spec.tty,
            usual_window,
            window: usual_window,
            viewers: Vec::new(),
            typed: Vec::new(),
            rests: false,
            session: Session::None,
        }
    }

    /// The next viewer that says it is a session's window is that of this run.
    pub fn await_session(&mut self) {
        self.session = Session::Awaited;
    }

    /// The session's name, once its window is here.
    pub fn session(&self) -> Option<&str> {
        match &self.session {
            Session::Open(name) => Some(name),
            _ => None,
        }
    }

    pub fn session_is_closed(&self) -> bool {
        self.session == Session::Closed
    }

    /// What to poll, and for what.
    pub fn polled(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let listener = self.listener.iter().filter(|_| !self.rests).map(|listener| (listener.as_fd(), PollFlags::IN));
        listener.chain(self.viewers.iter().map(|viewer| {
            let hear = if self.has_room() { PollFlags::IN } else { PollFlags::empty() };
            let send = if viewer.is_behind() { PollFlags::OUT } else { PollFlags::empty() };
            (viewer.stream(), hear | send)
        }))
    }

    /// Whether somebody has typed what the terminal has not taken yet.
    pub fn has_typed(&self) -> bool {
        !self.typed.is_empty()
    }

    fn has_room(&self) -> bool {
        self.typed.len() < TYPED_BYTES
    }

    /// Shows bytes that were printed.
    pub fn show(&mut self, bytes: &[u8]) {
        for viewer in self.viewers.iter_mut().filter(|viewer| viewer.hello.is_some()) {
            viewer.show(bytes);
        }
        self.send();
    }

    /// Lets new ones in, takes what they say, sends what they can take.
    pub fn serve(&mut self, seen: &Seen) {
        self.rests = false;
        self.accept();
        for index in 0..self.viewers.len() {
            self.serve_one(index, seen);
        }
        self.send();
        self.type_in(seen);
        self.fit_window(seen);
    }

    /// Sets the limits that were asked for, and tells those who did; `set` says why not, where it cannot.
    pub fn answer_limits(&mut self, mut set: impl FnMut(TimeLimit) -> Result<(), &'static str>) {
        let asking = self.viewers.iter_mut().filter_map(|viewer| viewer.asks.take().map(|limit| (viewer, limit)));
        for (viewer, limit) in asking {
            let is_reader = viewer.hello.as_ref().is_none_or(|hello| hello.read_only);
            let done = if is_reader { Err("a reader changes nothing") } else { set(limit) };
            viewer.tell(&match done {
                Ok(()) => FromShim::TimeLimitSet(limit),
                Err(why) => FromShim::Refused(why.into()),
            });
        }
        self.send();
    }

    /// Connections beyond the limit wait in the kernel's queue, and the next poll tells of them.
    fn accept(&mut self) {
        let Some(listener) = &self.listener else { return };
        for _ in 0..MAX_ACCEPTS {
            match sockets::accept(listener) {
                Ok(Some(stream)) if self.viewers.len() < MOST => self.viewers.push(Viewer::new(stream.into())),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.rests = true;
                    return;
                }
            }
        }
    }

    fn serve_one(&mut self, index: usize, seen: &Seen) {
        let said = match self.has_room() {
            true => self.viewers[index].hear(),
            false if self.viewers[index].has_hung_up() => Err(Gone),
            false => Ok(vec![]),
        };
        let Ok(said) = said else {
            self.viewers[index].is_gone = true;
            return;
        };
        for frame in said {
            match frame {
                FromViewer::Hello(hello) => self.welcome(index, &hello, seen),
                FromViewer::Input(bytes) => self.take_typed(index, &bytes),
                FromViewer::Resize { columns, rows } => {
                    if let Some(hello) = &mut self.viewers[index].hello {
                        (hello.columns, hello.rows) = (columns, rows);
                    }
                }
                FromViewer::TimeLimit(limit) => self.viewers[index].asks = Some(limit),
            }
        }
    }

    fn note_left(&mut self, viewer: &Viewer) {
        let was = viewer.hello.as_ref().and_then(|hello| hello.session.as_ref());
        if let (Some(was), Session::Open(name)) = (was, &self.session)
            && was == name
        {
            self.session = Session::Closed;
        }
    }

    /// Sends what each can take, and forgets those that have left.
    fn send(&mut self) {
        for mut viewer in std::mem::take(&mut self.viewers) {
            let mut is_gone = viewer.is_gone || viewer.flush().is_err();
            if let Some(missed) = viewer.may_catch_up().filter(|_| !is_gone) {
                viewer.catch_up(&self.earlier(missed.min(SCROLLBACK)));
                is_gone = viewer.flush().is_err();
            }
            match is_gone {
                true => self.note_left(&viewer),
                false => self.viewers.push(viewer),
            }
        }
    }

    fn welcome(&mut self, index: usize, hello: &ViewerHello, seen: &Seen) {
        if let (Session::Awaited, Some(name)) = (&self.session, &hello.session) {
            self.session = Session::Open(name.clone());
        }
        let missed = hello.from.map(|from| seen.printed.saturating_sub(from));
        let earlier = self.earlier(missed.unwrap_or(SCROLLBACK).min(SCROLLBACK));
        let left_out = missed.map_or(0, |missed| missed.saturating_sub(earlier.len() as u64));
        let position = seen.printed.saturating_sub(earlier.len() as u64 + left_out);
        let viewer = &mut self.viewers[index];
        let hello = ShimHello { format: FORMAT, tty: self.tty, position, takes_time_limit: true };
        viewer.tell(&FromShim::Hello(hello));
        if left_out > 0 {
            viewer.tell(&FromShim::LeftOut(left_out));
        }
        viewer.tell(&FromShim::Output(earlier));
    }

    /// The last bytes that were printed. A log that cannot be read shows nothing.
    fn earlier(&self, bytes: u64) -> Vec<u8> {
        let mut earlier = Vec::new();
        let Ok(mut reader) = LogReader::open(&self.dir, Which::Both) else { return earlier };
        if reader.back(bytes).is_err() {
            return earlier;
        }
        while let Ok(Some(chunk)) = reader.read_next(SCROLLBACK as usize) {
            earlier.extend_from_slice(&chunk.bytes);
        }
        earlier
    }

    fn take_typed(&mut self, index: usize, bytes: &[u8]) {
        let viewer = &mut self.viewers[index];
        if viewer.hello.as_ref().is_none_or(|hello| hello.read_only) {
            return;
        }
        if self.tty {
            self.typed.extend_from_slice(bytes);
        } else if !std::mem::replace(&mut viewer.was_refused, true) {
            viewer.tell(&FromShim::Refused("this job has no terminal and reads nothing".into()));
        }
    }

    /// Gives the terminal what it takes now.
    fn type_in(&mut self, seen: &Seen) {
        let Some(mut terminal) = seen.stdout else { return self.typed.clear() };
        let mut done = 0;
        while done < self.typed.len() {
            match terminal.write(&self.typed[done..]) {
                Ok(count) if count > 0 => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // Nobody is there to read it any more.
                _ => done = self.typed.len(),
            }
        }
        self.typed.drain(..done);
        if self.typed.is_empty() {
            self.typed = Vec::new();
        }
    }

    fn fit_window(&mut self, seen: &Seen) {
        let windows = || self.viewers.iter().filter_map(|viewer| viewer.hello.as_ref());
        let least = |size: fn(&ViewerHello) -> u16| windows().map(size).filter(|size| *size > 0).min();
        let columns = least(|hello| hello.columns).unwrap_or(self.usual_window.0);
        let rows = least(|hello| hello.rows).unwrap_or(self.usual_window.1);
        if !self.tty || self.window == (columns, rows) {
            return;
        }
        self.window = (columns, rows);
        for terminal in [seen.stdout, seen.stderr].into_iter().flatten() {
            // A terminal that is gone needs no window.
            let _ = tcsetwinsize(terminal, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 });
        }
    }

    /// The run has ended: everyone is told, nobody is let in any more.
    pub fn end(&mut self, record: &ExitRecord) {
        self.listener = None;
        self.viewers.retain(|viewer| viewer.hello.is_some());
        // Those that are behind for good hear of the end at least.
        self.send();
        for viewer in &mut self.viewers {
            viewer.tell(&FromShim::Ended(record.clone()));
        }
        self.viewers.retain_mut(|viewer| viewer.flush().is_ok());
    }

    /// Whether somebody has not yet taken all there is.
    pub fn are_behind(&self) -> bool {
        self.viewers.iter().any(Viewer::is_behind)
    }

    /// Gives those that are behind a moment to take the rest.
    pub fn see_off(&mut self) {
        let until = Instant::now() + FAREWELL;
        self.viewers.retain(Viewer::is_behind);
        while !self.viewers.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            let streams = self.viewers.iter().map(Viewer::stream);
            let mut polled: Vec<_> = streams.map(|one| PollFd::from_borrowed_fd(one, PollFlags::OUT)).collect();
            let Ok(left) = Timespec::try_from(left) else { return };
            if !matches!(poll(&mut polled, Some(&left)), Ok(1..)) {
                return;
            }
            drop(polled);
            self.viewers.retain_mut(|viewer| viewer.flush().is_ok() && viewer.is_behind());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_without_end_are_accepted_in_parts() {
        let spec = serde_json::json!({
            "format": 1, "run": "aaa.1", "dir": "/nowhere", "argv": ["true"], "shell": false, "cwd": "/", "env": [],
            "limits": {}, "tty": true, "columns": 80, "rows": 24, "grace_ms": 0, "reports": "",
        });
        let mut viewers = Viewers::open(&serde_json::from_value(spec).unwrap());
        let name = viewers.name.clone().unwrap();
        let connections: Vec<_> = (0..MAX_ACCEPTS + 5).map(|_| rendezvous::connect(&name).unwrap()).collect();
        let seen = Seen { stdout: None, stderr: None, printed: 0 };
        viewers.serve(&seen);
        assert_eq!(viewers.viewers.len(), MAX_ACCEPTS);
        viewers.serve(&seen);
        assert_eq!(viewers.viewers.len(), connections.len());
    }
}
