//! The points of a plan: for each job a value of every parameter. Reads nothing but the plan.

use std::collections::BTreeSet;

use super::bad::{BadPlan, MOST_JOBS, MOST_NAMES, MOST_OF_AXES, MOST_OF_JOBS};
use super::chance::Chance;
use super::expression::{Condition, Wrong};
use super::values::{self, Span, Values};
use super::{Plan, Random};
use crate::template::is_name;

/// A condition is looked at for each of so many points; of more, for those that chance has.
const MOST_TRIES: u128 = 1_000_000;

/// Points that chance has in vain before a condition counts as one that hardly ever holds: for each that is wanted, and in
/// all.
const IN_VAIN_EACH: usize = 1000;
const IN_VAIN: std::ops::RangeInclusive<usize> = 100_000..=10_000_000;

/// Parts of a condition that are worked out for all points together, before it takes too long: some seconds.
const MOST_WORK: usize = 50_000_000;

/// What a value takes beside its letters: it is a text of its own.
const VALUE_BYTES: usize = 56;

/// Products beyond this are not counted: of those, a point hardly comes twice.
const MOST_COUNTED: u128 = 1 << 100;

/// What its jobs are told, in their order: the last axis changes first, copies of a point stand side by side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Points {
    pub names: Vec<String>,
    /// A value of each name.
    pub rows: Vec<Vec<String>>,
}

impl Plan {
    /// All points, each so many times; drawn ones anew each time. Nothing is made of a plan with too many.
    pub fn points(&self, copies: u32) -> Result<Points, BadPlan> {
        let grid = Grid::of(self)?;
        if copies == 0 {
            return Err(BadPlan::Nothing { option: "-x" });
        }
        let only = self.only.as_deref().map(|text| Only::read(text, &grid.names)).transpose()?;
        let rows = match self.random {
            Some(random) => grid.drawn(random, copies, only.as_ref())?,
            None => grid.all(copies, only.as_ref())?,
        };
        Ok(Points { names: grid.names, rows })
    }

    /// How many values each part of the product has, with its names: one part for a table, and for all that is zipped.
    pub fn lengths(&self) -> Result<Vec<(Vec<String>, usize)>, BadPlan> {
        let grid = Grid::of(self)?;
        let names_of = |digit: usize| {
            let columns = grid.columns.iter().zip(&grid.names);
            columns.filter(|(column, _)| column.digit() == Some(digit)).map(|(_, name)| name.clone()).collect()
        };
        Ok(grid.lengths.iter().enumerate().map(|(digit, length)| (names_of(digit), *length)).collect())
    }
}

/// Numbers its points: each is a number whose digits choose the values.
struct Grid {
    names: Vec<String>,
    columns: Vec<Column>,
    /// How many values each digit has; the last one changes first.
    lengths: Vec<usize>,
}

enum Column {
    Listed { values: Vec<String>, digit: usize },
    Span(Span),
}

impl Column {
    fn digit(&self) -> Option<usize> {
        match self {
            Column::Listed { digit, .. } => Some(*digit),
            Column::Span(_) => None,
        }
    }
}

impl Grid {
    fn of(plan: &Plan) -> Result<Grid, BadPlan> {
        let names = names(plan)?;
        let (mut columns, mut lengths) = (Vec::new(), Vec::new());
        if let Some(table) = &plan.from {
            super::table::check(table)?;
            for place in 0..table.names.len() {
                let values = table.rows.iter().map(|row| row[place].clone()).collect();
                columns.push(Column::Listed { values, digit: 0 });
            }
            lengths.push(table.rows.len());
        }
        let mut listed = 0;
        for axis in &plan.axes {
            let bad =
                |bad: values::BadValues| BadPlan::Values { name: axis.name.clone(), error: bad.error, hint: bad.hint };
            match values::read(&axis.values).map_err(bad)? {
                Values::Listed(values) => {
                    listed += values.iter().map(|value| value.len() + VALUE_BYTES).sum::<usize>();
                    check_bytes(listed as u128, MOST_OF_AXES)?;
                    let digit = if plan.zip { 0 } else { lengths.len() };
                    if lengths.len() <= digit {
                        lengths.push(values.len());
                    }
                    columns.push(Column::Listed { values, digit });
                }
                Values::Span(_) if plan.random.is_none() => {
                    return Err(BadPlan::Span { name: axis.name.clone(), values: axis.values.clone() });
                }
                Values::Span(span) => columns.push(Column::Span(span)),
            }
        }
        let grid = Grid { names, columns, lengths };
        grid.check_lengths()?;
        Ok(grid)
    }

