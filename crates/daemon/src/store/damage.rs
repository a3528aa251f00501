//! Which errors of SQLite mean that the file is damaged, and the check that looks at all of it.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use nexus_node::threads;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, ffi};

use super::{Store, open_reader};

/// Faults that a check names. The first few tell all that a person needs.
const MAX_FAULTS: u32 = 5;

/// Whether the file itself is damaged: it is no database, its pages contradict each other, or it is shorter than it says.
pub(super) fn is_damage(path: &Path, error: &rusqlite::Error) -> bool {
    let (failure, message) = match error {
        rusqlite::Error::SqliteFailure(failure, message) => (failure, message.as_deref().unwrap_or_default()),
        rusqlite::Error::SqlInputError { error, msg, .. } => (error, msg.as_str()),
        _ => return false,
    };
    match failure.code {
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => true,
        // An empty file took the place of the database: it has no tables.
        ErrorCode::Unknown => message.starts_with("no such table") || message.starts_with("no such column"),
        // Any other error says nothing of the file: a stale NFS handle, too many open files, a folder closed to this user.
        ErrorCode::CannotOpen => path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound),
        ErrorCode::SystemIoFailure | ErrorCode::ReadOnly => matches!(
            failure.extended_code,
            ffi::SQLITE_IOERR_SHORT_READ
                | ffi::SQLITE_IOERR_DATA
                | ffi::SQLITE_IOERR_CORRUPTFS
                | ffi::SQLITE_READONLY_DBMOVED
        ),
        _ => false,
    }
}

/// What is wrong with a database, line by line. An error of the check is a line if it means damage.
pub fn faults(path: &Path, patience: Duration) -> Result<Vec<String>, NotChecked> {
    match checked(path, patience) {
        Ok(lines) => Ok(lines),
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) => {
            Err(NotChecked::TookTooLong)
        }
        Err(error) if is_damage(path, &error) => Ok(vec![error.to_string()]),
        Err(error) => Err(NotChecked::Failed(error.to_string())),
    }
}

/// Why a database was not checked to its end. Nothing wrong was found until then.
#[derive(Debug, PartialEq, Eq)]
pub enum NotChecked {
    /// The patience of the caller was over.
    TookTooLong,
    /// The file cannot be read now: the network file system is away, it is locked, or too many files are open.
    Failed(String),
}

fn checked(path: &Path, patience: Duration) -> rusqlite::Result<Vec<String>> {
    let db = open_reader(path)?;
    let interrupt = db.get_interrupt_handle();
    let (done, is_done) = mpsc::channel::<()>();
    // Without a thread for the timer the check takes as long as it takes.
    let _ = threads::start("nexus-check-timer", move || {
        if is_done.recv_timeout(patience) == Err(mpsc::RecvTimeoutError::Timeout) {
            interrupt.interrupt();
        }
    });
    let lines = all_faults(&db);
    drop(done);
    lines
}

fn all_faults(db: &Connection) -> rusqlite::Result<Vec<String>> {
    // It has tables: SQLite calls an empty file sound.
    db.query_row("SELECT count(*) FROM meta", [], |_| Ok(()))?;
    let mut check = db.prepare(&format!("PRAGMA quick_check({MAX_FAULTS})"))?;
    let lines: Vec<String> = check.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    Ok(lines.into_iter().filter(|line| line != "ok").collect())
}

/// Device and inode of the file that a path leads to.
pub(super) fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = std::fs::metadata(path)?;
    Ok((found.dev(), found.ino()))
}

