//! Where the commands of a shell text and their words stand, as far as that can be seen without running it: what is
//! in quotes, substitutions, comments and here-documents is passed over.

use std::ops::Range;

/// One command with its words, by their bytes in the text. Redirections are not among the words.
#[derive(Debug, Default)]
pub struct Simple {
    pub words: Vec<Range<usize>>,
    /// Behind its last word or redirection; a further word would go here. Before a here-document's mark.
    pub end: usize,
    /// Whether it takes what the command before it prints.
    pub piped: bool,
}

/// Words that open and close compound commands; where a command could begin they are none of its words.
const RESERVED: &[&str] =
    &["{", "}", "if", "then", "elif", "else", "fi", "do", "done", "while", "until", "for", "case", "esac", "!", "time"];

/// Brackets in brackets. Nobody writes more, and each takes some of the stack.
const DEEPEST: usize = 100;

/// None where a quote or a bracket is not closed, or they are nested too deeply.
pub fn commands(text: &str) -> Option<Vec<Simple>> {
    let mut scan =
        Scan { text, bytes: text.as_bytes(), place: 0, found: vec![], current: Simple::default(), here: vec![] };
    while scan.place < scan.bytes.len() {
        scan.step()?;
    }
    scan.finish(false);
    Some(scan.found)
}

struct Scan<'a> {
    text: &'a str,
    bytes: &'a [u8],
    place: usize,
    found: Vec<Simple>,
    current: Simple,
    /// Marks of here-documents that begin in the next line, and whether tabs before them are nothing.
    here: Vec<(String, bool)>,
}

impl Scan<'_> {
    fn at(&self, ahead: usize) -> u8 {
        self.bytes.get(self.place + ahead).copied().unwrap_or(0)
    }

    fn step(&mut self) -> Option<()> {
        match (self.at(0), self.at(1)) {
            (b' ' | b'\t', _) => self.place += 1,
            (b'\\', b'\n') => self.place += 2,
            (b'\n', _) => {
                self.finish(false);
                self.place += 1;
                self.pass_here_documents();
            }
            (b'#', _) => self.place += self.text[self.place..].find('\n').unwrap_or(self.bytes.len() - self.place),
            (b'|', b'|') | (b'&', b'&') => self.separate(2, false),
            (b'|', b'&') => self.separate(2, true),
            (b'|', _) => self.separate(1, true),
            (b'&', b'>') => {
                self.place += 1;
                self.redirection()?;
            }
            (b'&' | b';' | b'(' | b')', _) => self.separate(1, false),
            (b'<' | b'>', b'(') => self.word()?,
            (b'<' | b'>', _) => self.redirection()?,
            _ => self.word()?,
        }
        Some(())
    }

    fn separate(&mut self, bytes: usize, pipe: bool) {
        self.finish(pipe);
        self.place += bytes;
    }

    /// Ends the command. What opens a bracket or a line behind a pipe is still behind it.
    fn finish(&mut self, pipe: bool) {
        let is_empty = self.current.words.is_empty();
        let piped = pipe || (is_empty && self.current.piped);
        let ended = std::mem::replace(&mut self.current, Simple { piped, ..Simple::default() });
        if !is_empty {
            self.found.push(ended);
        }
    }

    fn word(&mut self) -> Option<()> {
        let begin = self.place;
        self.place = word_end(self.bytes, begin)?;
        let word = &self.text[begin..self.place];
        if word.bytes().all(|byte| byte.is_ascii_digit()) && matches!(self.at(0), b'<' | b'>') {
            return Some(());
        }
        if self.current.words.is_empty() && RESERVED.contains(&word) {
            return Some(());
        }
        self.current.words.push(begin..self.place);
        self.current.end = self.place;
        Some(())
    }

    /// The operator and what stands behind it.
    fn redirection(&mut self) -> Option<()> {
        let operators = ["<<<", "<<-", "<<", "<&", "<>", "<", ">>", ">&", ">|", ">"];
        let operator = operators.into_iter().find(|operator| self.text[self.place..].starts_with(operator))?;
        self.place += operator.len();
        while matches!(self.at(0), b' ' | b'\t') || (self.at(0) == b'\\' && self.at(1) == b'\n') {
            self.place += if self.at(0) == b'\\' { 2 } else { 1 };
        }
        let begin = self.place;
        self.place = word_end(self.bytes, begin)?;
        match operator {
            "<<" | "<<-" => {
                let mark = self.text[begin..self.place].replace(['\'', '"', '\\'], "");
                self.here.push((mark, operator == "<<-"));
            }
            _ => self.current.end = self.place,
        }
        Some(())
    }

    fn pass_here_documents(&mut self) {
        for (mark, tabs) in std::mem::take(&mut self.here) {
            while self.place < self.bytes.len() {
                let rest = &self.text[self.place..];
                let line = rest.split('\n').next().unwrap_or(rest);
                self.place = (self.place + line.len() + 1).min(self.bytes.len());
                if (if tabs { line.trim_start_matches('\t') } else { line }) == mark {
                    break;
                }
            }
        }
    }
}

