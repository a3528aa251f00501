//! Files with names in their first line and commas between cells, read row by row: a wrong cell is told with its line.
//!
//! Cells are parts of the text and one list holds them for all rows: a million rows are a matter of a second.

use std::borrow::Cow;
use std::io::Read;
use std::path::Path;

use crate::error::{CliError, Refused, Usage};
use crate::render::text::{cut, printable};

/// Longer files are no workload of anybody's.
const LONGEST_BYTES: u64 = 1 << 30;

/// A name, or a cell, in an error.
const SHOWN: usize = 40;

const QUOTES: &str = "a whole cell in quotes, and \"\" for a quote inside of it";

/// A file as it was read, and its name.
pub struct File {
    pub name: String,
    pub text: String,
}

impl File {
    pub fn read(path: &Path) -> Result<File, CliError> {
        let name = printable(&path.display().to_string());
        let cannot = || format!("{name} cannot be read");
        let file = std::fs::File::open(path).map_err(CliError::io(cannot()))?;
        let expected = file.metadata().map_or(0, |about| about.len().min(LONGEST_BYTES));
        let mut bytes = Vec::with_capacity(expected as usize);
        file.take(LONGEST_BYTES + 1).read_to_end(&mut bytes).map_err(CliError::io(cannot()))?;
        if bytes.len() as u64 > LONGEST_BYTES {
            let why = Some(format!("it is longer than {} GB", LONGEST_BYTES >> 30));
            return Err(Refused { error: cannot(), why, hint: None }.into());
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
            CliError::File(Usage::new(format!("{name}, line {line} is no text"), "a file of text in UTF-8"))
        })?;
        Ok(File { name, text })
    }

    /// What is wrong in one of its lines, and what is wanted there.
    pub fn wrong(&self, line: usize, error: &str, want: impl Into<String>) -> Usage {
        Usage::new(format!("{}, line {line}: {error}", self.name), want)
    }
}

pub struct Rows<'a> {
    file: &'a File,
    rest: &'a str,
    /// Of what comes next, from 1.
    next_line: usize,
    /// In small letters.
    names: Vec<String>,
    /// Where the row begins.
    line: usize,
    cells: Vec<Cow<'a, str>>,
}

impl<'a> Rows<'a> {
    /// Reads the names. `example`: a first line as it could be.
    pub fn of(file: &'a File, example: &str) -> Result<Rows<'a>, Usage> {
        let rest = file.text.strip_prefix('\u{feff}').unwrap_or(&file.text);
        let mut rows = Rows { file, rest, next_line: 1, names: vec![], line: 0, cells: vec![] };
        if !rows.advance()? {
            return Err(Usage::new(format!("{} is empty", file.name), format!("{example} in its first line")));
        }
        rows.names = rows.cells.iter().map(|cell| cell.to_ascii_lowercase()).collect();
        let twice = rows.names.iter().enumerate().find(|(place, name)| rows.names[..*place].contains(name));
        match twice.filter(|(_, name)| !name.is_empty()) {
            Some((_, name)) => Err(Usage::new(
                format!("{} has two columns {}", file.name, shown(name)),
                "each name once in the first line",
            )),
            None => Ok(rows),
        }
    }

    /// A word on columns that mean nothing here.
    pub fn unused(&self, known: &[&str]) -> Option<String> {
        let unused = self.names.iter().filter(|name| !known.contains(&name.as_str()));
        let unused: Vec<String> = unused.map(|name| shown(name)).collect();
        let file = &self.file.name;
        match unused.len() {
            0 => None,
            1 => Some(format!("{file}: the column {} is not used", unused[0])),
            2..=8 => Some(format!("{file}: the columns {} are not used", unused.join(", "))),
            many => Some(format!("{file}: the columns {} and {} more are not used", unused[..8].join(", "), many - 8)),
        }
    }

    pub fn has(&self, names: &[&str]) -> bool {
        names.iter().all(|name| self.column(name).is_some())
    }

    /// Where a column stands, if there is one of this name.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| known == name)
    }

