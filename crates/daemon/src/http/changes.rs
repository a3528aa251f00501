//! Tells when a log has grown.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rustix::fs::inotify;
use tokio::io::unix::AsyncFd;

/// Without a watch the log is looked at this often.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// A watch on a file, or on those of a folder.
pub struct Changes {
    inotify: AsyncFd<OwnedFd>,
}

impl Changes {
    /// None where there is nothing to watch yet, or the system has no watch left to give.
    pub fn watch(path: &Path) -> Option<Changes> {
        let inotify = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC).ok()?;
        use inotify::WatchFlags as Flags;
        let what = Flags::MODIFY | Flags::CREATE | Flags::MOVED_TO | Flags::MOVE_SELF;
        inotify::add_watch(&inotify, path, what).ok()?;
        // SAFETY: an OwnedFd keeps its one descriptor open until it is dropped.
        let inotify = unsafe { AsyncFd::register(inotify) }.ok()?;
        Some(Changes { inotify })
    }

    /// Waits for the next change; where there is no watch, for a moment.
    pub async fn next(changes: &Option<Changes>) {
        let Some(Changes { inotify }) = changes else { return tokio::time::sleep(LOOK_AGAIN).await };
        let Ok(mut ready) = inotify.readable().await else { return };
        let mut buffer = [0; 4096];
        // What exactly changed does not matter: the reader looks at all of it.
        while rustix::io::read(inotify, &mut buffer).is_ok_and(|count| count > 0) {}
        ready.clear_ready();
    }
}
