//! Why a plan of a sweep cannot be followed: what is wrong, where, and what would be right.

use std::fmt;

/// More jobs than this are a slip.
pub const MOST_JOBS: u64 = 1_000_000;

/// More parameters than this are no command's.
pub const MOST_NAMES: usize = 1000;

/// What the values of all axes may take in memory, and those of all jobs: a line of text could ask for any amount.
pub const MOST_OF_AXES: u128 = 256 << 20;
pub const MOST_OF_JOBS: u128 = 1 << 30;

/// Nothing of such a plan is queued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadPlan {
    /// No parameter is declared.
    NoNames,
    /// It cannot be a name.
    NoName { name: String },
    /// Declared more than once.
    Twice { name: String },
    /// Declared, and nothing of the job has it.
    Unused { names: Vec<String> },
    /// Values of an axis that cannot be read.
    Values { name: String, error: String, hint: String },
    /// A span without a count, where nothing is drawn by chance.
    Span { name: String, values: String },
    /// A table of points that cannot be read.
    Table { error: String, hint: String },
    /// Axes that should go side by side have different lengths.
    Lengths { lengths: Vec<(String, usize)> },
    /// As many as the product, or more.
    TooMany { jobs: u128 },
    /// More parameters than any command has.
    TooManyNames { names: usize },
    /// The values of its axes, or of its jobs, would take so much memory.
    TooLarge { bytes: u128, most: u128 },
    /// The condition is too long to be looked at for so many points.
    TooMuchWork { text: String, points: u128 },
    /// No draw, or no copy, at all.
    Nothing { option: &'static str },
    /// More points are to be drawn than there are, or than were found.
    TooFew { asked: u64, points: u128, narrowed: bool, all_seen: bool },
    /// The condition cannot be read. `at`: its character, from 1.
    Where { text: String, at: usize, error: String },
    /// The condition cannot be told for a point.
    WhereAt { text: String, at: usize, error: String, point: String },
    /// The condition holds nowhere.
    NothingLeft { text: String, points: u128 },
}

impl BadPlan {
    /// What is wrong, without what would be right.
    pub fn error(&self) -> String {
        match self {
            BadPlan::NoNames => "the sweep has no parameters".into(),
            BadPlan::NoName { name } => format!("{name:?} cannot be the name of a parameter"),
            BadPlan::Twice { name } => format!("the parameter {name} is given twice"),
            BadPlan::Unused { names } => match names.as_slice() {
                [one] => format!("the command does not use {{{one}}}"),
                many => {
                    let all: Vec<String> = many.iter().map(|name| format!("{{{name}}}")).collect();
                    format!("the command does not use {}", all.join(" and "))
                }
            },
            BadPlan::Values { name, error, .. } => format!("{name}: {error}"),
            BadPlan::Span { name, values } => format!("{name}: {values} is a span without a number of values"),
            BadPlan::Table { error, .. } => error.clone(),
            BadPlan::Lengths { lengths } => {
                let all: Vec<String> = lengths.iter().map(|(name, length)| format!("{name} has {length}")).collect();
                format!("zip needs equally many values of each: {}", all.join(", "))
            }
            BadPlan::TooMany { jobs } => format!("that would be {} jobs", grouped(*jobs)),
            BadPlan::TooManyNames { names } => format!("that would be {} parameters", grouped(*names as u128)),
            BadPlan::TooLarge { bytes, .. } => {
                format!("its values would take {} MiB", grouped(bytes.div_ceil(1 << 20)))
            }
            BadPlan::TooMuchWork { text, points } => {
                let cut: String = text.chars().take(60).collect();
                format!("where {cut:?}… takes too long for {} points", grouped(*points))
            }
            BadPlan::Nothing { option } => format!("{option} 0 leaves no job"),
            BadPlan::TooFew { asked, points, narrowed, all_seen } => {
                let condition = if *narrowed { " for which the condition holds" } else { "" };
                match all_seen {
                    true => format!("{asked} points are to be drawn, and there are {}{condition}", grouped(*points)),
                    false => format!("{asked} points are to be drawn, and only {points} were found{condition}"),
                }
            }
            BadPlan::Where { text, at, error } => format!("where {text:?}, character {at}: {error}"),
            BadPlan::WhereAt { text, at, error, point } => {
                format!("where {text:?}, character {at}: {error}, for {point}")
            }
            BadPlan::NothingLeft { text, points } => {
                format!("where {text:?} holds for none of {} points", grouped(*points))
            }
        }
    }

    /// What would be right.
    pub fn hint(&self) -> String {
        match self {
            BadPlan::NoNames => "nexus sweep \"train --lr {lr}\" lr=0.1,0.01".into(),
            BadPlan::NoName { .. } => "letters, digits and _, as in lr or batch_size; no digit first".into(),
            BadPlan::Twice { name } => format!("all values in one: {name}=1,2,3"),
            BadPlan::Unused { names } => {
                let first = names.first().map(String::as_str).unwrap_or_default();
                format!("write {{{first}}} where its value belongs, or leave it out")
            }
            BadPlan::Values { hint, .. } | BadPlan::Table { hint, .. } => hint.clone(),
            BadPlan::Span { name, values } => {
                format!("{name}={values}:5 for five values, or --random 20 to draw from it")
            }
            BadPlan::Lengths { .. } => "leave out --zip for each with each".into(),
            BadPlan::TooMany { .. } => {
                format!("{} at most; --random 100 draws some of them", grouped(MOST_JOBS.into()))
            }
            BadPlan::TooManyNames { .. } => format!("{} at most", grouped(MOST_NAMES as u128)),
            BadPlan::TooLarge { most, .. } => {
                format!("{} MiB at most: fewer of them, or shorter ones", grouped(most >> 20))
            }
            BadPlan::TooMuchWork { .. } => "a shorter condition, or fewer values".into(),
            BadPlan::Nothing { option } => format!("{option} 1 or more"),
            BadPlan::TooFew { all_seen: true, points, .. } if *points > 0 => format!("--random {points}"),
            BadPlan::TooFew { .. } | BadPlan::NothingLeft { .. } => "a wider condition, or more values".into(),
            BadPlan::Where { .. } | BadPlan::WhereAt { .. } => "as in \"lr*seed < 3 and opt == 'adam'\"".into(),
        }
    }
}

impl fmt::Display for BadPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.error(), self.hint())
    }
}

impl std::error::Error for BadPlan {}

/// `1,000,000`
fn grouped(number: u128) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
