//! Copies of a whole database, made while it is in use.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nexus_api::problem::Problem;
use nexus_node::run_file;
use rusqlite::Connection;

use super::damage::{NotChecked, faults};
use super::{Store, StoreError, open_reader};
use crate::backups::{self, beside};

/// A copy is checked before it counts. One that takes longer to check counts unchecked.
const CHECK_PATIENCE: Duration = Duration::from_secs(120);

#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    #[error("failed to write the copy {path}")]
    File { path: PathBuf, source: io::Error },
    #[error("failed to copy the database")]
    Store(#[from] StoreError),
    #[error("the copy {path} is damaged")]
    Damaged { path: PathBuf, faults: Vec<String> },
}

impl CopyError {
    pub fn problem(&self) -> Problem {
        match self {
            CopyError::File { path, source } => Problem::BadField {
                field: "backup".into(),
                value: path.display().to_string(),
                want: format!("a new file in a folder that can be written: {source}"),
            },
            CopyError::Store(error) => error.problem(),
            CopyError::Damaged { path, faults } => {
                Problem::Database { path: path.display().to_string(), error: faults.join("; ") }
            }
        }
    }
}

/// Copies the database that lies there, as it is at one moment, to a file that does not exist yet.
pub fn copy_database(from: &Path, to: &Path) -> Result<(), CopyError> {
    let open = |source| StoreError::Open { path: from.to_path_buf(), source };
    let db = open_reader(from).map_err(open)?;
    copy(&db, from, to)
}

impl Store {
    /// The same from the writer's own connection, which has the database open even when no name leads to it any more.
    pub fn copy_to(&self, to: &Path) -> Result<(), CopyError> {
        copy(&self.db, &self.path, to)
    }
}

/// The copy gets its name when it is whole, checked and on the disk. Readable by its owner alone. What was deleted from the
/// database is not in it, since the pages are written anew.
fn copy(db: &Connection, from: &Path, to: &Path) -> Result<(), CopyError> {
    let part = beside(to, backups::PART);
    let file = |source| CopyError::File { path: to.to_path_buf(), source };
    let text = part.to_str().ok_or_else(|| file(io::Error::other("its path is not UTF-8")))?;
    if to.symlink_metadata().is_ok() {
        return Err(file(io::ErrorKind::AlreadyExists.into()));
    }
    // Left by a copy that did not come to its end.
    let _ = fs::remove_file(&part);
    let made = run_file::create_new(&part).map_err(file)?;
    let copied = db
        .execute("VACUUM INTO ?1", [text])
        .map_err(|source| CopyError::Store(StoreError::Read { path: from.to_path_buf(), source }))
        .and_then(|_| made.sync_all().map_err(file))
        .and_then(|()| match faults(&part, CHECK_PATIENCE) {
            Ok(faults) if !faults.is_empty() => Err(CopyError::Damaged { path: to.to_path_buf(), faults }),
            Ok(_) | Err(NotChecked::TookTooLong) => Ok(()),
            Err(NotChecked::Failed(error)) => Err(CopyError::Damaged { path: to.to_path_buf(), faults: vec![error] }),
        })
        // Never over another file: a name that somebody took meanwhile is an error.
        .and_then(|()| fs::hard_link(&part, to).map_err(file));
    // The link is the copy; of a copy that failed nothing is left.
    let _ = fs::remove_file(&part);
    copied?;
    // A folder that cannot be synced keeps its names as its file system does.
    let _ = to.parent().map(|folder| run_file::open_folder(folder).and_then(|folder| folder.sync_all()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_copy_is_whole_private_and_never_over_another_file() {
        let dir = tempfile::tempdir().unwrap();
        let (path, copy) = (dir.path().join("nexus.db"), dir.path().join("copy.db"));
        let store = Store::open(&path, false).unwrap();
        store.set_meta("kept", "yes").unwrap();
        copy_database(&path, &copy).unwrap();
        store.set_meta("kept", "no").unwrap();
        assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(matches!(copy_database(&path, &copy), Err(CopyError::File { .. })), "another file is there");
        assert_eq!(Store::open(&copy, true).unwrap().meta("kept").unwrap().as_deref(), Some("yes"));
        let nowhere = dir.path().join("no/such/folder.db");
        let told = copy_database(&path, &nowhere).unwrap_err().problem().to_string();
        assert!(told.contains("a new file in a folder that can be written"), "{told}");
    }

    #[test]
    fn a_database_without_a_name_is_saved_by_who_has_it_open() {
        let dir = tempfile::tempdir().unwrap();
        let (path, copy) = (dir.path().join("nexus.db"), dir.path().join("copy.db"));
        let store = Store::open(&path, false).unwrap();
        store.set_meta("kept", "yes").unwrap();
        assert!(!store.has_lost_its_name());
        fs::remove_file(&path).unwrap();
        let other = dir.path().join("other.db");
        drop(Store::open(&other, false).unwrap());
        for replace in [false, true] {
            if replace {
                fs::rename(&other, &path).unwrap();
            }
            assert!(store.has_lost_its_name());
            store.copy_to(&copy).unwrap();
            assert_eq!(Store::open(&copy, true).unwrap().meta("kept").unwrap().as_deref(), Some("yes"));
            fs::remove_file(&copy).unwrap();
        }
    }

    #[test]
    fn nothing_is_left_of_a_copy_that_failed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, copy) = (dir.path().join("nexus.db"), dir.path().join("copy.db"));
        fs::write(&path, "no database").unwrap();
        assert!(copy_database(&path, &copy).is_err());
        let names: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["nexus.db"]);
    }
}
