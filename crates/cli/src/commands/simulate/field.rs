//! What fields say: times, spans, sizes. As options of `nexus add` are read, and plain numbers too.

use std::time::Duration;

use nexus_api::values;
use nexus_core::time::Time;

use super::rows::Rows;
use crate::error::Usage;

/// Nothing runs longer; more is a slip.
pub const LONGEST_RUN_MILLIS: u64 = values::LONGEST_SECONDS * 1000;

/// Times of files that count from 1970 fit; more is a slip.
const LATEST_MILLIS: u64 = 100_000_000_000 * 1000;

/// When a job was submitted, and how that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submit {
    Seconds(Time),
    Clock(Time),
}

impl Submit {
    pub fn time(self) -> Time {
        match self {
            Submit::Seconds(time) | Submit::Clock(time) => time,
        }
    }
}

/// Decimal seconds in thousandths, finer ones cut off; by hand, since a million of them are read.
fn millis(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() && part.is_empty() || !digits(whole) || !digits(part) {
        return None;
    }
    // Digits alone: what cannot be read is too much, and refused as that.
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().unwrap_or(u64::MAX) };
    let part = part.bytes().chain(*b"000").take(3).fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'));
    Some(whole.saturating_mul(1000).saturating_add(part))
}

/// `90.5`, `2024-10-24T15:30:00Z`
pub fn submit(rows: &Rows, column: usize) -> Result<Submit, Usage> {
    let text = rows.field(column);
    if let Some(millis) = millis(text).filter(|millis| *millis <= LATEST_MILLIS) {
        return Ok(Submit::Seconds(Time(millis as i64)));
    }
    match text.parse::<jiff::Timestamp>() {
        Ok(time) if time.as_millisecond() >= 0 => Ok(Submit::Clock(Time(time.as_millisecond()))),
        _ => Err(rows.wrong(column, "seconds from 0 on, as in 90.5, or a time, as in 2024-10-24T15:30:00Z")),
    }
}

/// `90.5`, `1h30m`
pub fn span(rows: &Rows, column: usize) -> Result<Duration, Usage> {
    let text = rows.field(column);
    let seconds = || values::duration(text).ok().map(|seconds| seconds.saturating_mul(1000));
    match millis(text).or_else(seconds) {
        Some(millis) if millis <= LONGEST_RUN_MILLIS => Ok(Duration::from_millis(millis)),
        Some(_) => Err(rows.wrong(column, "at most 100 years; seconds, as in 90.5, or a duration, as in 1h30m")),
        None => Err(rows.wrong(column, "seconds, as in 90.5, or a duration, as in 1h30m")),
    }
}

/// `10G`, `10240`, in MiB; none for 0.
pub fn memory(rows: &Rows, column: usize) -> Result<Option<u32>, Usage> {
    let text = rows.field(column);
    let plain = text.bytes().all(|byte| byte.is_ascii_digit());
    let mib = if plain { text.parse().ok() } else { values::mebibytes(text).ok() };
    match mib.and_then(|mib: u64| u32::try_from(mib).ok()) {
        Some(mib) => Ok((mib > 0).then_some(mib)),
        None => Err(rows.wrong(column, "a size, as in 10G or 512M; a plain number is MiB")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::rows::File;
    use super::*;

    fn with<T>(text: &str, read: impl Fn(&Rows, usize) -> Result<T, Usage>) -> Result<T, Usage> {
        let file = File { name: "f".into(), text: format!("a\n\"{text}\"\n") };
        let mut rows = Rows::of(&file, "a").unwrap();
        assert!(rows.next().unwrap());
        read(&rows, 0)
    }

    #[test]
    fn seconds_may_have_a_part() {
        for (text, expected) in [("0", 0), ("90", 90_000), ("1.5", 1500), (".25", 250), ("2.", 2000), ("0.0019", 1)] {
            assert_eq!(millis(text), Some(expected), "{text}");
        }
        for bad in ["", ".", "-1", "+1", "1e3", "NaN", "inf", "1,5"] {
            assert_eq!(millis(bad), None, "{bad}");
        }
        assert_eq!(millis("99999999999999999999.5"), Some(u64::MAX));
    }

    #[test]
    fn times_are_seconds_or_of_a_clock() {
        let read = |text: &str| with(text, submit);
        assert_eq!(read("1.5"), Ok(Submit::Seconds(Time(1500))));
        assert_eq!(read("1970-01-01T00:01:00Z"), Ok(Submit::Clock(Time(60_000))));
        assert_eq!(read("1970-01-01T01:00:00+01:00").unwrap().time(), Time(0));
        for bad in ["", "-1", "NaN", "yesterday", "1969-12-31T00:00:00Z", "2024-10-24", "999999999999999"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn spans_are_seconds_or_durations() {
        let read = |text: &str| with(text, span).map(|span| span.as_millis());
        for (text, expected) in
            [("0", 0), ("90.5", 90_500), ("1h30m", 5_400_000), ("1.5h", 5_400_000), ("2d", 172_800_000)]
        {
            assert_eq!(read(text), Ok(expected), "{text}");
        }
        for bad in ["", "-1", "nan", "1.5x", "1x", "9999999999", "99999999999999999999d"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_have_a_unit_or_are_mebibytes() {
        for (text, expected) in [("10G", Some(10_240)), ("512", Some(512)), ("0", None), ("1.5 GB", Some(1536))] {
            assert_eq!(with(text, memory), Ok(expected), "{text}");
        }
        for bad in ["", "-1", "auto", "1.5", "99999999G", "99999999999999999999"] {
            assert!(with(bad, memory).is_err(), "{bad}");
        }
    }
}
