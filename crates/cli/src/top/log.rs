//! A job's log, as it grows: the last lines of it, and where one is in them.

use std::collections::VecDeque;

use super::text;
use crate::collapse::Collapse;

/// Lines that are asked for at first, and those that are kept.
pub const FIRST_LINES: u64 = 2_000;
const KEPT_LINES: usize = 10_000;

/// How it is with the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// More may come.
    Open,
    /// The service is away; it is asked again.
    Away,
    /// The job has ended, and how; or why its log cannot be shown.
    Over(String),
}

pub struct Log {
    pub id: String,
    pub command: String,
    pub standing: Standing,
    /// Tells what comes for this one from what comes for one that was left.
    pub serial: u64,
    lines: VecDeque<String>,
    collapse: Collapse,
    unread: Vec<u8>,
    /// Rows between the end and what is seen last; 0 = it follows.
    up: usize,
    /// As it was drawn last.
    columns: usize,
}

impl Log {
    pub fn new(id: String, command: String, serial: u64) -> Log {
        Log {
            id,
            command,
            standing: Standing::Open,
            serial,
            lines: VecDeque::new(),
            collapse: Collapse::default(),
            unread: Vec::new(),
            up: 0,
            columns: 80,
        }
    }

    /// It is told from the beginning, or again.
    pub fn begin(&mut self) {
        self.lines.clear();
        self.unread.clear();
        self.collapse = Collapse::default();
        self.standing = Standing::Open;
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.unread.extend(self.collapse.push(bytes));
        while let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.unread.drain(..=end).collect();
            let line = text::plain(String::from_utf8_lossy(&line[..end]).trim_end_matches('\r'));
            if self.up > 0 {
                // What one reads stays where it is.
                self.up += text::wrapped(&line, self.columns).len();
            }
            self.lines.push_back(line);
            if self.lines.len() > KEPT_LINES {
                self.lines.pop_front();
            }
        }
    }

    /// A line that is not finished: a progress bar, a question.
    fn last(&self) -> Option<String> {
        let bytes = [self.unread.as_slice(), self.collapse.line()].concat();
        (!bytes.is_empty()).then(|| text::plain(&String::from_utf8_lossy(&bytes)))
    }

    pub fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.last().is_none()
    }

    pub fn follows(&self) -> bool {
        self.up == 0
    }

    /// Rows further up; less than none is further down.
    pub fn scroll(&mut self, rows: isize) {
        self.up = self.up.saturating_add_signed(rows);
    }

    /// The rows of a window of this size.
    pub fn rows(&mut self, columns: usize, height: usize) -> Vec<String> {
        self.columns = columns;
        let last = self.last();
        let newest_first = last.iter().chain(self.lines.iter().rev());
        let mut rows: VecDeque<String> = VecDeque::new();
        for line in newest_first {
            for row in text::wrapped(line, columns).into_iter().rev() {
                rows.push_front(row);
            }
            if rows.len() >= self.up.saturating_add(height) {
                break;
            }
        }
        // Not beyond the first line.
        self.up = self.up.min(rows.len().saturating_sub(height));
        let end = rows.len() - self.up;
        rows.into_iter().take(end).skip(end.saturating_sub(height)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(text: &str) -> Log {
        let mut log = Log::new("abc".into(), "true".into(), 1);
        log.push(text.as_bytes());
        log
    }

    #[test]
    fn the_end_is_followed_and_bars_move() {
        let mut log = log("one\ntwo\n10%\r");
        assert_eq!(log.rows(80, 2), ["two", "10%"]);
        log.push(b"20%\r");
        assert_eq!(log.rows(80, 2), ["two", "20%"]);
        log.push(b"\nend\n");
        assert_eq!(log.rows(80, 9), ["one", "two", "20%", "end"]);
    }

    #[test]
    fn what_one_reads_stays_while_more_comes() {
        let mut log = log("1\n2\n3\n4\n5\n");
        log.scroll(2);
        assert_eq!(log.rows(80, 2), ["2", "3"]);
        log.push(b"6\n7\n");
        assert_eq!((log.rows(80, 2), log.follows()), (vec!["2".to_string(), "3".into()], false));
        log.scroll(100);
        assert_eq!(log.rows(80, 2), ["1", "2"]);
        log.scroll(-1000);
        assert_eq!(log.rows(80, 2), ["6", "7"]);
    }

    #[test]
    fn long_lines_are_whole() {
        let mut log = log("abcdefgh\nx\n");
        assert_eq!(log.rows(5, 9), ["abcde", "fgh", "x"]);
        assert_eq!(log.rows(5, 2), ["fgh", "x"]);
    }

    #[test]
    fn old_lines_go() {
        let mut log = log(&"x\n".repeat(KEPT_LINES + 5));
        assert_eq!(log.rows(5, usize::MAX).len(), KEPT_LINES);
    }
}
