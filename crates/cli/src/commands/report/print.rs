//! A report as text, as csv, as JSON.

use nexus_api::export::{guarded, quoted};
use nexus_api::report::{By, Group};
use serde_json::{Map, Value, json};

use super::Format;
use super::column::Column;
use crate::error::CliError;
use crate::render::text as shown;
use crate::ui::Ui;

/// Prints rows as they come where it can.
pub struct Printer<'a> {
    names: Vec<&'a str>,
    format: Format,
    at_once: bool,
    ui: &'a Ui,
    /// Those that wait for the others.
    pub rows: Vec<Vec<Value>>,
    has_begun: bool,
}

impl<'a> Printer<'a> {
    /// `at_once`: nothing is done to the rows when all are there.
    pub fn new(columns: &'a [Column], format: Format, at_once: bool, ui: &'a Ui) -> Printer<'a> {
        let names = columns.iter().map(|column| column.name.as_str()).collect();
        let at_once = at_once && format == Format::Csv;
        Printer { names, format, at_once, ui, rows: Vec::new(), has_begun: false }
    }

    pub fn row(&mut self, cells: Vec<Value>) -> Result<(), CliError> {
        if !self.at_once {
            self.rows.push(cells);
            return Ok(());
        }
        self.begin()?;
        self.ui.colourless(&csv(cells.iter().map(text)))
    }

    fn begin(&mut self) -> Result<(), CliError> {
        if std::mem::replace(&mut self.has_begun, true) {
            return Ok(());
        }
        self.ui.colourless(&csv(self.names.iter().map(|name| name.to_string())))
    }

    pub fn finish(mut self) -> Result<(), CliError> {
        let rows = std::mem::take(&mut self.rows);
        match self.format {
            Format::Csv => {
                self.begin()?;
                let lines: String = rows.iter().map(|row| csv(row.iter().map(text))).collect();
                self.ui.colourless(&lines)
            }
            Format::Json => {
                let object = |row: Vec<Value>| -> Value {
                    self.names.iter().map(|name| name.to_string()).zip(row).collect::<Map<String, Value>>().into()
                };
                self.ui.json(&rows.into_iter().map(object).collect::<Vec<Value>>())
            }
            Format::Text => {
                let rows = rows.iter().map(|row| row.iter().map(text).collect()).collect();
                self.ui.data(&aligned(&self.names, rows))
            }
        }
    }
}

pub fn sums(by: By, groups: &[Group], format: Format, ui: &Ui) -> Result<(), CliError> {
    let names = [by.word(), "jobs", "completed", "failed", "killed", "gpu_hours"];
    let cells = |group: &Group, none: &str| {
        let Group { key, jobs, completed, failed, killed, gpu_hours } = group;
        let key = key.clone().unwrap_or_else(|| none.to_string());
        let counts = [*jobs, *completed, *failed, *killed].map(|count| count.to_string());
        [vec![key], counts.to_vec(), vec![format!("{gpu_hours:.2}")]].concat()
    };
    match format {
        Format::Text => ui.data(&aligned(&names, groups.iter().map(|group| cells(group, "(none)")).collect())),
        Format::Csv => {
            let head = csv(names.iter().map(|name| name.to_string()));
            let lines: String = groups.iter().map(|group| csv(cells(group, "").into_iter())).collect();
            ui.colourless(&(head + &lines))
        }
        Format::Json => {
            let object = |group: &Group| {
                let mut object = json!(group);
                object[by.word()] = object["key"].take();
                object.as_object_mut().map(|fields| fields.remove("key"));
                object
            };
            ui.json(&groups.iter().map(object).collect::<Vec<Value>>())
        }
    }
}

/// A value as a cell of a table.
pub fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(values) if values.iter().all(|value| !value.is_object()) => {
            values.iter().map(text).collect::<Vec<_>>().join(",")
        }
        // Never with an exponent.
        Value::Number(number) if number.is_f64() => number.as_f64().unwrap_or_default().to_string(),
        other => other.to_string(),
    }
}

/// A row as RFC 4180 has it, but for its end. It is opened in spreadsheets.
fn csv(cells: impl Iterator<Item = String>) -> String {
    cells.map(|cell| quoted(&guarded(&cell))).collect::<Vec<_>>().join(",") + "\n"
}

/// Columns below each other, each cell on one line; the last is not padded.
fn aligned(names: &[&str], rows: Vec<Vec<String>>) -> String {
    let one_line = |cell: &String| match cell.is_empty() {
        true => "-".to_string(),
        false => shown::printable(&cell.replace('\n', " ")),
    };
    let head = names.iter().map(|name| name.to_string()).collect();
    let rows: Vec<Vec<String>> =
        [vec![head], rows.iter().map(|row| row.iter().map(one_line).collect()).collect()].concat();
    let width = |column: usize| rows.iter().map(|row: &Vec<String>| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..names.len()).map(width).collect();
    let line = |row: &Vec<String>| {
        let padded = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_string() + "\n"
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_of_every_kind() {
        for (value, expected) in [
            (json!(null), ""),
            (json!("a,b"), "a,b"),
            (json!([0, 1]), "0,1"),
            (json!(["a", "b"]), "a,b"),
            (json!(1.5), "1.5"),
            (json!(0.000004), "0.000004"),
            (json!({"a": 1}), "{\"a\":1}"),
        ] {
            assert_eq!(text(&value), expected);
        }
        assert_eq!(csv(["=1,2".to_string(), "-3.5".into(), "-x".into()].into_iter()), "\"'=1,2\",-3.5,'-x\n");
        assert_eq!(csv(["a,b".to_string(), "c\"d".into(), "e\nf".into()].into_iter()), "\"a,b\",\"c\"\"d\",\"e\nf\"\n");
        let rows = vec![vec!["1".into(), "".into()], vec!["22".into(), "x\ny".into()]];
        assert_eq!(aligned(&["a", "b"], rows), "a   b\n1   -\n22  x y\n");
    }
}
