//! A job as `nexus export` writes it: a line of JSON, or a row of a table. Described in `docs/export.md`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::command::Command;
use crate::env::Env;
use crate::jobs::{Code, Job, JobSpec, RetryOn, Run, Session, State};
use crate::results::Extract;

/// Format of a line. A newer one is refused by those who read it.
pub const FORMAT: u32 = 1;

/// A job with all that a new one like it needs, and its attempts. What an option does not say is absent.
///
/// `waiting` and `position` of the job are null: they are of the moment, and an export takes its time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Exported {
    pub format: u32,
    #[serde(flatten)]
    pub job: Job,
    #[serde(flatten)]
    pub beside: Beside,
}

/// What stands beside the fields of every listing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Beside {
    #[serde(default)]
    pub runs: Vec<Run>,
    /// As in its spec, as are the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conda: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub venv: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_arg: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_rule: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after_any: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retry_on: Vec<RetryOn>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unique: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub notify: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out_dir: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tty: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Session>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub one_terminal: bool,
    /// It is held now.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hold: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_of: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extract: Vec<Extract>,
    /// The folder given by `--results`; `results` is the job's own folder in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub results_to: Option<String>,
    /// Why the copy of its results failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub results_error: Option<String>,
    /// The job that it was to come after, and that did not complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_by: Option<String>,
    /// Variables that were given for this job; none that looks like a secret.
    #[serde(default, skip_serializing_if = "Env::is_empty")]
    #[schema(value_type = std::collections::BTreeMap<String, String>)]
    pub env: Env,
    /// Names of those that do. Their values are nowhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secret_names: Vec<String>,
    /// On another machine too the job has the submitter's whole environment.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub export_env: bool,
    /// The code that the job runs in a copy of. The copy itself is not in the export.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// Columns and rows of the submitter's terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<(u16, u16)>,
    /// Names of variables (`nexus var`) that the job needs. Their values are not in the export.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<String>,
}

/// What an export says of a job beside its spec and what every listing says.
#[derive(Clone, Debug, Default)]
pub struct Aside {
    pub runs: Vec<Run>,
    pub hold: bool,
    pub results_error: Option<String>,
    pub failed_by: Option<String>,
    /// Variables that were given for the job, secrets left out.
    pub env: Env,
    pub secret_names: Vec<String>,
}

impl Exported {
    /// `job` is the listing of the job that has this spec.
    pub fn of(job: Job, spec: JobSpec, aside: Aside) -> Exported {
        let Aside { runs, hold, results_error, failed_by, env, secret_names } = aside;
        // Each field is named, so that a new one cannot be left out of an export. The first two lines are fields of the listing;
        // the environment and the hold come with `aside`.
        #[rustfmt::skip]
        let JobSpec {
            command: _, cwd: _, name: _, project: _, tags: _, request: _, priority: _, retries: _, rerun_of: _,
            sweep: _, params: _,
            env: _, env_given: _, hold: _,
            results: results_to, conda, venv, gpu_arg, by_rule, after, after_any, retry_on, unique, notify, out, out_dir,
            tty, session, one_terminal, checkpoint_of, extract, export_env, code, window, variables,
        } = spec;
        let beside = Beside {
            runs,
            conda,
            venv,
            gpu_arg,
            by_rule,
            after,
            after_any,
            retry_on,
            unique,
            notify,
            out,
            out_dir,
            tty,
            session,
            one_terminal,
            hold,
            checkpoint_of,
            extract,
            results_to,
            results_error,
            failed_by,
            env,
            secret_names,
            export_env,
            code,
            window,
            variables,
        };
        Exported { format: FORMAT, job, beside }
    }

    /// The spec that the export was made of, without the values of secrets. Each field is named, as in [`Exported::of`].
    pub fn spec(&self) -> JobSpec {
        let Exported { job, beside, .. } = self;
        JobSpec {
            command: match &job.argv {
                Some(argv) => Command::Argv(argv.clone()),
                None => Command::Shell(job.command.clone()),
            },
            cwd: job.cwd.clone(),
            env: beside.env.clone(),
            env_given: beside.env.keys().chain(&beside.secret_names).cloned().collect(),
            name: job.name.clone(),
            project: job.project.clone(),
            tags: job.tags.clone(),
            request: job.request.clone(),
            priority: job.priority,
            retries: job.retries,
            retry_on: beside.retry_on.clone(),
            after: beside.after.clone(),
            after_any: beside.after_any.clone(),
            unique: beside.unique,
            hold: job.state == State::Held,
            notify: beside.notify,
            tty: beside.tty,
            window: beside.window,
            out: beside.out.clone(),
            out_dir: beside.out_dir.clone(),
            rerun_of: job.rerun_of.clone(),
            checkpoint_of: beside.checkpoint_of.clone(),
            by_rule: beside.by_rule.clone(),
            session: beside.session,
            one_terminal: beside.one_terminal,
            conda: beside.conda.clone(),
            venv: beside.venv.clone(),
            gpu_arg: beside.gpu_arg.clone(),
            results: beside.results_to.clone(),
            extract: beside.extract.clone(),
            sweep: job.sweep.clone(),
            params: job.params.as_ref().map(params_text).unwrap_or_default(),
            variables: beside.variables.clone(),
            export_env: beside.export_env,
            code: beside.code.clone(),
        }
    }

