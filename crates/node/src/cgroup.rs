//! Groups of processes kept by the kernel (cgroup v2), where this user may make them: what a job starts stays
//! in its group however it forks, and one write ends it all.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nexus_api::paths::fingerprint;

use crate::system_file;

/// Where the service goes when its group hands controllers down.
const ASIDE: &str = "nexus-service";

/// How the processes of a run are kept together on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Containment {
    /// Each run has a group of its own below this one.
    Cgroup(PathBuf),
    /// By session, descent and the `NEXUS_RUN_DIR` in their environment.
    Session,
}

/// Makes the group in which all runs of one service have theirs; `Session` where that is not allowed.
pub fn probe(reports: &Path) -> Containment {
    if std::env::var_os("NEXUS_CGROUPS").is_some_and(|value| value == "off") {
        return Containment::Session;
    }
    let Some(own) = own_group() else { return Containment::Session };
    let base = own.join(format!("nexus-{:016x}", fingerprint(reports)));
    match fs::create_dir(&base) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Containment::Session,
        _ if base.join("cgroup.procs").exists() => {
            hand_down_memory(&own, &base);
            Containment::Cgroup(base)
        }
        _ => Containment::Session,
    }
}

/// The folder of the group that this process is in, or was in before it stepped aside.
fn own_group() -> Option<PathBuf> {
    let mounts = system_file::read_text("/proc/self/mountinfo").ok()?;
    let groups = system_file::read_text("/proc/self/cgroup").ok()?;
    let own = group_folder(&mounts, &groups)?;
    match own.file_name().is_some_and(|name| name == ASIDE) {
        true => own.parent().map(Path::to_owned),
        false => Some(own),
    }
}

/// Lets the groups of runs count and limit memory, where this group may and is nobody else's. A group that hands a
/// controller down must have no process of its own: the service steps aside.
fn hand_down_memory(own: &Path, base: &Path) {
    let hand_down = |group: &Path| system_file::write(group.join("cgroup.subtree_control"), "+memory");
    if !lists_memory(&own.join("cgroup.controllers")) {
        return;
    }
    if !lists_memory(&base.join("cgroup.controllers"))
        && hand_down(own).is_err()
        && members(own).is_ok_and(|members| members == [std::process::id()])
    {
        let aside = own.join(ASIDE);
        if fs::create_dir_all(&aside).is_ok() && join(&aside, std::process::id()).is_ok() {
            let _ = hand_down(own);
        }
    }
    let _ = hand_down(base);
}

fn lists_memory(file: &Path) -> bool {
    system_file::read_text(file).is_ok_and(|text| text.split_whitespace().any(|word| word == "memory"))
}

/// Whether the memory of runs that have groups below this one can be limited.
pub fn limits_memory(base: &Path) -> bool {
    let twin = || memory_twin(&base.join("run")).and_then(|twin| fs::create_dir_all(twin.parent()?).ok());
    lists_memory(&base.join("cgroup.subtree_control")) || twin().is_some()
}

/// Where a run's memory is counted on a machine that does so with cgroups of version 1: a group of the same name.
pub fn memory_twin(group: &Path) -> Option<PathBuf> {
    let mounts = system_file::read_text("/proc/self/mountinfo").ok()?;
    let groups = system_file::read_text("/proc/self/cgroup").ok()?;
    let own = memory_folder(&mounts, &groups)?;
    Some(own.join(group.parent()?.file_name()?).join(group.file_name()?))
}

fn memory_folder(mounts: &str, groups: &str) -> Option<PathBuf> {
    let has_memory = |list: &str| list.split(',').any(|word| word == "memory");
    let group = groups.lines().find_map(|line| {
        let (controllers, group) = line.split_once(':')?.1.split_once(':')?;
        has_memory(controllers).then_some(group)
    })?;
    let (root, point) = mounts.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(3);
        let is_it = kind.starts_with("cgroup ") && kind.rsplit(' ').next().is_some_and(has_memory);
        is_it.then_some((fields.next()?, fields.next()?))
    })?;
    let below = Path::new(group).strip_prefix(root).ok()?;
    Some(Path::new(point).join(below))
}

