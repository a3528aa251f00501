//! A file that is there whole or not at all: written beside its place, and put there when it is done.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use nexus_node::run_file;

pub struct WholeFile {
    file: BufWriter<File>,
    /// Where it goes.
    path: PathBuf,
    /// Where it is until then; none for what is no file, as /dev/null, which is written to as it is.
    beside: Option<PathBuf>,
}

impl WholeFile {
    #[expect(clippy::disallowed_methods, reason = "the user named it in this command, and may name a pipe")]
    pub fn create(path: &Path) -> io::Result<WholeFile> {
        // What a link leads to is replaced, not the link.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let found = match path.metadata() {
            Ok(found) if found.is_dir() => return Err(io::Error::other("it is a folder")),
            Ok(found) if !found.is_file() => {
                let file = OpenOptions::new().write(true).open(&path)?;
                return Ok(WholeFile { file: BufWriter::new(file), path, beside: None });
            }
            found => found.ok(),
        };
        let Some(name) = path.file_name() else { return Err(io::Error::other("it is a folder")) };
        let beside = path.with_file_name(format!(".{}.{}.part", name.to_string_lossy(), std::process::id()));
        // In /tmp a stranger's file or link stays, and is not written to.
        let file = run_file::create(&beside)?;
        let whole = WholeFile { file: BufWriter::new(file), path, beside: Some(beside) };
        if let Some(found) = found {
            whole.file.get_ref().set_permissions(found.permissions())?;
        }
        Ok(whole)
    }

    /// Whether there is something to remove if it is not finished.
    pub fn leaves_something(&self) -> bool {
        self.beside.is_some()
    }

    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    /// Puts it in its place, on disk.
    pub fn finish(mut self) -> io::Result<()> {
        self.file.flush()?;
        if let Some(beside) = &self.beside {
            self.file.get_ref().sync_all()?;
            std::fs::rename(beside, &self.path)?;
            self.beside = None;
        }
        Ok(())
    }
}

/// What was not finished goes.
impl Drop for WholeFile {
    fn drop(&mut self) {
        if let Some(beside) = &self.beside {
            // One that cannot be removed has a name that says what it is.
            let _ = std::fs::remove_file(beside);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_whole_or_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (dir.path().join("a b"), dir.path().join("link"));
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let content = || std::fs::read_to_string(&path).unwrap();
        let write = |path: &Path, text: &str| {
            let mut file = WholeFile::create(path).unwrap();
            file.write(text.as_bytes()).unwrap();
            file
        };
        drop(write(&path, "half"));
        assert!(!path.exists());
        write(&path, "one").finish().unwrap();
        assert_eq!(content(), "one");
        drop(write(&path, "half"));
        assert_eq!(content(), "one");
        write(&link, "two").finish().unwrap();
        assert!(link.is_symlink());
        assert_eq!(content(), "two");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2, "nothing is left beside it");
        write(Path::new("/dev/null"), "gone").finish().unwrap();
        assert!(!Path::new("/dev/null").metadata().unwrap().is_file());
        assert!(WholeFile::create(dir.path()).is_err());
    }
}
