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

    /// Memory, of which it may have mapped as much as it has and this many bytes more.
    pub fn memory(pid: u32, more: u64) -> Option<Limited> {
        let pages: u64 = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?.split(' ').next()?.parse().ok()?;
        // SAFETY: sysconf(3) has no conditions.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64;
        Limited::new(pid, libc::RLIMIT_AS, pages * page + more)
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

impl Drop for Limited {
    fn drop(&mut self) {
        // It may have died of it.
        self.set(self.before);
    }
}
