//! Records of a csv text as its other readers know them: fields in quotes may hold commas, quotes and ends of lines.
//!
//! Fields are parts of the text where they can be, and one list serves all records: a million are a matter of a second.

use std::borrow::Cow;

/// What is wanted where quotes are wrong.
pub const QUOTES: &str = "a whole field in quotes, and \"\" for a quote inside of it";

pub struct Reader<'a> {
    rest: &'a str,
    /// Of what comes next, from 1.
    line: usize,
}

/// What is wrong in a line; [`QUOTES`] says what is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotCsv {
    pub line: usize,
    pub error: &'static str,
}

impl<'a> Reader<'a> {
    pub fn new(text: &'a str) -> Reader<'a> {
        Reader { rest: text.strip_prefix('\u{feff}').unwrap_or(text), line: 1 }
    }

    /// Replaces the fields by those of the next line that is not blank, and says which that is; none at the end.
    ///
    /// Blanks around a field are left out, those inside its quotes are not.
    pub fn record(&mut self, fields: &mut Vec<Cow<'a, str>>) -> Result<Option<usize>, NotCsv> {
        fields.clear();
        while !self.rest.is_empty() {
            let first = self.line;
            let line = self.rest.split('\n').next().unwrap_or_default();
            if line.trim().is_empty() {
                self.skip(line.len() + 1);
            } else if line.contains('"') {
                self.quoted_record(fields)?;
                return Ok(Some(first));
            } else {
                fields.extend(line.split(',').map(|field| Cow::Borrowed(field.trim())));
                self.rest = self.rest.get(line.len() + 1..).unwrap_or_default();
                self.line += 1;
                return Ok(Some(first));
            }
        }
        Ok(None)
    }

    fn quoted_record(&mut self, fields: &mut Vec<Cow<'a, str>>) -> Result<(), NotCsv> {
        loop {
            let blanks = self.rest.len() - self.rest.trim_start_matches([' ', '\t']).len();
            let field = match self.rest[blanks..].starts_with('"') {
                true => {
                    self.skip(blanks + 1);
                    Cow::Owned(self.quoted()?)
                }
                false => Cow::Borrowed(self.plain()?),
            };
            fields.push(field);
            let more = self.rest.starts_with(',');
            self.skip(1);
            if !more {
                return Ok(());
            }
        }
    }

    fn plain(&mut self) -> Result<&'a str, NotCsv> {
        let end = self.rest.find([',', '\n']).unwrap_or(self.rest.len());
        let field = self.rest[..end].trim();
        if field.contains('"') {
            return Err(NotCsv { line: self.line, error: "a quote stands inside a field without quotes" });
        }
        self.skip(end);
        Ok(field)
    }

    /// What follows the first quote of a field, up to the comma or the end of the line behind it.
    fn quoted(&mut self) -> Result<String, NotCsv> {
        let (mut field, first) = (String::new(), self.line);
        loop {
            let Some(end) = self.rest.find('"') else {
                return Err(NotCsv { line: first, error: "a quote is not closed" });
            };
            field.push_str(&self.rest[..end]);
            self.skip(end + 1);
            if !self.rest.starts_with('"') {
                break;
            }
            field.push('"');
            self.skip(1);
        }
        let end = self.rest.find([',', '\n']).unwrap_or(self.rest.len());
        if !self.rest[..end].trim().is_empty() {
            return Err(NotCsv { line: self.line, error: "text follows a quote that closes" });
        }
        self.skip(end);
        Ok(field)
    }

    fn skip(&mut self, bytes: usize) {
        let (passed, rest): (&'a str, &'a str) = self.rest.split_at(bytes.min(self.rest.len()));
        self.line += passed.matches('\n').count();
        self.rest = rest;
    }
}
