//! Finds in what a job prints what it says of its results: `RESULTS: path` lines of stdout, and the values that were
//! asked for, in both streams. A line ends at a newline or a carriage return, so that the last state of a progress bar
//! is a line too; what no newline follows is one at the end. Reads along as output flows: without values asked for it
//! looks at the beginnings of lines alone.

use nexus_api::results::{Extract, Found};
use regex::bytes::{Regex, RegexBuilder};

const MARK: &[u8] = b"RESULTS:";

/// More of a line is not looked at.
const LONGEST_LINE: usize = 8 << 10;

/// A path that is longer cannot be opened.
const LONGEST_PATH: usize = 4096;

/// Bytes of a value; more is cut off.
const LONGEST_VALUE: usize = 1000;

/// What all paths together may take in the record, which has to fit into one message.
const PATHS_BYTES: usize = 24 << 10;

/// What a pattern may take of the shim's memory.
const PATTERN_BYTES: usize = 1 << 20;

pub struct Finds {
    patterns: Vec<(String, Regex)>,
    stdout: Line,
    stderr: Line,
    found: Found,
    paths_bytes: usize,
}

/// The line that a stream is in.
#[derive(Default)]
struct Line {
    bytes: Vec<u8>,
    /// What comes of it up to its end says nothing more.
    skip: bool,
}

impl Finds {
    /// Patterns that cannot be read find nothing: who takes a job has looked at them.
    pub fn new(extract: &[Extract]) -> Finds {
        let read = |one: &Extract| {
            let pattern =
                RegexBuilder::new(&one.pattern).size_limit(PATTERN_BYTES).dfa_size_limit(PATTERN_BYTES).build();
            Some((one.name.clone(), pattern.ok()?))
        };
        Finds {
            patterns: extract.iter().filter_map(read).collect(),
            stdout: Line::default(),
            stderr: Line::default(),
            found: Found::default(),
            paths_bytes: 0,
        }
    }

    /// The next bytes of one stream.
    pub fn take(&mut self, stderr: bool, bytes: &[u8]) {
        if stderr && self.patterns.is_empty() {
            return;
        }
        let mut rest = bytes;
        while let Some(end) = memchr::memchr2(b'\n', b'\r', rest) {
            self.line_ends(stderr, &rest[..end]);
            rest = &rest[end + 1..];
        }
        self.line_goes_on(stderr, rest);
    }

    /// All that was found, when no more comes.
    pub fn end(&mut self) -> Found {
        self.line_ends(false, b"");
        self.line_ends(true, b"");
        std::mem::take(&mut self.found)
    }

    fn line_goes_on(&mut self, stderr: bool, bytes: &[u8]) {
        let any_line = !self.patterns.is_empty();
        let line = self.line(stderr);
        if line.skip || bytes.is_empty() {
            return;
        }
        let room = LONGEST_LINE - line.bytes.len();
        line.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
        let known = line.bytes.len().min(MARK.len());
        let may_be_path = !stderr && line.bytes[..known] == MARK[..known];
        if !any_line && !may_be_path {
            line.bytes.clear();
            line.skip = true;
        }
    }

    fn line_ends(&mut self, stderr: bool, last: &[u8]) {
        let line = self.line(stderr);
        if std::mem::take(&mut line.skip) {
            return;
        }
        if line.bytes.is_empty() {
            return self.look(stderr, &last[..last.len().min(LONGEST_LINE)]);
        }
        let mut whole = std::mem::take(&mut line.bytes);
        whole.extend_from_slice(&last[..last.len().min(LONGEST_LINE - whole.len())]);
        self.look(stderr, &whole);
        // Its memory serves the next line.
        whole.clear();
        self.line(stderr).bytes = whole;
    }

    fn look(&mut self, stderr: bool, line: &[u8]) {
        if let Some(path) = line.strip_prefix(MARK).filter(|_| !stderr) {
            self.results(path.trim_ascii());
        }
        for (name, pattern) in &self.patterns {
            if let Some(value) = pattern.captures(line).and_then(|groups| groups.get(1)) {
                self.found.values.insert(name.clone(), told(value.as_bytes()));
            }
        }
    }

