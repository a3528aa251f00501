//! Columns of a report, and what a job has in them.

use jiff::{Timestamp, Zoned};
use nexus_api::export::Exported;
use nexus_api::jobs::{Job, Run};
use nexus_api::nearest::nearest;
use serde_json::{Map, Value, json};

use crate::error::Usage;
use crate::render::time;

/// Fields of a job, as `show --json` has them.
const FIELDS: &[&str] = &[
    "id",
    "name",
    "project",
    "command",
    "argv",
    "state",
    "reason",
    "replaced_by",
    "detail",
    "waiting",
    "exit_code",
    "signal",
    "request",
    "machine",
    "class",
    "gpus",
    "pid",
    "priority",
    "attempt",
    "retries",
    "tags",
    "sweep",
    "params",
    "submitted_at",
    "started_at",
    "ended_at",
    "runtime_seconds",
    "cwd",
    "log_dir",
    "stdout_path",
    "stderr_path",
    "results",
    "results_state",
    "results_named",
    "extracted",
    "links",
    "simulated",
    "slurm",
    "position",
    "rerun_of",
];

/// Made from them.
const MADE: &[&str] = &["gpu_hours", "runtime", "ended", "exit"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// As typed.
    pub name: String,
    what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    Field,
    /// A parameter of its sweep.
    Param(String),
    /// A value from its output.
    Value(String),
    GpuHours,
    Runtime,
    Ended,
    Exit,
}

pub fn read(typed: &[String]) -> Result<Vec<Column>, Usage> {
    typed.iter().flat_map(|list| list.split(',')).map(|name| one(name.trim())).collect()
}

fn one(name: &str) -> Result<Column, Usage> {
    let what = match name {
        "gpu_hours" => What::GpuHours,
        "runtime" => What::Runtime,
        "ended" => What::Ended,
        "exit" => What::Exit,
        field if FIELDS.contains(&field) => What::Field,
        other => match other.split_once('.') {
            Some(("param", param)) if !param.is_empty() => What::Param(param.into()),
            Some(("value", value)) if !value.is_empty() => What::Value(value.into()),
            _ => return Err(unknown(other)),
        },
    };
    Ok(Column { name: name.into(), what })
}

fn unknown(name: &str) -> Usage {
    let hint = match nearest(name, FIELDS.iter().chain(MADE).copied()) {
        Some(near) => format!("--columns {near}"),
        None => "nexus help report; fields of a job: nexus show ID --json".into(),
    };
    Usage::new(format!("there is no column {}", if name.is_empty() { "\"\"" } else { name }), hint)
}

/// What a job has in each column.
pub fn cells(columns: &[Column], exported: &Exported, now: &Zoned) -> Vec<Value> {
    let (job, runs) = (&exported.job, &exported.beside.runs);
    let needs_fields = columns.iter().any(|column| column.what == What::Field);
    let fields = match needs_fields.then(|| serde_json::to_value(job)) {
        Some(Ok(Value::Object(fields))) => fields,
        _ => Map::new(),
    };
    let cell = |column: &Column| match &column.what {
        What::Field => fields.get(&column.name).cloned().unwrap_or(Value::Null),
        What::Param(name) => job.params.as_ref().and_then(|params| params.get(name)).cloned().unwrap_or(Value::Null),
        What::Value(name) => json!(job.extracted.as_ref().and_then(|values| values.get(name))),
        What::GpuHours => json!((gpu_hours(runs, now) * 1e6).round() / 1e6),
        What::Runtime => json!(job.runtime_seconds.map(|seconds| time::span(seconds as u64))),
        What::Ended => json!(job.ended_at.as_deref().map(|ended| clock(ended, now))),
        What::Exit => json!(exit(job)),
    };
    columns.iter().map(cell).collect()
}

fn exit(job: &Job) -> Option<String> {
    let by_signal = || job.signal.map(|signal| format!("signal {signal}"));
    job.exit_code.map(|code| code.to_string()).or_else(by_signal)
}

fn clock(text: &str, now: &Zoned) -> String {
    match text.parse::<Timestamp>() {
        Ok(then) => then.to_zoned(now.time_zone().clone()).strftime("%Y-%m-%d %H:%M:%S").to_string(),
        Err(_) => text.into(),
    }
}

/// GPUs × run time over all attempts. What shares by memory alone counts whole: nobody knows which part that is.
fn gpu_hours(runs: &[Run], now: &Zoned) -> f64 {
    let of_run = |run: &Run| {
        let started: Timestamp = run.started_at.as_ref()?.parse().ok()?;
        let ended = match &run.ended_at {
            Some(ended) => ended.parse().ok()?,
            None => now.timestamp(),
        };
        let part = run.part.and_then(|part| part.milli()).map_or(1.0, |milli| f64::from(milli) / 1000.0);
        let hours = (ended.as_millisecond() - started.as_millisecond()).max(0) as f64 / 3_600_000.0;
        Some(run.gpus.len() as f64 * part * hours)
    };
    runs.iter().filter_map(of_run).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::samples;
    use nexus_api::jobs::State;

    #[test]
    fn every_field_of_a_job_is_a_column() {
        let Ok(Value::Object(fields)) = serde_json::to_value(samples::ended("abc", State::Killed, "user")) else {
            panic!("a job is an object")
        };
        let mut known: Vec<&str> = FIELDS.to_vec();
        known.sort_unstable();
        assert_eq!(fields.keys().map(String::as_str).collect::<Vec<_>>(), known);
        assert!(read(&["id,param.lr".into(), " value.loss".into()]).unwrap().len() == 3);
        assert_eq!(read(&["stat".into()]).unwrap_err().hint.as_deref(), Some("--columns state"));
        for bad in ["", "id,", "param.", "nonsense"] {
            assert!(read(&[bad.into()]).is_err(), "{bad}");
        }
    }

    #[test]
    fn gpu_hours_are_those_of_all_attempts() {
        let run = |gpus: &[u16], part: Option<u16>, from: &str, to: Option<&str>| Run {
            attempt: 1,
            machine: "local".into(),
            gpus: gpus.to_vec(),
            pid: None,
            planned_at: from.into(),
            started_at: Some(from.into()),
            ended_at: to.map(String::from),
            outcome: None,
            log_dir: String::new(),
            part: part.and_then(nexus_api::amount::GpuAmount::part),
            vram_mib: None,
            peak_vram_mib: None,
            out: None,
        };
        let runs = [
            run(&[0, 1], None, "2024-10-24T10:00:00Z", Some("2024-10-24T11:30:00Z")),
            run(&[0], Some(250), "2024-10-24T12:00:00Z", Some("2024-10-24T14:00:00Z")),
            // Until now, 15:45.
            run(&[0], None, "2024-10-24T15:15:00Z", None),
            run(&[], None, "2024-10-24T10:00:00Z", Some("2024-10-24T11:30:00Z")),
        ];
        assert_eq!(gpu_hours(&runs, &samples::now()), 3.0 + 0.5 + 0.5);
    }
}
