//! The last a run printed, as short as a list can show it.

use std::io;
use std::path::Path;

use nexus_api::run_dir::{LAST_LINES, STDERR, STDOUT, Said};
use nexus_api::variables::{Hidden, masked};

use crate::logs::{LogReader, Which};
use crate::run_file;

/// No more than this is read from the end of a log.
const READ_BYTES: u64 = 8 << 10;

const LONGEST_CHARACTERS: usize = 300;

/// Bytes of the last lines that are kept.
const LONGEST_TAIL: usize = 64 << 10;

/// The end of a traceback is in so many.
const LAST_COUNT: usize = 10;

/// What a run printed last, with the names of variables in place of their values.
pub fn said(dir: &Path, hidden: &[Hidden]) -> Said {
    let line = [STDERR, STDOUT]
        .iter()
        .find_map(|name| last_line_of(&run_file::read_end(&dir.join(name), READ_BYTES).ok()?, hidden));
    Said { line, lines: lines(dir, LAST_COUNT, hidden) }
}

/// What the shim of a run with variables kept of it.
pub fn kept_said(dir: &Path) -> Option<Said> {
    // What is cut off is no JSON.
    let bytes = run_file::read_beginning(&dir.join(LAST_LINES), LONGEST_TAIL as u64).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// The last line that is not blank, of stderr or else of stdout. Of a line that was drawn several times over (a
/// progress bar) what was drawn last.
pub fn last_line(dir: &Path) -> Option<String> {
    [STDERR, STDOUT].iter().find_map(|name| last_line_of(&run_file::read_end(&dir.join(name), READ_BYTES).ok()?, &[]))
}

/// The last lines of both streams that are not blank, in the order of their arrival. What cannot be read is not shown.
pub fn last_lines(dir: &Path, count: usize) -> Vec<String> {
    lines(dir, count, &[])
}

fn lines(dir: &Path, count: usize, hidden: &[Hidden]) -> Vec<String> {
    let bytes = read_tail(dir, count).unwrap_or_default();
    let lines = bytes.split(|byte| *byte == b'\n').filter_map(|line| Some(shortened(drawn_last(line)?, hidden)));
    let lines: Vec<String> = lines.collect();
    lines[lines.len().saturating_sub(count)..].to_vec()
}

fn read_tail(dir: &Path, lines: usize) -> io::Result<Vec<u8>> {
    let mut reader = LogReader::open(dir, Which::Both)?;
    // Blank ones among them are left out.
    reader.tail_within(lines.saturating_mul(2), LONGEST_TAIL as u64)?;
    let (mut bytes, mut stream) = (Vec::new(), false);
    while let Some(chunk) = reader.read_next(READ_BYTES as usize)? {
        // One that breaks into the other's line begins a line of its own.
        if chunk.stderr != stream && bytes.last().is_some_and(|last| *last != b'\n') {
            bytes.push(b'\n');
        }
        stream = chunk.stderr;
        bytes.extend(chunk.bytes);
        // A line may be as long as the log: its end is what counts.
        let surplus = bytes.len().saturating_sub(LONGEST_TAIL);
        bytes.drain(..surplus);
    }
    Ok(bytes)
}

fn last_line_of(bytes: &[u8], hidden: &[Hidden]) -> Option<String> {
    let line = bytes.rsplit(|byte| *byte == b'\n').find_map(drawn_last)?;
    Some(shortened(line, hidden).trim_start().to_string())
}

/// Of a line that was drawn several times over, what was drawn last. NUL bytes are nothing: a terminal shows none, and a file
/// that was cut while a program had it open has thousands of them.
fn drawn_last(line: &[u8]) -> Option<&[u8]> {
    let is_blank = |byte: &u8| *byte == 0 || byte.is_ascii_whitespace();
    line.rsplit(|byte| *byte == b'\r').find(|drawn| !drawn.iter().all(is_blank))
}

/// Values are hidden before anything is cut off: half a value is too much of it. NUL bytes go first, since they could stand
/// inside of a value.
fn shortened(line: &[u8], hidden: &[Hidden]) -> String {
    let line: Vec<u8> = line.iter().copied().filter(|byte| *byte != 0).collect();
    masked(&String::from_utf8_lossy(&line), hidden).trim_end().chars().take(LONGEST_CHARACTERS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_with_something_on_it() {
        let table = [
            ("one\ntwo\n\n  \n", Some("two")),
            ("10%\r50%\r100%", Some("100%")),
            ("10%\r100%\r\n", Some("100%")),
            ("", None),
            (" \n\n", None),
            ("oh\0 no\0\0\n", Some("oh no")),
            ("said\n\0\0\0", Some("said")),
            ("said\n\0 \0\r\0\n", Some("said")),
            ("\0\0Error\n", Some("Error")),
            ("\0\0", None),
        ];
        for (text, expected) in table {
            assert_eq!(last_line_of(text.as_bytes(), &[]).as_deref(), expected, "{text:?}");
        }
        let long = "ä".repeat(5000);
        assert_eq!(last_line_of(long.as_bytes(), &[]).unwrap().chars().count(), 300);
        // A character cut in two by the limit on what is read does no harm.
        assert!(last_line_of(&long.as_bytes()[1..], &[]).is_some());
    }

    #[test]
    fn the_last_lines_of_both_streams() {
        let temporary = tempfile::tempdir().unwrap();
        let dir = temporary.path();
        assert_eq!(last_lines(dir, 3), Vec::<String>::new());
        std::fs::write(dir.join(STDOUT), "one\n\n  two\n10%\r100%\r\nfour\n").unwrap();
        assert_eq!(last_lines(dir, 3), ["  two", "100%", "four"]);
        std::fs::write(dir.join(STDERR), "Error\n").unwrap();
        assert_eq!(last_lines(dir, 2), ["four", "Error"]);
        std::fs::write(dir.join(STDOUT), "x".repeat(200_000)).unwrap();
        assert_eq!(last_lines(dir, 2).last().map(String::as_str), Some("Error"));
    }

    #[test]
    fn so_many_lines_that_twice_as_many_are_no_number() {
        let temporary = tempfile::tempdir().unwrap();
        std::fs::write(temporary.path().join(STDOUT), "one\ntwo\n").unwrap();
        assert_eq!(last_lines(temporary.path(), usize::MAX), ["one", "two"]);
    }

    #[test]
    fn what_is_kept_of_any_length_takes_no_memory() {
        let temporary = tempfile::tempdir().unwrap();
        std::fs::File::create(temporary.path().join(LAST_LINES)).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(kept_said(temporary.path()), None);
    }

    #[test]
    fn a_value_is_hidden_before_its_line_is_cut() {
        let temporary = tempfile::tempdir().unwrap();
        let hidden = [Hidden { name: "T".into(), value: "secret-value".into() }];
        std::fs::write(temporary.path().join(STDERR), format!("{}secret-value x\n", "-".repeat(295))).unwrap();
        let said = said(temporary.path(), &hidden);
        assert!(said.line.clone().unwrap().ends_with("-{T} x") && said.lines == [said.line.unwrap()]);
        std::fs::write(temporary.path().join(STDERR), "sec\0ret-\0value\n").unwrap();
        assert_eq!(super::said(temporary.path(), &hidden).lines, ["{T}"]);
    }

    #[test]
    fn stderr_goes_before_stdout() {
        let temporary = tempfile::tempdir().unwrap();
        assert_eq!(last_line(temporary.path()), None);
        std::fs::write(temporary.path().join(STDOUT), "out\n").unwrap();
        std::fs::write(temporary.path().join(STDERR), "\n").unwrap();
        assert_eq!(last_line(temporary.path()).as_deref(), Some("out"));
        std::fs::write(temporary.path().join(STDERR), "err\n").unwrap();
        assert_eq!(last_line(temporary.path()).as_deref(), Some("err"));
    }
}
