//! Limits of a process that runs already.

use std::fs;

/// A process that may have no more of something; dropped, it may have what it might before.
pub struct Limited {
    pid: u32,
    resource: libc::__rlimit_resource_t,
    before: libc::rlimit,
}

impl Limited {
    /// Descriptors: those it has, and this many more.
    pub fn descriptors(pid: u32, more: u64) -> Option<Limited> {
        let has = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count() as u64;
        Limited::new(pid, libc::RLIMIT_NOFILE, has + more)
    }

    /// No descriptor but those it has: their numbers are limited, not how many there are.
    pub fn no_descriptor(pid: u32) -> Option<Limited> {
        let is_free = |number: &u64| fs::symlink_metadata(format!("/proc/{pid}/fd/{number}")).is_err();
        // A file that the process has open for a moment leaves a lower number behind: the lowest of several looks counts.
        let looks = (0..20).filter_map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            (0..).find(is_free)
        });
        Limited::new(pid, libc::RLIMIT_NOFILE, looks.min()?)
    }

    /// Memory, of which it may have mapped as much as it has and this many bytes more.
    pub fn memory(pid: u32, more: u64) -> Option<Limited> {
        let pages: u64 = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?.split(' ').next()?.parse().ok()?;
        // SAFETY: sysconf(3) has no conditions.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64;
        Limited::new(pid, libc::RLIMIT_AS, pages * page + more)
    }

    /// The length of any file that it writes to.
    pub fn file_bytes(pid: u32, most: u64) -> Option<Limited> {
        Limited::new(pid, libc::RLIMIT_FSIZE, most)
    }

    /// None where the process is gone.
    fn new(pid: u32, resource: libc::__rlimit_resource_t, most: u64) -> Option<Limited> {
        let mut before = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: `before` is ours to write.
        let asked = unsafe { libc::prlimit(pid as libc::pid_t, resource, std::ptr::null(), &mut before) };
        let limited = (asked == 0).then_some(Limited { pid, resource, before })?;
        limited.set(libc::rlimit { rlim_cur: most, rlim_max: before.rlim_max }).then_some(limited)
    }

    fn set(&self, to: libc::rlimit) -> bool {
        // SAFETY: `to` is ours to read.
        unsafe { libc::prlimit(self.pid as libc::pid_t, self.resource, &to, std::ptr::null_mut()) == 0 }
    }
}

/// A process of another user who may have no more processes and threads than there are; dropped, it may have what it might before.
/// Root is not bound by this limit.
pub struct LimitedProcesses {
    pid: u32,
    user: u32,
    before: String,
}

impl LimitedProcesses {
    /// None where the process is gone.
    pub fn of(pid: u32, user: u32) -> Option<LimitedProcesses> {
        let limits = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
        let line = limits.lines().find_map(|line| line.strip_prefix("Max processes"))?;
        let limited = LimitedProcesses { pid, user, before: line.split_whitespace().next()?.to_owned() };
        limited.set(&tasks_of(user).to_string()).then_some(limited)
    }

    /// As the user: not every root may limit processes of others.
    fn set(&self, most: &str) -> bool {
        use std::os::unix::process::CommandExt;
        let mut command = std::process::Command::new("prlimit");
        command.arg(format!("--pid={}", self.pid)).arg(format!("--nproc={most}:")).uid(self.user).gid(self.user);
        command.status().expect("prlimit is there").success()
    }
}

impl Drop for LimitedProcesses {
    fn drop(&mut self) {
        // It may have died of it.
        self.set(&self.before);
    }
}

/// Threads of all processes whose real user this is: what RLIMIT_NPROC counts.
pub fn tasks_of(user: u32) -> u64 {
    let tasks = |pid: u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let is_of_user = status.lines().any(|line| line.starts_with(&format!("Uid:\t{user}\t")));
        let threads = status.lines().find_map(|line| line.strip_prefix("Threads:")?.trim().parse().ok());
        if is_of_user { threads.unwrap_or(0) } else { 0 }
    };
    crate::proc::all().into_iter().map(tasks).sum()
}

impl Drop for Limited {
    fn drop(&mut self) {
        // It may have died of it.
        self.set(self.before);
    }
}