impl Store {
    /// Whether its path leads to no file any more, or to another one. What is open here is whole all the same.
    pub fn has_lost_its_name(&self) -> bool {
        match identity(&self.path) {
            Ok(found) => found != self.file,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
    }

    /// A damaged database is left as it is: what is in its write-ahead log does not go into it when it is closed. Whoever
    /// mends it needs both.
    pub fn leave_alone(&mut self) {
        self.secrets_dropped = false;
        (self.commits, self.unreturned, self.room_since) = (0, 0, None);
        // Where SQLite does not take it the log goes into the database, as it always does.
        let _ = self.db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::os::unix::fs::FileExt;

    use nexus_api::problem::Problem;
    use nexus_testkit::Chance;

    use super::*;
    use crate::store::{Batch, StoreError};

    const PATIENCE: Duration = Duration::from_secs(60);

    /// A database with some pages, closed.
    fn made(path: &Path) {
        let store = Store::open(path, false).unwrap();
        for key in 0..200 {
            store.set_meta(&format!("key {key}"), &"x".repeat(500)).unwrap();
        }
    }

    #[test]
    fn a_sound_database_has_no_faults_and_what_is_none_has() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("nexus.db");
        made(&path);
        assert_eq!(faults(&path, PATIENCE), Ok(vec![]));
        let whole = std::fs::read(&path).unwrap();
        for (what, bytes) in
            [("empty", vec![]), ("text", b"no database ".repeat(1000)), ("cut", whole[..whole.len() / 2].to_vec())]
        {
            std::fs::write(&path, bytes).unwrap();
            let found = faults(&path, PATIENCE).unwrap();
            assert!(!found.is_empty(), "{what}");
        }
        std::fs::remove_file(&path).unwrap();
        assert!(!faults(&path, PATIENCE).unwrap().is_empty());
        assert!(!path.exists(), "a check makes no database");
    }

    #[test]
    fn pages_of_rubbish_are_found_or_do_no_harm_and_nothing_panics() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("nexus.db");
        made(&path);
        let whole = std::fs::read(&path).unwrap();
        let mut damaged = 0;
        for seed in 0..40 {
            let mut chance = Chance::from_seed(seed);
            std::fs::write(&path, &whole).unwrap();
            let file = OpenOptions::new().write(true).open(&path).unwrap();
            for _ in 0..3 {
                let page = chance.below(whole.len() as u64 / 4096);
                let bytes: Vec<u8> = (0..4096).map(|_| chance.below(256) as u8).collect();
                file.write_all_at(&bytes, page * 4096).unwrap();
            }
            let found = faults(&path, PATIENCE).unwrap();
            let outcome = Store::open(&path, false).and_then(|mut store| {
                store.restore()?;
                let meta = (0..200).map(|key| ("seen", format!("{key}"))).collect();
                store.commit(&Batch { meta, ..Batch::default() })?;
                (0..200).try_for_each(|key| store.meta(&format!("key {key}")).map(drop))
            });
            if let Err(error) = &outcome {
                assert!(!found.is_empty(), "seed {seed}: {error:?}");
                damaged += u32::from(matches!(error.problem(), Problem::DatabaseDamaged { .. }));
            }
            let _ = std::fs::remove_file(dir.path().join("nexus.db-wal"));
        }
        assert!(damaged > 20, "{damaged} of 40 were noticed");
    }

    #[test]
    fn a_check_that_cannot_be_done_finds_no_damage() {
        let dir = tempfile::tempdir().unwrap();
        let (away, turning) = (dir.path().join("away"), dir.path().join("turning"));
        // The disk that it lies on is not mounted; no name leads anywhere; it is no file.
        std::os::unix::fs::symlink(dir.path().join("unmounted/nexus.db"), &away).unwrap();
        std::os::unix::fs::symlink(&turning, &turning).unwrap();
        for bad in [away.as_path(), &turning, dir.path()] {
            let found = faults(bad, PATIENCE);
            assert!(matches!(found, Err(NotChecked::Failed(_))), "{}: {found:?}", bad.display());
        }
    }

    #[test]
    fn only_damage_is_called_damage() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("nexus.db");
        made(&path);
        let told = |code, extended_code| {
            let failure = ffi::Error { code, extended_code };
            StoreError::Read { path: path.clone(), source: rusqlite::Error::SqliteFailure(failure, None) }.problem()
        };
        let is_damage = |problem| matches!(problem, Problem::DatabaseDamaged { .. });
        assert!(is_damage(told(ErrorCode::DatabaseCorrupt, ffi::SQLITE_CORRUPT)));
        assert!(is_damage(told(ErrorCode::NotADatabase, ffi::SQLITE_NOTADB)));
        assert!(is_damage(told(ErrorCode::SystemIoFailure, ffi::SQLITE_IOERR_SHORT_READ)));
        assert!(!is_damage(told(ErrorCode::SystemIoFailure, ffi::SQLITE_IOERR_READ)));
        assert!(!is_damage(told(ErrorCode::DatabaseBusy, ffi::SQLITE_BUSY)));
        assert!(!is_damage(told(ErrorCode::CannotOpen, ffi::SQLITE_CANTOPEN)), "the file is there");
        std::fs::remove_file(&path).unwrap();
        assert!(is_damage(told(ErrorCode::CannotOpen, ffi::SQLITE_CANTOPEN)));
    }
}
