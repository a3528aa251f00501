//! A command in each line; options above it, as in `jobs.txt`.

use super::{Entry, Format, Read, Said, checks};
use crate::edit::LineError;
use crate::queue_text::{self, OPTIONS_MARK, Refused};

pub fn read(bytes: &[u8]) -> Read {
    of(queue_text::read(bytes))
}

/// What a text means that was read already.
pub fn of(text: queue_text::Read) -> Read {
    let mut read = Read::of(Format::Lines);
    for entry in text.entries {
        let line = entry.line;
        match understood(entry) {
            Ok(entry) => read.entries.push(entry),
            Err(error) => read.refused.push(LineError { line, error }),
        }
    }
    let refused = text.refused.into_iter().filter(|refused| !is_comment(refused));
    read.refused.extend(refused.map(|refused| LineError { line: refused.line, error: refused.error }));
    read.refused.sort_by_key(|refused| refused.line);
    read.unfinished = text.unfinished;
    read
}

fn understood(entry: queue_text::Entry) -> Result<Entry, String> {
    let command = entry.command()?;
    checks::command(&command)?;
    checks::options(&entry.options)?;
    let queue_text::Entry { line, id, options, written, .. } = entry;
    Ok(Entry { line, command: Said::Command(command), options, env: Default::default(), id, carried: None, written })
}

/// In whatever letters: nobody reads it.
fn is_comment(refused: &Refused) -> bool {
    let first = refused.lines.first().map(|line| line.trim_start()).unwrap_or_default();
    first.starts_with('#') && !first.starts_with(OPTIONS_MARK)
}
