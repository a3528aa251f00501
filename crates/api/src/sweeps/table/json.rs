//! A table as JSON: a list of objects is rows, an object of lists is columns.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::bad;
use crate::sweeps::Table;
use crate::sweeps::bad::BadPlan;

const RIGHT: &str = "[{\"lr\": 0.1, \"seed\": 1}, …] or {\"lr\": [0.1, …], \"seed\": [1, …]}";

/// An object in the order in which it is written, its values as they are written.
struct Object(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Object, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Object;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Object(entries))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

pub fn read(text: &str) -> Result<Table, BadPlan> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let whole: Box<RawValue> =
        serde_json::from_str(text).map_err(|error| bad(format!("the file cannot be read as JSON: {error}"), RIGHT))?;
    match whole.get().as_bytes().first() {
        Some(b'[') => rows(&whole),
        Some(b'{') => columns(&whole),
        _ => Err(bad("the file is neither a list of objects nor an object of lists", RIGHT)),
    }
}

fn rows(whole: &RawValue) -> Result<Table, BadPlan> {
    let list: Vec<Box<RawValue>> = list(whole, "the file")?;
    let mut table = Table { names: vec![], rows: Vec::with_capacity(list.len()) };
    for (place, raw) in list.iter().enumerate() {
        let number = place + 1;
        let Ok(Object(entries)) = serde_json::from_str(raw.get()) else {
            return Err(bad(format!("row {number} is no object"), RIGHT));
        };
        if place == 0 {
            table.names = entries.iter().map(|(name, _)| name.clone()).collect();
        }
        let mut row: Vec<Option<String>> = vec![None; table.names.len()];
        for (name, raw) in &entries {
            let Some(column) = table.names.iter().position(|known| known == name) else {
                return Err(bad(format!("row {number} has {name}, and row 1 has not"), "the same names in every row"));
            };
            if row[column].is_some() {
                return Err(bad(format!("row {number} has {name} twice"), "each name once"));
            }
            row[column] = Some(value(raw, name, number)?);
        }
        let missing = row.iter().position(Option::is_none);
        if let Some(column) = missing {
            let error = format!("row {number} has no {}", table.names[column]);
            return Err(bad(error, "the same names in every row"));
        }
        table.rows.push(row.into_iter().flatten().collect());
    }
    Ok(table)
}

fn columns(whole: &RawValue) -> Result<Table, BadPlan> {
    let Object(entries) =
        serde_json::from_str(whole.get()).map_err(|error| bad(format!("the file cannot be read: {error}"), RIGHT))?;
    let mut columns: Vec<Vec<String>> = Vec::new();
    for (name, raw) in &entries {
        let values = list(raw, name)?;
        let texts = values.iter().enumerate().map(|(place, raw)| value(raw, name, place + 1));
        columns.push(texts.collect::<Result<_, _>>()?);
    }
    let count = columns.first().map_or(0, Vec::len);
    if columns.iter().any(|column| column.len() != count) {
        let of = |((name, _), column): (&(String, _), &Vec<String>)| format!("{name} has {}", column.len());
        let lengths: Vec<String> = entries.iter().zip(&columns).map(of).collect();
        let error = lengths.join(", ").replacen(", ", " values, ", 1);
        return Err(bad(error, "lists of one length, or NAME=VALUES for each with each"));
    }
    let row = |place: usize| columns.iter().map(|column| column[place].clone()).collect();
    let names = entries.iter().map(|(name, _)| name.clone()).collect();
    Ok(Table { names, rows: (0..count).map(row).collect() })
}

fn list(raw: &RawValue, what: &str) -> Result<Vec<Box<RawValue>>, BadPlan> {
    serde_json::from_str(raw.get()).map_err(|_| bad(format!("{what} is no list"), RIGHT))
}

fn value(raw: &RawValue, name: &str, row: usize) -> Result<String, BadPlan> {
    let text = raw.get();
    match text.as_bytes().first() {
        Some(b'"') => serde_json::from_str(text)
            .map_err(|error| bad(format!("{name} of row {row} cannot be read: {error}"), RIGHT)),
        Some(b'[' | b'{' | b'n') => {
            let cut: String = text.chars().take(40).collect();
            Err(bad(format!("{name} of row {row} is {cut}"), "a number, a text, true or false"))
        }
        _ => Ok(text.to_string()),
    }
}
