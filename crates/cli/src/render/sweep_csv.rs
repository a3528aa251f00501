//! A sweep as a table by RFC 4180: a row for each of its jobs that was not repeated.

use std::collections::HashSet;

use nexus_api::export::guarded;
use nexus_api::jobs::Job;
use nexus_api::sweeps::Sweep;

pub fn csv(sweep: &Sweep, jobs: &[Job]) -> String {
    let mut text = row(heads(sweep));
    let repeated: HashSet<&str> = jobs.iter().filter_map(|job| job.rerun_of.as_deref()).collect();
    for job in jobs.iter().filter(|job| !repeated.contains(job.id.as_str())) {
        text.push_str(&row(cells(sweep, job)));
    }
    text
}

const BEFORE: [&str; 1] = ["id"];
const AFTER: [&str; 4] = ["state", "exit_code", "runtime_seconds", "results"];

/// A parameter or a value that is called as a column is told from it.
fn heads(sweep: &Sweep) -> Vec<String> {
    let own = |name: &String, kind: &str| match BEFORE.iter().chain(&AFTER).any(|head| head == name) {
        true => format!("{kind}.{name}"),
        false => name.clone(),
    };
    let mut heads: Vec<String> = BEFORE.map(String::from).to_vec();
    heads.extend(sweep.params.iter().map(|name| own(name, "param")));
    heads.extend(AFTER.map(String::from));
    heads.extend(sweep.extract.iter().map(|name| own(name, "value")));
    heads
}

fn cells(sweep: &Sweep, job: &Job) -> Vec<String> {
    let param = |name: &String| match job.params.as_ref().and_then(|params| params.get(name)) {
        Some(serde_json::Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    };
    let value = |name: &String| job.extracted.as_ref().and_then(|values| values.get(name)).cloned().unwrap_or_default();
    let mut cells = vec![job.id.clone()];
    cells.extend(sweep.params.iter().map(param));
    cells.push(job.state.word().into());
    cells.push(job.exit_code.map(|code| code.to_string()).unwrap_or_default());
    cells.push(job.runtime_seconds.map(|seconds| seconds.to_string()).unwrap_or_default());
    cells.push(job.results.clone().unwrap_or_else(|| job.results_named.join(" ")));
    cells.extend(sweep.extract.iter().map(value));
    cells
}

fn row(cells: Vec<String>) -> String {
    let mut line = cells.iter().map(|cell| quoted(&guarded(cell))).collect::<Vec<_>>().join(",");
    line.push('\n');
    line
}

fn quoted(cell: &str) -> String {
    match cell.contains([',', '"', '\r', '\n']) || cell.trim() != cell {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use nexus_api::jobs::State;

    use super::*;
    use crate::render::samples;

    #[test]
    fn a_row_for_each_job_that_counts() {
        let mut sweep = samples::sweep("m");
        sweep.params = vec!["lr".into(), "state".into()];
        sweep.extract = vec!["loss".into()];
        let with = |id: &str, state: State, lr: &str| {
            let mut job = samples::ended(id, state, "");
            job.params = Some(serde_json::json!({"lr": lr, "state": "x"}));
            job
        };
        let mut done = with("abc", State::Completed, "a,\"b\"");
        (done.exit_code, done.results) = (Some(0), Some("/r/abc".into()));
        done.extracted = Some([("loss".to_string(), "0.25".to_string())].into());
        let failed = with("def", State::Failed, "0.1");
        let mut again = samples::queued("ghj");
        (again.rerun_of, again.params) = (Some("def".into()), Some(serde_json::json!({"lr": "0.1", "state": "x"})));
        again.results_named = vec!["out.txt".into()];
        assert_eq!(
            csv(&sweep, &[done, failed, again]),
            "id,lr,param.state,state,exit_code,runtime_seconds,results,loss\n\
             abc,\"a,\"\"b\"\"\",x,completed,0,130,/r/abc,0.25\n\
             ghj,0.1,x,queued,,,out.txt,\n"
        );
        // Values come from output, and the table is opened in a spreadsheet.
        let mut formula = with("abd", State::Completed, "-0.5");
        formula.extracted = Some([("loss".to_string(), "=1".to_string())].into());
        assert!(csv(&sweep, &[formula]).ends_with("abd,-0.5,x,completed,,130,,'=1\n"));
        assert_eq!(csv(&sweep, &[]).lines().count(), 1);
    }
}
