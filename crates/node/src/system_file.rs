//! Reads and writes files of the kernel and of the machine: `/proc`, `/sys` with its cgroups, `/etc`, `/dev`. No job can replace them,
//! and they are no regular files with a length, so that nothing is asked of them here.
#![expect(clippy::disallowed_methods, reason = "the one place where such files are opened")]

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

pub fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    fs::read(path)
}

pub fn read_text(path: impl AsRef<Path>) -> io::Result<String> {
    fs::read_to_string(path)
}

/// Writes to a file that is there, such as one of a cgroup.
pub fn write(path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> io::Result<()> {
    fs::write(path, content)
}

/// Opens a file or folder for reading, without waiting for what it may tell later.
pub fn open(path: impl AsRef<Path>) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)
}

pub fn open_to_write(path: impl AsRef<Path>) -> io::Result<File> {
    OpenOptions::new().write(true).open(path)
}

/// What swallows all that is written to it.
pub fn null() -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open("/dev/null")
}
