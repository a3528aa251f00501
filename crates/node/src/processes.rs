//! Reads `/proc`: who a process is, whose child it is, what it handles. A pid alone proves nothing, since
//! pids are reused; a [`Process`] is a pid with its start time, and is signalled only while both still match.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

use nexus_api::run_dir::ExitStatus;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::time::{ClockId, clock_gettime};

use crate::system_file;

/// One process, told apart from a later one with the same pid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Process {
    pub pid: u32,
    /// Clock ticks since boot.
    pub start: u64,
}

/// What `/proc/PID/stat` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    pub process: Process,
    pub zombie: bool,
    pub parent: u32,
    pub session: u32,
}

impl Process {
    /// Sends a signal, unless the process is gone. Returns whether it was sent.
    pub fn signal(self, signal: i32) -> bool {
        let Some(pid) = Pid::from_raw(self.pid as i32) else { return false };
        // The start time is read with the pidfd in hand: from then on the pid cannot mean another process.
        let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
        self.is_current() && send_signal(&pidfd, signal).is_ok()
    }

    /// Whether it still exists, be it as a zombie.
    pub fn is_current(self) -> bool {
        stat(self.pid).is_some_and(|now| now.process == self)
    }
}

/// Signals the process behind a pidfd. Takes numbers, since real-time signals have no names.
pub fn send_signal(pidfd: impl AsFd, signal: i32) -> io::Result<()> {
    let (pidfd, nothing) = (pidfd.as_fd().as_raw_fd(), std::ptr::null::<libc::siginfo_t>());
    // SAFETY: plain numbers, and a null pointer that the call allows.
    match unsafe { libc::syscall(libc::SYS_pidfd_send_signal, pidfd, signal, nothing, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// What the start of a process that begins now would be.
pub fn ticks() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    // USER_HZ, which is the same for all programs on Linux.
    now.tv_sec as u64 * 100 + now.tv_nsec as u64 / 10_000_000
}

/// When a run started, by the wall clock as it is set at the run's end. Where the clock was set meanwhile, the time that it ran is
/// what passed on the boot clock, which nobody sets. `started_ticks` is of this boot; 0 by an older shim.
pub fn started_by_now(started_at_ms: i64, started_ticks: u64, now_ms: i64) -> i64 {
    started_at(started_at_ms, started_ticks, now_ms, ticks())
}

fn started_at(started_at_ms: i64, started_ticks: u64, now_ms: i64, now_ticks: u64) -> i64 {
    /// NTP slews for less, and ticks are hundredths of a second.
    const MIN_STEP_MS: i64 = 200;
    let ran_ms = now_ticks.saturating_sub(started_ticks) as i64 * 10;
    let is_set = (now_ms - started_at_ms - ran_ms).abs() >= MIN_STEP_MS;
    if is_set && started_ticks > 0 { now_ms - ran_ms } else { started_at_ms }
}

/// The stat of a process, zombies included. None where it is gone, or cannot be read.
pub fn stat(pid: u32) -> Option<Stat> {
    try_stat(pid).ok().flatten()
}

/// The stat of a process, zombies included. None where it is gone: whoever must know that no process is left needs an error told
/// apart from that, such as EMFILE.
pub fn try_stat(pid: u32) -> io::Result<Option<Stat>> {
    let text = unless_gone(system_file::read(format!("/proc/{pid}/stat")))?;
    let parsed = text.map(|text| parse_stat(pid, &text).ok_or_else(|| io::Error::other("unknown format of stat")));
    parsed.transpose()
}

/// What was read of a process, none if the process is gone.
fn unless_gone<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        // ESRCH: it went after the file was opened.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH)) => Ok(None),
        Err(error) => Err(error),
    }
}

fn parse_stat(pid: u32, text: &[u8]) -> Option<Stat> {
    let fields = fields_after_name(text)?;
    let fields: Vec<&str> = fields.split_ascii_whitespace().take(20).collect();
    Some(Stat {
        process: Process { pid, start: fields.get(19)?.parse().ok()? },
        zombie: matches!(*fields.first()?, "Z" | "X"),
        parent: fields.get(1)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
    })
}

/// The fields from the state on: the name before it may hold blanks and brackets.
pub(crate) fn fields_after_name(text: &[u8]) -> Option<&str> {
    let name_end = text.iter().rposition(|byte| *byte == b')')?;
    std::str::from_utf8(text.get(name_end + 2..)?).ok()
}

