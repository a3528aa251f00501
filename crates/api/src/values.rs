//! Values as people write them: durations, sizes and lists of GPUs. One reader for options, files and texts.
//!
//! The page and the Python side have readers of their own; `cases/values.json` is what all of them are tested with.

use std::fmt;

use nexus_core::request::MAX_GPUS;

/// Nothing lasts longer than this; larger numbers are slips.
pub const LONGEST_SECONDS: u64 = 36_500 * 86_400;

/// Why a text is no value, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoValue {
    pub why: String,
    pub instead: String,
}

impl fmt::Display for NoValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.why, self.instead)
    }
}

impl From<NoValue> for String {
    fn from(no: NoValue) -> String {
        no.to_string()
    }
}

/// `4h`, `1h30m`, `90s`, as it would be typed.
pub fn limit(seconds: u64) -> String {
    let mut left = seconds;
    let mut text = String::new();
    for (size, unit) in [(86_400, "d"), (3600, "h"), (60, "m"), (1, "s")] {
        if left >= size {
            text.push_str(&format!("{}{unit}", left / size));
            left %= size;
        }
    }
    if text.is_empty() { "0s".into() } else { text }
}

/// `4h`, `1h30m`, `1.5h`, `2:30:00`, `1-12:00:00`: whole seconds in the end.
pub fn duration(text: &str) -> Result<u64, NoValue> {
    let no = |why: &str, instead: String| NoValue { why: format!("{text} {why}"), instead };
    let seconds = match parts_of_a_clock(text) {
        Some(Clock::Two(first, second)) => {
            let readings = format!("{first}h{second}m or {first}m{second}s");
            return Err(no("has two readings", readings));
        }
        Some(Clock::Three(seconds)) => Some(seconds),
        None if is_digits(text) => return Err(no("has no unit", format!("{text}s, {text}m, {text}h or {text}d"))),
        None => with_units(text),
    };
    match seconds {
        Some(seconds) if seconds <= u128::from(LONGEST_SECONDS) => Ok(seconds as u64),
        Some(_) => Err(no("is too long", "36500d at most".into())),
        None if text.is_empty() => Err(NoValue { why: "nothing is no duration".into(), instead: USUAL.into() }),
        None => Err(no("is no duration", USUAL.into())),
    }
}

const USUAL: &str = "90s, 30m, 4h or 1h30m";

enum Clock {
    /// `2:30`: hours and minutes, or minutes and seconds.
    Two(u128, u128),
    /// `H:MM:SS` or `D-HH:MM:SS`, in seconds.
    Three(u128),
}

/// None for what does not look like a clock's.
fn parts_of_a_clock(text: &str) -> Option<Clock> {
    let (days, clock) = text.split_once('-').map_or((None, text), |(days, clock)| (Some(days), clock));
    let parts: Vec<&str> = clock.split(':').collect();
    // What stands behind a colon has two digits and is less than 60; hours behind days are less than 24.
    let below = |part: &str, limit: u128| whole(part).filter(|number| part.len() == 2 && *number < limit);
    match (days, parts.as_slice()) {
        (None, [first, second]) => Some(Clock::Two(whole(first)?, below(second, 60)?)),
        (days, [hours, minutes, seconds]) => {
            let (days, hours) = match days {
                Some(days) => (whole(days)?, below(hours, 24)?),
                None => (0, whole(hours)?),
            };
            let minutes = days.checked_mul(24)?.checked_add(hours)?.checked_mul(60)? + below(minutes, 60)?;
            Some(Clock::Three(minutes.checked_mul(60)? + below(seconds, 60)?))
        }
        _ => None,
    }
}

