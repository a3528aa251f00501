//! Tells when a file was changed, however that was done: written in place, replaced by another, or through a link.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use nexus_node::threads;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::{Errno, retry_on_intr};

/// Links that are followed from the name to the file.
const MOST_LINKS: usize = 16;

/// An editor's steps (away with the old, in with the new) are over when nothing has come for this long.
const QUIET: Timespec = Timespec { tv_sec: 0, tv_nsec: 30_000_000 };

/// Somebody who never stops writing is heard all the same.
const MOST_QUIET_WAITS: usize = 20;

/// Calls `on_change` on a thread of its own, once for each change or for several in a row, for as long as this
/// process lives. The file need not exist; its folder must.
pub fn watch(path: &Path, on_change: impl Fn() + Send + 'static) -> io::Result<()> {
    let mut watched = Watched {
        inotify: inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?,
        path: path.to_owned(),
        names: BTreeMap::new(),
    };
    watched.follow()?;
    threads::start("watch-file", move || {
        // An error here is one of the descriptor itself; then there is nothing left to wait for.
        while watched.wait_for_change().is_ok() {
            on_change();
        }
    })?;
    Ok(())
}

struct Watched {
    inotify: OwnedFd,
    path: PathBuf,
    /// Names that matter in each folder that is watched.
    names: BTreeMap<i32, Vec<OsString>>,
}

impl Watched {
    /// Watches the folder of the file, and those of the links that lead to it.
    fn follow(&mut self) -> io::Result<()> {
        let flags = WatchFlags::CLOSE_WRITE
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::ONLYDIR;
        self.names.clear();
        for (place, (dir, name)) in links(&self.path).into_iter().enumerate() {
            match inotify::add_watch(&self.inotify, &dir, flags) {
                Ok(folder) => self.names.entry(folder).or_default().push(name),
                Err(error) if place == 0 => return Err(error.into()),
                // A link that leads nowhere: the folder of the link itself is watched.
                Err(_) => {}
            }
        }
        Ok(())
    }

    fn wait_for_change(&mut self) -> io::Result<()> {
        loop {
            self.wait(None)?;
            if self.heard()? {
                break;
            }
        }
        for _ in 0..MOST_QUIET_WAITS {
            if !self.wait(Some(&QUIET))? {
                break;
            }
            self.heard()?;
        }
        // Links may lead elsewhere now. Should the folder be gone for a moment, the next event mends it.
        let _ = self.follow();
        Ok(())
    }

    /// Whether something came in time.
    fn wait(&self, limit: Option<&Timespec>) -> io::Result<bool> {
        let ready = retry_on_intr(|| poll(&mut [PollFd::new(&self.inotify, PollFlags::IN)], limit))?;
        Ok(ready > 0)
    }

    /// Takes what has come; whether it is about the file.
    fn heard(&self) -> io::Result<bool> {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(&self.inotify, &mut buffer);
        let mut is_ours = false;
        loop {
            match reader.next() {
                Ok(event) if event.events().contains(ReadFlags::QUEUE_OVERFLOW) => is_ours = true,
                Ok(event) => {
                    let name = event.file_name().map(|name| name.to_bytes());
                    let names = self.names.get(&event.wd());
                    is_ours |= name.is_some_and(|name| {
                        names.is_some_and(|names| names.iter().any(|known| known.as_encoded_bytes() == name))
                    });
                }
                Err(Errno::WOULDBLOCK) => return Ok(is_ours),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Folder and name of the path, and of each link on the way to the file.
fn links(path: &Path) -> Vec<(PathBuf, OsString)> {
    let (mut found, mut next) = (Vec::new(), Some(path.to_owned()));
    while let Some(path) = next.filter(|_| found.len() < MOST_LINKS) {
        let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else { break };
        next = std::fs::read_link(&path).ok().map(|target| dir.join(target));
        found.push((dir.to_owned(), name.to_owned()));
    }
    found
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::mpsc::{Receiver, channel};
    use std::time::Duration;

    use super::*;

    const DEADLINE: Duration = Duration::from_secs(20);

    fn watched(path: &Path) -> Receiver<()> {
        let (sender, receiver) = channel();
        watch(path, move || sender.send(()).unwrap_or(())).unwrap();
        receiver
    }

    #[test]
    fn changes_in_place_by_replacement_and_through_a_link_are_told() {
        let dir = std::env::temp_dir().join(format!("nexus-watch-{}", std::process::id()));
        fs::create_dir_all(dir.join("elsewhere")).unwrap();
        let (path, target) = (dir.join("file"), dir.join("elsewhere/target"));
        let heard = watched(&path);
        let told = |what: &str| heard.recv_timeout(DEADLINE).unwrap_or_else(|_| panic!("not told: {what}"));
        fs::write(&path, "1").unwrap();
        told("made");
        fs::write(&path, "2").unwrap();
        told("written");
        fs::write(dir.join("new"), "3").unwrap();
        fs::rename(dir.join("new"), &path).unwrap();
        told("replaced");
        fs::remove_file(&path).unwrap();
        told("removed");
        fs::write(&target, "4").unwrap();
        std::os::unix::fs::symlink("elsewhere/target", &path).unwrap();
        told("made a link");
        fs::write(&target, "5").unwrap();
        told("written behind the link");
        fs::write(dir.join("other"), "6").unwrap();
        assert!(heard.try_recv().is_err(), "another file is told about");
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_folder_that_is_not_there_cannot_be_watched() {
        assert!(watch(Path::new("/no/such/folder/file"), || {}).is_err());
    }
}