/// Whether a signal or a debugger has stopped the process.
pub fn is_stopped(process: Process) -> bool {
    let Some(text) = system_file::read(format!("/proc/{}/stat", process.pid)).ok() else { return false };
    let state = fields_after_name(&text).and_then(|fields| fields.chars().next());
    matches!(state, Some('T' | 't')) && parse_stat(process.pid, &text).is_some_and(|stat| stat.process == process)
}

/// Whether the process says of itself that it is the shim of this run, as a shim does before it begins one.
pub fn is_shim_of(process: Process, run: &str) -> io::Result<bool> {
    let title = unless_gone(system_file::read(format!("/proc/{}/cmdline", process.pid)))?.unwrap_or_default();
    let title = title.split(|byte| *byte == 0).next().unwrap_or_default();
    let is_current = || Ok(try_stat(process.pid)?.is_some_and(|now| now.process == process));
    if title == format!("nexus: job {run}").as_bytes() { is_current() } else { Ok(false) }
}

/// How a process ended that its parent has not collected.
pub fn left_with(pid: u32, parent: u32) -> Option<ExitStatus> {
    let text = system_file::read(format!("/proc/{pid}/stat")).ok()?;
    parse_stat(pid, &text).filter(|stat| stat.zombie && stat.parent == parent)?;
    let status: i32 = fields_after_name(&text)?.split_ascii_whitespace().nth(49)?.parse().ok()?;
    Some(match libc::WIFSIGNALED(status) {
        true => ExitStatus::Signaled { signal: libc::WTERMSIG(status) },
        false => ExitStatus::Exited { code: libc::WEXITSTATUS(status) },
    })
}

/// Every process there is.
pub fn all() -> io::Result<Vec<u32>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        found.extend(entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    Ok(found)
}

/// The stat of every process that this user may see.
pub fn all_stats() -> io::Result<Vec<Stat>> {
    all()?.into_iter().filter_map(|pid| visible_stat(pid).transpose()).collect()
}

/// None for a process of another user as well, where `/proc` is mounted with hidepid.
fn visible_stat(pid: u32) -> io::Result<Option<Stat>> {
    match try_stat(pid) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(None),
        stat => stat,
    }
}

/// All that descend from `root`, without itself and without zombies. Not a snapshot: what is forked
/// meanwhile may be missing, so whoever wants all of them dead asks again.
pub fn descendants(root: u32) -> io::Result<Vec<Process>> {
    if lists_children() { by_children(root) } else { by_parents(root) }
}

/// The children of a process, zombies included. A process in it is missing only if it became a child during the call, or if another
/// child was collected meanwhile.
pub fn children(pid: u32) -> io::Result<Vec<u32>> {
    if lists_children() {
        return listed_children(pid);
    }
    Ok(all_stats()?.into_iter().filter(|stat| stat.parent == pid).map(|stat| stat.process.pid).collect())
}

/// Only kernels with CONFIG_PROC_CHILDREN do.
fn lists_children() -> bool {
    Path::new("/proc/thread-self/children").exists()
}

fn by_children(root: u32) -> io::Result<Vec<Process>> {
    let mut found = Vec::new();
    let mut seen = HashSet::from([root]);
    let mut ask = vec![root];
    while let Some(pid) = ask.pop() {
        for child in listed_children(pid)? {
            if !seen.insert(child) {
                continue;
            }
            // A zombie has no children: they went to the next subreaper with its end.
            if let Some(stat) = visible_stat(child)?.filter(|stat| !stat.zombie) {
                ask.push(child);
                found.push(stat.process);
            }
        }
    }
    Ok(found)
}

