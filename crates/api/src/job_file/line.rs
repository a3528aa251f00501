//! A file in its lines, and what of each may be read.

use std::ops::Range;

use crate::queue_text;

/// A line without its newline.
pub struct Line<'a> {
    /// From 1.
    pub number: u64,
    start: usize,
    bytes: &'a [u8],
}

/// What stands between the blanks at both ends of a line.
#[derive(Clone)]
pub struct Text<'a> {
    pub number: u64,
    pub text: &'a str,
    pub written: Range<usize>,
}

/// Every line; nothing follows the last newline.
pub fn lines(bytes: &[u8]) -> impl Iterator<Item = Line<'_>> {
    let mut start = 0;
    bytes.split_inclusive(|byte| *byte == b'\n').zip(1..).map(move |(whole, number)| {
        let line = Line { number, start, bytes: whole.strip_suffix(b"\n").unwrap_or(whole) };
        start += whole.len();
        line
    })
}

impl<'a> Line<'a> {
    /// What it says: nothing if it is blank or a comment, whatever letters that is written in.
    pub fn said(&self) -> Option<Result<Text<'a>, String>> {
        let first = self.bytes.iter().find(|byte| !byte.is_ascii_whitespace())?;
        if *first == b'#' {
            return None;
        }
        let whole = match queue_text::text(self.bytes) {
            Ok(whole) => whole,
            Err(error) => return Some(Err(error)),
        };
        let text = whole.trim();
        if text.is_empty() || text.starts_with('#') {
            return None;
        }
        let start = self.start + whole.len() - whole.trim_start().len();
        Some(Ok(Text { number: self.number, text, written: start..start + text.len() }))
    }
}
