//! A folder of a job's own: for what it wants to go on from, or for its results. It is there while the job runs, and
//! stays if something is in it: a million jobs that keep nothing leave no folders.
//!
//! Jobs that go on from the same checkpoints share a folder: each holds a lock on it, and only who has it alone removes
//! it. One that was never touched is put aside instead, to be the next run's: to make and remove folders for every job
//! would cost more than all other files of a run.

use std::fs::{DirBuilder, File, Metadata};
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FlockOperation, RawDir, RenameFlags, SeekFrom, flock, renameat_with, seek};

use crate::run_file;

/// How often it is made again when another removes it at the same time: each takes some microseconds, and a hundred
/// in a row were seen to fail beside three others that did nothing else.
const ATTEMPTS: usize = 10_000;

const MODE: u32 = 0o700;

pub struct OwnFolder {
    path: PathBuf,
    /// Holds the lock. Closed in the command by exec. None once it was put aside.
    folder: Option<File>,
    /// As it was when the run got it.
    opened: Metadata,
}

/// An empty folder that is nobody's.
pub struct Spare {
    path: PathBuf,
    /// None once it has become somebody's.
    folder: Option<File>,
    held: Metadata,
}

impl OwnFolder {
    /// Makes the folder, of a spare one if it can, or opens the one that is there.
    pub fn open(path: &Path, spare: Option<Spare>) -> io::Result<OwnFolder> {
        if let Some(folder) = spare.and_then(|spare| spare.becomes(path)) {
            return Ok(folder);
        }
        for _ in 0..ATTEMPTS {
            match DirBuilder::new().recursive(true).mode(MODE).create(path) {
                // It was there, and was removed before one could see that it is a folder: by now another may be.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && may_be_folder(path) => continue,
                made => made?,
            }
            let folder = match run_file::folder(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                opened => opened?,
            };
            // Where there are no locks (some network file systems) nobody removes it either.
            let _ = flock(&folder, FlockOperation::LockShared);
            if let Some(opened) = folder.metadata().ok().and_then(|held| same_at(&held, path)) {
                return Ok(OwnFolder { path: path.to_owned(), folder: Some(folder), opened });
            }
        }
        Err(io::Error::other("it is removed again and again"))
    }

    /// Lets go of it, as when it is dropped, and puts it aside instead if it can be another's.
    pub fn close(mut self, aside: &Path) -> Option<Spare> {
        let folder = self.folder.as_ref()?;
        flock(folder, FlockOperation::NonBlockingLockExclusive).ok()?;
        if self.was_touched(folder) {
            return None;
        }
        renameat_with(CWD, &self.path, CWD, aside, RenameFlags::NOREPLACE).ok()?;
        let folder = self.folder.take()?;
        // Who waits for the lock has come too late, and sees that.
        let _ = flock(&folder, FlockOperation::LockShared);
        if same_at(&self.opened, aside).is_none() || !is_empty(&folder) {
            // Somebody was quicker by an instant: what is in there belongs to the run that was.
            let _ = renameat_with(CWD, aside, CWD, &self.path, RenameFlags::NOREPLACE);
            return None;
        }
        Some(Spare { path: aside.to_owned(), folder: Some(folder), held: self.opened.clone() })
    }

    /// Whether another could tell that it was used: by its mode, say.
    fn was_touched(&self, folder: &File) -> bool {
        let of = |folder: &Metadata| (folder.mode(), folder.uid(), folder.gid(), folder.ctime(), folder.ctime_nsec());
        self.opened.mode() & 0o7777 != MODE || folder.metadata().map_or(true, |now| of(&now) != of(&self.opened))
    }
}

impl Drop for OwnFolder {
    /// Removes it if nothing is in it and nobody else has it.
    fn drop(&mut self) {
        let alone = |folder: &File| flock(folder, FlockOperation::NonBlockingLockExclusive).is_ok();
        // Who asked for it alone in vain has no lock at all since: what is there now may be another's.
        if self.folder.as_ref().is_some_and(alone) && same_at(&self.opened, &self.path).is_some() {
            let _ = std::fs::remove_dir(&self.path);
        }
    }
}

impl Spare {
    fn becomes(mut self, path: &Path) -> Option<OwnFolder> {
        renameat_with(CWD, &self.path, CWD, path, RenameFlags::NOREPLACE).ok()?;
        let folder = self.folder.take()?;
        let opened = same_at(&self.held, path)?;
        Some(OwnFolder { path: path.to_owned(), folder: Some(folder), opened })
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        if self.folder.is_some() {
            let _ = std::fs::remove_dir(&self.path);
        }
    }
}

