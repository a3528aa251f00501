//! The one place that asks what time it is, and how times are written.
//!
//! The service's time goes on by the boot clock. When somebody sets the wall clock, the engine moves the times of runs and has the
//! service's time follow ([`follow`]) at once: nobody compares times of both clocks.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

use jiff::Timestamp;
use nexus_core::time::Time;
use rustix::time::{ClockId, clock_gettime};

/// From the boot clock to the time of the service, in milliseconds; as the wall clock is before anybody follows it.
static FOLLOWED_MS: AtomicI64 = AtomicI64::new(i64::MIN);

pub fn now() -> Time {
    #[cfg(test)]
    if let Some(now) = crate::pretend::now() {
        return now;
    }
    match FOLLOWED_MS.load(Ordering::Relaxed) {
        i64::MIN => Time(Timestamp::now().as_millisecond()),
        offset_ms => Time(boot_ms() + offset_ms),
    }
}

/// From the boot clock to the wall clock as it is now, in milliseconds. It changes when somebody sets the wall clock.
pub fn offset_ms() -> i64 {
    #[cfg(test)]
    if let Some(offset_ms) = crate::pretend::offset_ms() {
        return offset_ms;
    }
    Timestamp::now().as_millisecond() - boot_ms()
}

/// [`now`] is the boot clock and so many milliseconds from here on.
pub fn follow(offset_ms: i64) {
    #[cfg(test)]
    if crate::pretend::offset_ms().is_some() {
        return;
    }
    FOLLOWED_MS.store(offset_ms, Ordering::Relaxed);
}

/// The boot clock counts while the machine sleeps, and nobody sets it.
fn boot_ms() -> i64 {
    let since = clock_gettime(ClockId::Boottime);
    since.tv_sec * 1000 + since.tv_nsec / 1_000_000
}

/// By the clock that nobody sets.
pub fn instant() -> Instant {
    #[cfg(test)]
    if let Some(instant) = crate::pretend::instant() {
        return instant;
    }
    Instant::now()
}

/// RFC 3339 in UTC, to the millisecond.
pub fn rfc3339(time: Time) -> String {
    match Timestamp::from_millisecond(time.0) {
        Ok(stamp) => format!("{stamp:.3}"),
        Err(_) => format!("{}ms", time.0),
    }
}

/// As in the names of files: the local clock, to the second.
pub fn file_stamp(time: Time) -> String {
    match Timestamp::from_millisecond(time.0) {
        Ok(stamp) => stamp.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y%m%d_%H%M%S").to_string(),
        Err(_) => format!("{}ms", time.0),
    }
}

/// Reads what [`rfc3339`] wrote, or a client did.
pub fn parse(text: &str) -> Option<Time> {
    text.parse::<Timestamp>().ok().map(|stamp| Time(stamp.as_millisecond()))
}

/// As in service.log: the local clock, to the second.
pub fn log_stamp(time: Time) -> String {
    match Timestamp::from_millisecond(time.0) {
        Ok(stamp) => stamp.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string(),
        Err(_) => format!("{}ms", time.0),
    }
}