/// Removes the group in which runs had theirs, if none has.
pub fn remove_base(base: &Path) {
    let _ = fs::remove_dir(base);
    if let Some(twin) = memory_twin(&base.join("run")) {
        let _ = twin.parent().map(fs::remove_dir);
    }
}

fn group_folder(mounts: &str, groups: &str) -> Option<PathBuf> {
    let group = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let (root, point) = mounts.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(3);
        kind.starts_with("cgroup2 ").then_some((fields.next()?, fields.next()?))
    })?;
    // In a container the mount shows a part of the tree only, beginning at `root`.
    let below = Path::new(group).strip_prefix(root).ok()?;
    Some(Path::new(point).join(below))
}

/// The processes in a group; none if it is gone. A job owns its group and can take the permission to read it: then there are none
/// as well, or the node would wait for an empty group for ever. The environment of its processes still tells.
pub fn members(group: &Path) -> io::Result<Vec<u32>> {
    let is_none = |error: &io::Error| match error.raw_os_error() {
        // ENODEV: the group went after the file was opened.
        Some(libc::ENOENT | libc::ENOTDIR | libc::ENODEV) => true,
        // EOPNOTSUPP: the job made its group threaded, in which processes are not listed.
        Some(libc::EACCES | libc::EPERM | libc::EOPNOTSUPP) => true,
        _ => false,
    };
    let text = match system_file::read_text(group.join("cgroup.procs")) {
        Err(error) if is_none(&error) => String::new(),
        read => read?,
    };
    Ok(text.lines().filter_map(|line| line.parse().ok()).filter(|pid| *pid != 0).collect())
}

/// Ends all in a group at once, where the kernel knows how (since 5.14).
pub fn kill(group: &Path) {
    let _ = system_file::write(group.join("cgroup.kill"), "1");
}

/// Moves a process into a group.
pub fn join(group: &Path, pid: u32) -> io::Result<()> {
    system_file::write(group.join("cgroup.procs"), pid.to_string())
}

/// Removes a group without processes, and groups the job made below it.
pub fn remove(group: &Path) {
    if fs::remove_dir(group).is_ok() {
        return;
    }
    let Ok(entries) = fs::read_dir(group) else { return };
    for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        remove(&entry.path());
    }
    let _ = fs::remove_dir(group);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_version_1_is_found_where_there_is_such() {
        let mounts = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
                      34 31 0:31 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                      35 31 0:32 /box /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
                      41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw";
        let found = |groups: &str| memory_folder(mounts, groups).map(|path| path.to_str().unwrap().to_owned());
        assert_eq!(found("9:name=systemd:/\n4:memory:/box/a\n0::/\n").as_deref(), Some("/sys/fs/cgroup/memory/a"));
        assert_eq!(found("4:memory:/elsewhere\n"), None);
        assert_eq!(found("0::/\n"), None, "version 2 alone");
    }

    #[test]
    fn the_own_group_is_found_in_plain_hybrid_and_container_mounts() {
        let plain = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw";
        let hybrid = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
                      32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw";
        let part = "30 23 0:26 /box /sys/fs/cgroup rw - cgroup2 cgroup2 rw";
        let table = [
            (plain, "0::/user.slice/a.scope\n", Some("/sys/fs/cgroup/user.slice/a.scope")),
            (hybrid, "4:memory:/x\n0::/\n", Some("/sys/fs/cgroup/unified")),
            (part, "0::/box/inner\n", Some("/sys/fs/cgroup/inner")),
            (part, "0::/elsewhere\n", None),
            ("", "0::/\n", None),
            (plain, "4:memory:/x\n", None),
        ];
        for (mounts, groups, expected) in table {
            let found = group_folder(mounts, groups);
            assert_eq!(found.as_deref().map(|path| path.to_str().unwrap().trim_end_matches('/')), expected, "{mounts}");
        }
    }
}
