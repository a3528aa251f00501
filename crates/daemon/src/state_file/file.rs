//! Finds and replaces the file. What somebody wrote to it in the last moment is not lost: the old file is given back,
//! and can be looked at for as long as it is open.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Seek};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};

use crate::inbox::file::{beside, write_beside};
use crate::text_file;

/// Links that are followed to the file.
const MOST_LINKS: usize = 16;

/// No such file is larger.
const MOST_BYTES: u64 = 1 << 20;

/// What lies in the file's place.
pub enum Found {
    Nothing,
    Text {
        text: String,
        modified: Option<SystemTime>,
    },
    /// Something else, or it may not be read; why.
    Other(String),
}

/// Where links lead, whether something is there or not.
pub fn real(path: &Path) -> PathBuf {
    let mut at = path.to_path_buf();
    for _ in 0..MOST_LINKS {
        match (std::fs::read_link(&at), at.parent()) {
            (Ok(target), Some(folder)) => at = folder.join(target),
            _ => break,
        }
    }
    at
}

pub fn find(path: &Path) -> Found {
    // It pauses GPUs, and does so for other programs, of other users too: docs/state-file.md.
    match text_file::read_of_anybody(path) {
        Ok(None) => Found::Nothing,
        Ok(Some(text)) => Found::Text { text, modified: modified(path) },
        Err(unreadable) => Found::Other(unreadable.error),
    }
}

pub fn modified(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|found| found.modified()).ok()
}

/// Puts the text into the file's place. The old file, if there was one, is given back open; it has no name any more.
pub fn replace(path: &Path, text: &str) -> std::io::Result<Option<File>> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    if !folder.is_dir() {
        return Err(Error::new(ErrorKind::NotFound, format!("there is no folder {}", folder.display())));
    }
    let mode = std::fs::metadata(path).map_or(0o600, |found| found.permissions().mode() & 0o777);
    let beside = beside(path);
    let written = write_beside(&beside, text.as_bytes(), mode).and_then(|()| swap(&beside, path));
    // The new one that could not be put into its place, or the old one.
    let _ = std::fs::remove_file(&beside);
    written
}

/// Both change places in one step, so that nothing written in between is lost.
fn swap(beside: &Path, path: &Path) -> std::io::Result<Option<File>> {
    match renameat_with(CWD, beside, CWD, path, RenameFlags::EXCHANGE) {
        Ok(()) => {
            let old = open(beside)?;
            if !old.metadata()?.is_file() {
                renameat_with(CWD, beside, CWD, path, RenameFlags::EXCHANGE)?;
                return Err(Error::other("it is not a file"));
            }
            Ok(Some(old))
        }
        Err(rustix::io::Errno::NOENT) => {
            renameat_with(CWD, beside, CWD, path, RenameFlags::NOREPLACE)?;
            Ok(None)
        }
        // A file system that cannot.
        Err(_) => {
            let old = open(path)?;
            std::fs::rename(beside, path)?;
            Ok(Some(old))
        }
    }
}

/// What a service that was killed in the middle of [`replace`] left.
pub fn left_over(path: &Path) -> Option<File> {
    let beside = beside(path);
    let found = open(&beside).ok()?;
    let is_ours = found.metadata().is_ok_and(|it| it.is_file() && it.uid() == rustix::process::geteuid().as_raw());
    if is_ours {
        // One that cannot be removed is in nobody's way until the next writing tells of it.
        let _ = std::fs::remove_file(&beside);
    }
    is_ours.then_some(found)
}

/// All of an open file; none if it is not text.
pub fn whole(mut file: &File) -> Option<String> {
    let mut text = String::new();
    file.rewind().and_then(|()| file.take(MOST_BYTES).read_to_string(&mut text)).ok()?;
    Some(text)
}

/// Without waiting: a pipe in its place must not hold up a service.
#[expect(clippy::disallowed_methods, reason = "O_NONBLOCK; what is no file is put back")]
fn open(path: &Path) -> std::io::Result<File> {
    File::options().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(path)
}