    pub fn needed(&self, name: &str, example: &str) -> Result<usize, Usage> {
        self.column(name).ok_or_else(|| {
            let there: Vec<String> = self.names.iter().take(12).map(|name| shown(name)).collect();
            Usage::new(
                format!("{} has no column {name}; it has {}", self.file.name, there.join(", ")),
                format!("names with commas between them in its first line, as in {example}"),
            )
        })
    }

    /// Goes to the next row; false at the end.
    pub fn next(&mut self) -> Result<bool, Usage> {
        if !self.advance()? {
            return Ok(false);
        }
        if self.cells.len() == self.names.len() {
            return Ok(true);
        }
        let cells = if self.cells.len() == 1 { "cell" } else { "cells" };
        let error = format!("it has {} {cells}, and there are {} columns", self.cells.len(), self.names.len());
        Err(self.file.wrong(self.line, &error, "a cell for each column; one with a comma in quotes"))
    }

    /// Where the row begins.
    pub fn line(&self) -> usize {
        self.line
    }

    /// A cell of the row, without blanks around it.
    pub fn cell(&self, column: usize) -> &str {
        &self.cells[column]
    }

    /// The cell of a column that may be missing; none where it says nothing.
    pub fn said(&self, column: Option<usize>) -> Option<&str> {
        column.map(|column| self.cell(column)).filter(|cell| !cell.is_empty())
    }

    /// That a cell is not what is wanted.
    pub fn wrong(&self, column: usize, want: impl Into<String>) -> Usage {
        let (name, cell) = (shown(&self.names[column]), self.cell(column));
        let error = match cell {
            "" => format!("{name} is empty"),
            cell => format!("{name} cannot be {}", shown(cell)),
        };
        self.file.wrong(self.line, &error, want)
    }

    /// That there are more than can be, with this row.
    pub fn too_many(&self, most: u64, things: &str) -> Usage {
        self.file.wrong(self.line, &format!("there are over {most} {things}"), "fewer")
    }

    /// A whole number from 0 to `most`.
    pub fn whole(&self, column: usize, most: u64) -> Result<u64, Usage> {
        let number = self.cell(column).parse::<u64>().ok().filter(|number| *number <= most);
        number.ok_or_else(|| self.wrong(column, format!("a whole number from 0 to {most}")))
    }