/// Behind the word that begins at `place`.
fn word_end(bytes: &[u8], mut place: usize) -> Option<usize> {
    let begin = place;
    while let Some(byte) = bytes.get(place) {
        let next = bytes.get(place + 1).copied();
        place = match byte {
            b'<' | b'>' if next == Some(b'(') => closed(bytes, place + 2, (b'(', b')'), DEEPEST)?,
            // An array.
            b'(' if place > begin && bytes[place - 1] == b'=' => closed(bytes, place + 1, (b'(', b')'), DEEPEST)?,
            b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'(' | b')' | b'<' | b'>' => break,
            _ => piece_end(bytes, place, DEEPEST)?,
        };
    }
    Some(place)
}

/// Behind one character, or a whole quote or substitution; `deeper`: so many more may be in it, one in the other.
fn piece_end(bytes: &[u8], place: usize, deeper: usize) -> Option<usize> {
    let next = bytes.get(place + 1).copied();
    match (bytes[place], next) {
        (b'\\', None) => None,
        (b'\\', Some(_)) => Some(place + 2),
        (b'\'', _) => position(bytes, place + 1, b'\'').map(|end| end + 1),
        (b'$', Some(b'\'')) => escaped_end(bytes, place + 2, b'\''),
        (b'`', _) => escaped_end(bytes, place + 1, b'`'),
        (b'"', _) => double_quote_end(bytes, place + 1, deeper.checked_sub(1)?),
        (b'$', Some(b'(')) => closed(bytes, place + 2, (b'(', b')'), deeper.checked_sub(1)?),
        (b'$', Some(b'{')) => closed(bytes, place + 2, (b'{', b'}'), deeper.checked_sub(1)?),
        _ => Some(place + 1),
    }
}

fn position(bytes: &[u8], from: usize, wanted: u8) -> Option<usize> {
    bytes[from..].iter().position(|byte| *byte == wanted).map(|place| from + place)
}

fn escaped_end(bytes: &[u8], mut place: usize, quote: u8) -> Option<usize> {
    loop {
        match bytes.get(place)? {
            b'\\' => place += 2,
            byte if *byte == quote => return Some(place + 1),
            _ => place += 1,
        }
    }
}

fn double_quote_end(bytes: &[u8], mut place: usize, deeper: usize) -> Option<usize> {
    loop {
        place = match bytes.get(place)? {
            b'"' => return Some(place + 1),
            b'\'' => place + 1,
            b'$' if bytes.get(place + 1) == Some(&b'\'') => place + 1,
            _ => piece_end(bytes, place, deeper)?,
        };
    }
}

/// Behind the bracket that closes the one before `place`.
fn closed(bytes: &[u8], mut place: usize, (open, close): (u8, u8), deeper: usize) -> Option<usize> {
    let mut depth = 1;
    loop {
        let byte = *bytes.get(place)?;
        place = match byte {
            _ if byte == close => {
                depth -= 1;
                place + 1
            }
            _ if byte == open => {
                depth += 1;
                place + 1
            }
            _ => piece_end(bytes, place, deeper)?,
        };
        if depth == 0 {
            return Some(place);
        }
    }
}
