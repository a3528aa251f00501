//! Ends all that descends from a stopped subreaper, and proves that nothing is left.
//!
//! A walk over `/proc` proves nothing: it misses a process that forks and exits every few milliseconds, since the walk sees the parent
//! after its end and the child before its begin. The zombies of a stopped subreaper are a proof, because nobody collects them:
//!
//! 1. Read its children, and find each to be a zombie. A zombie never lives again.
//! 2. Read its children once more. The same: nothing lives.
//!
//! Each living descendant has a chain of living ancestors up to a child of the subreaper, since an orphan becomes its child when the
//! parent exits. So if anything lived at step 2, a child lived. It was no child at step 1, and so both lists differ. A subreaper that
//! is continued meanwhile collects its zombies: whoever depends on the proof looks whether it is still stopped.

use std::collections::HashSet;
use std::io;

use crate::processes::{self, Process};

/// Looks in a row. Descendants that fork and exit are killed by being quicker; those that hang in the kernel are waited for by the
/// caller.
const MAX_ROUNDS: usize = 200;

pub struct Subreaper {
    pid: u32,
    /// Children that were zombies at an earlier look: a job that forks and exits leaves thousands, and to read them all again would
    /// be slower than the job.
    zombies: HashSet<u32>,
}

enum Look {
    Nothing,
    /// Children that live.
    Living(Vec<Process>),
    /// Another child came, or one was collected.
    Changed,
}

impl Subreaper {
    pub fn new(process: Process) -> Subreaper {
        Subreaper { pid: process.pid, zombies: HashSet::new() }
    }

    /// Whether nothing that descends from it lives. `false` if that cannot be proved.
    pub fn is_alone(&mut self) -> io::Result<bool> {
        self.zombies.clear();
        Ok(matches!(self.look()?, Look::Nothing))
    }

    /// Kills what lives, for a moment. Returns whether nothing does any more.
    pub fn kill_descendants(&mut self) -> io::Result<bool> {
        for _ in 0..MAX_ROUNDS {
            match self.look()? {
                // The number of a zombie that was remembered may mean another process, if the zombie was collected.
                Look::Nothing => return self.is_alone(),
                Look::Changed => {}
                // Their own children are children of the subreaper in the next round.
                Look::Living(children) => {
                    for child in children {
                        child.signal(libc::SIGKILL);
                    }
                }
            }
        }
        Ok(false)
    }

    fn look(&mut self) -> io::Result<Look> {
        let children = self.children()?;
        let mut living = Vec::new();
        for child in children.iter().filter(|child| !self.zombies.contains(child)).copied().collect::<Vec<_>>() {
            match processes::try_stat(child)? {
                Some(stat) if !stat.zombie => living.push(stat.process),
                Some(_) => drop(self.zombies.insert(child)),
                None => return Ok(Look::Changed),
            }
        }
        Ok(match living.is_empty() {
            false => Look::Living(living),
            true if self.children()? == children => Look::Nothing,
            true => Look::Changed,
        })
    }

    fn children(&self) -> io::Result<HashSet<u32>> {
        Ok(processes::children(self.pid)?.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command};
    use std::time::{Duration, Instant};

    /// A shell that is a subreaper, runs `text` and stops itself.
    fn stopped_subreaper(text: &str, dir: &std::path::Path) -> (Child, Process) {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{text}\nkill -STOP $$")]).env("dir", dir).current_dir(dir);
        // SAFETY: prctl(2) is allowed between fork and exec; execve(2) keeps the setting.
        let become_subreaper = || match unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        };
        // SAFETY: the closure makes one system call.
        let shell = unsafe { command.pre_exec(become_subreaper) }.spawn().unwrap();
        let process = processes::stat(shell.id()).unwrap().process;
        until("it to stop", || processes::is_stopped(process));
        (shell, process)
    }

    fn until(what: &str, mut is_so: impl FnMut() -> bool) {
        let limit = Instant::now() + Duration::from_secs(60);
        while !is_so() {
            assert!(Instant::now() < limit, "waited in vain for {what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn end(mut shell: Child) {
        shell.kill().unwrap();
        shell.wait().unwrap();
    }

    #[test]
    fn processes_that_fork_and_exit_all_the_time_are_all_ended() {
        let folder = tempfile::tempdir().unwrap();
        // Each process lives for about a millisecond and leaves one behind that appends a byte. All end with the folder.
        let text = "export c='[ -d \"$dir\" ] || exit; printf x >> $dir/count; setsid sh -c \"$c\" &'
            sh -c \"$c\" & while ! [ -s $dir/count ]; do sleep 0.01; done";
        let (shell, process) = stopped_subreaper(text, folder.path());
        let count = || std::fs::metadata(folder.path().join("count")).unwrap().len();
        let before = count();
        until("them to go on", || count() > before + 20);
        let mut subreaper = Subreaper::new(process);
        until("all to be ended", || subreaper.kill_descendants().unwrap());
        let ended_at = count();
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(count(), ended_at, "one lives on");
        assert!(subreaper.is_alone().unwrap());
        end(shell);
    }

    #[test]
    fn a_process_that_lives_is_not_taken_for_none() {
        let folder = tempfile::tempdir().unwrap();
        let (shell, process) =
            stopped_subreaper("true & sh -c 'sleep 60 & sleep 60 & exit' & sleep 0.2", folder.path());
        assert!(!Subreaper::new(process).is_alone().unwrap());
        until("both to be ended", || Subreaper::new(process).kill_descendants().unwrap());
        assert!(Subreaper::new(process).is_alone().unwrap(), "zombies are left");
        assert!(!processes::children(process.pid).unwrap().is_empty());
        end(shell);
    }
}