    /// The next line that is not blank becomes the row.
    fn advance(&mut self) -> Result<bool, Usage> {
        self.cells.clear();
        while !self.rest.is_empty() {
            let line = self.rest.split('\n').next().unwrap_or_default();
            self.line = self.next_line;
            if line.trim().is_empty() {
                self.skip(line.len() + 1);
            } else if line.contains('"') {
                self.quoted_row()?;
                return Ok(true);
            } else {
                self.cells.extend(line.split(',').map(|cell| Cow::Borrowed(cell.trim())));
                self.rest = self.rest.get(line.len() + 1..).unwrap_or_default();
                self.next_line += 1;
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn quoted_row(&mut self) -> Result<(), Usage> {
        loop {
            let blanks = self.rest.len() - self.rest.trim_start_matches([' ', '\t']).len();
            let cell = match self.rest[blanks..].starts_with('"') {
                true => {
                    self.skip(blanks + 1);
                    Cow::Owned(self.quoted()?)
                }
                false => self.plain()?,
            };
            self.cells.push(cell);
            let more = self.rest.starts_with(',');
            self.skip(1);
            if !more {
                return Ok(());
            }
        }
    }

    fn plain(&mut self) -> Result<Cow<'a, str>, Usage> {
        let end = self.rest.find([',', '\n']).unwrap_or(self.rest.len());
        let cell = self.rest[..end].trim();
        if cell.contains('"') {
            return Err(self.file.wrong(self.next_line, "a quote stands inside a cell without quotes", QUOTES));
        }
        self.skip(end);
        Ok(Cow::Borrowed(cell))
    }

    /// What follows the first quote of a cell, up to the comma or the end of the line behind it.
    fn quoted(&mut self) -> Result<String, Usage> {
        let (mut cell, first) = (String::new(), self.next_line);
        loop {
            let Some(end) = self.rest.find('"') else {
                return Err(self.file.wrong(first, "a quote is not closed", QUOTES));
            };
            cell.push_str(&self.rest[..end]);
            self.skip(end + 1);
            if !self.rest.starts_with('"') {
                break;
            }
            cell.push('"');
            self.skip(1);
        }
        let end = self.rest.find([',', '\n']).unwrap_or(self.rest.len());
        if !self.rest[..end].trim().is_empty() {
            return Err(self.file.wrong(self.next_line, "text follows a quote that closes", QUOTES));
        }
        self.skip(end);
        Ok(cell.trim().to_string())
    }

    fn skip(&mut self, bytes: usize) {
        let (passed, rest) = self.rest.split_at(bytes.min(self.rest.len()));
        self.next_line += passed.matches('\n').count();
        self.rest = rest;
    }
}

/// Text of a file in a sentence.
pub fn shown(text: &str) -> String {
    match text {
        "" => "\"\"".into(),
        text => cut(&printable(text).replace('\n', " "), SHOWN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> File {
        File { name: "f.csv".into(), text: text.into() }
    }

    fn all(text: &str) -> Result<Vec<Vec<String>>, String> {
        let file = file(text);
        let mut rows = Rows::of(&file, "a,b").map_err(|usage| usage.error)?;
        let mut found = vec![rows.names.clone()];
        while rows.next().map_err(|usage| usage.error)? {
            found.push((0..rows.names.len()).map(|column| rows.cell(column).to_string()).collect());
        }
        Ok(found)
    }

    #[test]
    fn cells_of_every_kind() {
        let plain = vec![vec!["a", "b"], vec!["1", "2"]];
        for text in ["a,b\n1,2", "\u{feff}A, B \r\n\r\n 1,2\r\n\n", "\"a\",b\n\"1\" , \"2\"\n", "a,b\n1,\" 2\""] {
            assert_eq!(all(text).unwrap(), plain, "{text:?}");
        }
        let quoted = all("a,b\n\"x, \"\"y\"\"\nz\",\n,\n").unwrap();
        assert_eq!(quoted[1..], [vec!["x, \"y\"\nz", ""], vec!["", ""]]);
    }

    #[test]
    fn what_is_no_table_is_told_with_its_line() {
        for (text, error) in [
            ("", "f.csv is empty"),
            (" \n\r\n", "f.csv is empty"),
            ("a,b,A\n", "f.csv has two columns a"),
            ("a,b\n1,2\n\n3\n", "f.csv, line 4: it has 1 cell, and there are 2 columns"),
            ("a,b\n1,2,3\n", "f.csv, line 2: it has 3 cells, and there are 2 columns"),
            ("a,b\n\"x\ny\",2\n1\n", "f.csv, line 4: it has 1 cell, and there are 2 columns"),
            ("a,b\n1,\"2\n3\n", "f.csv, line 2: a quote is not closed"),
            ("a,b\n1,2\"\n", "f.csv, line 2: a quote stands inside a cell without quotes"),
            ("a,b\n1,\"2\"3\n", "f.csv, line 2: text follows a quote that closes"),
        ] {
            assert_eq!(all(text).unwrap_err(), error, "{text:?}");
        }
    }

    #[test]
    fn missing_columns_and_wrong_cells_say_what_is_wanted() {
        let file = file("a,b\nx,-1\n");
        let mut rows = Rows::of(&file, "a,b").unwrap();
        assert_eq!(rows.needed("c", "a,b,c").unwrap_err().error, "f.csv has no column c; it has a, b");
        assert!(rows.next().unwrap());
        let wrong = rows.whole(1, 9).unwrap_err();
        assert_eq!(wrong.error, "f.csv, line 2: b cannot be -1");
        assert_eq!(wrong.hint.as_deref(), Some("a whole number from 0 to 9"));
        assert_eq!(
            (rows.said(Some(0)), rows.said(None), rows.has(&["a"]), rows.has(&["z"])),
            (Some("x"), None, true, false)
        );
    }
}
