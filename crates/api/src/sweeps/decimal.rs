//! Numbers as they are typed and printed: exact decimals, and fractions with few digits.

/// `units` / 10^`scale`, exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decimal {
    pub units: i128,
    pub scale: u32,
}

/// What is between plain digits and an exponent: 0.000001 to 999999999999999.
const PLAIN: std::ops::RangeInclusive<i32> = -6..=14;

/// Digits beyond this are nobody's wish, and would not fit.
pub const MOST_DIGITS: usize = 24;
const LARGEST_EXPONENT: i32 = 300;

/// Digits behind the point, with which each of a million values is written.
const MOST_BEHIND: u32 = 40;

/// The parts of a number as it is typed: `-12.5e-3`.
struct Parts<'a> {
    negative: bool,
    whole: &'a str,
    behind: &'a str,
    exponent: i32,
}

fn parts(text: &str) -> Option<Parts<'_>> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (digits, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((digits, exponent)) => (digits, whole_number(exponent)?),
        None => (unsigned, 0),
    };
    let (whole, behind) = match digits.split_once('.') {
        Some((_, "")) => return None,
        Some(parts) => parts,
        None => (digits, ""),
    };
    let all_digits = |part: &str| part.bytes().all(|digit| digit.is_ascii_digit());
    let fine = all_digits(whole) && all_digits(behind) && !(whole.is_empty() && behind.is_empty());
    fine.then_some(Parts { negative: text.starts_with('-'), whole, behind, exponent })
}

fn whole_number(text: &str) -> Option<i32> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let fine = !digits.is_empty() && digits.len() <= 4 && digits.bytes().all(|digit| digit.is_ascii_digit());
    fine.then(|| text.parse().ok()).flatten()
}

pub fn is_number(text: &str) -> bool {
    parts(text).is_some()
}

/// The nearest fraction; none where it is no number, or too large for one.
pub fn fraction(text: &str) -> Option<f64> {
    parts(text)?;
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

impl Decimal {
    /// None where it is no number, or has too many digits to be counted exactly.
    pub fn read(text: &str) -> Option<Decimal> {
        let Parts { negative, whole, behind, exponent } = parts(text)?;
        let digits = format!("{whole}{behind}");
        let digits = digits.trim_start_matches('0');
        if digits.len() > MOST_DIGITS || exponent.abs() > LARGEST_EXPONENT {
            return None;
        }
        let units: i128 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
        let units = if negative { -units } else { units };
        let scale = i32::try_from(behind.len()).ok()? - exponent;
        match u32::try_from(scale) {
            Ok(scale) => (scale <= MOST_BEHIND).then_some(Decimal { units, scale }),
            Err(_) => Some(Decimal { units: units.checked_mul(power(scale.unsigned_abs())?)?, scale: 0 }),
        }
    }

    /// The units that it has at a finer scale.
    pub fn at(self, scale: u32) -> Option<i128> {
        self.units.checked_mul(power(scale.checked_sub(self.scale)?)?)
    }

    /// Without needless zeros behind the point, but for the `least` that there should be.
    pub fn text(self, least: u32) -> String {
        let digits = format!("{:0>1$}", self.units.unsigned_abs(), self.scale as usize + 1);
        let (whole, behind) = digits.split_at(digits.len() - self.scale as usize);
        let needed = behind.trim_end_matches('0').len().max((least as usize).min(behind.len()));
        let sign = if self.units < 0 { "-" } else { "" };
        match needed {
            0 => format!("{sign}{whole}"),
            needed => format!("{sign}{whole}.{}", &behind[..needed]),
        }
    }
}

/// 10^`exponent`
pub fn power(exponent: u32) -> Option<i128> {
    10i128.checked_pow(exponent)
}

/// So many digits of a fraction, as few as say the same: `0.000562341`, `3e-9`.
pub fn few_digits(number: f64, digits: usize) -> String {
    let text = format!("{:.*e}", digits.saturating_sub(1), number);
    let (mantissa, exponent) = text.split_once('e').expect("it was asked for");
    let exponent: i32 = exponent.parse().expect("an exponent is a whole number");
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    let all: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let all = all.trim_end_matches('0');
    if all.is_empty() {
        return "0".into();
    }
    if !PLAIN.contains(&exponent) {
        let (first, rest) = all.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        return format!("{sign}{first}{point}{rest}e{exponent}");
    }
    if exponent < 0 {
        return format!("{sign}0.{}{all}", "0".repeat(exponent.unsigned_abs() as usize - 1));
    }
    let before = exponent as usize + 1;
    match all.len() <= before {
        true => format!("{sign}{all}{}", "0".repeat(before - all.len())),
        false => format!("{sign}{}.{}", &all[..before], &all[before..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_read_and_written_exactly() {
        for (text, least, expected) in [
            ("0.30", 0, "0.3"),
            ("0.30", 1, "0.3"),
            ("1.0", 1, "1.0"),
            ("-0.05", 0, "-0.05"),
            ("1e-4", 0, "0.0001"),
            ("1.5e3", 0, "1500"),
            (".5", 0, "0.5"),
            ("+7", 0, "7"),
            ("007", 0, "7"),
            ("0", 3, "0"),
        ] {
            assert_eq!(Decimal::read(text).unwrap().text(least), expected, "{text}");
        }
        for bad in ["", ".", "-", "1.", "e5", "1e", "0x10", "1_000", "inf", "nan", " 1", "1e99999", "1-2", "١"] {
            assert_eq!(Decimal::read(bad), None, "{bad}");
        }
    }

    #[test]
    fn fractions_have_few_digits() {
        for (number, expected) in [
            (0.0001, "0.0001"),
            (0.000_562_341_325, "0.000562341"),
            (9.999_999_9, "10"),
            (1000.0, "1000"),
            (1234.5678, "1234.57"),
            (-0.25, "-0.25"),
            (0.0, "0"),
            (-0.0, "0"),
            (1e-9, "1e-9"),
            (1.25e20, "1.25e20"),
        ] {
            assert_eq!(few_digits(number, 6), expected);
        }
    }
}
