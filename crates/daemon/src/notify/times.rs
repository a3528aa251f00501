//! How long things may take, and how long they wait.

use std::time::Duration;

/// `WAIT,LIMIT` in milliseconds, in place of the usual ones: for tests, which have no minutes to spare.
const VARIABLE: &str = "NEXUS_NOTIFY_TIMES";

/// Before the second attempt, the third, and so on, in units of [`Times::wait`].
const WAITS: [u32; 4] = [1, 5, 15, 60];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    wait: Duration,
    /// Of an attempt, from the name of the host to the end of the answer.
    pub limit: Duration,
}

impl Times {
    /// Five attempts in about three minutes.
    const USUAL: Times = Times { wait: Duration::from_secs(2), limit: Duration::from_secs(10) };

    pub fn of_environment() -> Times {
        let said = std::env::var(VARIABLE).ok();
        said.and_then(|text| Times::read(&text)).unwrap_or(Times::USUAL)
    }

    fn read(text: &str) -> Option<Times> {
        let (wait, limit) = text.split_once(',')?;
        let milliseconds = |text: &str| text.parse().ok().map(Duration::from_millis);
        Some(Times { wait: milliseconds(wait)?, limit: milliseconds(limit)? })
    }

    /// After so many attempts that failed; none where it is given up.
    pub fn after(&self, attempts: usize) -> Option<Duration> {
        WAITS.get(attempts.checked_sub(1)?).map(|units| self.wait * *units)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_and_end() {
        let waits: Vec<u64> =
            (1..).map_while(|attempts| Times::USUAL.after(attempts)).map(|wait| wait.as_secs()).collect();
        assert_eq!(waits, [2, 10, 30, 120]);
        let short = Times::read("5,700").unwrap();
        assert_eq!((short.after(2), short.limit), (Some(Duration::from_millis(25)), Duration::from_millis(700)));
        assert_eq!(Times::read("5"), None);
    }
}
