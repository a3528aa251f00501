//! The queue as text: `jobs.txt`, and what `nexus edit` puts into an editor. Described in `docs/jobs-file.md`.
//!
//! ```text
//! #: comments of nexus itself               # comments of others        #! a line that was not taken, and why
//! #@ abc priority=2 name='a run' hold       id and options of the command below
//! python train.py --model gpt2
//! ```

mod options;
mod read;
mod write;

use std::collections::BTreeMap;
use std::ops::Range;

pub(crate) use options::is_flag;
pub use options::{default_of, names, retry_on, said, set, told, vram};
pub use read::read;
pub(crate) use read::text;
pub use write::{Header, entry, write};

use crate::command::Command;
use crate::jobs::JobSpec;
use crate::shell_words;

/// More queued jobs than this, and the file is written by `nexus edit` alone.
pub const MOST_IN_FILE: usize = 10_000;

/// Stands before an id and options.
pub const OPTIONS_MARK: &str = "#@";

/// Stands before comments that nexus writes and replaces.
pub const OWN_MARK: &str = "#:";

/// Stands before what could not be taken.
pub const REFUSED_MARK: &str = "#!";

/// The word of an argv among the options.
pub const ARGV: &str = "argv";

/// The word of a held job.
pub const HOLD: &str = "hold";

/// What an option without a value has.
pub const SET: &str = "yes";

/// A command with its options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Where it begins, from 1.
    pub line: u64,
    pub id: Option<String>,
    /// By name. How many lines the command has is not among them.
    pub options: BTreeMap<String, String>,
    pub command: String,
    /// The bytes that say it: from the first letter of its options, or of its command, to the end of the command.
    pub written: Range<usize>,
}

impl Entry {
    /// Whether it says the same of a job, wherever it stands.
    pub fn says_the_same(&self, other: &Entry) -> bool {
        self.command == other.command && self.options == other.options
    }

    /// The command meant: an argv where the options say so.
    pub fn command(&self) -> Result<Command, String> {
        match self.options.contains_key(ARGV) {
            false => Ok(Command::Shell(self.command.clone())),
            true => shell_words::split(&self.command, shell_words::SPECIAL)
                .map(Command::Argv)
                .map_err(|error| format!("{error}, or take away {ARGV} for a shell command")),
        }
    }

    /// A new job: `usual`, with what is said here.
    pub fn new_spec(&self, usual: JobSpec) -> Result<JobSpec, String> {
        let mut spec = JobSpec { command: self.command()?, ..usual };
        for (name, value) in &self.options {
            set(&mut spec, name, value).map_err(|error| format!("{name}: {error}"))?;
        }
        Ok(spec)
    }

    /// A known job with what is said here and was not said in `base`. What neither of them says stays as it is.
    pub fn changed_spec(&self, base: &Entry, spec: JobSpec) -> Result<JobSpec, String> {
        let mut spec = spec;
        if self.command != base.command || self.options.contains_key(ARGV) != base.options.contains_key(ARGV) {
            spec.command = self.command()?;
        }
        for name in base.options.keys().filter(|name| !self.options.contains_key(*name)) {
            set(&mut spec, name, "").map_err(|error| format!("{name}: {error}"))?;
        }
        for (name, value) in self.options.iter().filter(|(name, value)| base.options.get(*name) != Some(*value)) {
            set(&mut spec, name, value).map_err(|error| format!("{name}: {error}"))?;
        }
        Ok(spec)
    }
}

/// A text, read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Read {
    pub entries: Vec<Entry>,
    pub refused: Vec<Refused>,
    /// Comments that are not of nexus, whole lines.
    pub comments: Vec<String>,
    /// Its end may be yet to come: no newline after the last line, or no command under its options.
    pub unfinished: bool,
}

/// Lines that mean nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The first of them, from 1.
    pub line: u64,
    pub error: String,
    /// As they stand there, as far as they are text.
    pub lines: Vec<String>,
}

#[cfg(test)]
mod tests;
