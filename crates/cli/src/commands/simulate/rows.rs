//! Files with names in their first line and commas between fields, read row by row: a wrong field is told with its line.

use std::borrow::Cow;
use std::io::Read;
use std::path::Path;

use nexus_api::csv::{NotCsv, QUOTES, Reader};

use crate::error::{CliError, Refused, Usage};
use crate::render::text::{cut, printable};

/// Longer files are no workload of anybody's.
const LONGEST_BYTES: u64 = 1 << 30;

/// A name, or a field, in an error.
const SHOWN: usize = 40;

/// A file as it was read, and its name.
pub struct File {
    pub name: String,
    pub text: String,
}

impl File {
    #[expect(clippy::disallowed_methods, reason = "the user named it in this command, and may name a pipe")]
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
    reader: Reader<'a>,
    /// In small letters.
    names: Vec<String>,
    /// Where the row begins.
    line: usize,
    fields: Vec<Cow<'a, str>>,
}

impl<'a> Rows<'a> {
    /// Reads the names. `example`: a first line as it could be.
    pub fn of(file: &'a File, example: &str) -> Result<Rows<'a>, Usage> {
        let mut rows = Rows { file, reader: Reader::new(&file.text), names: vec![], line: 0, fields: vec![] };
        if !rows.advance()? {
            return Err(Usage::new(format!("{} is empty", file.name), format!("{example} in its first line")));
        }
        rows.names = rows.fields.iter().map(|name| name.trim().to_ascii_lowercase()).collect();
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
        if self.fields.len() == self.names.len() {
            return Ok(true);
        }
        let fields = if self.fields.len() == 1 { "field" } else { "fields" };
        let error = format!("it has {} {fields}, and there are {} columns", self.fields.len(), self.names.len());
        Err(self.file.wrong(self.line, &error, "a field for each column; one with a comma in quotes"))
    }

    /// Where the row begins.
    pub fn line(&self) -> usize {
        self.line
    }

    /// A field of the row, without blanks around it.
    pub fn field(&self, column: usize) -> &str {
        self.fields[column].trim()
    }

    /// The field of a column that may be missing; none where it says nothing.
    pub fn said(&self, column: Option<usize>) -> Option<&str> {
        column.map(|column| self.field(column)).filter(|field| !field.is_empty())
    }

    /// That a field is not what is wanted.
    pub fn wrong(&self, column: usize, want: impl Into<String>) -> Usage {
        let (name, field) = (shown(&self.names[column]), self.field(column));
        let error = match field {
            "" => format!("{name} is empty"),
            field => format!("{name} cannot be {}", shown(field)),
        };
        self.file.wrong(self.line, &error, want)
    }

    /// That there are more than can be, with this row.
    pub fn too_many(&self, most: u64, things: &str) -> Usage {
        self.file.wrong(self.line, &format!("there are over {most} {things}"), "fewer")
    }

    /// A whole number from 0 to `most`.
    pub fn whole(&self, column: usize, most: u64) -> Result<u64, Usage> {
        let number = self.field(column).parse::<u64>().ok().filter(|number| *number <= most);
        number.ok_or_else(|| self.wrong(column, format!("a whole number from 0 to {most}")))
    }

    fn advance(&mut self) -> Result<bool, Usage> {
        let record = self.reader.record(&mut self.fields);
        let line = record.map_err(|NotCsv { line, error }| self.file.wrong(line, error, QUOTES))?;
        self.line = line.unwrap_or(self.line);
        Ok(line.is_some())
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
            found.push((0..rows.names.len()).map(|column| rows.field(column).to_string()).collect());
        }
        Ok(found)
    }

    #[test]
    fn fields_of_every_kind() {
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
            ("a,b\n1,2\n\n3\n", "f.csv, line 4: it has 1 field, and there are 2 columns"),
            ("a,b\n1,2,3\n", "f.csv, line 2: it has 3 fields, and there are 2 columns"),
            ("a,b\n\"x\ny\",2\n1\n", "f.csv, line 4: it has 1 field, and there are 2 columns"),
            ("a,b\n1,\"2\n3\n", "f.csv, line 2: a quote is not closed"),
            ("a,b\n1,2\"\n", "f.csv, line 2: a quote stands inside a field without quotes"),
            ("a,b\n1,\"2\"3\n", "f.csv, line 2: text follows a quote that closes"),
        ] {
            assert_eq!(all(text).unwrap_err(), error, "{text:?}");
        }
    }

    #[test]
    fn missing_columns_and_wrong_fields_say_what_is_wanted() {
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
