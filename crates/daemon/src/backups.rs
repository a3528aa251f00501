//! The folder of database copies: their names, and which of them is the newest. Opens no database.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nexus_api::backup::Backup;
use nexus_core::time::Time;

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

/// A copy as clients are told of it; none for one that is gone.
pub fn described(path: &Path) -> Option<Backup> {
    let about = std::fs::metadata(path).ok()?;
    let since = about.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(Backup {
        path: path.display().to_string(),
        bytes: about.len(),
        made_at: clock::rfc3339(Time(since.as_millis() as i64)),
    })
}

/// Copies behind the newest ones.
pub fn beyond(home: &Path, keep: usize) -> Vec<PathBuf> {
    copies(home).into_iter().skip(keep).collect()
}

/// Databases of before: those that another took the place of, those that were copied before a newer nexus changed their
/// format, and copies and restores that did not come to their end. Only those that nobody has touched for this long.
pub fn old_databases(home: &Path, age: Duration) -> Vec<PathBuf> {
    let folder = folder(home);
    let is_old = |path: &PathBuf| {
        let changed = path.symlink_metadata().ok().filter(std::fs::Metadata::is_file).and_then(|it| it.modified().ok());
        changed.is_some_and(|at| SystemTime::now().duration_since(at).is_ok_and(|since| since > age))
    };
    let named = |folder: &Path, is_one: fn(&str) -> bool| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let ours = entries.filter(|entry| is_one(&entry.file_name().to_string_lossy()));
        ours.map(|entry| entry.path()).collect()
    };
    let aside = named(&folder, |name| name.starts_with(ASIDE) || name.ends_with(PART));
    let of_home = named(home, |name| ["nexus.db.format-", "nexus.db.restoring"].iter().any(|it| name.starts_with(it)));
    aside.into_iter().chain(of_home).filter(is_old).collect()
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
        assert_eq!(beyond(home.path(), 1), [folder.join("20260101_000000.db")]);
        for name in ["nexus.db.restoring", "nexus.db.format-3", "nexus.db"] {
            let file = File::create(home.path().join(name)).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(1)).unwrap();
        }
        let old = |age| old_databases(home.path(), Duration::from_millis(age)).len();
        assert_eq!((old(500), old(60_000)), (3, 0), "the part, and what an upgrade and a restore left");
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
