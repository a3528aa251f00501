//! A folder of a job's own: for what it wants to go on from, or for its results. It is there while the job runs, and
//! stays if something is in it: a million jobs that keep nothing leave no folders.
//!
//! Jobs that go on from the same checkpoints share a folder: each holds a lock on it, and only who has it alone removes
//! it.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

/// How often it is made again when another removes it at the same time.
const ATTEMPTS: usize = 100;

pub struct OwnFolder {
    path: PathBuf,
    /// Holds the lock. Closed in the command by exec.
    folder: File,
}

impl OwnFolder {
    pub fn open(path: &Path) -> io::Result<OwnFolder> {
        for _ in 0..ATTEMPTS {
            match DirBuilder::new().recursive(true).mode(0o700).create(path) {
                // It was there, and was removed before one could see that it is a folder.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && !path.exists() => continue,
                made => made?,
            }
            let folder = match File::open(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                opened => opened?,
            };
            // Where there are no locks (some network file systems) nobody removes it either.
            let _ = flock(&folder, FlockOperation::LockShared);
            let is_same = |now: &std::fs::Metadata| {
                folder.metadata().is_ok_and(|held| (held.dev(), held.ino()) == (now.dev(), now.ino()))
            };
            if std::fs::metadata(path).as_ref().is_ok_and(is_same) {
                return Ok(OwnFolder { path: path.to_owned(), folder });
            }
        }
        Err(io::Error::other("it is removed again and again"))
    }
}

impl Drop for OwnFolder {
    /// Removes it if nothing is in it and nobody else has it.
    fn drop(&mut self) {
        if flock(&self.folder, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = std::fs::remove_dir(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_folder_goes_with_the_last_who_has_it() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("checkpoints/abc");
        let first = OwnFolder::open(&path).unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o700);
        let second = OwnFolder::open(&path).unwrap();
        drop(first);
        assert!(path.is_dir(), "another has it still");
        drop(second);
        assert!(!path.exists());
        let kept = OwnFolder::open(&path).unwrap();
        std::fs::write(path.join("step"), "7").unwrap();
        drop(kept);
        assert!(path.join("step").exists());
    }

    #[test]
    fn it_is_there_for_everyone_who_has_it_however_they_come_and_go() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("abc");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let held = OwnFolder::open(&path).unwrap();
                        assert!(path.is_dir());
                        drop(held);
                    }
                });
            }
        });
        assert!(!path.exists());
    }
}
