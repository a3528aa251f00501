//! What the service asks of the machine below it, as a simulation wants it: for its own thread alone.

use std::cell::Cell;
use std::time::{Duration, Instant};

use nexus_core::time::Time;

#[derive(Clone, Copy)]
struct Below {
    now: Time,
    /// What the clock that nobody sets shows.
    instant: Instant,
    since: Duration,
    disk_free: u64,
}

thread_local! {
    static BELOW: Cell<Option<Below>> = const { Cell::new(None) };
    static BEGIN: Instant = Instant::now();
}

/// `since`: how much time has passed by the clock that nobody sets.
pub fn set(now: Time, since: Duration, disk_free: u64) {
    let instant = BEGIN.with(|begin| *begin) + since;
    BELOW.set(Some(Below { now, instant, since, disk_free }));
}

/// From here on things are as they are.
pub fn clear() {
    BELOW.set(None);
}

pub fn now() -> Option<Time> {
    BELOW.get().map(|below| below.now)
}

/// From the clock that nobody sets to the other.
pub fn offset_ms() -> Option<i64> {
    BELOW.get().map(|below| below.now.0 - below.since.as_millis() as i64)
}

pub fn instant() -> Option<Instant> {
    BELOW.get().map(|below| below.instant)
}

pub fn disk_free() -> Option<u64> {
    BELOW.get().map(|below| below.disk_free)
}
