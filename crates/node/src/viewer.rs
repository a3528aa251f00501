//! A viewer without a service: the window of a run's GNU screen session. Passes keys and the window's size to the shim
//! and shows what comes back. It ends with the run; when it is ended itself the shim takes the session as closed.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use nexus_api::terminal::{FORMAT, FromShim, FromViewer, LONGEST, ViewerHello};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::termios::{OptionalActions, tcgetattr, tcgetwinsize, tcsetattr};

use crate::carriage::Carriage;
use crate::rendezvous;
use crate::signals::Windows;

/// What was typed and not yet taken; with more the terminal is not read.
const TYPED_BYTES: usize = 64 << 10;

/// Shows the run whose shim listens under this name.
pub fn main(name: &str) -> ! {
    let code = match view(name) {
        Ok(()) => 0,
        Err(_) => 1,
    };
    std::process::exit(code)
}

fn view(name: &str) -> io::Result<()> {
    let mut windows = Windows::open()?;
    let stdin = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut raw = tcgetattr(&stdin)?;
    raw.make_raw();
    tcsetattr(&stdin, OptionalActions::Now, &raw)?;
    let mut stream = rendezvous::connect(name)?;
    stream.set_nonblocking(true)?;
    let mut outgoing = Vec::new();
    let (columns, rows) = window(&stdin);
    let session = std::env::var("STY").ok();
    FromViewer::Hello(ViewerHello { format: FORMAT, columns, rows, session, ..ViewerHello::default() })
        .append_to(&mut outgoing);
    let mut shown = Shown { carriage: Carriage::default(), arrived: Vec::new() };
    loop {
        let typed = if outgoing.len() < TYPED_BYTES { PollFlags::IN } else { PollFlags::empty() };
        let behind = if outgoing.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
        let mut polled = [
            PollFd::new(&stream, PollFlags::IN | behind),
            PollFd::new(&windows, PollFlags::IN),
            PollFd::new(&stdin, typed),
        ];
        let _ = poll(&mut polled, None);
        let [from_shim, resized, keys] = polled.map(|one| !one.revents().is_empty());
        if resized && windows.take() {
            let (columns, rows) = window(&stdin);
            FromViewer::Resize { columns, rows }.append_to(&mut outgoing);
        }
        if keys {
            let mut part = [0; 4096];
            match (&stdin).read(&mut part)? {
                0 => return Ok(()),
                count => FromViewer::Input(part[..count].to_vec()).append_to(&mut outgoing),
            }
        }
        send(&mut stream, &mut outgoing)?;
        if from_shim && !shown.take(&mut stream)? {
            return Ok(());
        }
    }
}

fn window(terminal: &File) -> (u16, u16) {
    tcgetwinsize(terminal).map_or((0, 0), |size| (size.ws_col, size.ws_row))
}

fn send(stream: &mut UnixStream, outgoing: &mut Vec<u8>) -> io::Result<()> {
    while !outgoing.is_empty() {
        match stream.write(outgoing) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => drop(outgoing.drain(..count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

struct Shown {
    carriage: Carriage,
    arrived: Vec<u8>,
}

impl Shown {
    /// Shows what has come; whether there will be more.
    fn take(&mut self, stream: &mut UnixStream) -> io::Result<bool> {
        let mut part = vec![0; LONGEST];
        match stream.read(&mut part) {
            Ok(0) => return Ok(false),
            Ok(count) => self.arrived.extend_from_slice(&part[..count]),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
        let mut out = io::stdout().lock();
        while let Some(frame) = FromShim::take_from(&mut self.arrived).map_err(io::Error::other)? {
            match frame {
                // Only who asked for another limit is told that it holds.
                FromShim::Hello(_) | FromShim::TimeLimitSet(_) => {}
                FromShim::Output(bytes) => out.write_all(&self.carriage.push(&bytes))?,
                FromShim::LeftOut(bytes) => write!(out, "\r\n[{bytes} bytes were left out]\r\n")?,
                FromShim::Refused(why) => write!(out, "\r\n[{why}]\r\n")?,
                FromShim::Ended(_) => return out.flush().map(|()| false),
            }
        }
        out.flush().map(|()| true)
    }
}
