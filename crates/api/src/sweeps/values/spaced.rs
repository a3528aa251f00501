//! `lin:0..1:5`, `log:1e-4..1e-1:5`: so many numbers between two; and spans without a count, to draw from.

use std::collections::BTreeSet;

use libm::{exp, log};

use super::{BadValues, Values, shown};
use crate::sweeps::bad::MOST_JOBS;
use crate::sweeps::chance::Chance;
use crate::sweeps::decimal::{Decimal, few_digits, fraction, power};

/// Digits of a number that is not exact; more where two would else be the same.
const DIGITS: usize = 6;
const MORE_DIGITS: [usize; 4] = [DIGITS, 9, 12, 16];

/// Every number between two, each as likely; of `log`, each ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    pub from: f64,
    pub to: f64,
    pub log: bool,
}

impl Span {
    fn at(&self, part: f64) -> f64 {
        match self.log {
            true => exp(log(self.from) + (log(self.to) - log(self.from)) * part),
            false => self.from + (self.to - self.from) * part,
        }
    }

    pub fn draw(&self, chance: &mut Chance) -> String {
        few_digits(self.at(chance.part()), DIGITS)
    }
}

/// None where it does not begin as one.
pub fn read(item: &str) -> Result<Option<Values>, BadValues> {
    let text = item.trim();
    let Some((kind, rest)) = text.split_once(':').filter(|(kind, _)| matches!(*kind, "lin" | "log")) else {
        return Ok(None);
    };
    let (ends, count) = match rest.split_once(':') {
        Some((ends, count)) => (ends, Some(count)),
        None => (rest, None),
    };
    let numbers =
        ends.split_once("..").and_then(|(first, last)| Some((first, fraction(first)?, last, fraction(last)?)));
    let Some((first, from, last, to)) = numbers else {
        let error = format!("{} has no numbers at both ends", shown(text));
        return Err(BadValues::new(error, format!("{kind}:1..100:5, or quotes for the text itself")));
    };
    let span = Span { from, to, log: kind == "log" };
    if span.log && (from <= 0.0 || to <= 0.0) {
        let count = count.map(|count| format!(":{count}")).unwrap_or_default();
        return Err(BadValues::new(format!("{text}: both ends must be above 0"), format!("lin:{ends}{count}")));
    }
    let Some(count) = count else { return Ok(Some(Values::Span(span))) };
    let count = counted(text, kind, ends, count, from == to)?;
    let exact = if span.log { None } else { evenly(first, last, count) };
    match exact.or_else(|| rounded(&span, count)) {
        Some(values) => Ok(Some(Values::Listed(values))),
        None => Err(BadValues::new(format!("{text}: its values lie too close to be told apart"), "fewer of them")),
    }
}

fn counted(text: &str, kind: &str, ends: &str, count: &str, alike: bool) -> Result<usize, BadValues> {
    let all_digits = !count.is_empty() && count.bytes().all(|digit| digit.is_ascii_digit());
    if !all_digits {
        let error =
            format!("{}: {} is no number of values", shown(text), if count.is_empty() { "nothing" } else { count });
        return Err(BadValues::new(error, format!("{kind}:{ends}:5")));
    }
    match count.parse::<u64>() {
        Ok(0) => Err(BadValues::new(format!("{text} has 0 values"), format!("{kind}:{ends}:5"))),
        Ok(1) if !alike => {
            Err(BadValues::new(format!("{text}: 1 value cannot be both of its ends"), format!("{kind}:{ends}:2")))
        }
        Ok(count) if count <= MOST_JOBS => Ok(count as usize),
        _ => Err(BadValues::new(format!("{} has {count} values", shown(text)), format!("{MOST_JOBS} at most"))),
    }
}

/// Equal distances that a few more digits can say exactly.
fn evenly(first: &str, last: &str, count: usize) -> Option<Vec<String>> {
    let (first, last) = (Decimal::read(first)?, Decimal::read(last)?);
    let steps = i128::try_from(count).ok()? - 1;
    let least = first.scale.max(last.scale);
    for scale in least..=least + DIGITS as u32 {
        power(scale)?;
        let (from, to) = (first.at(scale)?, last.at(scale)?);
        let whole = to.checked_sub(from)?;
        if steps == 0 || whole % steps == 0 {
            let step = if steps == 0 { 0 } else { whole / steps };
            let value = |place: i128| Decimal { units: from + place * step, scale }.text(0);
            return Some((0..=steps).map(value).collect());
        }
    }
    None
}

/// With as many digits as tell all apart.
fn rounded(span: &Span, count: usize) -> Option<Vec<String>> {
    let value = |place: usize, digits: usize| match place {
        0 => few_digits(span.from, MORE_DIGITS[3]),
        last if last + 1 == count => few_digits(span.to, MORE_DIGITS[3]),
        place => few_digits(span.at(place as f64 / (count - 1) as f64), digits),
    };
    MORE_DIGITS.into_iter().find_map(|digits| {
        let values: Vec<String> = (0..count).map(|place| value(place, digits)).collect();
        let apart = values.iter().collect::<BTreeSet<_>>().len() == count;
        (apart || span.from == span.to).then_some(values)
    })
}
