//! Hears of changes of one file, whether it is written, replaced, deleted, or not there yet; its folder too.

use std::ffi::OsString;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

pub struct Watch {
    inotify: Arc<AsyncFd<OwnedFd>>,
    path: PathBuf,
    name: OsString,
}

impl Watch {
    pub fn of(path: &Path) -> std::io::Result<Watch> {
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        // SAFETY: the descriptor is the AsyncFd's own, and open for as long as it.
        let inotify = Arc::new(unsafe { AsyncFd::register_with_interest(inotify, Interest::READABLE) }?);
        let name = path.file_name().unwrap_or_default().to_os_string();
        Ok(Watch { inotify, path: path.to_path_buf(), name })
    }

    /// The part that looks, for the one that reads the file.
    pub fn eye(&self) -> Eye {
        Eye { inotify: self.inotify.clone(), path: self.path.clone() }
    }

    /// Returns when something happened to the file.
    pub async fn changed(&self) -> std::io::Result<()> {
        loop {
            let mut ready = self.inotify.readable().await?;
            if self.drain()? {
                return Ok(());
            }
            ready.clear_ready();
        }
    }

    /// Reads what has piled up; whether any of it is about the file.
    fn drain(&self) -> std::io::Result<bool> {
        let mut space = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(self.inotify.get_ref(), &mut space);
        let mut about_it = false;
        loop {
            match reader.next() {
                // Events without a name are of the file itself, of its folder, or of too many events to tell.
                Ok(event) => {
                    let is_ours = event.file_name().is_none_or(|name| name.to_bytes() == self.name.as_bytes());
                    // A folder that appears may be the one that was missing.
                    about_it |= is_ours || event.events().contains(ReadFlags::ISDIR);
                }
                Err(rustix::io::Errno::WOULDBLOCK) => return Ok(about_it),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Sets the watches. They are on what a path leads to, so each look begins with this.
pub struct Eye {
    inotify: Arc<AsyncFd<OwnedFd>>,
    path: PathBuf,
}

impl Eye {
    /// What happens from now on is heard of. Beside the folder the file itself is watched: the folder tells of a
    /// write only when the writer closes the file, and other files that are written there all the time tell nothing.
    pub fn look(&self) {
        let folder = self.path.ancestors().skip(1).find(|folder| folder.is_dir()).unwrap_or(Path::new("/"));
        let of_folder = WatchFlags::CREATE
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::MOVED_TO
            | WatchFlags::MOVED_FROM
            | WatchFlags::DELETE
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF;
        // Where neither can be watched the file is read when the queue changes.
        let _ = inotify::add_watch(self.inotify.get_ref(), folder, of_folder);
        let _ = inotify::add_watch(self.inotify.get_ref(), &self.path, WatchFlags::MODIFY);
    }
}
