//! `config.toml` taken apart: every table and every value, each with its path and its place in the text.

use std::ops::Range;

use toml::Value;
use toml::de::{DeTable, DeValue};

/// The one list of tables there is: `[[rule]]`.
pub const RULE: &str = "rule";

pub struct Entry {
    /// `["jobs", "grace"]`; the second rule's `gpus` is `["rule", "2", "gpus"]`.
    pub path: Vec<String>,
    pub key: Range<usize>,
    pub place: Range<usize>,
    /// None for a table.
    pub value: Option<Value>,
}

/// What is wrong with a text, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub line: Option<u64>,
    pub error: String,
}

/// In the order of the text.
pub fn entries(text: &str) -> Result<Vec<Entry>, Fault> {
    let table = DeTable::parse(text).map_err(|error| Fault {
        line: error.span().map(|span| line_of(text, span.start)),
        error: error.message().trim().replace('\n', ", "),
    })?;
    let mut entries = Vec::new();
    collect(table.get_ref(), &[], &mut entries);
    entries.sort_by_key(|entry| entry.key.start);
    Ok(entries)
}

pub fn line_of(text: &str, at: usize) -> u64 {
    text.as_bytes()[..at.min(text.len())].iter().filter(|byte| **byte == b'\n').count() as u64 + 1
}

fn collect(table: &DeTable, above: &[String], entries: &mut Vec<Entry>) {
    for (name, value) in table {
        let path = [above, &[name.get_ref().to_string()]].concat();
        let (key, place) = (name.span(), value.span());
        match value.get_ref() {
            DeValue::Table(inner) => {
                entries.push(Entry { path: path.clone(), key, place, value: None });
                collect(inner, &path, entries);
            }
            DeValue::Array(list) if path == [RULE] && list.iter().all(|one| one.get_ref().is_table()) => {
                for (number, one) in list.iter().enumerate() {
                    let path = [path.as_slice(), &[(number + 1).to_string()]].concat();
                    entries.push(Entry { path: path.clone(), key: one.span(), place: one.span(), value: None });
                    collect(one.get_ref().as_table().expect("all are tables"), &path, entries);
                }
            }
            other => entries.push(Entry { path, key, place, value: Some(plain(other)) }),
        }
    }
}

fn plain(value: &DeValue) -> Value {
    match value {
        DeValue::String(text) => Value::String(text.to_string()),
        // A number that does not fit is none: it stays a text, which no key for numbers takes.
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Value::Integer(number),
            Err(_) => Value::String(number.as_str().into()),
        },
        DeValue::Float(number) => number.as_str().parse().map_or(Value::String(number.as_str().into()), Value::Float),
        DeValue::Boolean(flag) => Value::Boolean(*flag),
        DeValue::Datetime(time) => Value::Datetime(*time),
        DeValue::Array(list) => Value::Array(list.iter().map(|one| plain(one.get_ref())).collect()),
        DeValue::Table(table) => {
            Value::Table(table.iter().map(|(name, one)| (name.get_ref().to_string(), plain(one.get_ref()))).collect())
        }
    }
}