    /// Columns that go side by side are equally long.
    fn check_lengths(&self) -> Result<(), BadPlan> {
        let listed = self.columns.iter().zip(&self.names).filter_map(|(column, name)| match column {
            Column::Listed { values, digit } => Some((name, values.len(), *digit)),
            Column::Span(_) => None,
        });
        match listed.clone().all(|(_, length, digit)| self.lengths[digit] == length) {
            true => Ok(()),
            false => {
                Err(BadPlan::Lengths { lengths: listed.map(|(name, length, _)| (name.clone(), length)).collect() })
            }
        }
    }

    fn count(&self) -> u128 {
        self.lengths.iter().fold(1, |all, length| all.saturating_mul(*length as u128))
    }

    /// Bytes of the longest value of a column.
    fn longest(&self) -> impl Iterator<Item = usize> {
        self.columns.iter().map(|column| match column {
            Column::Listed { values, .. } => values.iter().map(String::len).max().unwrap_or(0),
            Column::Span(_) => 0,
        })
    }

    /// Whether the values of so many jobs fit into memory.
    fn check_jobs(&self, jobs: usize) -> Result<(), BadPlan> {
        let each: usize = self.longest().map(|bytes| bytes + VALUE_BYTES).sum();
        check_bytes((each + VALUE_BYTES) as u128 * jobs as u128, MOST_OF_JOBS)
    }

    /// For how many points a condition can be worked out in time.
    fn tries(&self, only: &Only) -> usize {
        // A long value takes longer to be looked at.
        let looks = 1 + self.longest().max().unwrap_or(0) / 16;
        MOST_WORK / (only.condition.parts.saturating_mul(looks) + self.columns.len())
    }

    fn has_spans(&self) -> bool {
        self.columns.iter().any(|column| column.digit().is_none())
    }

    /// The point of a number.
    fn point(&self, number: u128) -> Vec<String> {
        let (mut left, mut digits) = (number, vec![0; self.lengths.len()]);
        for (digit, length) in digits.iter_mut().zip(&self.lengths).rev() {
            *digit = (left % *length as u128) as usize;
            left /= *length as u128;
        }
        self.values(&digits, None)
    }

    /// Digits by chance, one by one: their number may be too large for any.
    fn digits(&self, chance: &mut Chance) -> Vec<usize> {
        self.lengths.iter().map(|length| chance.below(*length as u128) as usize).collect()
    }

    fn values(&self, digits: &[usize], mut chance: Option<&mut Chance>) -> Vec<String> {
        let value = |column: &Column| match column {
            Column::Listed { values, digit } => values[digits[*digit]].clone(),
            Column::Span(span) => span.draw(chance.as_mut().expect("spans are drawn from")),
        };
        self.columns.iter().map(value).collect()
    }

    fn all(&self, copies: u32, only: Option<&Only>) -> Result<Vec<Vec<String>>, BadPlan> {
        let (count, copies) = (self.count(), copies as usize);
        check_count(count, if only.is_some() { 1 } else { copies })?;
        let numbers = self.holding(count, only)?;
        check_count(numbers.len() as u128, copies)?;
        self.check_jobs(numbers.len() * copies)?;
        let mut rows = Vec::with_capacity(numbers.len() * copies);
        for number in numbers {
            rows.extend(std::iter::repeat_n(self.point(number), copies));
        }
        match (rows.is_empty(), only) {
            (true, Some(only)) => Err(BadPlan::NothingLeft { text: only.text.clone(), points: count }),
            _ => Ok(rows),
        }
    }

    /// Numbers of the points for which a condition holds. `count` is no large number.
    fn holding(&self, count: u128, only: Option<&Only>) -> Result<Vec<u128>, BadPlan> {
        if let Some(only) = only.filter(|only| count > self.tries(only) as u128) {
            return Err(BadPlan::TooMuchWork { text: only.text.clone(), points: count });
        }
        let mut numbers = Vec::new();
        for number in 0..count {
            let holds = match only {
                Some(only) => only.holds(&self.names, &self.point(number))?,
                None => true,
            };
            if holds {
                numbers.push(number);
            }
        }
        Ok(numbers)
    }

