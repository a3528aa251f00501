//! Copies of nexus beside the one that runs here, `bin/nexus-VERSION-HASH`. Each build that a service ever sent would
//! stay for ever; those that nobody runs go when a node starts.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::{home, processes};

/// Letters of the hash that tell builds of one version apart.
const HASH: usize = 12;

/// A copy that is younger may have been sent a moment ago, by a service that is about to start it.
const YOUNG: Duration = Duration::from_secs(3600);

/// What is still being sent is younger than this.
const LONGEST_SEND: Duration = Duration::from_secs(86_400);

/// A file, whatever it is called.
type FileId = (u64, u64);

/// What the copy of a build is called; `hash` is that of the file.
pub fn copy_name(version: &str, hash: &str) -> String {
    format!("nexus-{version}-{}", &hash[..HASH])
}

/// Removes old copies beside this process's own program, if that is such a copy.
pub fn clear_old() {
    let Ok(own) = fs::read_link("/proc/self/exe") else { return };
    let (Some(bin), Some(name)) = (own.parent(), own.file_name()) else { return };
    // Other machines see a network file system too, and what they run is not known here.
    if is_copy(&name.to_string_lossy()) && !home::is_network(bin) {
        // Without descriptors nobody knows what is in use: the next node clears.
        let Ok(in_use) = in_use() else { return };
        clear(bin, &in_use, SystemTime::now());
    }
}

/// Programs of all processes that this user may look at; this one is among them.
fn in_use() -> io::Result<BTreeSet<FileId>> {
    let program = |pid| fs::metadata(format!("/proc/{pid}/exe")).ok();
    Ok(processes::all()?.into_iter().filter_map(program).map(|file| id(&file)).collect())
}

fn clear(bin: &Path, in_use: &BTreeSet<FileId>, now: SystemTime) {
    for entry in fs::read_dir(bin).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let stays = match (is_copy(&name), is_half_a_copy(&name)) {
            (true, _) => YOUNG,
            (_, true) => LONGEST_SEND,
            _ => continue,
        };
        let Ok(file) = fs::symlink_metadata(entry.path()) else { continue };
        let age = file.modified().ok().and_then(|at| now.duration_since(at).ok());
        if file.is_file() && age.is_some_and(|age| age > stays) && !in_use.contains(&id(&file)) {
            // The next node tries again.
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn id(file: &fs::Metadata) -> FileId {
    (file.dev(), file.ino())
}

fn is_copy(name: &str) -> bool {
    let parts = name.strip_prefix("nexus-").and_then(|rest| rest.rsplit_once('-'));
    parts.is_some_and(|(version, hash)| {
        version.starts_with(|first: char| first.is_ascii_digit())
            && hash.len() == HASH
            && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

/// While it is sent the process that takes it stands behind its name.
fn is_half_a_copy(name: &str) -> bool {
    let parts = name.rsplit_once('.');
    parts.is_some_and(|(copy, pid)| is_copy(copy) && !pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_nexus_was_sent_as_is_a_copy() {
        assert!(is_copy(&copy_name("0.1.0", "3f2a00112233aaaa")));
        for other in ["nexus", "nexus-0.1.0", "nexus-web-0123456789ab", "nexus-0.1.0-0123", "my-0.1.0-0123456789ab"] {
            assert!(!is_copy(other) && !is_half_a_copy(other), "{other}");
        }
        assert!(is_half_a_copy("nexus-0.1.0-0123456789ab.77"));
        assert!(!is_half_a_copy("nexus-0.1.0-0123456789ab.bak") && !is_half_a_copy("nexus-0.1.0-0123456789ab."));
    }

    #[test]
    fn what_is_old_and_nobody_runs_goes() {
        let temporary = tempfile::tempdir().unwrap();
        let bin = temporary.path();
        let now = SystemTime::now();
        let put = |name: &str, age: Duration| {
            let file = fs::File::create(bin.join(name)).unwrap();
            file.set_modified(now - age).unwrap();
            id(&file.metadata().unwrap())
        };
        let hour = Duration::from_secs(3600);
        put("nexus-0.1.0-000000000001", 2 * hour);
        let run = put("nexus-0.1.0-000000000002", 2 * hour);
        put("nexus-0.1.0-000000000003", hour / 2);
        put("nexus-0.1.0-000000000004.77", 2 * hour);
        put("nexus-0.1.0-000000000004.78", 25 * hour);
        put("notes", 1000 * hour);
        fs::create_dir(bin.join("nexus-0.1.0-000000000005")).unwrap();
        clear(bin, &BTreeSet::from([run]), now);
        let mut left: Vec<_> = fs::read_dir(bin).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        let expected = [
            "nexus-0.1.0-000000000002",
            "nexus-0.1.0-000000000003",
            "nexus-0.1.0-000000000004.77",
            "nexus-0.1.0-000000000005",
            "notes",
        ];
        assert_eq!(left, expected);
    }

    #[test]
    fn a_program_that_runs_is_in_use_whatever_its_name() {
        let own = fs::metadata(std::env::current_exe().unwrap()).unwrap();
        assert!(in_use().unwrap().contains(&id(&own)));
    }
}
