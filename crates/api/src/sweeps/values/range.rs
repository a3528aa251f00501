//! `1..5`, `0.1..0.5:0.1`: numbers by a step, counted exactly.

use super::{BadValues, shown};
use crate::sweeps::bad::MOST_JOBS;
use crate::sweeps::decimal::{Decimal, MOST_DIGITS, is_number};

/// None where it is no range: that needs a number at both ends.
pub fn read(item: &str) -> Result<Option<Vec<String>>, BadValues> {
    let text = item.trim();
    let Some((first, rest)) = text.split_once("..") else { return Ok(None) };
    let (last, step) = match rest.split_once(':') {
        Some((last, step)) => (last, Some(step)),
        None => (rest, None),
    };
    refuse_others_dots(text, first, last)?;
    match is_number(first) && is_number(last) {
        true => between(text, first, last, step).map(Some),
        false => Ok(None),
    }
}

/// Other languages have `..=` and `...`.
fn refuse_others_dots(text: &str, first: &str, last: &str) -> Result<(), BadValues> {
    let meant = |marked: &str| is_number(first) && is_number(marked);
    let error = match (last.strip_prefix('='), last.strip_prefix('.')) {
        (Some(end), _) if meant(end) => format!("{text} has a =, and both ends count anyway"),
        (_, Some(end)) if meant(end) => format!("{text} has three dots"),
        _ => return Ok(()),
    };
    Err(BadValues::new(
        error,
        format!("{first}..{}, or quotes for the text itself", last.trim_start_matches(['=', '.'])),
    ))
}

fn between(text: &str, first: &str, last: &str, step: Option<&str>) -> Result<Vec<String>, BadValues> {
    let whole = |end: &str| end.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-' || byte == b'+');
    let both_whole = whole(first) && whole(last);
    let step = match step {
        Some("") => return Err(BadValues::new(format!("{text}: its step is missing"), format!("{first}..{last}:2"))),
        Some(step) if !is_number(step) => {
            let error = format!("{}: its step, {}, is no number", shown(text), shown(step));
            return Err(BadValues::new(error, format!("{first}..{last}:2, or quotes for the text itself")));
        }
        None if !both_whole => {
            let error = format!("{text}: it needs a step, since its ends are no whole numbers");
            return Err(BadValues::new(
                error,
                format!("{first}..{last}:0.1, or lin:{first}..{last}:5 for five values"),
            ));
        }
        step => step,
    };
    // Zeros before a number are digits of each of its values.
    let width = padded(first).max(padded(last));
    let exact = Exact::of(first, last, step).filter(|_| width <= MOST_DIGITS).ok_or_else(|| {
        BadValues::new(format!("{} has too many digits for a range", shown(text)), "quotes for the text itself")
    })?;
    let Exact { from, to, step, scale } = exact;
    if step == 0 {
        return Err(BadValues::new(format!("{text}: the step 0 leads nowhere"), format!("{first}..{last}:1")));
    }
    if (to > from && step < 0) || (to < from && step > 0) {
        let (wrong, right) = (Decimal { units: step, scale }.text(0), Decimal { units: -step, scale }.text(0));
        let error = format!("{text}: the step {wrong} leads away from {last}");
        return Err(BadValues::new(error, format!("{first}..{last}:{right}")));
    }
    let count = ((to - from) / step).unsigned_abs() + 1;
    if count > u128::from(MOST_JOBS) {
        return Err(BadValues::new(format!("{text} has {count} values"), format!("{MOST_JOBS} at most")));
    }
    let least = decimals(first).min(decimals(last));
    let value = |place: i128| written(Decimal { units: from + place * step, scale }, width, least);
    Ok((0..count as i128).map(value).collect())
}

/// All at one scale.
struct Exact {
    from: i128,
    to: i128,
    step: i128,
    scale: u32,
}

impl Exact {
    fn of(first: &str, last: &str, step: Option<&str>) -> Option<Exact> {
        let (first, last) = (Decimal::read(first)?, Decimal::read(last)?);
        let step = step.map_or(Some(None), |step| Decimal::read(step).map(Some))?;
        let scale = first.scale.max(last.scale).max(step.map_or(0, |step| step.scale));
        let (from, to) = (first.at(scale)?, last.at(scale)?);
        let one = Decimal { units: if to < from { -1 } else { 1 }, scale: 0 };
        let step = step.unwrap_or(one).at(scale)?;
        to.checked_sub(from)?;
        Some(Exact { from, to, step, scale })
    }
}

/// Digits of a whole number with zeros before it; 0 of any other.
fn padded(end: &str) -> usize {
    let digits = end.trim_start_matches(['-', '+']);
    let has_zeros = digits.len() > 1 && digits.starts_with('0') && digits.bytes().all(|digit| digit.is_ascii_digit());
    if has_zeros { digits.len() } else { 0 }
}

/// Digits behind the point, as typed.
fn decimals(end: &str) -> u32 {
    match end.split_once('.') {
        Some((_, behind)) if !behind.contains(['e', 'E']) => behind.len() as u32,
        _ => 0,
    }
}

fn written(value: Decimal, width: usize, least: u32) -> String {
    let text = value.text(least);
    match text.strip_prefix('-') {
        Some(digits) => format!("-{digits:0>width$}"),
        None => format!("{text:0>width$}"),
    }
}