    /// Reads a line. It is gone through three times, which takes half as long as to sort its fields first.
    pub fn read(line: &str) -> serde_json::Result<Exported> {
        let Head { format } = serde_json::from_str(line)?;
        Ok(Exported { format, job: serde_json::from_str(line)?, beside: serde_json::from_str(line)? })
    }
}

/// Parameters as a spec has them: texts. One that is written as a number is its digits.
pub fn params_text(params: &Value) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), String::from);
    let named = params.as_object().into_iter().flatten();
    named.map(|(name, value)| (name.clone(), text(value))).collect()
}

/// Just enough of a line to see who can read it.
#[derive(Deserialize)]
pub struct Head {
    pub format: u32,
}

/// The first line of a table.
pub const CSV_HEADER: &str = "id,state,reason,exit_code,signal,name,project,priority,command,gpus,machine,attempts,\
    submitted_at,started_at,ended_at,runtime_seconds,cwd,tags\n";

/// A job as a row of it, the newline included.
pub fn csv_row(job: &Job) -> String {
    fn told(value: Option<impl ToString>) -> String {
        value.map(|value| value.to_string()).unwrap_or_default()
    }
    let gpus = job.gpus.iter().map(u16::to_string).collect::<Vec<_>>().join(",");
    let cells = [
        job.id.clone(),
        job.state.word().to_string(),
        told(job.reason.as_ref()),
        told(job.exit_code),
        told(job.signal),
        told(job.name.as_ref()),
        told(job.project.as_ref()),
        job.priority.to_string(),
        job.command.clone(),
        gpus,
        told(job.machine.as_ref()),
        job.attempt.to_string(),
        job.submitted_at.clone(),
        told(job.started_at.as_ref()),
        told(job.ended_at.as_ref()),
        told(job.runtime_seconds),
        job.cwd.clone(),
        job.tags.join(","),
    ];
    cells.iter().map(|cell| quoted(cell)).collect::<Vec<_>>().join(",") + "\n"
}

/// As RFC 4180 has it: in quotes where something inside would be taken for the end of the cell.
pub fn quoted(cell: &str) -> String {
    match cell.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.to_string(),
    }
}

/// What begins a formula in a spreadsheet. The last four are what East Asian keyboards type for the first.
const FORMULA_SIGNS: [char; 11] =
    ['=', '+', '-', '@', '\t', '\r', '\n', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}'];

/// What begins a cell in a spreadsheet whose list separator is not the comma. There a quote after a comma is a letter as any
/// other, so that a cell in quotes is split too.
const OTHER_SEPARATORS: [char; 4] = [';', '\t', '\r', '\n'];

/// A cell that a spreadsheet would run as a formula gets an apostrophe before it, and so does each part of it that Excel splits
/// off where the list separator is `;` or a tab. Numbers stay. For tables that people open there; an export that is read again
/// has each cell as it is.
pub fn guarded(cell: &str) -> Cow<'_, str> {
    let is_number = || cell.parse::<f64>().is_ok() && cell.bytes().all(|byte| b"0123456789.eE+-".contains(&byte));
    // Excel takes quotes off the begin of a cell.
    let begins_formula = |part: &str| part.trim_start_matches('"').starts_with(FORMULA_SIGNS);
    let behind_separator = |at: usize| cell[..at].ends_with(OTHER_SEPARATORS);
    let mut shown = String::new();
    let mut written = 0;
    for (at, _) in cell.char_indices() {
        let is_begin = (at == 0 && cell.starts_with(FORMULA_SIGNS) && !is_number()) || behind_separator(at);
        if is_begin && begins_formula(&cell[at..]) {
            shown.push_str(&cell[written..at]);
            shown.push('\'');
            written = at;
        }
    }
    match written == 0 && shown.is_empty() {
        true => cell.into(),
        false => (shown + &cell[written..]).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_where_they_must_be() {
        for (cell, expected) in [
            ("", ""),
            ("a b", "a b"),
            ("a,b", "\"a,b\""),
            ("say \"x\"", "\"say \"\"x\"\"\""),
            ("two\nlines", "\"two\nlines\""),
            ("cr\r", "\"cr\r\""),
            ("=1+1", "=1+1"),
        ] {
            assert_eq!(quoted(cell), expected, "{cell:?}");
        }
    }

    #[test]
    fn formulas_are_no_formulas_and_numbers_stay() {
        for cell in ["=1+1", "+cmd|' /C calc'!A0", "-x", "@SUM(1)", "-", "+", "-inf", "-1-1", "\u{ff1d}1"] {
            assert_eq!(guarded(cell), format!("'{cell}"), "{cell:?}");
        }
        for cell in
            ["", "a=b", "-3.5", "+7", "-1e-5", "1", "'=1", " =1", "train -x", "a;b", "a; b", ";", "\"=1", "a\tb"]
        {
            assert_eq!(guarded(cell), cell, "{cell:?}");
        }
        for (cell, expected) in [
            ("\t=1", "'\t'=1"),
            ("\r=1", "'\r'=1"),
            ("\n=1", "'\n'=1"),
            ("a;=1+1", "a;'=1+1"),
            (";=1;@x;b", ";'=1;'@x;b"),
            ("a\t=1", "a\t'=1"),
            ("a;\t=1", "a;'\t'=1"),
            ("a\n-1", "a\n'-1"),
            ("a;\"\"=1", "a;'\"\"=1"),
            ("a;\u{ff1d}1", "a;'\u{ff1d}1"),
            ("=1;-1", "'=1;'-1"),
        ] {
            assert_eq!(guarded(cell), expected, "{cell:?}");
        }
    }
}
