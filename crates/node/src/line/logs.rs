//! Sends what a run printed, piece by piece in the order of arrival, to a copy that has some of it already; and as it
//! grows, where that is wanted.

use std::io::{self, BufWriter, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use nexus_api::run_dir::{STDERR, STDOUT};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;

use super::channel::Channel;
use super::frames::{LONGEST_CHUNK, invalid};
use super::log_copy::{HEAD, LEVEL, LONGEST_PIECE};
use crate::logs::{LogReader, Which};

/// Where there is nothing to watch yet, or no watch left to give, the logs are looked at this often.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

pub fn send(channel: &Channel, dir: &Path, had: [u64; 2], follow: bool) -> io::Result<()> {
    if was_cleared(dir, had)? {
        // The copy has all there ever was.
        let mut out = channel;
        return put(&mut out, LEVEL, &[]);
    }
    let mut reader = LogReader::open(dir, Which::Both)?;
    reader.resume(had[0], had[1]);
    // Small pieces share a frame.
    let mut out = BufWriter::with_capacity(LONGEST_CHUNK, channel);
    let mut changes = None;
    let mut is_level = false;
    loop {
        // Before reading: what is written meanwhile is a change.
        if follow && changes.is_none() {
            changes = watch(dir);
        }
        while let Some(piece) = reader.read_next(LONGEST_PIECE)? {
            put(&mut out, u8::from(piece.stderr), &piece.bytes)?;
        }
        if !std::mem::replace(&mut is_level, true) {
            put(&mut out, LEVEL, &[])?;
        }
        out.flush()?;
        if !follow || channel.is_over() {
            return Ok(());
        }
        wait(changes.as_ref(), channel);
    }
}

/// Whether what the copy has is here no more: it was removed because there is a copy. One that has more than there is
/// would miss what comes.
fn was_cleared(dir: &Path, had: [u64; 2]) -> io::Result<bool> {
    for (name, had) in [STDOUT, STDERR].into_iter().zip(had) {
        let path = dir.join(name);
        let length = match std::fs::metadata(&path) {
            Ok(about) => about.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound && had > 0 => return Ok(true),
            Err(_) => 0,
        };
        if had > length {
            return Err(invalid(format!("{} has {length} bytes, and its copy {had}", path.display())));
        }
    }
    Ok(false)
}

fn put(out: &mut impl Write, kind: u8, bytes: &[u8]) -> io::Result<()> {
    let mut head = [kind; HEAD];
    head[1..].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.write_all(&head)?;
    out.write_all(bytes)
}

/// None where others write unseen.
fn watch(dir: &Path) -> Option<OwnedFd> {
    if crate::home::is_network(dir) {
        return None;
    }
    let watch = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC).ok()?;
    use inotify::WatchFlags as Flags;
    inotify::add_watch(&watch, dir, Flags::MODIFY | Flags::CREATE | Flags::MOVED_TO).ok()?;
    Some(watch)
}

/// Until something may have changed.
fn wait(changes: Option<&OwnedFd>, channel: &Channel) {
    let mut polled = vec![PollFd::from_borrowed_fd(channel.wake(), PollFlags::IN)];
    polled.extend(changes.map(|watch| PollFd::new(watch, PollFlags::IN)));
    let limit = if changes.is_none() { Timespec::try_from(LOOK_AGAIN).ok() } else { None };
    let _ = poll(&mut polled, limit.as_ref());
    channel.rest();
    if let Some(watch) = changes {
        let mut events = [0; 4096];
        // What exactly changed does not matter: all of it is looked at.
        while rustix::io::read(watch, &mut events).is_ok_and(|count| count > 0) {}
    }
}