/// Children belong to the thread that made them.
fn listed_children(pid: u32) -> io::Result<Vec<u32>> {
    let mut children = Vec::new();
    let Some(threads) = unless_gone(fs::read_dir(format!("/proc/{pid}/task")))? else { return Ok(children) };
    for thread in threads {
        let Some(thread) = unless_gone(thread)? else { continue };
        let list = unless_gone(system_file::read_text(thread.path().join("children")))?.unwrap_or_default();
        children.extend(list.split_ascii_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
    }
    Ok(children)
}

/// For kernels without `children` files.
fn by_parents(root: u32) -> io::Result<Vec<Process>> {
    let mut rest = all_stats()?;
    let mut family = HashSet::from([root]);
    let mut found = Vec::new();
    loop {
        let before = family.len();
        rest.retain(|stat| {
            let belongs = family.contains(&stat.parent);
            if belongs && family.insert(stat.process.pid) && !stat.zombie {
                found.push(stat.process);
            }
            !belongs
        });
        if family.len() == before {
            return Ok(found);
        }
    }
}

/// Whether a process has a handler of its own for a signal.
pub fn handles(pid: u32, signal: i32) -> bool {
    let Ok(text) = system_file::read_text(format!("/proc/{pid}/status")) else { return false };
    let caught = text.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let bits = caught.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0);
    (1..=64).contains(&signal) && bits & (1 << (signal - 1)) != 0
}

/// Whether a process was started with exactly this `NAME=value`, as far as this user may know.
pub fn environment_has(pid: u32, setting: &[u8]) -> io::Result<bool> {
    let read = match unless_gone(system_file::read(format!("/proc/{pid}/environ"))) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => None,
        read => read?,
    };
    Ok(read.is_some_and(|bytes| bytes.split(|byte| *byte == 0).any(|one| one == setting)))
}

/// The value of a variable that a process was started with.
pub fn environment_value(pid: u32, name: &str) -> Option<Vec<u8>> {
    let bytes = system_file::read(format!("/proc/{pid}/environ")).ok()?;
    let mut settings = bytes.split(|byte| *byte == 0);
    settings.find_map(|one| Some(one.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?.to_vec()))
}

/// Whether this process sees all others under the numbers that the kernel itself gives them: it is in the first of all
/// pid namespaces, whose number never changes.
pub fn are_all_seen() -> bool {
    const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";
    fs::read_link("/proc/self/ns/pid").is_ok_and(|name| name.as_os_str() == FIRST_PID_NAMESPACE)
}

/// Names this boot of the machine: pids and start times mean nothing beyond it.
pub fn boot_id() -> io::Result<String> {
    Ok(system_file::read_text("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_takes_as_long_as_the_boot_clock_says() {
        const BEGAN: i64 = 1_700_000_000_000;
        const DAY: i64 = 86_400_000;
        // 3 s in all: 300 ticks.
        for (step, started) in [(0, BEGAN), (150, BEGAN), (10 * DAY, BEGAN + 10 * DAY), (-DAY, BEGAN - DAY)] {
            let now = BEGAN + 3_000 + step;
            assert_eq!(started_at(BEGAN, 5_000, now, 5_300), started, "set by {step} ms");
        }
        assert_eq!(started_at(BEGAN, 0, BEGAN + 3_000 + DAY, 5_300), BEGAN, "an older shim counts no ticks");
    }

    #[test]
    fn a_name_with_brackets_and_blanks_does_not_shift_the_fields() {
        let text = b"42 (a) R 7 (b c) S 10 11 12 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 9876 1 2 3";
        let stat = parse_stat(42, text).unwrap();
        assert_eq!(stat, Stat { process: Process { pid: 42, start: 9876 }, zombie: false, parent: 10, session: 12 });
    }

    #[test]
    fn both_walks_find_children_and_grandchildren() {
        let mut shell = std::process::Command::new("sh")
            .args(["-c", "sleep 60 & echo; wait"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut byte = [0];
        io::Read::read_exact(shell.stdout.as_mut().unwrap(), &mut byte).unwrap();
        let root = std::process::id();
        for walk in [by_children, by_parents, descendants] {
            let found = walk(root).unwrap();
            let own: Vec<_> = found.iter().filter(|one| one.pid == shell.id()).collect();
            assert_eq!(own.len(), 1, "{found:?}");
            assert!(found.iter().any(|one| stat(one.pid).is_some_and(|stat| stat.parent == shell.id())), "{found:?}");
        }
        for process in descendants(shell.id()).unwrap() {
            assert!(process.signal(libc::SIGKILL));
        }
        shell.wait().unwrap();
    }

    #[test]
    fn a_reused_pid_is_not_signalled() {
        let own = stat(std::process::id()).unwrap().process;
        assert!(own.is_current());
        let other = Process { start: own.start + 1, ..own };
        assert!(!other.signal(libc::SIGKILL));
    }
}
