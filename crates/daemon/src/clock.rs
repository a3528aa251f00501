//! The one place that asks what time it is, and how times are written.

use std::time::Instant;

use jiff::Timestamp;
use nexus_core::time::Time;

pub fn now() -> Time {
    #[cfg(test)]
    if let Some(now) = crate::pretend::now() {
        return now;
    }
    Time(Timestamp::now().as_millisecond())
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