/// `1h30m`, `1.5h`
fn with_units(text: &str) -> Option<u128> {
    let (mut total, mut rest) = (0u128, text);
    while !rest.is_empty() {
        let (number, behind) = rest.split_at(rest.find(|c: char| !matches!(c, '0'..='9' | '.'))?);
        let unit = match behind.as_bytes()[0] {
            b's' => 1,
            b'm' => 60,
            b'h' => 3600,
            b'd' => 86_400,
            _ => return None,
        };
        let (millionths, whole_seconds) = (decimal(number)?.checked_mul(unit)?, 1_000_000);
        total = total.checked_add((millionths % whole_seconds == 0).then_some(millionths / whole_seconds)?)?;
        rest = &behind[1..];
    }
    (!text.is_empty()).then_some(total)
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// A number that a u128 holds; a longer one is as large as can be, so that it is told as too large.
fn whole(text: &str) -> Option<u128> {
    is_digits(text).then(|| text.parse().unwrap_or(u128::from(u64::MAX)).min(u128::from(u64::MAX)))
}

/// `1.5`, in millionths. Finer than that is nobody's wish.
fn decimal(text: &str) -> Option<u128> {
    let (number, part) = text.split_once('.').unwrap_or((text, "0"));
    let scale = 10u128.pow(6u32.checked_sub(u32::try_from(part.len()).ok()?)?);
    Some(whole(number)? * 1_000_000 + whole(part)? * scale)
}

/// `50MB`, `8 GiB`, `1.5G`, in bytes; a K is 1,024.
pub fn bytes(text: &str) -> Result<u64, NoValue> {
    let no = || {
        let shown = if text.is_empty() { "nothing" } else { text };
        NoValue { why: format!("{shown} is no size"), instead: "a number and its unit, as in 512M or 8G".into() }
    };
    let split = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').ok_or_else(no)?;
    let unit: u128 = match text[split..].trim().to_ascii_uppercase().as_str() {
        "B" => 1,
        "K" | "KB" | "KIB" => 1 << 10,
        "M" | "MB" | "MIB" => 1 << 20,
        "G" | "GB" | "GIB" => 1 << 30,
        "T" | "TB" | "TIB" => 1 << 40,
        _ => return Err(no()),
    };
    let bytes = decimal(&text[..split]).ok_or_else(no)? * unit / 1_000_000;
    u64::try_from(bytes).ok().filter(|bytes| *bytes < 1 << 60).ok_or_else(no)
}

/// The same in MiB, rounded up.
pub fn mebibytes(text: &str) -> Result<u64, NoValue> {
    bytes(text).map(|bytes| bytes.div_ceil(1 << 20))
}

/// `8G`, `1536M`, as it would be typed.
pub fn mebibytes_text(mib: u64) -> String {
    match mib % 1024 {
        0 if mib > 0 => format!("{}G", mib / 1024),
        _ => format!("{mib}M"),
    }
}

/// Name or folder of an environment. One that begins with a dash would be an option to who activates it.
pub fn environment(text: &str) -> Result<String, String> {
    match text.is_empty() || text.starts_with('-') || text.contains(char::is_control) {
        true => Err("an environment is a name or a folder, in one line".into()),
        false => Ok(text.to_string()),
    }
}

/// `--cuda`: an option as programs have them, without a value, and with nothing that a shell would act on.
pub fn option_name(text: &str) -> Result<String, String> {
    let name = text.strip_prefix("--").or_else(|| text.strip_prefix('-')).unwrap_or_default();
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c));
    match plain && name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        true => Ok(text.to_string()),
        false => Err(format!("{text} is no option of a program, as in --cuda")),
    }
}

/// `0-3,5`
pub fn gpu_list(text: &str) -> Result<Vec<u16>, String> {
    let wrong = || format!("{text} is no list of GPUs, as in 0-3,5");
    let index = |part: &str| match part.chars().all(|c| c.is_ascii_digit()) {
        true => part.parse::<u16>().ok().filter(|index| *index < MAX_GPUS).ok_or_else(wrong),
        false => Err(wrong()),
    };
    // A bit for each: a long list of many ranges is no work.
    const { assert!(MAX_GPUS as u32 <= u128::BITS) };
    let mut named = 0u128;
    for part in text.split(',') {
        match part.split_once('-') {
            Some((first, last)) => {
                let (first, last) = (index(first)?, index(last)?);
                if first > last {
                    return Err(wrong());
                }
                named |= (first..=last).fold(0, |range, index| range | 1 << index);
            }
            None => named |= 1 << index(part)?,
        }
    }
    let mut list = Vec::new();
    while named != 0 {
        list.push(named.trailing_zeros() as u16);
        named &= named - 1;
    }
    Ok(list)
}

pub fn gpu_list_text(list: &[u16]) -> String {
    let mut parts: Vec<(u16, u16)> = Vec::new();
    for index in list {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == *index => *last = *index,
            _ => parts.push((*index, *index)),
        }
    }
    let part = |(first, last): (u16, u16)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    parts.into_iter().map(part).collect::<Vec<_>>().join(",")
}

pub fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text} is no number that fits here"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[derive(serde::Deserialize)]
    struct Cases {
        durations: Durations,
        mebibytes: Sizes,
    }

    #[derive(serde::Deserialize)]
    struct Durations {
        read: BTreeMap<String, u64>,
        refused: BTreeMap<String, String>,
    }

    #[derive(serde::Deserialize)]
    struct Sizes {
        read: BTreeMap<String, u64>,
        refused: Vec<String>,
    }

    fn cases() -> Cases {
        serde_json::from_str(include_str!("../cases/values.json")).expect("the cases are JSON")
    }

    #[test]
    fn durations_are_read_and_refused_as_everywhere() {
        let Durations { read, refused } = cases().durations;
        for (text, seconds) in read {
            assert_eq!(duration(&text), Ok(seconds), "{text}");
        }
        for (text, instead) in refused {
            assert_eq!(duration(&text).map_err(|no| no.instead), Err(instead), "{text}");
        }
    }

    #[test]
    fn sizes_are_read_and_refused_as_everywhere() {
        let Sizes { read, refused } = cases().mebibytes;
        for (text, mib) in read {
            assert_eq!(mebibytes(&text), Ok(mib), "{text}");
        }
        for text in refused {
            assert!(bytes(&text).is_err(), "{text}");
        }
        assert_eq!((bytes("0.25k"), mebibytes_text(1536)), (Ok(256), "1536M".into()));
    }

    #[test]
    fn what_is_printed_is_read_again() {
        for seconds in [0, 1, 59, 60, 5400, 86_399, 93_784, LONGEST_SECONDS] {
            assert_eq!(duration(&limit(seconds)), Ok(seconds));
        }
    }
}
