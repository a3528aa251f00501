//! A table as csv: fields may go on in the next line, in quotes.

use std::borrow::Cow;

use super::bad;
use crate::csv::{NotCsv, QUOTES, Reader};
use crate::sweeps::Table;
use crate::sweeps::bad::BadPlan;

pub fn read(text: &str) -> Result<Table, BadPlan> {
    let (mut reader, mut fields) = (Reader::new(text), Vec::new());
    let no_csv = |NotCsv { line, error }| bad(format!("line {line}: {error}"), QUOTES);
    if reader.record(&mut fields).map_err(no_csv)?.is_none() {
        return Err(bad("the file has no line with names", "lr,seed in its first line"));
    }
    let names: Vec<String> = fields.drain(..).map(Cow::into_owned).collect();
    let mut rows = Vec::new();
    while let Some(line) = reader.record(&mut fields).map_err(no_csv)? {
        if fields.len() != names.len() {
            let values = if fields.len() == 1 { "value" } else { "values" };
            let error = format!("line {line} has {} {values}, and there are {} names", fields.len(), names.len());
            return Err(bad(error, "a value of each name in every line; one with a comma in quotes"));
        }
        rows.push(fields.drain(..).map(Cow::into_owned).collect());
    }
    Ok(Table { names, rows })
}
