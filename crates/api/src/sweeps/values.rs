//! The values of an axis, as they are typed: items between commas.
//!
//! | item | its values |
//! |---|---|
//! | `0.10`, `a b`, `../data` | the text itself, exactly |
//! | `"a,b"`, `"1..5"`, `""` | the text between the quotes, whatever it is; `""` inside is one quote |
//! | `1..5`, `5..1`, `01..10` | whole numbers, both ends included, down too; leading zeros keep the width |
//! | `1..10:2`, `0.1..0.5:0.1` | by a step |
//! | `lin:0..1:5`, `log:1e-4..1e-1:5` | so many values at equal distances, or equal ratios |
//! | `lin:0..1`, `log:1e-4..1e-1` | a span to draw from by chance; alone only |

mod items;
mod range;
mod spaced;

pub use spaced::Span;

use self::items::Item;
use super::bad::MOST_JOBS;

/// What an axis goes through.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    Listed(Vec<String>),
    /// Every number between two.
    Span(Span),
}

/// What is wrong with them, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadValues {
    pub error: String,
    pub hint: String,
}

impl BadValues {
    fn new(error: impl Into<String>, hint: impl Into<String>) -> BadValues {
        BadValues { error: error.into(), hint: hint.into() }
    }
}

pub fn read(text: &str) -> Result<Values, BadValues> {
    let items = items::split(text)?;
    let alone = items.len() == 1;
    let mut values = Vec::new();
    for item in items {
        let plain = match item {
            Item::Quoted(text) => {
                values.push(text);
                continue;
            }
            Item::Plain(text) => text,
        };
        match spaced::read(plain)? {
            Some(Values::Span(span)) if alone => return Ok(Values::Span(span)),
            Some(Values::Span(_)) => {
                let error = format!("{plain} is a span without a number of values, beside other values");
                return Err(BadValues::new(error, format!("{plain}:5 for five values of it, or the span alone")));
            }
            Some(Values::Listed(more)) => values.extend(more),
            None => match range::read(plain)? {
                Some(more) => values.extend(more),
                None => values.push(plain.to_string()),
            },
        }
        // Each item has no more by itself, and there may be many.
        if values.len() as u64 > MOST_JOBS {
            let error = format!("{} has more than {MOST_JOBS} values", shown(text));
            return Err(BadValues::new(error, format!("{MOST_JOBS} at most")));
        }
    }
    Ok(Values::Listed(values))
}