    fn results(&mut self, path: &[u8]) {
        let path = String::from_utf8_lossy(path);
        if path.is_empty() || self.found.results.iter().any(|known| *known == path) {
            return;
        }
        // As the record will have it.
        let bytes = serde_json::to_string(&path).map_or(usize::MAX, |text| text.len());
        if path.len() > LONGEST_PATH || bytes > PATHS_BYTES - self.paths_bytes {
            self.found.results_left_out += 1;
            return;
        }
        self.paths_bytes += bytes;
        self.found.results.push(path.into_owned());
    }

    fn line(&mut self, stderr: bool) -> &mut Line {
        if stderr { &mut self.stderr } else { &mut self.stdout }
    }
}

/// In one line, and not too long.
fn told(value: &[u8]) -> String {
    let mut text = String::from_utf8_lossy(value).replace(char::is_control, " ");
    let end = (0..=LONGEST_VALUE.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    text.truncate(end.unwrap_or(0));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(extract: &[(&str, &str)], chunks: &[(bool, &[u8])]) -> Found {
        let extract =
            extract.iter().map(|(name, pattern)| Extract { name: name.to_string(), pattern: pattern.to_string() });
        let mut finds = Finds::new(&extract.collect::<Vec<_>>());
        chunks.iter().for_each(|(stderr, bytes)| finds.take(*stderr, bytes));
        finds.end()
    }

    const TEXT: &[u8] = b"epoch 1\nRESULTS: out/a\nnot RESULTS: b\n 50%\rRESULTS:  c d \r\nRESULTS:\nRESULTS: out/a\n\
        RESULTS\nloss=3 loss=2.5\r100%\nloss=1";

    #[test]
    fn lines_are_found_wherever_the_chunks_end() {
        for size in 1..TEXT.len() {
            let chunks: Vec<(bool, &[u8])> = TEXT.chunks(size).map(|chunk| (false, chunk)).collect();
            assert_eq!(found(&[], &chunks).results, ["out/a", "c d"], "{size}");
            let all = found(&[("loss", r"loss=([0-9.]+)$"), ("epoch", r"^epoch (\d+)"), ("no", "x(y)")], &chunks);
            assert_eq!(all.results, ["out/a", "c d"], "{size}");
            let values: Vec<_> = all.values.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            assert_eq!(values, [("epoch", "1"), ("loss", "1")], "{size}");
        }
    }

    #[test]
    fn streams_are_apart_and_results_are_of_stdout() {
        let chunks: [(bool, &[u8]); 4] =
            [(false, b"RESULTS: a"), (true, b"RESULTS: b\nacc"), (false, b"b\n"), (true, b" 7\n")];
        let all = found(&[("acc", r"^acc (.*)")], &chunks);
        assert_eq!(all.results, ["ab"]);
        assert_eq!(all.values["acc"], "7");
        assert!(found(&[], &[(true, b"RESULTS: b\n")]).is_nothing());
    }

    #[test]
    fn what_is_too_long_or_too_much_is_cut_and_counted() {
        let long = [b"RESULTS: ".as_slice(), &[b'x'; 100_000], b"\nRESULTS: y\n"].concat();
        let all = found(&[], &[(false, &long)]);
        assert_eq!((all.results.as_slice(), all.results_left_out), (&["y".to_string()][..], 1));
        let many: Vec<u8> = (0..5000).flat_map(|n| format!("RESULTS: {n:0>100}\n").into_bytes()).collect();
        let all = found(&[], &[(false, &many)]);
        assert!(all.results.len() > 200 && all.results_left_out > 4000, "{}", all.results.len());
        let value = [b"v=".as_slice(), "ä".repeat(3000).as_bytes(), b"\xff\n"].concat();
        let all = found(&[("v", "v=(.*)")], &[(false, &value)]);
        assert_eq!(all.values["v"], "ä".repeat(500));
    }

    #[test]
    fn bytes_that_are_no_text_and_patterns_that_are_none_do_no_harm() {
        let all = found(&[("v", "("), ("w", "w")], &[(false, b"\xff\xfe\0w\nRESULTS: \xff\n")]);
        assert_eq!(all.results, ["\u{fffd}"]);
        assert!(all.values.is_empty());
    }
}