    fn drawn(&self, random: Random, copies: u32, only: Option<&Only>) -> Result<Vec<Vec<String>>, BadPlan> {
        if random.count == 0 {
            return Err(BadPlan::Nothing { option: "--random" });
        }
        check_count(random.count.into(), copies as usize)?;
        let mut chance = Chance::new(random.seed);
        let wanted = random.count as usize * copies as usize;
        self.check_jobs(wanted)?;
        let (count, narrowed) = (self.count(), only.is_some());
        if self.has_spans() || count > MOST_COUNTED || narrowed && count > MOST_TRIES {
            return self.tried(&mut chance, wanted, only);
        }
        let numbers = match narrowed {
            true => Some(self.holding(count, only)?),
            false => None,
        };
        let points = numbers.as_ref().map_or(count, |numbers| numbers.len() as u128);
        if points < random.count.into() {
            return Err(BadPlan::TooFew { asked: random.count.into(), points, narrowed, all_seen: true });
        }
        // All copies together are different while there are enough; else those of each copy.
        let rounds = if points < wanted as u128 { copies as usize } else { 1 };
        let mut rows = Vec::with_capacity(wanted);
        for _ in 0..rounds {
            for place in chance.different(points, wanted / rounds) {
                let number = numbers.as_ref().map_or(place, |numbers| numbers[place as usize]);
                rows.push(self.point(number));
            }
        }
        Ok(rows)
    }

    /// Points as chance has them, until there are enough. Those of finite values come once; with a span no two are alike
    /// but by chance.
    fn tried(&self, chance: &mut Chance, wanted: usize, only: Option<&Only>) -> Result<Vec<Vec<String>>, BadPlan> {
        let (mut rows, mut seen) = (Vec::with_capacity(wanted), BTreeSet::new());
        let most = wanted.saturating_mul(IN_VAIN_EACH).clamp(*IN_VAIN.start(), *IN_VAIN.end());
        let tries = only.map_or(usize::MAX, |only| self.tries(only));
        if let Some(only) = only.filter(|_| wanted > tries) {
            return Err(BadPlan::TooMuchWork { text: only.text.clone(), points: wanted as u128 });
        }
        let mut in_vain = 0;
        while rows.len() < wanted && in_vain < most && rows.len() + in_vain < tries {
            let digits = self.digits(chance);
            let point = self.values(&digits, Some(&mut *chance));
            let holds = only.map_or(Ok(true), |only| only.holds(&self.names, &point))?;
            if holds && (self.has_spans() || seen.insert(digits)) {
                rows.push(point);
            } else {
                in_vain += 1;
            }
        }
        if rows.len() == wanted { Ok(rows) } else { Err(found_few(wanted, rows.len())) }
    }
}

fn found_few(wanted: usize, found: usize) -> BadPlan {
    BadPlan::TooFew { asked: wanted as u64, points: found as u128, narrowed: true, all_seen: false }
}

fn check_bytes(bytes: u128, most: u128) -> Result<(), BadPlan> {
    if bytes > most { Err(BadPlan::TooLarge { bytes, most }) } else { Ok(()) }
}

fn check_count(points: u128, copies: usize) -> Result<(), BadPlan> {
    let jobs = points.saturating_mul(copies as u128);
    if jobs > u128::from(MOST_JOBS) { Err(BadPlan::TooMany { jobs }) } else { Ok(()) }
}

/// Names of all parameters: those of the table, then those of the axes.
fn names(plan: &Plan) -> Result<Vec<String>, BadPlan> {
    let count = plan.from.as_ref().map_or(0, |table| table.names.len()) + plan.axes.len();
    if count > MOST_NAMES {
        return Err(BadPlan::TooManyNames { names: count });
    }
    let of_table = plan.from.iter().flat_map(|table| table.names.iter());
    let names: Vec<String> = of_table.chain(plan.axes.iter().map(|axis| &axis.name)).cloned().collect();
    if names.is_empty() {
        return Err(BadPlan::NoNames);
    }
    let mut seen = BTreeSet::new();
    for name in &names {
        if !is_name(name) {
            return Err(BadPlan::NoName { name: name.clone() });
        }
        if !seen.insert(name) {
            return Err(BadPlan::Twice { name: name.clone() });
        }
    }
    Ok(names)
}

/// A condition that was read.
struct Only {
    text: String,
    condition: Condition,
}

impl Only {
    fn read(text: &str, names: &[String]) -> Result<Only, BadPlan> {
        let wrong = |Wrong { at, error }| BadPlan::Where { text: text.to_string(), at, error };
        Ok(Only { text: text.to_string(), condition: Condition::read(text, names).map_err(wrong)? })
    }

    fn holds(&self, names: &[String], point: &[String]) -> Result<bool, BadPlan> {
        self.condition.holds(point).map_err(|Wrong { at, error }| {
            let values: Vec<String> = names.iter().zip(point).map(|(name, value)| format!("{name}={value}")).collect();
            BadPlan::WhereAt { text: self.text.clone(), at, error, point: values.join(" ") }
        })
    }
}

#[cfg(test)]
mod tests;
