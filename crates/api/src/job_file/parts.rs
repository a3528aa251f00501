//! A file read some lines at a time, so that the first of a hundred thousand are on their way while the rest is read: where
//! no line has to do with another one. Any other is one part.

use super::{Format, Read, UTF8_MARK, jsonl, read};
use crate::edit::LineError;

/// In one part.
const LINES: usize = 1_000;

/// What may have a line name another: what it is called, and what became of it elsewhere.
const NAMES: [&str; 2] = ["\"id\"", "\"state\""];

/// As [`read`]; line numbers are those of the file.
pub fn parts(bytes: &[u8], format: Option<Format>) -> Result<Parts<'_>, LineError> {
    let text = bytes.strip_prefix(UTF8_MARK).unwrap_or(bytes);
    match std::str::from_utf8(text) {
        Ok(text) if is_of_objects(text, format) && !NAMES.iter().any(|name| text.contains(name)) => {
            Ok(Parts { format: Format::Jsonl, whole: None, left: text.as_bytes(), before: 0 })
        }
        _ => {
            let whole = Box::new(read(bytes, format)?);
            Ok(Parts { format: whole.format, whole: Some(whole), left: b"", before: 0 })
        }
    }
}

/// Of objects in lines of their own, and nothing else.
fn is_of_objects(text: &str, format: Option<Format>) -> bool {
    let is_one = |line: &str| line.trim_start().starts_with('{');
    match format {
        Some(format) => format == Format::Jsonl,
        None => !text.is_empty() && text.lines().all(is_one),
    }
}

pub struct Parts<'a> {
    pub format: Format,
    whole: Option<Box<Read>>,
    /// To be read.
    left: &'a [u8],
    /// Lines before that.
    before: u64,
}

impl Iterator for Parts<'_> {
    type Item = Read;

    fn next(&mut self) -> Option<Read> {
        if let Some(whole) = self.whole.take() {
            return Some(*whole);
        }
        if self.left.is_empty() {
            return None;
        }
        let lines = self.left.split_inclusive(|byte| *byte == b'\n').take(LINES);
        let (count, length) = lines.fold((0, 0), |(count, length), line| (count + 1, length + line.len()));
        let (part, left) = self.left.split_at(length);
        let mut read = jsonl::read(part);
        read.entries.iter_mut().for_each(|entry| entry.line += self.before);
        for told in read.refused.iter_mut().chain(&mut read.doubtful) {
            told.line += self.before;
            told.error = super::fit_to_show(&told.error);
        }
        (self.left, self.before) = (left, self.before + count);
        Some(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn together(bytes: &[u8], format: Option<Format>) -> (usize, Read) {
        let parts = parts(bytes, format).unwrap();
        let (mut count, mut all) = (0, Read::of(parts.format));
        for part in parts {
            count += 1;
            all.entries.extend(part.entries);
            all.refused.extend(part.refused);
            all.doubtful.extend(part.doubtful);
            all.past.extend(part.past);
            all.unfinished = part.unfinished;
        }
        (count, all)
    }

    fn plain(read: Read) -> Read {
        let entries = read.entries.into_iter().map(|entry| super::super::Entry { written: 0..0, ..entry }).collect();
        Read { entries, ..read }
    }

    #[test]
    fn the_parts_say_what_the_whole_says() {
        let line = |number: usize| match number % 500 {
            7 => "{\"commando\": \"x\"}\n".to_string(),
            9 => "\n".to_string(),
            _ => format!("{{\"argv\": [\"train\", \"{number}\"], \"priority\": 3}}\n"),
        };
        let long: String = (0..2_345).map(line).collect();
        let objects = long.replace("\n\n", "\n");
        let marked = [UTF8_MARK, long.as_bytes()].concat();
        for (bytes, format, expected) in [
            (long.as_bytes(), Some(Format::Jsonl), 3),
            (&marked, Some(Format::Jsonl), 3),
            (objects.as_bytes(), None, 3),
            // A blank line is read with the rest, and everything is looked at first.
            (long.as_bytes(), None, 1),
            (b"", Some(Format::Jsonl), 0),
            (b"", None, 1),
            (b"{\"command\": \"a\"}", None, 1),
            (b"true\nfalse\n", None, 1),
        ] {
            let (count, read) = together(bytes, format);
            assert_eq!(count, expected, "{format:?}");
            assert!(plain(read) == plain(super::read(bytes, format).unwrap()), "{format:?}, in {count} parts");
        }
    }

    #[test]
    fn lines_that_may_name_each_other_stay_together() {
        let plain = "{\"command\": \"true\"}\n".repeat(LINES);
        for last in ["{\"command\": \"b\", \"id\": \"abc\"}", "{\"command\": \"b\", \"state\": \"queued\"}"] {
            assert_eq!(together(format!("{plain}{last}\n").as_bytes(), Some(Format::Jsonl)).0, 1, "{last}");
        }
        assert_eq!(together(format!("{plain}{{\"command\": \"b\"}}\n").as_bytes(), Some(Format::Jsonl)).0, 2);
    }
}
