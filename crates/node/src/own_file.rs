//! Opens files that nexus has in its home, or that its user named there: `service.log`, locks, keys. Links are followed, since people
//! keep such files elsewhere and link to them; what is no regular file is refused, and a named pipe is not waited for. Files of a
//! run directory are opened by [`run_file`](crate::run_file), which follows no link.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::run_file;

const FLAGS: i32 = libc::O_NONBLOCK | libc::O_CLOEXEC | libc::O_NOCTTY;

const FILE_MODE: u32 = 0o600;

/// Opens a file for reading.
pub fn open(path: &Path) -> io::Result<File> {
    opened(OpenOptions::new().read(true), path)
}

/// Opens a file that is there for writing, without cutting it.
pub fn open_to_write(path: &Path) -> io::Result<File> {
    opened(OpenOptions::new().write(true), path)
}

/// Opens a file for writing at its end; makes it if it is missing.
pub fn append(path: &Path) -> io::Result<File> {
    opened(OpenOptions::new().append(true).create(true).mode(FILE_MODE), path)
}

/// Opens a file that is locked, for reading and writing; makes it if it is missing.
pub fn open_lock(path: &Path) -> io::Result<File> {
    opened(OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(FILE_MODE), path)
}

/// Reads a file of at most `limit` bytes.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > limit {
        true => Err(run_file::too_long(path, limit).into()),
        false => Ok(bytes),
    }
}

/// The same as text.
pub fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    String::from_utf8(read(path, limit)?).map_err(|_| io::Error::other("it is not text in UTF-8"))
}

#[expect(clippy::disallowed_methods, reason = "the one place: what is opened here does not wait and is looked at")]
fn opened(how: &OpenOptions, path: &Path) -> io::Result<File> {
    let opened = how.clone().custom_flags(FLAGS).open(path);
    let file = opened.map_err(|error| run_file::explained(error, path, |path| fs::metadata(path)))?;
    run_file::is_regular(&file.metadata()?, path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_pipe_is_told_and_a_link_is_followed() {
        let temporary = tempfile::tempdir().unwrap();
        let [pipe, link, file] = ["pipe", "link", "file"].map(|name| temporary.path().join(name));
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, 0o600.into()).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        for opened in [open(&pipe), append(&pipe), open_lock(&pipe), open_to_write(&pipe)] {
            assert_eq!(opened.unwrap_err().to_string(), "pipe is a named pipe, not a file");
        }
        append(&link).unwrap().write_all(b"text").unwrap();
        assert_eq!(read_text(&file, 4).unwrap(), "text");
        assert_eq!(read(&file, 3).unwrap_err().to_string(), "file is longer than 3 bytes");
        assert!(open(temporary.path()).unwrap_err().to_string().ends_with("is a folder, not a file"));
    }
}
