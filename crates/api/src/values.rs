//! Values as people write them: durations, sizes and lists of GPUs. One reader for options, files and texts.

use nexus_core::request::MAX_GPUS;

/// Nothing lasts longer than this; larger numbers are slips.
const LONGEST_SECONDS: u64 = 100 * 365 * 86_400;

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

/// `4h`, `1h30m`, `1.5h`: whole seconds in the end.
pub fn duration(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text} is no duration: a number and its unit, as in 90s, 4h or 1h30m");
    let (mut total, mut rest) = (0u64, text);
    while !rest.is_empty() {
        let (number, behind) = rest.split_at(rest.find(|c: char| !matches!(c, '0'..='9' | '.')).ok_or_else(wrong)?);
        let unit = match behind.as_bytes()[0] {
            b's' => 1,
            b'm' => 60,
            b'h' => 3600,
            b'd' => 86_400,
            _ => return Err(wrong()),
        };
        total = times(number, unit).and_then(|seconds| total.checked_add(seconds)).ok_or_else(wrong)?;
        rest = &behind[1..];
    }
    match !text.is_empty() && total <= LONGEST_SECONDS {
        true => Ok(total),
        false => Err(wrong()),
    }
}

/// So many units, if that is whole: `1.5` of 60 is 90.
fn times(number: &str, unit: u64) -> Option<u64> {
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let (parts, of) = (part.parse::<u64>().ok()?, 10u64.checked_pow(u32::try_from(part.len()).ok()?)?);
    let parts = parts.checked_mul(unit)?;
    let whole = whole.parse::<u64>().ok()?.checked_mul(unit)?;
    (parts % of == 0).then(|| whole.checked_add(parts / of))?
}

/// `50MB`, `8 GiB`, `1.5G`, in bytes; a K is 1,024.
pub fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || match text.is_empty() {
        true => "nothing is no size: a number and its unit, as in 512M or 8G".to_string(),
        false => format!("{text} is no size: a number and its unit, as in 512M or 8G"),
    };
    let split = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').ok_or_else(wrong)?;
    let (whole, part) = text[..split].split_once('.').unwrap_or((&text[..split], "0"));
    let number: u64 = whole.parse().map_err(|_| wrong())?;
    // Finer than a millionth is nobody's wish.
    let parts = part.parse::<u64>().ok().filter(|_| part.len() <= 6).ok_or_else(wrong)?;
    let unit: u64 = match text[split..].trim().to_ascii_uppercase().as_str() {
        "B" => 1,
        "K" | "KB" | "KIB" => 1 << 10,
        "M" | "MB" | "MIB" => 1 << 20,
        "G" | "GB" | "GIB" => 1 << 30,
        "T" | "TB" | "TIB" => 1 << 40,
        _ => return Err(wrong()),
    };
    let part = u128::from(parts) * u128::from(unit) / 10u128.pow(part.len() as u32);
    let whole = number.checked_mul(unit).filter(|bytes| *bytes < 1 << 60).ok_or_else(wrong)?;
    Ok(whole + part as u64)
}

/// The same in MiB, rounded up.
pub fn mebibytes(text: &str) -> Result<u64, String> {
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
    use super::*;

    #[test]
    fn sizes_have_a_unit_and_may_have_a_part() {
        for (text, size) in [("512M", 512 << 20), ("8 GiB", 8 << 30), ("1.5G", 3 << 29), ("0.25k", 256), ("7B", 7)] {
            assert_eq!(bytes(text), Ok(size), "{text}");
        }
        for bad in ["", "8", "G", ".5G", "1.G", "1.2.3G", "1,5G", "-1G", "1.0000001G", "9999999999G"] {
            assert!(bytes(bad).is_err(), "{bad}");
        }
        assert_eq!((mebibytes("1.5G"), mebibytes_text(1536)), (Ok(1536), "1536M".into()));
    }
}
