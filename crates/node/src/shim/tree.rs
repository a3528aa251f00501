//! All processes of a run: those that descend from the shim, who inherits the orphans, and those in its cgroup.

use std::path::{Path, PathBuf};

use crate::cgroup;
use crate::memory_group::MemoryGroup;
use crate::processes::{self, Process};

pub struct Tree {
    cgroup: Option<PathBuf>,
    memory: Option<MemoryGroup>,
    /// Those that were asked to end: a second request might cut their last work short.
    asked: Vec<Process>,
}

impl Tree {
    pub fn new(cgroup: Option<PathBuf>, memory: Option<MemoryGroup>) -> Tree {
        Tree { cgroup, memory, asked: Vec::new() }
    }

    /// Where its memory is counted.
    pub fn memory(&self) -> Option<&MemoryGroup> {
        self.memory.as_ref()
    }

    fn members(&self) -> Vec<Process> {
        let shim = std::process::id();
        // What cannot be read now is read with the next KILL; that none is left is known by waitpid(2) alone.
        let mut found = processes::descendants(shim).unwrap_or_default();
        let grouped =
            self.cgroup.as_deref().map(|group| cgroup::members(group).unwrap_or_default()).unwrap_or_default();
        for pid in grouped.into_iter().filter(|pid| *pid != shim) {
            let known = found.iter().any(|process| process.pid == pid);
            found.extend(processes::stat(pid).filter(|stat| !known && !stat.zombie).map(|stat| stat.process));
        }
        found
    }

    /// Asks every process to end, once; stopped ones are woken to hear it.
    pub fn ask_to_end(&mut self) {
        for process in self.members() {
            if !self.asked.contains(&process) {
                process.signal(libc::SIGTERM);
                process.signal(libc::SIGCONT);
                self.asked.push(process);
            }
        }
    }

    /// Ends every process that is there now. What is forked meanwhile is found the next time.
    pub fn kill(&self) {
        if let Some(group) = &self.cgroup {
            cgroup::kill(group);
        }
        for process in self.members() {
            process.signal(libc::SIGKILL);
        }
    }

    /// Sends a signal to those that handle it: it would end the others, such as a shell around a training that
    /// does. If none does, all get it.
    pub fn warn(&self, signal: i32) {
        let members = self.members();
        let handling: Vec<_> = members.iter().filter(|one| processes::handles(one.pid, signal)).collect();
        let addressed = if handling.is_empty() { members.iter().collect() } else { handling };
        for process in addressed {
            process.signal(signal);
        }
    }

    /// After the last descendant is gone. A process that was moved into the group from elsewhere goes too.
    pub fn remove_group(&self) {
        let Some(group) = &self.cgroup else { return };
        cgroup::remove(group);
        if group.exists() {
            cgroup::kill(group);
            wait_for_empty(group);
            cgroup::remove(group);
        }
        if let Some(memory) = &self.memory {
            memory.remove();
        }
    }

    /// Removes the group above the run's own, if no other run has one in it.
    pub fn remove_base(&self) {
        if let Some(base) = self.cgroup.as_deref().and_then(Path::parent) {
            cgroup::remove_base(base);
        }
    }
}

fn wait_for_empty(group: &Path) {
    for _ in 0..100 {
        if cgroup::members(group).is_ok_and(|members| members.is_empty()) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}
