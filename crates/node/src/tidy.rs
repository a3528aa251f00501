//! Removes what a run directory needs no more once the run's end is in the database. Slowly: deleting many files
//! in a hurry slows the starts of other jobs.

use std::collections::VecDeque;
use std::fs;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use nexus_api::run_dir::{EXIT, ORDER, SCRIPT, STARTED, STDERR, STDOUT};

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
    Clear(RunPlace),
    /// Left by an earlier service, whose launcher is gone: here claims may go as well.
    ClearAll(RunPlace),
    /// A run is being started.
    Started,
}

/// Tidies directories as they come and says which, until the sender is gone.
pub fn run(incoming: &Receiver<Tidying>, sink: &Sink) {
    let mut waiting: VecDeque<(Instant, RunPlace, bool)> = VecDeque::new();
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
            Ok(Tidying::Clear(place)) => waiting.push_back((Instant::now() + LONGEST, place, false)),
            Ok(Tidying::ClearAll(place)) => waiting.push_back((Instant::now() + LONGEST, place, true)),
            Ok(Tidying::Started) => not_before = Instant::now() + QUIET,
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                not_before = not_before.max(Instant::now() + PAUSE);
                let Some((_, place, claims_too)) = waiting.pop_front() else { continue };
                if is_occupied(&place.dir) {
                    // The shim is still there: it may yet write its record.
                    waiting.push_back((Instant::now() + LONGEST, place, claims_too));
                } else if claims_too || !matches!(inspect(&place.dir), Ok(Seen::Claimed)) {
                    tidy(&place.dir);
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

#[cfg(test)]
mod tests {
    use super::*;

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