/// What is at the path, if it is this folder.
fn same_at(held: &Metadata, path: &Path) -> Option<Metadata> {
    let there = std::fs::metadata(path).ok()?;
    ((held.dev(), held.ino()) == (there.dev(), there.ino())).then_some(there)
}

fn may_be_folder(path: &Path) -> bool {
    path.metadata().map_or(true, |there| there.is_dir())
}

fn is_empty(folder: &File) -> bool {
    let mut room = [MaybeUninit::uninit(); 1024];
    if seek(folder, SeekFrom::Start(0)).is_err() {
        return false;
    }
    let mut entries = RawDir::new(folder, &mut room);
    while let Some(entry) = entries.next() {
        if !entry.is_ok_and(|entry| matches!(entry.file_name().to_bytes(), b"." | b"..")) {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn an_empty_folder_goes_with_the_last_who_has_it() {
        let temporary = tempfile::tempdir().unwrap();
        let [path, aside] = ["checkpoints/abc", "aside"].map(|name| temporary.path().join(name));
        let first = OwnFolder::open(&path, None).unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o700);
        let second = OwnFolder::open(&path, None).unwrap();
        assert!(first.close(&aside).is_none());
        assert!(path.is_dir(), "another has it still");
        assert!(second.close(&aside).is_some());
        assert!(!path.exists() && !aside.exists());
        let kept = OwnFolder::open(&path, None).unwrap();
        std::fs::write(path.join("step"), "7").unwrap();
        assert!(kept.close(&aside).is_none());
        assert!(path.join("step").exists());
    }

    #[test]
    fn what_was_never_touched_is_the_next_ones() {
        let temporary = tempfile::tempdir().unwrap();
        let [first, second, aside] = ["first", "second", "aside"].map(|name| temporary.path().join(name));
        let held = OwnFolder::open(&first, None).unwrap();
        let number = held.opened.ino();
        let spare = held.close(&aside);
        assert!(!first.exists() && aside.is_dir());
        let held = OwnFolder::open(&second, spare).unwrap();
        assert_eq!((second.metadata().unwrap().ino(), aside.exists()), (number, false));
        // One that a job has changed tells nobody of it.
        std::fs::set_permissions(&second, Permissions::from_mode(0o755)).unwrap();
        assert!(held.close(&aside).is_none());
        assert!(!second.exists() && !aside.exists());
    }

    #[test]
    fn a_spare_folder_takes_no_others_place() {
        let temporary = tempfile::tempdir().unwrap();
        let [first, second, aside] = ["first", "second", "aside"].map(|name| temporary.path().join(name));
        std::fs::create_dir(&second).unwrap();
        std::fs::write(second.join("step"), "7").unwrap();
        let spare = OwnFolder::open(&first, None).unwrap().close(&aside);
        let held = OwnFolder::open(&second, spare).unwrap();
        assert!(!aside.exists() && second.join("step").exists());
        assert!(held.close(&aside).is_none());
        // And leaves its own to what is there.
        let spare = OwnFolder::open(&first, None).unwrap().close(&aside);
        let held = OwnFolder::open(&first, None).unwrap();
        assert!(held.close(&aside).is_none(), "the place aside is taken");
        assert!(!first.exists() && aside.exists());
        drop(spare);
        assert!(!aside.exists());
    }

    #[test]
    fn what_another_has_made_since_is_left_to_it() {
        let temporary = tempfile::tempdir().unwrap();
        let [path, aside] = ["abc", "aside"].map(|name| temporary.path().join(name));
        let [first, second] = [(); 2].map(|()| OwnFolder::open(&path, None).unwrap());
        // In vain, as the second has it; then the second goes, and a third comes.
        let asked = first.folder.as_ref().unwrap();
        assert!(flock(asked, FlockOperation::NonBlockingLockExclusive).is_err());
        drop(second.close(&aside));
        let third = OwnFolder::open(&path, None).unwrap();
        drop(first);
        assert!(path.is_dir(), "the third has it");
        drop(third);
        assert!(!path.exists());
    }

    #[test]
    fn a_file_in_its_place_is_said() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("abc");
        std::fs::write(&path, "").unwrap();
        let error = OwnFolder::open(&path, None).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn it_is_there_for_everyone_who_has_it_however_they_come_and_go() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("abc");
        std::thread::scope(|scope| {
            for name in 0..4 {
                let (path, aside) = (&path, temporary.path().join(format!("aside-{name}")));
                scope.spawn(move || {
                    let mut spare = None;
                    for _ in 0..500 {
                        let held = OwnFolder::open(path, spare).unwrap();
                        assert!(path.is_dir());
                        spare = held.close(&aside);
                    }
                });
            }
        });
        assert_eq!(temporary.path().read_dir().unwrap().count(), 0);
    }
}
