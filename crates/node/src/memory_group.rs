//! The memory of a run's cgroup: how much it may use, and whether the kernel killed somebody for using more.
//!
//! With cgroups of version 2 that is the run's own group, where the memory controller was handed down to it. On
//! machines that have this controller in version 1, a run with a limit gets a second group there; it needs a user who
//! may make one, mostly root.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::cgroup;
use crate::system_file;

#[derive(Debug)]
pub struct MemoryGroup {
    dir: PathBuf,
    version: Version,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl MemoryGroup {
    /// That of the run whose own group this is; none where nothing is counted, or nothing can be limited.
    pub fn open(group: &Path, max_mib: Option<u64>) -> Option<MemoryGroup> {
        let max_bytes = max_mib.map(|mib| mib.saturating_mul(1 << 20).min(i64::MAX as u64));
        if group.join("memory.events").exists() {
            if let Some(bytes) = max_bytes {
                limit(group, bytes);
            }
            return Some(MemoryGroup { dir: group.to_owned(), version: Version::Two });
        }
        let max_bytes = max_bytes?.to_string();
        let dir = cgroup::memory_twin(group)?;
        fs::create_dir_all(&dir).ok()?;
        let made = MemoryGroup { dir, version: Version::One };
        let limited = system_file::write(made.dir.join("memory.limit_in_bytes"), &max_bytes);
        // Without swap there is no such file; with it a job would go on, and everything else slowly.
        let _ = system_file::write(made.dir.join("memory.memsw.limit_in_bytes"), &max_bytes);
        if limited.is_err() {
            made.remove();
            return None;
        }
        Some(made)
    }

    /// Where the command has to write `0` to be in it; none where it is in it already.
    pub fn door(&self) -> Option<File> {
        match self.version {
            Version::One => system_file::open_to_write(self.dir.join("cgroup.procs")).ok(),
            Version::Two => None,
        }
    }

    /// Whether a process of the run was killed because memory ran out.
    pub fn has_killed(&self) -> bool {
        let counted = match self.version {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        };
        let text = system_file::read_text(self.dir.join(counted)).unwrap_or_default();
        text.lines().filter_map(|line| line.strip_prefix("oom_kill ")).any(|count| count.trim() != "0")
    }

    /// After the last process is gone. A run's own group is removed by others.
    pub fn remove(&self) {
        if self.version == Version::One {
            cgroup::remove(&self.dir);
        }
    }
}

/// Who exceeds it is ended as a whole: a training that lost one of its processes would mostly hang.
fn limit(group: &Path, bytes: u64) {
    let _ = system_file::write(group.join("memory.max"), bytes.to_string());
    let _ = system_file::write(group.join("memory.swap.max"), "0");
    let _ = system_file::write(group.join("memory.oom.group"), "1");
}
