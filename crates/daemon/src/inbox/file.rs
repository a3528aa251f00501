//! Reads and replaces the file. What somebody wrote to it in the last moment is not lost: the old file is looked at
//! for a while after the new one has taken its place, by the next service if need be.
//!
//! ```text
//!  .jobs.txt.part      the new file while it is written; nobody reads it
//!  .jobs.txt.next      the new file before it takes its place; the old one right after
//!  .jobs.txt.last-420  the old one, of which 420 bytes were read
//! ```

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nexus_node::trust::{self, OpenError, Writers};
use nexus_node::{own_file, run_file};
use rustix::fs::{CWD, RenameFlags, renameat_with};

/// No queue is that long.
const LARGEST: u64 = 256 << 20;

/// A writer that had the old file open writes to it no longer than this, one hopes.
const OLD_FILE_LIFE: Duration = Duration::from_secs(10);

/// The file as it is; none where there is none. Its lines are commands: one that a stranger can write is refused.
pub fn content(path: &Path) -> Result<Option<Vec<u8>>, OpenError> {
    let file = match trust::open(path, &Writers::own()) {
        Err(OpenError::Io(error)) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    whole(&file).map(Some).map_err(OpenError::Io)
}

fn whole(mut file: &File) -> std::io::Result<Vec<u8>> {
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(std::io::Error::other("it is not a file"));
    }
    if found.len() > LARGEST {
        return Err(std::io::Error::other(format!("it has {} MB, and no queue is that long", found.len() >> 20)));
    }
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A file that was replaced, and may still be written to by those who had it open.
pub struct OldFile {
    file: File,
    /// Where it lies, with how much was read of it.
    path: PathBuf,
    seen: Vec<u8>,
    until: Instant,
}

impl OldFile {
    /// What was written since: what follows that which was seen, or all of it if that is gone.
    pub fn news(&mut self) -> Result<Option<Vec<u8>>, OpenError> {
        trust::check_open(&self.file, &self.path, &Writers::own())?;
        self.news_of_file().map_err(OpenError::Io)
    }

    fn news_of_file(&self) -> std::io::Result<Option<Vec<u8>>> {
        let length = self.file.metadata()?.len();
        if length == self.seen.len() as u64 {
            let mut end = [0; 64];
            let tail = self.seen.len().saturating_sub(end.len());
            let count = self.file.read_at(&mut end, tail as u64)?;
            if end[..count] == self.seen[tail..] {
                return Ok(None);
            }
        }
        let now = whole(&self.file)?;
        if now == self.seen {
            return Ok(None);
        }
        Ok(Some(now.strip_prefix(self.seen.as_slice()).unwrap_or(&now).to_vec()))
    }

    /// What `news` told was taken.
    pub fn saw(&mut self) -> std::io::Result<()> {
        self.seen = whole(&self.file)?;
        let now = last(&self.path.with_file_name(""), &self.name(), self.seen.len());
        // One that was put away since lies nowhere.
        if std::fs::rename(&self.path, &now).is_ok() {
            self.path = now;
        }
        Ok(())
    }

    /// The name of the file that took its place.
    fn name(&self) -> String {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let name = name.rsplit_once(LAST).map_or("", |(name, _)| name);
        name.trim_start_matches('.').to_string()
    }

    /// It is looked at no more.
    pub fn put_away(&self) {
        // Whoever came later has put it away already.
        let _ = std::fs::remove_file(&self.path);
    }

    pub fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }

    pub fn until(&self) -> Instant {
        self.until
    }
}

/// Puts `text` into the file's place, of which `seen` was read. The old file, if there was one, is given back, for
/// what was written to it since.
pub fn replace(path: &Path, text: &[u8], seen: &[u8]) -> std::io::Result<Option<OldFile>> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let mode = std::fs::metadata(path).map_or(0o600, |found| found.permissions().mode() & 0o777);
    let beside = beside(path);
    let written = write_beside(&beside, text, mode).and_then(|()| swap(&beside, path, seen));
    if written.is_err() {
        // It may never have been made.
        let _ = std::fs::remove_file(&beside);
    }
    written
}

/// Where the next file is made, and the last one is put.
pub fn beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.next"))
}

/// Makes the next file. It has its name when all of it is on the disk: a power cut could leave any part of it else, and a
/// command that lost the line above it, with its id, would be taken for a new one.
pub fn write_beside(beside: &Path, text: &[u8], mode: u32) -> std::io::Result<()> {
    let part = beside.with_extension("part");
    // One of an earlier try, which failed.
    let _ = std::fs::remove_file(&part);
    let mut file = run_file::create_new_with(&part, mode)?;
    file.set_permissions(std::fs::Permissions::from_mode(mode))?;
    file.write_all(text)?;
    file.sync_all()?;
    std::fs::rename(&part, beside)
}

/// Both change places in one step, so that nothing written in between is lost.
fn swap(beside: &Path, path: &Path, seen: &[u8]) -> std::io::Result<Option<OldFile>> {
    let until = Instant::now() + OLD_FILE_LIFE;
    match renameat_with(CWD, beside, CWD, path, RenameFlags::EXCHANGE) {
        Ok(()) => {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let old = last(&path.with_file_name(""), &name, seen.len());
            for (older, _) in lasts(path) {
                // Those who look at it have it open.
                let _ = std::fs::remove_file(older);
            }
            std::fs::rename(beside, &old)?;
            Ok(Some(OldFile { file: own_file::open(&old)?, path: old, seen: seen.to_vec(), until }))
        }
        Err(rustix::io::Errno::NOENT) => {
            renameat_with(CWD, beside, CWD, path, RenameFlags::NOREPLACE)?;
            Ok(None)
        }
        // A file system that cannot: look once more, then replace.
        Err(_) => {
            let file = own_file::open(path)?;
            if whole(&file)? != seen {
                return Err(std::io::Error::from(std::io::ErrorKind::ResourceBusy));
            }
            std::fs::rename(beside, path)?;
            Ok(Some(OldFile { file, path: last(&path.with_file_name(""), "", 0), seen: seen.to_vec(), until }))
        }
    }
}

/// Between the name of the file and how much was read of it.
const LAST: &str = ".last-";

fn last(folder: &Path, name: &str, seen_bytes: usize) -> PathBuf {
    folder.join(format!(".{name}{LAST}{seen_bytes}"))
}

/// Old files that lie there, and how much was read of each.
pub fn lasts(path: &Path) -> Vec<(PathBuf, usize)> {
    let start = format!(".{}{LAST}", path.file_name().unwrap_or_default().to_string_lossy());
    let folder = path.parent().unwrap_or(Path::new("/"));
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let of_ours = |entry: std::fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        Some((entry.path(), name.strip_prefix(&start)?.parse().ok()?))
    };
    entries.filter_map(of_ours).collect()
}
