//! The shim's hold on the run directory: the lock for its whole life, the marker that only one shim ever makes,
//! and the record at the end.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nexus_api::run_dir::{EXIT, EXIT_PART, ExitRecord, START_ERROR, STARTED, Started};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::run_file;

/// Whoever inspects a directory holds its lock for an instant; longer than this only another shim does.
const LOCK_PATIENCE: Duration = Duration::from_millis(100);

/// The marker's size is taken at once, so that a disk that fills up later cannot keep the shim from saying who it is.
const MARKER_BYTES: usize = 1024;

/// More of a sentence is cut off: a report has to fit into one message.
const SENTENCE_BYTES: u64 = 2000;

pub struct Folder {
    path: PathBuf,
    /// Holds the lock. Closed in the command by exec.
    lock: File,
}

/// The directory of a run, locked: as long as this process has it, no other begins the run.
pub struct Place {
    path: PathBuf,
    lock: File,
}

impl Place {
    /// `None` if another shim has it.
    fn lock(path: &Path) -> io::Result<Option<Place>> {
        make(path)?;
        let lock = run_file::folder(path)?;
        Ok(wait_for_lock(&lock)?.then(|| Place { path: path.to_owned(), lock }))
    }

    /// Of a run that nobody has begun, if it can be had.
    pub fn unmarked(path: &Path) -> Option<Place> {
        let place = Place::lock(path).ok().flatten()?;
        (!path.join(STARTED).exists()).then_some(place)
    }

    /// Makes the marker; `None` if another shim had the run, or somebody claimed it.
    pub fn begin(self) -> io::Result<Option<Folder>> {
        Ok(self.mark(&[])?.then(|| self.begun()))
    }

    /// The same for who begins the run as another process, with the memory of this one: whether the run is its own. The text
    /// says who watches it; without one, that is [told](Folder::tell) later.
    pub fn mark(&self, text: &[u8]) -> io::Result<bool> {
        let marker = self.path.join(STARTED);
        let made = match run_file::create_new(&marker) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
            other => other?,
        };
        if let Err(error) = made.write_all_at(&padded(text), 0) {
            let _ = fs::remove_file(marker);
            return Err(error);
        }
        Ok(true)
    }

    /// After the marker was made.
    pub fn begun(self) -> Folder {
        Folder { path: self.path, lock: self.lock }
    }
}

impl Folder {
    /// Takes the directory for this run; `None` if another shim has or had it, or somebody claimed it.
    pub fn take(path: &Path) -> io::Result<Option<Folder>> {
        Place::lock(path)?.map_or(Ok(None), Place::begin)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes down who watches the run, over the blanks, in one piece.
    pub fn tell(&self, started: &Started) -> io::Result<()> {
        let text = padded(&serde_json::to_vec(started)?);
        run_file::open_to_write(&self.path.join(STARTED))?.write_all_at(&text, 0)
    }

    /// Takes the sentence that says why the command was never reached, if there is one. The record has it from now on.
    pub fn take_start_error(&self) -> Option<String> {
        let path = self.path.join(START_ERROR);
        let bytes = run_file::read_beginning(&path, SENTENCE_BYTES).ok()?;
        let _ = fs::remove_file(&path);
        let text = String::from_utf8_lossy(&bytes).replace(char::is_control, " ");
        let sentence = text.split_whitespace().collect::<Vec<_>>().join(" ");
        (!sentence.is_empty()).then_some(sentence)
    }

    /// Nothing began here: the run may be started by another.
    pub fn withdraw(&self) {
        let _ = fs::remove_file(self.path.join(STARTED));
    }

    /// Writes the record whole or not at all, and not before it is on the disk.
    pub fn write_record(&self, record: &ExitRecord) -> io::Result<()> {
        let text = serde_json::to_vec(record)?;
        let write = || run_file::write_whole(&self.path.join(EXIT), &self.path.join(EXIT_PART), &text);
        match write() {
            // The job may have taken the permissions from its run directory.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.lock.set_permissions(fs::Permissions::from_mode(0o700))?;
                write()
            }
            written => written,
        }
    }

    /// Puts the names in the directory on the disk.
    pub fn sync(&self) {
        // A file system that cannot has done what it could.
        let _ = self.lock.sync_all();
    }

    /// Whether somebody removed the directory.
    pub fn is_gone(&self) -> bool {
        self.lock.metadata().map_or(true, |metadata| metadata.nlink() == 0)
    }
}

/// With blanks behind it.
fn padded(text: &[u8]) -> Vec<u8> {
    let mut text = text.to_vec();
    text.resize(text.len().max(MARKER_BYTES), b' ');
    text
}

fn make(path: &Path) -> io::Result<()> {
    let make = || DirBuilder::new().recursive(true).mode(0o700).create(path);
    match make() {
        // The job's folder went in between, with what an earlier attempt had left in it: that happens once.
        Err(error) if error.kind() == io::ErrorKind::NotFound => make(),
        made => made,
    }
}

/// Makes a job's folder known by its project as well, by a link that moves with the folder of logs. Whoever looks for it
/// there finds nothing where it cannot be made.
pub fn link_job(link: &Path) {
    let made = link.parent().map(|folder| DirBuilder::new().recursive(true).mode(0o700).create(folder));
    let job = link.file_name().unwrap_or_default().to_string_lossy();
    if let Some(Ok(())) = made {
        let _ = std::os::unix::fs::symlink(format!("../../../job_{job}"), link);
    }
}

fn wait_for_lock(lock: impl AsFd) -> io::Result<bool> {
    let until = Instant::now() + LOCK_PATIENCE;
    loop {
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK) if Instant::now() < until => std::thread::sleep(Duration::from_millis(1)),
            Err(Errno::WOULDBLOCK) => return Ok(false),
            Err(errno) => return Err(errno.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_taken_once() {
        let temporary = tempfile::tempdir().unwrap();
        let dir = temporary.path().join("logs/job_abc");
        let folder = Folder::take(&dir).unwrap().unwrap();
        assert_eq!(fs::metadata(&dir).unwrap().mode() & 0o777, 0o700);
        assert!(Folder::take(&dir).unwrap().is_none(), "locked");
        drop(folder);
        assert!(Folder::take(&dir).unwrap().is_none(), "marked");
    }

    #[test]
    fn a_look_at_the_directory_does_not_turn_a_shim_away() {
        let temporary = tempfile::tempdir().unwrap();
        let looker = File::open(temporary.path()).unwrap();
        flock(&looker, FlockOperation::NonBlockingLockShared).unwrap();
        let release = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            drop(looker);
        });
        assert!(Folder::take(temporary.path()).unwrap().is_some());
        release.join().unwrap();
    }

    #[test]
    fn why_the_command_was_not_reached_is_one_line_and_taken_once() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = Folder::take(&temporary.path().join("run")).unwrap().unwrap();
        assert_eq!(folder.take_start_error(), None);
        let path = folder.path().join(START_ERROR);
        fs::write(&path, format!("there is no\n  environment\u{7} {}\n", "ä".repeat(5000))).unwrap();
        let told = folder.take_start_error().unwrap();
        assert!(told.starts_with("there is no environment ä") && told.len() < 2100, "{told}");
        assert_eq!(folder.take_start_error(), None);
        fs::create_dir(&path).unwrap();
        assert_eq!(folder.take_start_error(), None, "what cannot be read says nothing");
    }

    #[test]
    fn a_removed_directory_is_noticed() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = Folder::take(&temporary.path().join("run")).unwrap().unwrap();
        assert!(!folder.is_gone());
        fs::remove_dir_all(folder.path()).unwrap();
        assert!(folder.is_gone());
    }
}
