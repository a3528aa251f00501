//! A run's terminal over the line: bytes between the shim and whoever looks, of which the node reads none.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use nexus_api::run_dir::SLURM_JOB;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::channel::Channel;
use super::words::REACHED;
use crate::inspect::{Seen, inspect, inspect_from_afar};
use crate::{rendezvous, slurm};

/// A run that is on its way says within this time where its terminal is.
const START_LIMIT: Duration = Duration::from_secs(10);
const START_LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

const PART: usize = 16 << 10;

pub fn pass_on(mut channel: &Channel, dir: &Path) -> io::Result<()> {
    let Some(mut shim) = reach(channel, dir)? else { return Ok(()) };
    channel.write_all(&[REACHED])?;
    shim.set_nonblocking(true)?;
    let (mut typed, mut part) = (Vec::new(), vec![0; PART]);
    loop {
        if !pass_typed(channel, &mut typed, &mut shim)? {
            return Ok(());
        }
        // Read only what can be passed on at once: the shim knows what to leave out for a viewer who is slow.
        let credit = channel.credit().min(PART);
        if credit > 0 {
            match shim.read(&mut part[..credit]) {
                Ok(0) => return Ok(()),
                Ok(count) => {
                    channel.write_all(&part[..count])?;
                    continue;
                }
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
            }
        }
        let shown = if credit > 0 { PollFlags::IN } else { PollFlags::empty() };
        let behind = if typed.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
        let mut polled = vec![PollFd::from_borrowed_fd(channel.wake(), PollFlags::IN)];
        // Asked for nothing it would still tell, over and over, that it was closed.
        polled.extend((!(shown | behind).is_empty()).then(|| PollFd::new(&shim, shown | behind)));
        let _ = poll(&mut polled, None);
    }
}

/// Passes on what was typed, as much as the shim takes now; whether anybody still wants the terminal.
fn pass_typed(channel: &Channel, typed: &mut Vec<u8>, shim: &mut UnixStream) -> io::Result<bool> {
    channel.rest();
    let mut part = [0; 4 << 10];
    loop {
        if typed.is_empty() {
            match channel.read_now(&mut part)? {
                None => return Ok(false),
                Some(0) => return Ok(true),
                Some(count) => typed.extend_from_slice(&part[..count]),
            }
        }
        match shim.write(typed) {
            Ok(count) => drop(typed.drain(..count)),
            Err(error) if is_passing(&error) => return Ok(!channel.is_over()),
            // It listens no more. What it said last is still to be read.
            Err(_) => typed.clear(),
        }
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// On this machine, or on the compute node where it is.
fn connect(dir: &Path, name: &str) -> io::Result<UnixStream> {
    slurm::reach_terminal(dir, name).unwrap_or_else(|| rendezvous::connect(name))
}

/// The shim of a run that lives or is about to; none if nobody wants it any more.
fn reach(channel: &Channel, dir: &Path) -> io::Result<Option<UnixStream>> {
    let until = Instant::now() + START_LIMIT;
    loop {
        let in_cluster = dir.join(SLURM_JOB).exists();
        let seen = if in_cluster { inspect_from_afar(dir) } else { inspect(dir) };
        let error = match seen {
            Ok(Seen::Alive(started)) => match started.terminal.as_deref().map(|name| connect(dir, name)) {
                // srun has tried for long enough.
                Some(Err(error)) if in_cluster => return Err(error),
                Some(Ok(stream)) => return Ok(Some(stream)),
                Some(Err(error)) => error.to_string(),
                None => return Err(io::Error::other("it was started by an older nexus")),
            },
            Ok(Seen::Starting | Seen::NotStarted) => "nothing answers in its run directory".to_owned(),
            Ok(Seen::Exited(_) | Seen::Claimed | Seen::Gone(_)) => return Err(io::Error::other("it has ended")),
            Err(error) => return Err(io::Error::other(error.to_string())),
        };
        if Instant::now() > until {
            return Err(io::Error::other(error));
        }
        let _ = poll(&mut [PollFd::from_borrowed_fd(channel.wake(), PollFlags::IN)], Some(&START_LOOK));
        if channel.is_over() {
            return Ok(None);
        }
        channel.rest();
    }
}
