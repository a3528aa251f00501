//! A table as csv: fields may go on in the next line, in quotes.

use super::bad;
use crate::sweeps::Table;
use crate::sweeps::bad::BadPlan;

const RIGHT: &str = "a whole field in quotes, and \"\" for a quote inside of it";

pub fn read(text: &str) -> Result<Table, BadPlan> {
    let mut reader = Reader { rest: text.strip_prefix('\u{feff}').unwrap_or(text), line: 1 };
    let Some((_, names)) = reader.record()? else {
        return Err(bad("the file has no line with names", "lr,seed in its first line"));
    };
    let mut rows = Vec::new();
    while let Some((line, row)) = reader.record()? {
        if row.len() != names.len() {
            let values = if row.len() == 1 { "value" } else { "values" };
            let error = format!("line {line} has {} {values}, and there are {} names", row.len(), names.len());
            return Err(bad(error, "a value of each name in every line; one with a comma in quotes"));
        }
        rows.push(row);
    }
    Ok(Table { names, rows })
}

struct Reader<'a> {
    rest: &'a str,
    /// Of what comes next, from 1.
    line: usize,
}

impl<'a> Reader<'a> {
    /// The next line that is not empty, with its number.
    fn record(&mut self) -> Result<Option<(usize, Vec<String>)>, BadPlan> {
        loop {
            if self.rest.is_empty() {
                return Ok(None);
            }
            let line = self.line;
            let (text, _) = self.rest.split_once('\n').unwrap_or((self.rest, ""));
            if !text.trim().is_empty() {
                return self.fields().map(|fields| Some((line, fields)));
            }
            self.skip(text.len() + 1);
        }
    }

    fn fields(&mut self) -> Result<Vec<String>, BadPlan> {
        let mut fields = Vec::new();
        loop {
            let blanks = self.rest.len() - self.rest.trim_start_matches([' ', '\t']).len();
            let field = match self.rest[blanks..].starts_with('"') {
                true => {
                    self.skip(blanks + 1);
                    self.quoted()?
                }
                false => self.plain()?,
            };
            fields.push(field);
            let more = self.rest.starts_with(',');
            self.skip(1);
            if !more {
                return Ok(fields);
            }
        }
    }

    fn plain(&mut self) -> Result<String, BadPlan> {
        let end = self.rest.find([',', '\n']).unwrap_or(self.rest.len());
        let field = self.rest[..end].trim();
        if field.contains('"') {
            return Err(bad(format!("line {}: a quote stands inside a field without quotes", self.line), RIGHT));
        }
        let field = field.to_string();
        self.skip(end);
        Ok(field)
    }

    /// What follows the first quote of a field, up to the comma or the end of the line behind it.
    fn quoted(&mut self) -> Result<String, BadPlan> {
        let (mut field, first) = (String::new(), self.line);
        loop {
            let Some(end) = self.rest.find('"') else {
                return Err(bad(format!("line {first}: a quote is not closed"), RIGHT));
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
            return Err(bad(format!("line {}: text follows a quote that closes", self.line), RIGHT));
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
