//! Time as an argument: core never asks what time it is.

use std::fmt;
use std::time::Duration;

/// Milliseconds since 1970, UTC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(pub i64);

impl Time {
    pub fn after(self, span: Duration) -> Time {
        Time(self.0.saturating_add(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)))
    }

    /// The same moment by a clock that was set by so many milliseconds.
    pub fn shifted(self, by_ms: i64) -> Time {
        Time(self.0.saturating_add(by_ms))
    }

    /// How long after `earlier` this is; nothing if it is before (clocks are set back).
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ms", self.0)
    }
}
