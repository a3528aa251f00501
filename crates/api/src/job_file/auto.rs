//! Finds out how a file is written: see the header of [`job_file`](super).

use super::{Format, Read, csv, esy, jsonl, lines};
use crate::edit::LineError;
use crate::queue_text::{self, Entry, OPTIONS_MARK};

pub fn read(bytes: &[u8]) -> Result<Read, LineError> {
    let text = queue_text::read(bytes);
    let has_records = text.entries.iter().any(|entry| entry.command.contains(";;;"));
    let has_options = |entry: &Entry| bytes[entry.written.start..].starts_with(OPTIONS_MARK.as_bytes());
    let kind = |entry: &Entry| match has_options(entry) {
        true => Format::Lines,
        false => kind(&entry.command, has_records),
    };
    let Some(first) = text.entries.first() else { return Ok(lines::of(text)) };
    let format = kind(first);
    // A line that could be one of the table with a slip in it is told as such.
    let slip = |entry: &Entry| format == Format::Csv && !has_options(entry) && csv::could_be_one(&entry.command);
    let fits = |entry: &Entry, found| found == format || slip(entry);
    if format != Format::Esy
        && let Some((other, found)) =
            text.entries.iter().map(|entry| (entry, kind(entry))).find(|(entry, found)| !fits(entry, *found))
    {
        let hint = match format {
            Format::Jsonl => "; a JSON object stands in one line",
            Format::Csv => "; --format csv tells of each line that is wrong",
            _ => "; --format lines reads every line as a command",
        };
        let error =
            format!("it is {}, and line {} is {}: one file, one format{hint}", word(found), first.line, word(format));
        return Err(LineError { line: other.line, error });
    }
    Ok(match format {
        Format::Lines => lines::of(text),
        Format::Csv => csv::read(bytes),
        Format::Jsonl => jsonl::read(bytes),
        Format::Esy => esy::read(bytes),
    })
}

fn kind(line: &str, has_records: bool) -> Format {
    match line {
        line if jsonl::begins_like_one(line) => Format::Jsonl,
        line if has_records && line.contains(";;") => Format::Esy,
        line if csv::begins_like_one(line) => Format::Csv,
        _ => Format::Lines,
    }
}

fn word(format: Format) -> &'static str {
    match format {
        Format::Lines => "a plain command",
        Format::Csv => "csv",
        Format::Jsonl => "JSON",
        Format::Esy => "name;;outfile;;command;;;",
    }
}
