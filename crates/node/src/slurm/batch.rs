//! What one call of sbatch submits, on disk before it is made: a call that nobody saw the end of is found again by its
//! comment, and what came of each of its runs by the numbers that Slurm gave it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::shape::Shape;
use crate::words::RunPlace;

pub const FORMAT: u32 = 1;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    pub format: u32,
    /// Of this node alone, and never used again.
    pub name: String,
    /// By their place in the array; one alone is no array.
    pub runs: Vec<RunPlace>,
    pub shape: Shape,
    /// The longest that a run of it may take to end.
    #[serde(default)]
    pub grace_ms: u64,
    /// Slurm's number, once it is known.
    pub job: Option<u64>,
}

impl Batch {
    pub fn is_array(&self) -> bool {
        self.runs.len() > 1
    }

    /// The place of a run in Slurm's array; none for one alone.
    pub fn task(&self, place: usize) -> Option<u32> {
        self.is_array().then_some(place as u32)
    }

    /// What its jobs say of themselves in Slurm's queue.
    pub fn comment(&self, service: &str) -> String {
        comment(service, &self.name)
    }

    /// Where it lies.
    pub fn file_name(&self) -> PathBuf {
        format!("{}.json", self.name).into()
    }
}

/// What a job of ours says of itself in Slurm's queue: whose it is, and of which batch.
pub fn comment(service: &str, batch: &str) -> String {
    format!("nexus:{service}:{batch}")
}

/// The batch that a comment names, if it is of this service.
pub fn of_comment<'a>(service: &str, comment: &'a str) -> Option<&'a str> {
    comment.trim().strip_prefix("nexus:")?.strip_prefix(service)?.strip_prefix(':')
}

/// What a job of Slurm is called: `12`, or `12_3` in an array.
pub fn job_name((job, task): (u64, Option<u32>)) -> String {
    match task {
        Some(task) => format!("{job}_{task}"),
        None => job.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_tell_whose_a_job_is() {
        let ours = comment("abc", "xyz.1-0f");
        assert_eq!(of_comment("abc", &ours), Some("xyz.1-0f"));
        assert_eq!(of_comment("ab", &ours), None);
        assert_eq!(of_comment("abc", "(null)"), None);
        assert_eq!((job_name((12, Some(3))), job_name((12, None))), ("12_3".into(), "12".into()));
    }
}
