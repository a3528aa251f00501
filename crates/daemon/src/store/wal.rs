//! The file of the WAL, as long as it will be, before anything is in it.
//!
//! A commit that makes the file longer waits for the disk twice: for its pages, and for the inode that says where the file
//! ends. One that goes over what is there waits once. SQLite takes zeros after its last page for what they are, and goes
//! back to the beginning of the file when the WAL is written back; it shortens it only when it is asked to, or closed.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use nexus_node::own_file;

/// What is written between two times that the WAL goes back into the database, where jobs come and go one by one.
const LENGTH: u64 = 3 << 20;

/// Makes the WAL of this database, which was emptied, as long as it will be. There is none on a network file system.
///
/// That it is empty is on the disk before the first zero: with zeros in the middle of what was in it, and the rest still
/// there after a power cut, SQLite would take its beginning for all of it, and put old pages over new ones.
pub fn lay(database: &Path) -> io::Result<()> {
    let file = match own_file::open_to_write(&of(database)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    let before = file.metadata()?.len();
    file.sync_data()?;
    // A disk that has no room for it needs what there is for better.
    lengthen(&file, before).and_then(|()| file.sync_data()).inspect_err(|_| _ = file.set_len(before))
}

fn of(database: &Path) -> PathBuf {
    database.with_extension("db-wal")
}

/// Zeros that are written, not promised: what a disk has only promised, it still has to write down later.
fn lengthen(file: &File, mut at: u64) -> io::Result<()> {
    let zeros = [0; 64 << 10];
    while at < LENGTH {
        let piece = zeros.len().min((LENGTH - at) as usize);
        file.write_all_at(&zeros[..piece], at)?;
        at += piece as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;

    #[test]
    fn a_commit_goes_over_what_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("nexus.db");
        let mut store = Store::open(&path, false).unwrap();
        let length = || of(&path).metadata().unwrap().len();
        for round in 0..3 {
            assert_eq!(length(), LENGTH, "round {round}");
            let secret = format!("hunter{round}");
            store.set_meta("password", &secret).unwrap();
            let holds = |bytes: Vec<u8>| bytes.windows(secret.len()).any(|text| text == secret.as_bytes());
            assert!(holds(std::fs::read(of(&path)).unwrap()) && length() == LENGTH, "round {round}");
            store.clear_leftovers();
            assert!(std::fs::read(of(&path)).unwrap().iter().all(|byte| *byte == 0), "round {round}");
        }
    }

    #[test]
    fn a_service_that_was_killed_has_lost_nothing_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("nexus.db");
        let store = Store::open(&path, false).unwrap();
        store.set_meta("kept", "yes").unwrap();
        let copy = dir.path().join("copy.db");
        std::fs::copy(&path, &copy).unwrap();
        std::fs::copy(of(&path), of(&copy)).unwrap();
        assert_eq!(Store::open(&copy, false).unwrap().meta("kept").unwrap().as_deref(), Some("yes"));
    }

    #[test]
    fn there_is_none_on_a_network_file_system() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("nexus.db");
        let _store = Store::open(&path, true).unwrap();
        assert!(!of(&path).exists());
    }
}
