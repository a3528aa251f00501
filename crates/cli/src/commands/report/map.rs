//! `--map COLUMN=PROGRAM`: a column as a program makes it.

use std::io::Write;
use std::process::{Command, Stdio};

use nexus_node::threads;
use serde_json::Value;

use super::column::Column;
use super::print::text;
use crate::error::{CliError, Refused, Usage};

pub struct Map {
    name: String,
    place: usize,
    program: String,
}

impl Map {
    pub fn read(typed: &str, columns: &[Column]) -> Result<Map, Usage> {
        let Some((name, program)) = typed.split_once('=').filter(|(_, program)| !program.trim().is_empty()) else {
            return Err(Usage::new(format!("--map {typed} names no program"), "--map results='xargs -n1 basename'"));
        };
        let place = columns.iter().position(|column| column.name == name).ok_or_else(|| {
            let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
            Usage::new(format!("--map {name}: the report has no such column"), format!("it has {}", names.join(", ")))
        })?;
        Ok(Map { name: name.into(), place, program: program.into() })
    }

    /// Pipes the values through, each on a line of its own.
    pub fn apply(&self, rows: &mut [Vec<Value>]) -> Result<(), CliError> {
        if rows.is_empty() {
            return Ok(());
        }
        let values: Vec<String> = rows.iter().map(|row| text(&row[self.place]).replace(['\n', '\r'], " ")).collect();
        let failed = |source| CliError::Io { doing: format!("--map {} could not be run", self.name), source };
        let mut child = Command::new("sh")
            .args(["-c", &self.program])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let mut input = child.stdin.take().expect("it was asked for");
        // Beside the reading: a program may print before it has read all. One that does not read to the end is judged by
        // what it printed.
        let write = move || input.write_all((values.join("\n") + "\n").as_bytes());
        let writer = threads::start("nexus-map", write).map_err(failed)?;
        let output = child.wait_with_output().map_err(failed)?;
        let _ = writer.join();
        let printed = String::from_utf8_lossy(&output.stdout);
        let lines: Vec<&str> = printed.lines().collect();
        if !output.status.success() {
            return Err(self.refused(format!("the program ended with {}", output.status)));
        }
        if lines.len() != rows.len() {
            let why =
                format!("it was given {} lines and printed {}; it has to print one for each", rows.len(), lines.len());
            return Err(self.refused(why));
        }
        for (row, line) in rows.iter_mut().zip(lines) {
            row[self.place] = Value::String(line.to_string());
        }
        Ok(())
    }

    fn refused(&self, why: String) -> CliError {
        let error = format!("--map {}={} does not fit", self.name, self.program);
        Refused { error, why: Some(why), hint: None }.into()
    }
}
