//! GPUPeasy's batch text: `name;;outfile;;command;;;`. A record may have several lines; a newline in it is a blank.

use std::collections::BTreeMap;
use std::ops::Range;

use super::{Entry, Format, Read, Said, checks};
use crate::command::Command;
use crate::edit::LineError;
use crate::queue_text;

const END: &[u8] = b";;;";
const BETWEEN: &str = ";;";

pub fn read(bytes: &[u8]) -> Read {
    let mut read = Read::of(Format::Esy);
    let mut place = Place { at: 0, line: 1 };
    while place.reach_record(bytes) {
        let (line, rest) = (place.line, &bytes[place.at..]);
        let Some(end) = end(rest) else {
            let error = "its end, ;;;, is missing".to_string();
            read.refused.push(LineError { line, error });
            read.unfinished = true;
            break;
        };
        let written = place.at..place.at + end;
        match entry(&rest[..end - END.len()], line, written) {
            Ok(entry) => read.entries.push(entry),
            Err(error) => read.refused.push(LineError { line, error }),
        }
        place.skip(bytes, end);
    }
    read
}

/// How far the file is read.
struct Place {
    at: usize,
    line: u64,
}

impl Place {
    fn skip(&mut self, bytes: &[u8], count: usize) {
        let skipped = &bytes[self.at..self.at + count];
        self.line += skipped.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.at += count;
    }

    /// Goes on to where a record begins, past blanks and comments. None is left: false.
    fn reach_record(&mut self, bytes: &[u8]) -> bool {
        loop {
            let rest = &bytes[self.at..];
            let Some(blanks) = rest.iter().position(|byte| !byte.is_ascii_whitespace()) else { return false };
            self.skip(bytes, blanks);
            let rest = &rest[blanks..];
            if rest[0] != b'#' {
                return true;
            }
            let comment = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
            self.skip(bytes, comment);
        }
    }
}

/// Where the first record ends. Semicolons before the last three of a row are the command's.
fn end(rest: &[u8]) -> Option<usize> {
    let first = rest.windows(END.len()).position(|three| three == END)? + END.len();
    Some(first + rest[first..].iter().take_while(|byte| **byte == b';').count())
}

fn entry(record: &[u8], line: u64, written: Range<usize>) -> Result<Entry, String> {
    let text = queue_text::text(record)?;
    let parts: Vec<&str> = text.splitn(MOST_PARTS, BETWEEN).map(str::trim).collect();
    let &[name, out, command] = parts.as_slice() else {
        let more = if parts.len() > 3 { "; perhaps the ;;; of a record before is missing" } else { "" };
        let fields = match parts.len() {
            1 => "1 field".into(),
            MOST_PARTS => "many fields".into(),
            count => format!("{count} fields"),
        };
        return Err(format!("it has {fields}, and a record is name;;outfile;;command;;;{more}"));
    };
    for (what, field) in [("name", name), ("output file", out), ("command", command)] {
        if field.is_empty() {
            return Err(format!("its {what} is empty, and a record is name;;outfile;;command;;;"));
        }
    }
    let options = BTreeMap::from([("name".into(), in_one_line(name)), ("out".into(), in_one_line(out))]);
    checks::options(&options)?;
    let command = Command::Shell(in_one_line(command));
    checks::command(&command)?;
    Ok(Entry {
        line,
        command: Said::Command(command),
        options,
        env: Default::default(),
        id: None,
        carried: None,
        written,
    })
}

/// More are not counted.
const MOST_PARTS: usize = 10;

fn in_one_line(text: &str) -> String {
    text.split('\n').map(|line| line.trim_end_matches('\r')).collect::<Vec<_>>().join(" ")
}
