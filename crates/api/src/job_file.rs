//! A file of jobs that people keep: commands line by line, the scheduler's csv, JSON line by line, GPUPeasy's batch text.
//! Described in `docs/job-files.md`. Reads bytes and nothing else: what cannot be read is told by its line, the rest
//! counts.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::command::Command;
use crate::edit::LineError;
use crate::env::Env;

mod lines;

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// A command in each line, as in `jobs.txt`.
    Lines,
    /// `priority,script,conda_env,arguments,allowed_gpus`, or with `python` or `torchrun-Ngpu` before the arguments.
    Csv,
    /// A JSON object in each line: options of `add`, or a job as `nexus export` writes it.
    Jsonl,
    /// `name;;outfile;;command;;;`
    Esy,
}

impl Format {
    pub const ALL: [Format; 4] = [Format::Lines, Format::Csv, Format::Jsonl, Format::Esy];

    pub fn word(self) -> &'static str {
        match self {
            Format::Lines => "lines",
            Format::Csv => "csv",
            Format::Jsonl => "jsonl",
            Format::Esy => "esy",
        }
    }
}

/// One job, as far as the file says it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Where it begins, from 1.
    pub line: u64,
    pub command: Said,
    /// By their names in `jobs.txt`. One without a value says that the default holds.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// Variables that it sets.
    #[serde(default, skip_serializing_if = "Env::is_empty")]
    pub env: Env,
    /// What it was called where it was exported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The bytes of the file that say it: the same bytes say the same.
    #[serde(skip)]
    pub written: Range<usize>,
}

/// What is to be run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Said {
    Command(Command),
    /// A program in Python. The service finds the interpreter; a relative script counts from the file's folder.
    Script {
        script: String,
        /// Started by torchrun with so many processes, and as many GPUs.
        torchrun: Option<u16>,
        arguments: Vec<String>,
    },
}

/// A file, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    pub format: Format,
    pub entries: Vec<Entry>,
    /// Lines that mean nothing.
    pub refused: Vec<LineError>,
    /// Lines that were understood, and could have been meant otherwise.
    pub doubtful: Vec<LineError>,
    /// Jobs that had ended, or ran, when they were exported.
    pub past: Vec<Past>,
    /// Its end may be yet to come: what stands there has no newline after it.
    pub unfinished: bool,
}

/// A job of an export that does not wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Past {
    pub line: u64,
    pub id: String,
    pub ended: bool,
    pub completed: bool,
    /// The whole line.
    pub written: Range<usize>,
}

impl Read {
    fn of(format: Format) -> Read {
        let (entries, refused, doubtful, past) = (vec![], vec![], vec![], vec![]);
        Read { format, entries, refused, doubtful, past, unfinished: false }
    }
}

/// `format`: none to find it out. An error is of the whole file: it is mixed, say.
pub fn read(bytes: &[u8], format: Option<Format>) -> Result<Read, LineError> {
    match format.unwrap_or(Format::Lines) {
        Format::Lines => Ok(lines::read(bytes)),
        other => Err(LineError { line: 1, error: format!("{} is not read yet", other.word()) }),
    }
}
