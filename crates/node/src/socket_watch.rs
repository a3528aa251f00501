//! Notices that sockets have vanished, and has them made again. logind removes `XDG_RUNTIME_DIR` at the last logout, cleaners of
//! `/tmp` and people remove files; connections that are open stay, but nobody finds the service any more.
//!
//! inotify tells, without polling: of the sockets by their folder, and of a folder by itself, for all folders above. A mount that is
//! taken away lazily tells nothing; then its mount point is removed, of which the folder around it tells.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};
use rustix::io::{Errno, retry_on_intr};

use crate::threads;

/// Whoever removes sockets may remove more of them: at most so often they are made again.
const REMAKE_INTERVAL: Duration = Duration::from_millis(50);

/// Where they could not be made, or cannot be watched, they are looked at this often.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// Of a thread that calls little.
const STACK_BYTES: usize = 256 << 10;

/// The file that a socket was bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl BoundFile {
    pub fn at(path: &Path) -> io::Result<BoundFile> {
        let about = std::fs::symlink_metadata(path)?;
        Ok(BoundFile { path: path.to_owned(), device: about.dev(), inode: about.ino() })
    }

    fn is_there(&self) -> bool {
        BoundFile::at(&self.path).is_ok_and(|found| found == *self)
    }
}

/// Calls `remake` on a thread of its own when one of the sockets is gone, for as long as this process lives. It returns the sockets
/// that are to be watched from then on.
pub fn keep(
    sockets: Vec<BoundFile>,
    remake: impl FnMut() -> io::Result<Vec<BoundFile>> + Send + 'static,
) -> io::Result<()> {
    threads::start_with_stack("socket-watch", STACK_BYTES, move || watch(sockets, remake)).map(drop)
}

fn watch(mut sockets: Vec<BoundFile>, mut remake: impl FnMut() -> io::Result<Vec<BoundFile>>) {
    loop {
        // Looked at once they are watched: what vanishes between the two is noticed.
        let events = follow(&sockets);
        while sockets.iter().all(BoundFile::is_there) {
            if !events.as_ref().is_ok_and(|events| wait(events).is_ok()) {
                std::thread::sleep(LOOK_INTERVAL);
                break;
            }
        }
        if sockets.iter().all(BoundFile::is_there) {
            continue;
        }
        match remake() {
            Ok(made) => {
                sockets = made;
                std::thread::sleep(REMAKE_INTERVAL);
            }
            Err(_) => std::thread::sleep(LOOK_INTERVAL),
        }
    }
}

/// Watches the folders of the sockets, and all above them.
fn follow(sockets: &[BoundFile]) -> io::Result<OwnedFd> {
    let events = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    let of_itself = WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF | WatchFlags::ONLYDIR | WatchFlags::MASK_ADD;
    let of_its_files = WatchFlags::DELETE | WatchFlags::MOVED_FROM | WatchFlags::ONLYDIR | WatchFlags::MASK_ADD;
    for folder in sockets.iter().filter_map(|socket| socket.path.parent()) {
        inotify::add_watch(&events, folder, of_itself | of_its_files | WatchFlags::MOVED_TO)?;
        for (below, above) in folder.ancestors().zip(folder.ancestors().skip(1)) {
            let flags = if is_mount_point(below, above) { of_itself | of_its_files } else { of_itself };
            // One that may be entered but not read cannot be watched; its owner is root, or nobody else could be in it.
            let _ = inotify::add_watch(&events, above, flags);
        }
    }
    Ok(events)
}

fn is_mount_point(folder: &Path, above: &Path) -> bool {
    let device = |path: &Path| std::fs::metadata(path).map(|about| about.dev()).ok();
    device(folder) != device(above)
}

/// Returns when something has happened to a folder.
fn wait(events: &OwnedFd) -> io::Result<()> {
    retry_on_intr(|| poll(&mut [PollFd::new(events, PollFlags::IN)], None))?;
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut reader = Reader::new(events, &mut buffer);
    loop {
        match reader.next() {
            Ok(_) | Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::mpsc::{Receiver, channel};

    use super::*;

    const DEADLINE: Duration = Duration::from_secs(20);

    /// A file in a folder of folders stands for a socket, and is made again by the thread that watches.
    fn kept(path: &Path) -> Receiver<()> {
        let make = |path: &Path| {
            fs::create_dir_all(path.parent().unwrap())?;
            fs::remove_file(path).or_else(|error| match error.kind() {
                io::ErrorKind::NotFound => Ok(()),
                _ => Err(error),
            })?;
            fs::write(path, "")?;
            BoundFile::at(path)
        };
        let (sender, receiver) = channel();
        let (made, at) = (make(path).unwrap(), path.to_owned());
        keep(vec![made], move || {
            let made = make(&at)?;
            let _ = sender.send(());
            Ok(vec![made])
        })
        .unwrap();
        receiver
    }

    #[test]
    fn what_vanishes_is_made_again_however_it_went() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b/socket");
        let remade = kept(&path);
        let again = |what: &str| {
            remade.recv_timeout(DEADLINE).unwrap_or_else(|_| panic!("not made again: {what}"));
            assert!(path.exists(), "{what}");
        };
        fs::remove_file(&path).unwrap();
        again("the file is gone");
        fs::rename(&path, dir.path().join("moved")).unwrap();
        again("the file was moved");
        fs::write(dir.path().join("other"), "").unwrap();
        fs::rename(dir.path().join("other"), &path).unwrap();
        again("another is in its place");
        fs::rename(dir.path().join("a/b"), dir.path().join("b")).unwrap();
        again("its folder was moved");
        fs::rename(dir.path().join("a"), dir.path().join("c")).unwrap();
        again("the folder above was moved");
        fs::remove_dir_all(dir.path().join("a")).unwrap();
        again("all is gone");
    }
}
