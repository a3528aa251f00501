//! Rows of the store as clients see them.

use std::collections::BTreeMap;
use std::path::Path;

use nexus_api::amount::GpuAmount;
use nexus_api::jobs::{Job, Run, SlurmJob, State, Waiting};
use nexus_api::run_dir::{self, OUT, STDERR, STDOUT};
use nexus_core::time::Time;

use crate::store::{JobRow, RunRow};
use crate::{clock, words};

/// What a view needs beside the rows.
pub struct Surroundings<'a> {
    pub log_dir: &'a Path,
    pub now: Time,
    pub waiting: &'a BTreeMap<String, Waiting>,
}

/// Whether what the engine said of it, maybe a moment before, is still true of the row. One that begins elsewhere may
/// wait in the queue of a cluster.
fn waits(row: &JobRow) -> bool {
    match row.state {
        State::Held | State::Queued => true,
        State::Starting => row.is_away(),
        _ => false,
    }
}

pub fn job(row: JobRow, position: Option<u64>, around: &Surroundings) -> Job {
    let told = around.waiting.get(&row.id);
    let waiting = told.filter(|_| waits(&row)).cloned();
    let detail = detail(&row);
    let results = row.results_folder();
    // Before its first run: where that will be.
    let dir = row.dir.unwrap_or_else(|| run_dir::of_run(around.log_dir, &row.id, row.attempt));
    let path = |name: &str| dir.join(name).to_string_lossy().into_owned();
    // While its results are copied it runs no more.
    let end = row.ended_at.or(row.run_ended_at.filter(|_| row.state == State::Copying)).unwrap_or(around.now);
    let slurm = match told {
        Some(Waiting::Slurm { job: Some(job), nodes, .. }) => Some(SlurmJob { job: job.clone(), nodes: nodes.clone() }),
        _ => None,
    };
    Job {
        waiting,
        slurm,
        detail,
        argv: row.spec.command.argv().map(<[String]>::to_vec),
        runtime_seconds: row.started_at.map(|start| end.since(start).as_secs_f64()),
        submitted_at: clock::rfc3339(row.submitted_at),
        started_at: row.started_at.map(clock::rfc3339),
        ended_at: row.ended_at.map(clock::rfc3339),
        log_dir: dir.to_string_lossy().into_owned(),
        stdout_path: path(STDOUT),
        stderr_path: path(STDERR),
        id: row.id,
        name: row.spec.name,
        project: row.spec.project,
        command: row.command,
        state: row.state,
        reason: row.reason,
        exit_code: row.exit_code,
        signal: row.signal,
        class: row.spec.request.class.clone(),
        request: row.spec.request,
        machine: row.machine,
        gpus: row.gpus,
        // That of an attempt that is over says nothing of one that waits for the next.
        pid: row.pid.filter(|_| !matches!(row.state, State::Held | State::Queued)),
        priority: row.spec.priority,
        attempt: row.attempt,
        retries: row.spec.retries,
        tags: row.tags,
        sweep: row.spec.sweep,
        params: (!row.spec.params.is_empty()).then(|| serde_json::json!(row.spec.params)),
        cwd: row.spec.cwd,
        results,
        results_state: row.left.state.word().into(),
        results_named: row.left.found.results,
        extracted: (!row.spec.extract.is_empty()).then_some(row.left.found.values),
        links: vec![],
        simulated: row.simulated,
        position,
        rerun_of: row.spec.rerun_of,
        replaced_by: row.replaced_by,
        expected: None,
    }
}

/// One sentence on how it ended.
pub fn detail(row: &JobRow) -> Option<String> {
    row.reason.as_deref().map(|reason| match &row.failed_by {
        Some(parent) => format!("job {parent}, which it was to come after, did not complete"),
        None => words::detail(reason, row.outcome.as_ref(), row.spec.request.time_seconds),
    })
}

pub fn run(row: RunRow) -> Run {
    Run {
        attempt: row.number,
        machine: row.machine,
        gpus: row.gpus,
        pid: row.pid,
        planned_at: clock::rfc3339(row.planned_at),
        started_at: row.started_at.map(clock::rfc3339),
        ended_at: row.ended_at.map(clock::rfc3339),
        outcome: row.outcome,
        // Where there is none, the job has no folder for it, or has not come so far.
        out: std::fs::read_link(row.dir.join(OUT)).ok().map(|path| path.to_string_lossy().into_owned()),
        log_dir: row.dir.to_string_lossy().into_owned(),
        part: row.milli.filter(|milli| *milli > 0).and_then(GpuAmount::part),
        vram_mib: row.vram_mib,
        peak_vram_mib: row.peak_mib,
    }
}
