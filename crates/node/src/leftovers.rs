//! Ends what a run left behind when its shim died. Such processes are nobody's children any more: they are found
//! by the run's cgroup, by the command's session, and by the run directory in their environment.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nexus_api::run_dir::{RUN_DIR_VARIABLE, Started};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::cgroup;
use crate::processes::{self, Process, Stat};

/// A session leader that is so much younger than the begin of the run has got the command's pid later.
const LEADER_TICKS: u64 = 3000;

/// How long to wait for killed processes before looking again.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// What one run may have left, on the same boot of the machine.
pub struct Leftovers {
    setting: Vec<u8>,
    cgroup: Option<PathBuf>,
    /// When its shim and its command began, in clock ticks.
    shim_start: u64,
    begun: u64,
    /// The command's session, and whether its leader was seen: then the number means this session until it is empty.
    session: Option<u32>,
    session_is_known: bool,
}

impl Leftovers {
    pub fn of(dir: &Path, started: Option<&Started>, cgroup: Option<PathBuf>) -> Leftovers {
        let setting = [RUN_DIR_VARIABLE.as_bytes(), b"=", dir.as_os_str().as_bytes()].concat();
        Leftovers {
            setting,
            cgroup: started.and_then(group_of).or(cgroup),
            shim_start: started.map_or(0, |started| started.shim_start),
            begun: started.map_or(0, |started| started.shim_start.max(started.started_ticks)),
            session: started.map(|started| started.pid),
            session_is_known: false,
        }
    }

    /// Kills what is in the run's cgroup now, if it has one.
    pub fn kill_group(&self) {
        if let Some(group) = &self.cgroup {
            cgroup::kill(group);
        }
    }

    /// The processes that are left now. Without an error they are all, but for what was forked meanwhile.
    pub fn find(&mut self) -> io::Result<Vec<Process>> {
        let own = std::process::id();
        let stats = processes::all_stats()?;
        let leader = stats.iter().find(|stat| Some(stat.process.pid) == self.session);
        let may_lead = self.shim_start..self.begun + LEADER_TICKS;
        self.session_is_known |= leader.is_some_and(|leader| may_lead.contains(&leader.process.start));
        let grouped = self.cgroup.as_deref().map(cgroup::members).transpose()?.unwrap_or_default();
        let mut found = Vec::new();
        for Stat { process, session, .. } in stats.into_iter().filter(|stat| !stat.zombie && stat.process.pid != own) {
            let is_known = self.session_is_known && Some(session) == self.session || grouped.contains(&process.pid);
            if is_known || processes::environment_has(process.pid, &self.setting)? {
                found.push(process);
            }
        }
        Ok(found)
    }

    /// Kills them without grace, since nobody is left to keep one, until none is left or `give_up` says so. Returns
    /// whether all are gone.
    pub fn end(&mut self, give_up: impl Fn() -> bool) -> bool {
        loop {
            self.kill_group();
            let found = self.find();
            if found.as_ref().is_ok_and(Vec::is_empty) {
                break;
            }
            if give_up() {
                return false;
            }
            let Ok(found) = found else {
                std::thread::sleep(LOOK_AGAIN);
                continue;
            };
            for process in &found {
                process.signal(libc::SIGKILL);
            }
            wait_for_any(&found);
        }
        self.remove_group();
        true
    }

    /// Removes the run's cgroup, in which no process is left. Returns whether it is gone.
    pub fn remove_group(&self) -> bool {
        let Some(group) = &self.cgroup else { return true };
        cgroup::remove(group);
        if let Some(twin) = cgroup::memory_twin(group) {
            cgroup::remove(&twin);
        }
        !group.exists()
    }
}

/// The group that the run's shim made, which has the name of the run: a job may have written that of another run.
fn group_of(started: &Started) -> Option<PathBuf> {
    started.cgroup.clone().filter(|group| group.file_name().is_some_and(|name| *name == *started.run))
}

/// Waits until each has ended, or for a while.
fn wait_for_any(processes: &[Process]) {
    let until = std::time::Instant::now() + LOOK_AGAIN;
    for process in processes {
        let Some(pid) = Pid::from_raw(process.pid as i32) else { continue };
        let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
        let left = until.saturating_duration_since(std::time::Instant::now());
        if !process.is_current() {
            continue;
        }
        if let Ok(left) = Timespec::try_from(left) {
            let _ = poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&left));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alone::without_descriptors;
    use crate::subreaper::Subreaper;
    use std::cell::Cell;
    use std::process::Command;

    /// Of a shim that is as old as the machine.
    fn started(pid: u32, started_ticks: u64) -> Started {
        Started {
            format: 1,
            run: "abc.1".into(),
            shim_pid: 1,
            shim_start: 1,
            boot_id: String::new(),
            pid,
            started_at_ms: 0,
            started_ticks,
            grace_ms: None,
            cgroup: None,
            terminal: None,
            screen: None,
        }
    }

    #[test]
    fn the_session_of_a_run_is_found_however_old_its_shim_was() {
        let mut leader = Command::new("setsid").args(["sleep", "60"]).env_remove(RUN_DIR_VARIABLE).spawn().unwrap();
        while processes::stat(leader.id()).unwrap().session != leader.id() {
            std::thread::yield_now();
        }
        let of = |ticks| Leftovers::of(Path::new("/leftovers/none"), Some(&started(leader.id(), ticks)), None);
        assert_eq!(of(1).find().unwrap(), [], "it is much younger than the run");
        assert_eq!(of(processes::ticks()).find().unwrap().len(), 1);
        assert!(of(processes::ticks()).end(|| false));
        assert!(!leader.wait().unwrap().success());
    }

    #[test]
    fn without_descriptors_nobody_is_known_to_be_gone() {
        let own = processes::stat(std::process::id()).unwrap().process;
        let group = Path::new("/proc/self/no-group").to_owned();
        let mut leftovers = Leftovers::of(Path::new("/leftovers/none"), None, Some(group));
        assert_eq!(leftovers.find().unwrap(), [], "with descriptors");
        without_descriptors("leftovers::tests::without_descriptors_nobody_is_known_to_be_gone", || {
            assert!(leftovers.find().is_err() && processes::all().is_err() && processes::try_stat(1).is_err());
            assert!(processes::descendants(own.pid).is_err() && Subreaper::new(own).is_alone().is_err());
            assert!(cgroup::members(Path::new("/proc/self")).is_err());
            let looks = Cell::new(0);
            assert!(!leftovers.end(|| looks.replace(looks.get() + 1) == 1), "it gives up at the second look");
        });
    }

    #[test]
    fn only_the_processes_of_the_run_are_ended() {
        let dir = format!("/leftovers/{}", std::process::id());
        let mut own = Command::new("sleep").arg("60").env(RUN_DIR_VARIABLE, &dir).spawn().unwrap();
        let mut other = Command::new("sleep").arg("60").env(RUN_DIR_VARIABLE, format!("{dir}0")).spawn().unwrap();
        // A session whose leader is much younger than the run: its pid was reused.
        let started = started(processes::stat(std::process::id()).unwrap().session, 1);
        assert!(Leftovers::of(Path::new(&dir), Some(&started), None).end(|| false));
        assert!(!own.wait().unwrap().success());
        assert!(other.try_wait().unwrap().is_none(), "another run's process was ended");
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
