//! A file of jobs that people keep: commands line by line, the scheduler's csv, JSON line by line, GPUPeasy's batch text.
//! Described in `docs/job-files.md`. Reads bytes and nothing else: what cannot be read is told by its line, the rest
//! counts.
//!
//! Where the format is not named, every line that is neither blank nor a comment is looked at, and the first of them
//! decides:
//!
//! - jsonl if it begins with `{`, or is an array of objects (which is then refused with a word on it);
//! - esy if `;;` stands in it, and `;;;` in some line;
//! - csv if it begins with a whole number and a comma, has three commas, and something between the first two; a header
//!   counts;
//! - lines otherwise. A command below options (`#@`) is of this kind whatever it looks like.
//!
//! A later line of another kind is an error of the whole file. Records of esy may have any lines, and are not compared.
//! A file without such lines is of kind lines.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

pub use parts::{Parts, parts};

use crate::command::Command;
use crate::edit::LineError;
use crate::env::Env;
use crate::jobs::{Code, Session};

mod auto;
mod checks;
mod csv;
mod esy;
mod jsonl;
mod line;
mod lines;
mod parts;
#[cfg(test)]
mod tests;

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
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

/// One job, as far as the file says it. Only requests have it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Where it begins, from 1.
    pub line: u64,
    pub command: Said,
    /// By their names in `jobs.txt`. One without a value says that the default holds.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// Variables that it sets.
    #[serde(default, skip_serializing_if = "Env::is_empty")]
    #[schema(value_type = BTreeMap<String, String>)]
    pub env: Env,
    /// What it was called where it was exported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Of an exported job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub carried: Option<Box<Carried>>,
    /// The bytes of the file that say it: the same bytes say the same.
    #[serde(skip)]
    pub written: Range<usize>,
}

/// Fields of an exported job that no option of `jobs.txt` has, by their names in an export.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Carried {
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "strict_code")]
    pub code: Option<Code>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<(u16, u16)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tty: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<Session>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub one_terminal: bool,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub secret_names: Vec<String>,
}

/// [`Code`] as a request has it. The type itself stands in answers too, whose further keys a client leaves out.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StrictCode {
    content: String,
    of: String,
}

fn strict_code<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Code>, D::Error> {
    let code = Option::<StrictCode>::deserialize(deserializer)?;
    Ok(code.map(|StrictCode { content, of }| Code { content, of }))
}

impl Carried {
    /// Names of the fields.
    pub(crate) const KEYS: [&str; 8] =
        ["code", "window", "tty", "session", "one_terminal", "params", "variables", "secret_names"];
}

/// What is to be run. Only requests have it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
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

/// What stands before the text of some editors.
const UTF8_MARK: &[u8] = b"\xef\xbb\xbf";

/// An error is no longer than this: the line itself is in the file.
const LONGEST_ERROR: usize = 500;

/// `format`: none to find it out. An error is of the whole file: it is mixed, say.
pub fn read(bytes: &[u8], format: Option<Format>) -> Result<Read, LineError> {
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        let error = "the file is written in UTF-16; iconv -f UTF-16 -t UTF-8 makes it readable".into();
        return Err(LineError { line: 1, error });
    }
    let text = bytes.strip_prefix(UTF8_MARK).unwrap_or(bytes);
    let mut read = match format {
        Some(Format::Lines) => lines::read(text),
        Some(Format::Csv) => csv::read(text),
        Some(Format::Jsonl) => jsonl::read(text),
        Some(Format::Esy) => esy::read(text),
        None => auto::read(text)?,
    };
    let mark = bytes.len() - text.len();
    let entries = read.entries.iter_mut().map(|entry| &mut entry.written);
    for written in entries.chain(read.past.iter_mut().map(|past| &mut past.written)) {
        *written = written.start + mark..written.end + mark;
    }
    for told in read.refused.iter_mut().chain(&mut read.doubtful) {
        told.error = fit_to_show(&told.error);
    }
    Ok(read)
}

/// Jobs of an export come after others that did not wait then: those that ended as they should are not waited for any
/// more, and whoever waits for another cannot be queued.
pub fn settle_parents(entries: &mut Vec<Entry>, past: &[Past]) -> Vec<LineError> {
    let past: BTreeMap<&str, &Past> = past.iter().map(|past| (past.id.as_str(), past)).collect();
    let mut refused = Vec::new();
    if past.is_empty() {
        return refused;
    }
    entries.retain_mut(|entry| {
        for (option, any_end) in [("after", false), ("after-any", true)] {
            let Some(ids) = entry.options.get(option).cloned() else { continue };
            let mut left = Vec::new();
            for id in ids.split(',') {
                let why = match past.get(id) {
                    None => {
                        left.push(id);
                        continue;
                    }
                    Some(past) if past.completed || (past.ended && any_end) => continue,
                    Some(past) if past.ended => "did not complete",
                    Some(_) => "ran when this was exported",
                };
                refused.push(LineError { line: entry.line, error: format!("it comes after {id}, which {why}") });
                return false;
            }
            entry.options.insert(option.into(), left.join(","));
        }
        true
    });
    refused
}

/// Values of a file stand in errors: none may fill or stir a terminal.
fn fit_to_show(error: &str) -> String {
    let end = error.char_indices().nth(LONGEST_ERROR).map_or(error.len(), |(at, _)| at);
    let mut shown: String = error[..end].chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if end < error.len() {
        shown.push('…');
    }
    shown
}