/// What is too long to be shown whole is cut.
fn shown(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(text: &str) -> String {
        match read(text) {
            Ok(Values::Listed(values)) => values.join("|"),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn items_are_texts_ranges_and_spaced_numbers() {
        for (text, expected) in [
            ("0.1,0.01,a b", "0.1|0.01|a b"),
            ("0.10", "0.10"),
            ("../data,a..b,1..b,x..", "../data|a..b|1..b|x.."),
            ("\"a,b\",c", "a,b|c"),
            ("\"1..5\",\"say \"\"hi\"\"\",\"\"", "1..5|say \"hi\"|"),
            ("5\" disk,a=b", "5\" disk|a=b"),
            ("1..5", "1|2|3|4|5"),
            ("3..3", "3"),
            ("5..1", "5|4|3|2|1"),
            ("-2..1", "-2|-1|0|1"),
            ("1..10:2", "1|3|5|7|9"),
            ("10..1:-3", "10|7|4|1"),
            ("01..10:3", "01|04|07|10"),
            ("8..010", "008|009|010"),
            ("1..3,10, 20..21", "1|2|3|10|20|21"),
            ("0.1..0.5:0.1", "0.1|0.2|0.3|0.4|0.5"),
            ("0..1:0.25", "0|0.25|0.5|0.75|1"),
            ("1.0..2.0:0.5", "1.0|1.5|2.0"),
            ("1e-4..3e-4:1e-4", "0.0001|0.0002|0.0003"),
            ("1e3..3e3:1e3", "1000|2000|3000"),
            ("0.5..-0.5:-0.5", "0.5|0.0|-0.5"),
            ("lin:0..1:5", "0|0.25|0.5|0.75|1"),
            ("lin:0..1:4", "0|0.333333|0.666667|1"),
            ("lin:0..9999999:3", "0|4999999.5|9999999"),
            ("lin:1..0:3", "1|0.5|0"),
            ("lin:-1..1:3", "-1|0|1"),
            ("log:1..1000:4", "1|10|100|1000"),
            ("log:1e-4..1e-1:5", "0.0001|0.000562341|0.00316228|0.0177828|0.1"),
            ("log:1e-1..1e-3:3", "0.1|0.01|0.001"),
            ("log:1e-10..1e-8:3", "1e-10|1e-9|1e-8"),
            ("log:1..1.000001:3", "1|1.0000005|1.000001"),
            ("0,log:0.01..1:3", "0|0.01|0.1|1"),
            ("log:2..2:1", "2"),
        ] {
            assert_eq!(listed(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_what_would_be_right() {
        for (text, error, hint) in [
            ("", "it has no values", "1,2,3"),
            ("1,,2", "value 2 is empty", "\"\""),
            ("0.1,", "value 2 is empty", "blank"),
            ("\"a", "a quote is not closed", "\"\""),
            ("\"a\"b", "b follows a quote", "quotes"),
            ("1..5:0", "the step 0 leads nowhere", "1..5:1"),
            ("1..5:-1", "the step -1 leads away from 5", "1..5:1"),
            ("5..1:2", "the step 2 leads away from 1", "5..1:-2"),
            ("1..5:x", "its step, x, is no number", "1..5:2"),
            ("1..5:", "its step is missing", "1..5:2"),
            ("0.1..0.5", "it needs a step", "0.1..0.5:0.1"),
            ("1..9999999", "9999999 values", "1000000"),
            ("1..1000000,1..1000000", "more than 1000000 values", "1000000"),
            ("1..99999999999999999999999999", "too many digits", "quotes"),
            ("1..=5", "both ends", "1..5"),
            ("1...5", "three dots", "1..5"),
            ("log:0..1:5", "must be above 0", "lin:0..1:5"),
            ("log:-1..1:5", "must be above 0", "lin:-1..1:5"),
            ("log:a..b:5", "no numbers at both ends", "quotes"),
            ("log:1,2", "no numbers at both ends", "quotes"),
            ("log:1..10:1", "1 value cannot", "log:1..10:2"),
            ("lin:1..10:0", "0 values", "lin:1..10:5"),
            ("lin:0..1:x", "x is no number of values", "lin:0..1:5"),
            ("lin:0..1:2000000", "2000000 values", "1000000"),
            ("lin:0..1,5", "beside other values", "lin:0..1:5"),
            ("a\0b", "NUL", "without"),
        ] {
            let bad = read(text).expect_err(text);
            assert!(bad.error.contains(error), "{text}: {}", bad.error);
            assert!(bad.hint.contains(hint), "{text}: {}", bad.hint);
        }
    }

    #[test]
    fn zeros_before_a_number_do_not_fill_the_memory_with_its_values() {
        let zeros = |count: usize| "0".repeat(count);
        assert_eq!(listed(&format!("1..{}2", zeros(20))).len(), 2 * 21 + 1);
        for text in [format!("1..{}9", zeros(70_000)), format!("0.{z}..0.{z}:0.{z}1", z = zeros(70_000))] {
            let bad = read(&text).unwrap_err();
            assert!(bad.error.contains("too many digits"), "{}", bad.error);
        }
    }

    #[test]
    fn a_span_stands_alone() {
        let span = |text: &str| match read(text) {
            Ok(Values::Span(span)) => span,
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(span("log:1e-4..1e-1"), Span { from: 1e-4, to: 1e-1, log: true });
        assert_eq!(span("lin:0..1"), Span { from: 0.0, to: 1.0, log: false });
    }
}
