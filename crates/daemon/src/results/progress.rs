//! How far a copy is, for those who look, and whether it is still wanted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

#[derive(Default)]
pub struct Progress {
    done: AtomicU64,
    total: AtomicU64,
    given_up: Mutex<bool>,
    changed: Condvar,
    trouble: Mutex<Option<String>>,
}

impl Progress {
    /// Of so many bytes; those of an earlier try do not count.
    pub fn begins(&self, total: u64) {
        self.done.store(0, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
    }

    pub fn add(&self, bytes: u64) {
        self.done.fetch_add(bytes, Ordering::Relaxed);
    }

    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Why the try before this one failed.
    pub fn troubled(&self, words: &str) {
        *self.trouble.lock().expect("a plain value") = Some(words.to_string());
    }

    pub fn fine(&self) {
        *self.trouble.lock().expect("a plain value") = None;
    }

    pub fn trouble(&self) -> Option<String> {
        self.trouble.lock().expect("a plain value").clone()
    }

    pub fn give_up(&self) {
        *self.given_up.lock().expect("a plain value") = true;
        self.changed.notify_all();
    }

    pub fn is_given_up(&self) -> bool {
        *self.given_up.lock().expect("a plain value")
    }

    /// Waits so long, or until it is given up.
    pub fn gives_up_within(&self, wait: Duration) -> bool {
        let until = Instant::now() + wait;
        let mut given_up = self.given_up.lock().expect("a plain value");
        while !*given_up {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            (given_up, _) = self.changed.wait_timeout(given_up, left).expect("a plain value");
        }
        true
    }
}
