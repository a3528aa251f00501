//! A command in each line; options above it, as in `jobs.txt`.

use super::{Entry, Format, Read, Said};
use crate::edit::LineError;
use crate::queue_text;

pub fn read(bytes: &[u8]) -> Read {
    let text = queue_text::read(bytes);
    let mut read = Read::of(Format::Lines);
    for entry in text.entries {
        match entry.command() {
            Ok(command) => read.entries.push(Entry {
                line: entry.line,
                command: Said::Command(command),
                options: entry.options,
                env: Default::default(),
                id: entry.id,
                written: 0..0,
            }),
            Err(error) => read.refused.push(LineError { line: entry.line, error }),
        }
    }
    let refused = text.refused.into_iter().map(|refused| LineError { line: refused.line, error: refused.error });
    read.refused.extend(refused);
    read.unfinished = text.unfinished;
    read
}
