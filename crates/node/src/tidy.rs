//! Removes what a run directory needs no more once the run's end is in the database. Slowly: deleting many files
//! in a hurry slows the starts of other jobs.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use nexus_api::run_dir::{EXIT, ORDER, STARTED, STDERR, STDOUT};

use crate::inspect::is_occupied;

/// Nothing is removed sooner than this after it was asked for.
const DELAY: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(5);

/// Tidies directories as they come, until the sender is gone.
pub fn run(incoming: Receiver<PathBuf>) {
    let mut waiting: VecDeque<(Instant, PathBuf)> = VecDeque::new();
    loop {
        let due = waiting.front().map(|(at, _)| at.saturating_duration_since(Instant::now()).max(PAUSE));
        let received = match due {
            Some(due) => incoming.recv_timeout(due),
            None => incoming.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match received {
            Ok(dir) => waiting.push_back((Instant::now() + DELAY, dir)),
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if waiting.front().is_none_or(|(at, _)| *at > Instant::now()) {
            continue;
        }
        if let Some((_, dir)) = waiting.pop_front()
            && !tidy(&dir)
        {
            waiting.push_back((Instant::now() + DELAY, dir));
        }
    }
}

/// `false` while the shim is still there: it may yet write its record.
fn tidy(dir: &Path) -> bool {
    if is_occupied(dir) {
        return false;
    }
    let is_empty = |name| fs::metadata(dir.join(name)).map_or(true, |metadata| metadata.len() == 0);
    let unneeded = [ORDER].into_iter().filter(|_| is_empty(STDOUT) || is_empty(STDERR));
    for name in [EXIT, STARTED].into_iter().chain(unneeded) {
        let _ = fs::remove_file(dir.join(name));
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_stay_and_the_order_stays_while_it_means_something() {
        let temporary = tempfile::tempdir().unwrap();
        let dir = temporary.path();
        for name in [EXIT, STARTED, ORDER, STDOUT, STDERR] {
            fs::write(dir.join(name), "x").unwrap();
        }
        assert!(tidy(dir));
        let there = |name: &str| dir.join(name).exists();
        assert!(!there(EXIT) && !there(STARTED) && there(ORDER) && there(STDOUT) && there(STDERR));
        fs::write(dir.join(STDERR), "").unwrap();
        assert!(tidy(dir) && !there(ORDER));
    }
}
