//! Any text as the plan of a sweep, and as a table of points.
//!
//! A plan stands in lines: `where CONDITION`, `zip`, `random COUNT SEED`, `copies COUNT`, `NAME=VALUES`, and `from` before a
//! table that takes all further lines. Other lines say nothing.

use std::collections::BTreeSet;

use nexus_api::command::Command;
use nexus_api::jobs::JobSpec;
use nexus_api::sweeps::{Axis, MOST_JOBS, Plan, Random, Table};

/// Larger products are counted and not made: that they are bounded is for tests by name.
const MOST_HERE: u128 = 2000;

pub fn hold(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for table in [Table::from_csv(text), Table::from_json(text)].into_iter().flatten() {
        is_a_table(&table);
    }
    let (plan, copies) = plan(text);
    let lengths = match plan.lengths() {
        Ok(lengths) => lengths,
        Err(bad) => return assert!(!bad.error().is_empty() && !bad.to_string().is_empty()),
    };
    let product = lengths.iter().fold(1u128, |all, (_, length)| all.saturating_mul(*length as u128));
    let drawn = plan.random.map_or(0, |random| u128::from(random.count));
    if product.max(drawn).saturating_mul(u128::from(copies)) > MOST_HERE {
        return;
    }
    match plan.points(copies) {
        Ok(points) => {
            let names: BTreeSet<&String> = points.names.iter().collect();
            assert_eq!(names.len(), points.names.len());
            assert!((1..=MOST_JOBS).contains(&(points.rows.len() as u64)));
            assert!(points.rows.iter().all(|row| row.len() == names.len()));
            assert!(points.rows.iter().flatten().all(|value| !value.contains('\0')));
            assert_eq!(plan.points(copies).as_ref(), Ok(&points), "a plan means the same each time");
            let spec = JobSpec::new(Command::Shell("a {a} {b} ${a}".into()), "/".into());
            let job = points.job(&spec, &points.rows[0]);
            assert_eq!(job.params.len(), names.len());
        }
        Err(bad) => assert!(!bad.error().is_empty() && !bad.to_string().is_empty()),
    }
}

fn plan(text: &str) -> (Plan, u32) {
    let (mut plan, mut copies) = (Plan::default(), 1);
    let mut rest = text;
    while let Some((line, after)) = rest.split_once('\n').or_else(|| (!rest.is_empty()).then_some((rest, ""))) {
        rest = after;
        let number = |text: &str| text.parse().unwrap_or(1);
        match line.split_once(' ') {
            Some(("where", condition)) => plan.only = Some(condition.into()),
            Some(("copies", count)) => copies = number(count),
            Some(("random", numbers)) => {
                let (count, seed) = numbers.split_once(' ').unwrap_or((numbers, "7"));
                plan.random = Some(Random { count: number(count), seed: number(seed).into() });
            }
            _ if line == "zip" => plan.zip = true,
            _ if line == "from" => {
                plan.from = Table::from_json(rest).or_else(|_| Table::from_csv(rest)).ok();
                break;
            }
            _ => {
                let axis = line.split_once('=').map(|(name, values)| Axis { name: name.into(), values: values.into() });
                plan.axes.extend(axis);
            }
        }
    }
    (plan, copies)
}

/// Every row has its values, and both ways to write the table are read as the same.
fn is_a_table(table: &Table) {
    assert!(!table.rows.is_empty() && table.rows.iter().all(|row| row.len() == table.names.len()));
    let quoted = |fields: &Vec<String>| {
        let fields: Vec<String> = fields.iter().map(|field| format!("\"{}\"", field.replace('"', "\"\""))).collect();
        fields.join(",")
    };
    let csv: Vec<String> = std::iter::once(&table.names).chain(&table.rows).map(quoted).collect();
    if !table.names.is_empty() {
        assert_eq!(Table::from_csv(&csv.join("\n")).as_ref(), Ok(table));
    }
    let names: BTreeSet<&String> = table.names.iter().collect();
    if names.len() == table.names.len() {
        let object = |row: &Vec<String>| {
            let entries = table.names.iter().zip(row);
            let texts = entries.map(|(name, value)| format!("{}:{}", json(name), json(value)));
            format!("{{{}}}", texts.collect::<Vec<_>>().join(","))
        };
        let rows: Vec<String> = table.rows.iter().map(object).collect();
        assert_eq!(Table::from_json(&format!("[{}]", rows.join(","))).as_ref(), Ok(table));
    }
}

fn json(text: &str) -> String {
    serde_json::to_string(text).expect("a text can be written")
}
