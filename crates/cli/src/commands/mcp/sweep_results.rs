//! `sweep_results`: a sweep as a table, the best row first where a metric is named.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use nexus_api::jobs::Job;
use nexus_api::sweeps::{States, Sweep};
use rmcp::schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::answer::{Answer, bad};
use crate::client::Client;
use crate::commands::sweep::named;
use crate::error::CliError;
use crate::render::{outcome, text};

const USUAL: usize = 100;
const MOST: usize = 1000;

#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(crate = "rmcp::schemars")]
pub struct Args {
    /// Name of the sweep [default: the newest]
    pub name: Option<String>,
    /// A value of extract: the best row stands first, rows without it last
    pub metric: Option<String>,
    /// Which is best: min or max [default: min]
    pub goal: Option<String>,
    /// How many rows, 1 to 1000 [default: 100]
    pub limit: Option<usize>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub struct Table {
    pub name: String,
    pub command: String,
    /// Names of its parameters
    pub params: Vec<String>,
    /// Names of the values taken from the output
    pub metrics: Vec<String>,
    /// How many jobs are in each state
    pub states: BTreeMap<String, u64>,
    /// Why the rest of it is held
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_end: Option<String>,
    pub rows: Vec<Row>,
    /// Rows that are not here
    pub left_out: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub struct Row {
    pub id: String,
    pub state: String,
    pub params: BTreeMap<String, String>,
    pub metrics: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime_seconds: Option<f64>,
    /// How it ended, in words
    pub outcome: String,
}

pub async fn run(args: &Args, client: &Client) -> Result<Answer, CliError> {
    let limit = args.limit.unwrap_or(USUAL);
    if !(1..=MOST).contains(&limit) {
        return Err(bad(format!("limit cannot be {limit}"), format!("limit: 1 to {MOST}")));
    }
    let largest_first = match args.goal.as_deref() {
        None | Some("min") => false,
        Some("max") => true,
        Some(other) => return Err(bad(format!("goal cannot be {:?}", text::cut(other, 40)), "min or max")),
    };
    let sweep = named(args.name.as_deref(), client).await?;
    if let Some(metric) = args.metric.as_ref().filter(|metric| !sweep.extract.contains(metric)) {
        let hint = match sweep.extract.as_slice() {
            [] => "extract of sweep says which values are taken from the output; this one has none".into(),
            some => format!("metric: {}", some.join(", ")),
        };
        return Err(bad(format!("sweep {} has no metric {:?}", sweep.name, text::cut(metric, 40)), hint));
    }
    let jobs = client.sweep_jobs(&sweep.name).await?;
    let mut rows: Vec<Row> = jobs.iter().map(row).collect();
    if let Some(metric) = &args.metric {
        rows.sort_by(|one, other| best_first(one, other, metric, largest_first));
    }
    let left_out = rows.len().saturating_sub(limit) as u64;
    rows.truncate(limit);
    let table = table(sweep, rows, left_out);
    Ok(Answer::new(in_text(&table, args.metric.as_deref()), &table))
}

fn row(job: &Job) -> Row {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), String::from);
    let params = job.params.as_ref().and_then(Value::as_object).into_iter().flatten();
    Row {
        id: job.id.clone(),
        state: job.state.word().into(),
        params: params.map(|(name, value)| (name.clone(), text(value))).collect(),
        metrics: job.extracted.clone().unwrap_or_default(),
        exit_code: job.exit_code,
        runtime_seconds: job.runtime_seconds,
        outcome: outcome::state_words(job),
    }
}

/// What is no number, or not there, comes last; of equal ones the order stays.
fn best_first(one: &Row, other: &Row, metric: &str, largest_first: bool) -> Ordering {
    let number = |row: &Row| {
        let value: Option<f64> = row.metrics.get(metric).and_then(|text| text.trim().parse().ok());
        value.filter(|value| !value.is_nan())
    };
    match (number(one), number(other)) {
        (Some(one), Some(other)) if largest_first => other.total_cmp(&one),
        (Some(one), Some(other)) => one.total_cmp(&other),
        (one, other) => other.is_some().cmp(&one.is_some()),
    }
}

fn table(sweep: Sweep, rows: Vec<Row>, left_out: u64) -> Table {
    let Sweep { name, command, params, extract, stopped, expected_end, states, .. } = sweep;
    let States { held, queued, running, copying, completed, failed, killed } = states;
    let states = [
        ("held", held),
        ("queued", queued),
        ("running", running),
        ("copying", copying),
        ("completed", completed),
        ("failed", failed),
        ("killed", killed),
    ];
    let states = states.into_iter().filter(|(_, count)| *count > 0).map(|(word, count)| (word.to_string(), count));
    Table { name, command, params, metrics: extract, states: states.collect(), stopped, expected_end, rows, left_out }
}

/// Cells between bars, so that a value with blanks stays one.
fn in_text(table: &Table, metric: Option<&str>) -> String {
    let states: Vec<String> = table.states.iter().map(|(word, count)| format!("{count} {word}")).collect();
    let mut said = format!("sweep {}: {}\n", table.name, states.join(", "));
    if let Some(stopped) = &table.stopped {
        said.push_str(&format!("stopped: {stopped}\n"));
    }
    let heads = ["id"].into_iter().chain(table.params.iter().map(String::as_str)).chain(["outcome"]);
    said.push_str(&line(heads.chain(table.metrics.iter().map(String::as_str)).map(String::from)));
    for row in &table.rows {
        let of = |values: &BTreeMap<String, String>, name: &String| values.get(name).cloned().unwrap_or_default();
        let params = table.params.iter().map(|name| of(&row.params, name));
        let metrics = table.metrics.iter().map(|name| of(&row.metrics, name));
        said.push_str(&line([row.id.clone()].into_iter().chain(params).chain([row.outcome.clone()]).chain(metrics)));
    }
    if table.left_out > 0 {
        said.push_str(&format!("{} left out: limit asks for more\n", text::counted(table.left_out, "row")));
    }
    if let (Some(metric), Some(best)) = (metric, table.rows.first()) {
        let value = best.metrics.get(metric).map_or("none has a value yet", String::as_str);
        said.push_str(&format!("best {metric}: {} of {}\n", text::first_line(value), best.id));
    }
    said
}

fn line(cells: impl Iterator<Item = String>) -> String {
    let cells: Vec<String> = cells.map(|cell| text::cut(&text::first_line(&cell), 80)).collect();
    format!("{}\n", cells.join(" | "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_row_is_first_and_those_without_a_value_last() {
        let row = |id: &str, loss: Option<&str>| Row {
            id: id.into(),
            state: "completed".into(),
            params: BTreeMap::new(),
            metrics: loss.map(|loss| ("loss".to_string(), loss.to_string())).into_iter().collect(),
            exit_code: Some(0),
            runtime_seconds: None,
            outcome: "completed".into(),
        };
        let order = |largest_first| {
            let losses =
                [None, Some("0.5"), Some("nan"), Some("1e-3"), Some("-2"), Some("x"), Some("inf"), Some("0.5")];
            let mut rows: Vec<Row> =
                losses.iter().zip("abcdefgh".chars()).map(|(loss, id)| row(&id.to_string(), *loss)).collect();
            rows.sort_by(|one, other| best_first(one, other, "loss", largest_first));
            rows.into_iter().map(|row| row.id).collect::<String>()
        };
        assert_eq!(order(false), "edbhgacf");
        assert_eq!(order(true), "gbhdeacf");
    }
}
