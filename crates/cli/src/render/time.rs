//! Times as people read them. The clock and the zone are arguments.

use jiff::{Timestamp, Zoned};

/// `45s`, `2m 10s`, `2h 15m`, `3d 4h`
pub fn span(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86400, seconds / 3600 % 24, seconds / 60 % 60);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{minutes}m {}s", seconds % 60),
        3600..86400 => format!("{hours}h {minutes}m"),
        _ => format!("{days}d {hours}h"),
    }
}

/// A limit as it was typed: `4h`, `1h30m`, `90s`.
pub fn limit(seconds: u64) -> String {
    let units = [(86400, "d"), (3600, "h"), (60, "m"), (1, "s")];
    let mut left = seconds;
    let mut text = String::new();
    for (size, unit) in units {
        if left >= size {
            text.push_str(&format!("{}{unit}", left / size));
            left %= size;
        }
    }
    if text.is_empty() { "0s".into() } else { text }
}

/// `3m`, the largest unit alone.
pub fn rough(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86400),
    }
}

/// Whole seconds from an RFC 3339 time to `now`; none if the text is no time.
pub fn seconds_since(time: &str, now: &Zoned) -> Option<u64> {
    let then: Timestamp = time.parse().ok()?;
    let seconds = now.timestamp().as_second() - then.as_second();
    Some(u64::try_from(seconds).unwrap_or(0))
}

/// Clock time in the zone of `now`, with the date only if it is another day.
pub fn clock(time: &str, now: &Zoned) -> String {
    let Ok(then) = time.parse::<Timestamp>() else { return time.to_string() };
    let then = then.to_zoned(now.time_zone().clone());
    let form = if then.date() == now.date() { "%H:%M" } else { "%Y-%m-%d %H:%M" };
    then.strftime(form).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Zoned {
        "2024-10-24T17:45:00+02:00[Europe/Berlin]".parse().unwrap()
    }

    #[test]
    fn spans_have_two_units() {
        let cases = [(0, "0s"), (45, "45s"), (130, "2m 10s"), (8100, "2h 15m"), (3600, "1h 0m"), (273600, "3d 4h")];
        for (seconds, text) in cases {
            assert_eq!(span(seconds), text);
        }
    }

    #[test]
    fn limits_read_as_typed() {
        for (seconds, text) in [(0, "0s"), (14400, "4h"), (5400, "1h30m"), (90, "1m30s"), (172800, "2d")] {
            assert_eq!(limit(seconds), text);
        }
    }

    #[test]
    fn the_date_stands_only_on_other_days() {
        assert_eq!(clock("2024-10-24T13:30:59Z", &now()), "15:30");
        assert_eq!(clock("2024-10-23T22:30:00Z", &now()), "00:30");
        assert_eq!(clock("2024-10-23T13:30:00Z", &now()), "2024-10-23 15:30");
        assert_eq!(clock("soon", &now()), "soon");
    }

    #[test]
    fn a_clock_set_back_gives_no_negative_time() {
        assert_eq!(seconds_since("2024-10-24T16:45:00Z", &now()), Some(0));
        assert_eq!(seconds_since("2024-10-24T15:44:00Z", &now()), Some(60));
    }
}
