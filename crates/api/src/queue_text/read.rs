//! Reads the queue from text. What cannot be read is told by its line; the rest counts.

use std::collections::BTreeMap;
use std::ops::Range;

use nexus_core::ids::JobId;

use super::options::{is_flag, is_option, unknown};
use super::{Entry, OPTIONS_MARK, OWN_MARK, Read, Refused, SET};
use crate::shell_words;

/// Bytes of one line; no command can be longer.
pub const LONGEST_LINE: usize = 1 << 20;

/// Lines that one command may have.
const MOST_LINES: usize = 100_000;

/// Bytes that are shown of a line that was refused.
const SHOWN: usize = 4096;

pub fn read(bytes: &[u8]) -> Read {
    let ends_well = bytes.is_empty() || bytes.ends_with(b"\n");
    let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    if ends_well {
        lines.pop();
    }
    let mut reader = Reader { bytes, lines, at: 0, known: BTreeMap::new(), read: Read::default() };
    while reader.at < reader.lines.len() {
        reader.next();
    }
    reader.read.unfinished |= !ends_well;
    reader.read
}

struct Reader<'a> {
    bytes: &'a [u8],
    lines: Vec<&'a [u8]>,
    at: usize,
    /// Ids, and the lines they stand in.
    known: BTreeMap<String, u64>,
    read: Read,
}

/// What stands behind `#@`.
#[derive(Default)]
struct Options {
    id: Option<String>,
    options: BTreeMap<String, String>,
    lines: Option<Lines>,
}

/// How many lines the command has.
#[derive(Clone, Copy)]
struct Lines {
    count: usize,
    /// Even where one of them looks like the options of another job.
    surely: bool,
}

impl Reader<'_> {
    fn next(&mut self) {
        let first = self.at;
        match text(self.lines[first]) {
            Err(error) => {
                self.at += 1;
                self.refuse(first, error);
            }
            Ok(line) if line.trim_start().starts_with(OPTIONS_MARK) => self.with_options(first),
            Ok(line) if line.trim().is_empty() || line.starts_with(OWN_MARK) => self.at += 1,
            Ok(line) if line.trim_start().starts_with('#') => {
                self.at += 1;
                let comment = line.trim_end().to_string();
                self.read.comments.push(comment);
            }
            Ok(line) => {
                self.at += 1;
                let (command, written) = (line.trim().to_string(), self.place(line.trim()));
                self.read.entries.push(Entry { line: number(first), command, written, ..Entry::default() });
            }
        }
    }

    /// Options, and the command below them.
    fn with_options(&mut self, first: usize) {
        let line = text(self.lines[first]).unwrap_or_default();
        let from_windows = line.ends_with('\r');
        let begin = self.place(line.trim()).start;
        self.at += 1;
        let body = line.trim().strip_prefix(OPTIONS_MARK).unwrap_or_default();
        let options = options(body);
        // Lines of a command that is refused must not become commands of their own.
        let count = match &options {
            Ok(options) => options.lines,
            Err(_) => body.split_whitespace().rev().find_map(|word| lines(word.strip_prefix("lines=")?).ok()),
        };
        let command = match count {
            Some(count) => self.counted(count, from_windows),
            None => self.one_line(),
        };
        match (options, command) {
            (Err(error), _) | (_, Err(error)) => self.refuse(first, error),
            (Ok(Options { id, options, .. }), Ok((command, end))) => {
                let before = id.as_ref().and_then(|id| self.known.insert(id.clone(), number(first)));
                if let (Some(before), Some(id)) = (before, &id) {
                    let error = format!("{id} stands in line {before} already; take the id away for a copy");
                    return self.refuse(first, error);
                }
                self.read.entries.push(Entry { line: number(first), id, options, command, written: begin..end });
            }
        }
    }

    /// The very next line, which must be a command; and where it ends.
    fn one_line(&mut self) -> Result<(String, usize), String> {
        let Some(line) = self.lines.get(self.at) else {
            self.read.unfinished = true;
            return Err("no command stands below it".into());
        };
        let line = text(line)?;
        if line.trim().is_empty() || line.trim_start().starts_with('#') {
            return Err("no command stands below it".into());
        }
        self.at += 1;
        Ok((line.trim().to_string(), self.place(line.trim()).end))
    }

    /// So many lines, as they are; and where the last of them ends.
    fn counted(&mut self, Lines { count, surely }: Lines, from_windows: bool) -> Result<(String, usize), String> {
        let rest = &self.lines[self.at..];
        let starts_a_job = |line: &&[u8]| line.starts_with(OPTIONS_MARK.as_bytes());
        // No further than they may reach: a look at all the rest, job by job, would take for ever.
        let rest = &rest[..rest.len().min(count)];
        let next = rest.iter().position(starts_a_job).filter(|_| !surely).unwrap_or(rest.len());
        if count > next {
            self.at += next;
            self.read.unfinished |= self.at == self.lines.len();
            return Err(format!("lines={count}, and {next} follow"));
        }
        let lines: Result<Vec<&str>, String> = rest
            .iter()
            .map(|line| text(line).map(|line| if from_windows { line.trim_end_matches('\r') } else { line }))
            .collect();
        self.at += count;
        let lines = lines?;
        let end = lines.last().map_or(0, |last| self.place(last).end);
        Ok((lines.join("\n"), end))
    }

    /// Where a part of the text stands in it.
    fn place(&self, part: &str) -> Range<usize> {
        let start = part.as_ptr().addr() - self.bytes.as_ptr().addr();
        start..start + part.len()
    }

    /// Tells of the lines from `first` to where reading goes on.
    fn refuse(&mut self, first: usize, error: String) {
        let shown = |line: &&[u8]| String::from_utf8_lossy(&line[..line.len().min(SHOWN)]).trim_end().to_string();
        let lines = self.lines[first..self.at].iter().map(shown).collect();
        self.read.refused.push(Refused { line: number(first), error, lines });
    }
}

fn number(at: usize) -> u64 {
    at as u64 + 1
}

/// A line as text, or why it is none.
pub(crate) fn text(line: &[u8]) -> Result<&str, String> {
    if line.len() > LONGEST_LINE {
        return Err(format!("it has {} bytes, and no command can be that long", line.len()));
    }
    if line.contains(&0) {
        return Err("it has a NUL byte".into());
    }
    std::str::from_utf8(line).map_err(|_| "it is not valid UTF-8".into())
}

fn options(text: &str) -> Result<Options, String> {
    let words = shell_words::split(text, "").map_err(|error| error.to_string())?;
    let mut options = Options::default();
    for (place, word) in words.iter().enumerate() {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, value.to_string()),
            None if is_flag(word) => (word.as_str(), SET.to_string()),
            None if place == 0 => {
                let id = word.parse::<JobId>().map_err(|_| format!("{word} is neither an id nor an option"))?;
                options.id = Some(id.to_string());
                continue;
            }
            None => return Err(unknown(word)),
        };
        match name {
            "lines" => options.lines = Some(lines(&value)?),
            name if !is_option(name) => return Err(unknown(name)),
            _ if value.is_empty() => {}
            _ => {
                if options.options.insert(name.to_string(), value).is_some() {
                    return Err(format!("{name} is said twice"));
                }
            }
        }
    }
    Ok(options)
}

fn lines(text: &str) -> Result<Lines, String> {
    let wrong = || format!("lines={text} is no number of lines");
    let (number, surely) = text.strip_suffix('!').map_or((text, false), |number| (number, true));
    let count = number.parse().ok().filter(|count| (1..=MOST_LINES).contains(count)).ok_or_else(wrong)?;
    Ok(Lines { count, surely })
}
