//! Sweeps: one command, many values. As they are asked for, and as clients see them; below it the language in which the
//! values are said, and the points they come to.

mod bad;
mod chance;
mod decimal;
mod expression;
mod jobs;
mod points;
mod table;
mod values;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use self::bad::{BadPlan, MOST_JOBS};
pub use self::points::Points;
use crate::jobs::{JobSpec, Note};

/// The first so many jobs that all fail alike and soon hold the rest, where nothing else is said.
pub const STOP_AFTER: u32 = 3;

/// Characters of a sweep's name.
const LONGEST_NAME: usize = 100;

/// Whether this can be the name of a sweep: letters, digits and `-_.`, no sign first.
pub fn is_sweep_name(text: &str) -> bool {
    let plain = |letter: u8| letter.is_ascii_alphanumeric() || b"-_.".contains(&letter);
    text.len() <= LONGEST_NAME
        && text.bytes().all(plain)
        && text.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric())
}

/// What is asked for: the body of `POST /v1/sweeps`. All of its jobs are queued, or none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NewSweep {
    /// None = one that the service makes up.
    #[serde(default)]
    pub name: Option<String>,
    /// What each of its jobs is, but for the values: its command has `{names}`.
    pub spec: JobSpec,
    pub plan: Plan,
    /// Each point so many times.
    #[serde(default = "one")]
    pub copies: u32,
    /// So many of its jobs at once, at most.
    #[serde(default)]
    pub max_running: Option<u32>,
    /// 0 = never.
    #[serde(default = "stop_after")]
    pub stop_after: u32,
}

fn one() -> u32 {
    1
}

fn stop_after() -> u32 {
    STOP_AFTER
}

/// Which values its parameters take, as it was typed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Plan {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub axes: Vec<Axis>,
    /// Points of a file. The axes go with each of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Table>,
    /// The first values of all, then the second, instead of each with each.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub zip: bool,
    /// Only points for which this holds: `lr*seed<3`.
    #[serde(default, rename = "where", skip_serializing_if = "Option::is_none")]
    pub only: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub random: Option<Random>,
}

/// `seed=1..5`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Axis {
    pub name: String,
    /// As typed: `1..5`, `0.1,0.01`, `log:1e-4..1e-1:5`.
    pub values: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Table {
    pub names: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

/// So many points by chance: the same seed has the same ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Random {
    pub count: u32,
    pub seed: u64,
}

/// Answer to a [`NewSweep`] that is only tried out: what it would come to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SweepPlanned {
    pub jobs: u64,
    /// Names of its parameters, in their order.
    pub params: Vec<String>,
    /// The first of its jobs.
    pub first: Vec<PlannedPoint>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Note>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlannedPoint {
    pub params: BTreeMap<String, String>,
    pub command: String,
}

/// Answer to a [`NewSweep`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SweepQueued {
    pub sweep: Sweep,
    /// Of its jobs, in the order of its points.
    pub ids: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Note>,
}

/// A sweep in every listing. Unknown is null, never absent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Sweep {
    pub name: String,
    pub project: Option<String>,
    /// With its `{names}`.
    pub command: String,
    /// Names of its parameters, in their order.
    pub params: Vec<String>,
    /// Names of the values that are taken from its jobs' output.
    pub extract: Vec<String>,
    pub plan: Plan,
    pub copies: u32,
    /// Jobs that were repeated since do not count.
    pub jobs: u64,
    pub states: States,
    pub max_running: Option<u32>,
    pub stop_after: u32,
    /// Why the rest of it is held: one sentence. Null where nothing was stopped.
    pub stopped: Option<String>,
    pub submitted_at: String,
    /// When its last job has ended, as far as run times so far tell.
    pub expected_end: Option<String>,
}

/// How many of its jobs are in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
#[schema(as = StateCounts)]
pub struct States {
    pub held: u64,
    pub queued: u64,
    /// Those that start are among them.
    pub running: u64,
    pub copying: u64,
    pub completed: u64,
    pub failed: u64,
    pub killed: u64,
}

impl States {
    pub fn ended(&self) -> u64 {
        self.completed + self.failed + self.killed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_sweeps_are_plain() {
        for name in ["m", "lr-grid", "2024.1_x"] {
            assert!(is_sweep_name(name), "{name}");
        }
        let long = "x".repeat(101);
        for name in ["", "-x", ".x", "a b", "a:b", "é", "a/b", &long] {
            assert!(!is_sweep_name(name), "{name}");
        }
    }
}
