//! A hand on the service's database.

use std::fs::File;
use std::os::fd::AsRawFd;

use crate::Nexus;

/// Where SQLite's lock for writers lies in the index of its write-ahead log.
const WRITERS_LOCK: libc::off_t = 120;

impl Nexus {
    /// Keeps the service from writing anything down until the file is dropped; it waits ten seconds at most.
    #[track_caller]
    pub fn hold_writes(&self) -> File {
        let index = File::options().write(true).open(self.home().join("nexus.db-shm")).expect("the service runs");
        // SAFETY: all fields are numbers.
        let mut lock: libc::flock = unsafe { std::mem::zeroed() };
        (lock.l_type, lock.l_start, lock.l_len) = (libc::F_WRLCK as _, WRITERS_LOCK, 1);
        // SAFETY: the descriptor is open, and the lock is ours to read.
        let taken = unsafe { libc::fcntl(index.as_raw_fd(), libc::F_SETLKW, &lock) };
        assert_eq!(taken, 0, "{}", std::io::Error::last_os_error());
        index
    }
}
