//! The folder of database copies: their names, and which of them is the newest. Opens no database.

use std::path::{Path, PathBuf};

use crate::clock;

/// What `nexus backup` made: `20260728_101500.db`.
const COPY: &str = ".db";

/// A copy that is being written. It is renamed when it is whole and on the disk.
pub const PART: &str = ".part";

/// A database that another one took the place of: `aside_20260728_101500.db`, perhaps with a write-ahead log beside it.
const ASIDE: &str = "aside_";

/// The folder, for a home.
pub fn folder(home: &Path) -> PathBuf {
    home.join("backups")
}

/// A name that no file of the folder has yet.
pub fn fresh(folder: &Path, aside: bool) -> PathBuf {
    let stamp = clock::file_stamp(clock::now());
    let prefix = if aside { ASIDE } else { "" };
    let is_free = |path: &PathBuf| ["", "-wal", "-journal", PART].iter().all(|suffix| !beside(path, suffix).exists());
    let numbered = (2..).map(|number| folder.join(format!("{prefix}{stamp}_{number}{COPY}")));
    let mut names = std::iter::once(folder.join(format!("{prefix}{stamp}{COPY}"))).chain(numbered);
    names.find(is_free).expect("numbers do not end")
}

/// The same path with an ending behind its name.
pub fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Whole copies in the folder of a home, the newest first: by when they were written, since clocks and time zones change.
pub fn copies(home: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder(home)) else { return vec![] };
    let named = entries.flatten().filter(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        name.ends_with(COPY) && !name.starts_with(ASIDE)
    });
    let mut found: Vec<_> = named
        .filter_map(|entry| {
            let about = entry.metadata().ok().filter(std::fs::Metadata::is_file)?;
            Some((about.modified().ok()?, entry.path()))
        })
        .collect();
    found.sort();
    found.into_iter().rev().map(|(_, path)| path).collect()
}

/// The newest whole copy, if there is one.
pub fn newest(home: &Path) -> Option<PathBuf> {
    copies(home).into_iter().next()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn the_newest_whole_copy_is_found() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(newest(home.path()), None);
        let folder = folder(home.path());
        fs::create_dir(&folder).unwrap();
        for (age, name) in [
            (3, "20260101_000000.db"),
            (2, "20250101_000000.db"),
            (1, "20270101_000000.db.part"),
            (0, "aside_20270101_000000.db"),
        ] {
            let file = File::create(folder.join(name)).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
        }
        let names: Vec<_> = copies(home.path()).into_iter().map(|path| path.file_name().unwrap().to_owned()).collect();
        assert_eq!(names, ["20250101_000000.db", "20260101_000000.db"]);
        assert_eq!(newest(home.path()), Some(folder.join("20250101_000000.db")));
    }

    #[test]
    fn no_name_is_given_twice() {
        let home = tempfile::tempdir().unwrap();
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..3 {
            let path = fresh(home.path(), true);
            // What lies beside a database is its own as well.
            fs::write(beside(&path, "-wal"), "").unwrap();
            assert!(seen.insert(path));
        }
    }
}
