//! When the job is warned and ended, and how long it may take to end. Reads no clock: it is told the time.

use std::time::{Duration, Instant};

use nexus_api::run_dir::{RunSpec, Warning};

/// Another limit does not end the job sooner than this: who asked for it writes it down first, and tells nobody that a job
/// cannot be changed which was ended by the change.
const WRITTEN_WITHIN: Duration = Duration::from_secs(1);

pub struct Limits {
    pub grace: Duration,
    start: Instant,
    warning: Option<Warning>,
    /// As it was asked for.
    asked: Option<Instant>,
    limit_at: Option<Instant>,
    /// When to warn; none once that is done.
    warn_at: Option<Instant>,
}

impl Limits {
    pub fn new(spec: &RunSpec, start: Instant) -> Limits {
        let grace = Duration::from_millis(spec.grace_ms);
        let mut limits = Limits { grace, start, warning: spec.warning, asked: None, limit_at: None, warn_at: None };
        limits.set(spec.time_limit_ms);
        limits
    }

    /// Another limit, counted from the start as the first one was. The job is warned before it, again if it was warned
    /// already: what it did then is old by now. The same limit changes nothing.
    pub fn change(&mut self, limit_ms: Option<u64>, now: Instant) {
        let before = self.asked;
        self.set(limit_ms);
        if self.asked != before {
            self.limit_at = self.limit_at.map(|at| at.max(now + WRITTEN_WITHIN));
        }
    }

    fn set(&mut self, limit_ms: Option<u64>) {
        let asked = limit_ms.and_then(|limit| self.start.checked_add(Duration::from_millis(limit)));
        if asked == self.asked {
            return;
        }
        (self.asked, self.limit_at) = (asked, asked);
        self.warn_at = asked.zip(self.warning).map(|(limit_at, warning)| {
            let early = limit_at.checked_sub(Duration::from_millis(warning.before_ms)).unwrap_or(self.start);
            early.max(self.start)
        });
    }

    /// The signal to send, if it is time to; once.
    pub fn warning_due(&mut self, now: Instant) -> Option<i32> {
        self.warn_at.take_if(|at| *at <= now).and(self.warning).map(|warning| warning.signal)
    }

    pub fn is_over(&self, now: Instant) -> bool {
        self.limit_at.is_some_and(|at| at <= now)
    }

    /// When there will be something to do.
    pub fn next(&self) -> Option<Instant> {
        self.warn_at.into_iter().chain(self.limit_at).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USR1: i32 = 10;

    fn limits(limit_s: Option<u64>, start: Instant) -> Limits {
        let warning = Some(Warning { signal: USR1, before_ms: 100_000 });
        let mut limits = Limits { grace: Duration::ZERO, start, warning, asked: None, limit_at: None, warn_at: None };
        limits.set(limit_s.map(|seconds| seconds * 1000));
        limits
    }

    #[test]
    fn the_warning_moves_with_the_limit_and_is_sent_again() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut limits = limits(Some(1000), start);
        assert_eq!((limits.next(), limits.warning_due(at(899))), (Some(at(900)), None));
        assert_eq!(limits.warning_due(at(900)), Some(USR1));
        assert_eq!((limits.next(), limits.warning_due(at(901))), (Some(at(1000)), None), "once");
        limits.change(Some(1_000_000), at(900));
        assert_eq!((limits.next(), limits.warning_due(at(901))), (Some(at(1000)), None), "the same limit says nothing");
        limits.change(Some(2_000_000), at(901));
        assert_eq!((limits.next(), limits.is_over(at(1001))), (Some(at(1900)), false), "lengthened");
        assert_eq!(limits.warning_due(at(1900)), Some(USR1));
        limits.change(Some(1_950_000), at(1900));
        assert_eq!(limits.warning_due(at(1901)), Some(USR1), "late, but before the end");
        limits.change(None, at(1901));
        assert_eq!((limits.next(), limits.is_over(at(9999)), limits.warning_due(at(9999))), (None, false, None));
        limits.change(Some(1000), at(9998));
        assert!(!limits.is_over(at(9998)), "passed already, and to be written down");
        limits.change(Some(1000), at(9999));
        assert!(limits.is_over(at(9999)), "however often it is said");
    }

    #[test]
    fn a_limit_beyond_all_time_is_none() {
        let start = Instant::now();
        let mut limits = limits(None, start);
        limits.change(Some(u64::MAX), start);
        assert!(!limits.is_over(start));
    }
}
