//! Removes what a run directory needs no more once the run's end is in the database. Slowly: deleting many files
//! in a hurry slows the starts of other jobs.

use std::collections::VecDeque;
use std::fs;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use nexus_api::run_dir::{EXIT, LAST_LINES, ORDER, OUT, SCRIPT, START_ERROR, STARTED, STDERR, STDOUT, run_of};

use crate::inspect::{Seen, inspect, is_occupied};
use crate::words::{Report, RunPlace, Sink};

/// Nothing is removed until no run was started for this long. File systems keep new files away from what was
/// deleted lately, so that deleting amid a burst of short jobs makes each of them dearer.
const QUIET: Duration = Duration::from_secs(3);

/// However busy the machine is, nothing waits longer than this.
const LONGEST: Duration = Duration::from_secs(600);

/// Between one directory and the next, for the same reason.
const PAUSE: Duration = Duration::from_millis(100);

/// What is overdue is not done all at once either.
const BREATH: Duration = Duration::from_millis(20);

/// What the tidier is told.
pub enum Tidying {
    Tidy(RunPlace, How),
    /// A run is being started.
    Started,
}

/// What goes of a run directory beside what it held for its end.
#[derive(Clone, Copy, Debug, Default)]
pub struct How {
    /// Left by an earlier service, whose launcher is gone: claims go as well.
    pub claims: bool,
    /// The service has a copy: logs go as well.
    pub logs: bool,
}

/// Tidies directories as they come and says which, until the sender is gone.
pub fn run(incoming: &Receiver<Tidying>, sink: &Sink) {
    let mut waiting: VecDeque<(Instant, RunPlace, How)> = VecDeque::new();
    let mut not_before = Instant::now();
    loop {
        let received = match waiting.front() {
            None => incoming.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some((at_latest, ..)) => {
                let due = not_before.min(*at_latest);
                incoming.recv_timeout(due.saturating_duration_since(Instant::now()).max(BREATH))
            }
        };
        match received {
            Ok(Tidying::Tidy(place, how)) => waiting.push_back((Instant::now() + LONGEST, place, how)),
            Ok(Tidying::Started) => not_before = Instant::now() + QUIET,
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                not_before = not_before.max(Instant::now() + PAUSE);
                let Some((_, place, how)) = waiting.pop_front() else { continue };
                if is_occupied(&place.dir) {
                    // The shim is still there: it may yet write its record.
                    waiting.push_back((Instant::now() + LONGEST, place, how));
                } else if how.claims || !matches!(inspect(&place.dir), Ok(Seen::Claimed)) {
                    tidy(&place.dir);
                    if how.logs {
                        remove_logs(&place.dir);
                    }
                    sink(Report::Tidied { run: place.run });
                }
                // A claim stays for as long as a launcher of this service may hold a start for it.
            }
        }
    }
}

fn tidy(dir: &Path) {
    let is_empty = |name| fs::metadata(dir.join(name)).map_or(true, |metadata| metadata.len() == 0);
    let unneeded = [ORDER].into_iter().filter(|_| is_empty(STDOUT) || is_empty(STDERR));
    for name in [SCRIPT, EXIT, STARTED].into_iter().chain(unneeded) {
        let _ = fs::remove_file(dir.join(name));
    }
}

/// With the folder, if nothing is left in it. Later attempts lie in that of the first, and what the job itself put there
/// stays until it is forgotten.
fn remove_logs(dir: &Path) {
    for name in [ORDER, LAST_LINES, START_ERROR, OUT, STDERR, STDOUT] {
        let _ = fs::remove_file(dir.join(name));
    }
    let of_job = dir.parent().filter(|_| run_of(dir).is_some_and(|run| run.number > 1));
    if fs::remove_dir(dir).is_ok()
        && let Some(of_job) = of_job
    {
        let _ = fs::remove_dir(of_job);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_that_are_elsewhere_go_with_their_folder_and_nothing_else_does() {
        let temporary = tempfile::tempdir().unwrap();
        let first = temporary.path().join("logs/job_abc");
        let second = first.join("attempt_2");
        fs::create_dir_all(&second).unwrap();
        for dir in [&first, &second] {
            for name in [ORDER, STDOUT, STDERR, LAST_LINES] {
                fs::write(dir.join(name), "x").unwrap();
            }
        }
        fs::write(first.join("own"), "of the job").unwrap();
        remove_logs(&first);
        assert!(!first.join(STDOUT).exists() && first.join("own").exists() && second.join(STDOUT).exists());
        fs::remove_file(first.join("own")).unwrap();
        remove_logs(&second);
        assert!(!first.exists() && temporary.path().join("logs").exists());
        let only = temporary.path().join("logs/job_abd");
        fs::create_dir(&only).unwrap();
        remove_logs(&only);
        assert!(!only.exists() && temporary.path().join("logs").exists(), "of others");
    }

    #[test]
    fn logs_stay_and_the_order_stays_while_it_means_something() {
        let temporary = tempfile::tempdir().unwrap();
        let dir = temporary.path();
        for name in [SCRIPT, EXIT, STARTED, ORDER, STDOUT, STDERR] {
            fs::write(dir.join(name), "x").unwrap();
        }
        tidy(dir);
        let there = |name: &str| dir.join(name).exists();
        assert!(!there(SCRIPT) && !there(EXIT) && !there(STARTED) && there(ORDER) && there(STDOUT) && there(STDERR));
        fs::write(dir.join(STDERR), "").unwrap();
        tidy(dir);
        assert!(!there(ORDER));
    }
}
