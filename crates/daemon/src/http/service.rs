//! The service itself: status, pause, stop, simulated GPUs.

use axum::Json;
use axum::extract::State;
use nexus_api::jobs::State as Word;
use nexus_api::problem::Problem;
use nexus_api::queue_text::REFUSED_MARK;
use nexus_api::service::{RecentFailure, Service, SimulatedGpus, Status, Stop};
use nexus_core::apply::Command;
use nexus_core::request::MAX_GPUS;
use nexus_core::time::Time;
use nexus_node::gpu::locks::Locks;
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::IntoParams;

use super::extract::{Asked, Sent};
use super::problem::Failed;
use super::{App, Shared, gpus};
use crate::engine::Message;
use crate::store::JobRow;
use crate::{clock, home, view};

/// Failures named in the status view.
const FAILURES_SHOWN: u64 = 3;

pub async fn service(State(app): State<Shared>) -> Result<Json<Service>, Failed> {
    let (queue_paused, simulated_gpus, (gpu_source, gpu_driver, gpu_error)) = app
        .ask_pool(|world, pool| {
            let gpus = &pool.local().gpus;
            let all = world.machines().flat_map(|machine| &machine.gpus);
            let simulated = all.filter(|gpu| gpu.simulated).count() as u16;
            (world.queue_paused(), simulated, (gpus.source().map(String::from), gpus.driver(), gpus.error()))
        })
        .await?;
    Ok(Json(Service {
        version: env!("CARGO_PKG_VERSION").into(),
        pid: std::process::id(),
        home: app.home.dir.display().to_string(),
        host: app.host.clone(),
        user_home: Some(app.user_home.clone()),
        log_dir: app.log_dir.display().to_string(),
        started_at: clock::rfc3339(app.started_at),
        queue_paused,
        containment: app.containment.clone(),
        memory_limits: Some(app.memory_limits),
        database: if app.home.network { "rollback".into() } else { "wal".into() },
        simulated_gpus,
        disk_free_bytes: home::disk_free(&app.home.dir).unwrap_or(0),
        gpu_source,
        gpu_driver,
        gpu_error,
        gpu_locks: Some(Locks::of_environment().folder().display().to_string()),
        screen: app.screen.session(),
        jobs_file_refused: refused_lines(&app),
        jobs_file_trouble: app.notes.trouble.lock().expect("nobody panics with it in hand").clone(),
        trouble: app.trouble.get().map(Problem::told),
    }))
}

/// What `jobs.txt` tells of lines that were not taken.
fn refused_lines(app: &App) -> Vec<String> {
    let comments = app.notes.comments.lock().expect("nobody panics with the comments");
    let told = comments.iter().filter_map(|comment| comment.strip_prefix(REFUSED_MARK)?.strip_prefix(" line "));
    told.map(|text| format!("line {text}")).collect()
}

#[derive(Deserialize, IntoParams)]
pub struct StatusQuery {
    /// The failures in the answer count as seen, and are not told again.
    #[serde(default)]
    look: bool,
}

pub async fn status(State(app): State<Shared>, Asked(query): Asked<StatusQuery>) -> Result<Json<Status>, Failed> {
    let (queue_paused, pending, held, machines) = app
        .ask_pool(|world, read| (world.queue_paused(), world.pending(), world.held(), gpus::machines(world, read)))
        .await?;
    let (totals, failures, newest, rows) = app
        .read(move |reader| {
            let fail = |error: crate::store::StoreError| error.problem();
            let looked_at = reader.meta("looked_at").map_err(fail)?.and_then(|text| text.parse().ok()).map(Time);
            let looked_at = looked_at.unwrap_or_default();
            let mut failed = reader.failures(looked_at, FAILURES_SHOWN).map_err(fail)?;
            failed.extend(reader.uncopied(looked_at, FAILURES_SHOWN).map_err(fail)?);
            failed.sort_by_key(|row| std::cmp::Reverse(row.ended_at));
            failed.truncate(usize::try_from(FAILURES_SHOWN).unwrap_or(usize::MAX));
            let newest = failures_until(&failed);
            let failures: Vec<RecentFailure> = failed.into_iter().map(failure).collect();
            Ok((reader.totals().map_err(fail)?, failures, newest, reader.active().map_err(fail)?))
        })
        .await?;
    if let Some(until) = newest.filter(|_| query.look) {
        app.post(Message::Looked { until })?;
    }
    Ok(Json(Status {
        queue_paused,
        pending,
        held,
        completed: totals.0,
        failed: totals.1,
        killed: totals.2,
        failures,
        machines,
        active: app.view(rows, false).await?,
        disk_free_bytes: home::disk_free(&app.home.dir).unwrap_or(0),
        trouble: app.trouble.get().map(Problem::told),
        standstill: app.trouble.standstill(),
    }))
}

/// The newest end that is shown.
fn failures_until(failed: &[JobRow]) -> Option<Time> {
    failed.iter().filter_map(|row| row.ended_at).max()
}

/// Of a job that failed, or whose results could not be copied.
fn failure(row: JobRow) -> RecentFailure {
    if row.state == Word::Completed {
        return RecentFailure {
            detail: row.left.error,
            last_line: None,
            ended_at: clock::rfc3339(row.ended_at.unwrap_or_default()),
            exit_code: None,
            signal: None,
            id: row.id,
            reason: "results not copied".into(),
        };
    }
    let detail = view::detail(&row);
    let reason = row.reason.unwrap_or_else(|| "exit".into());
    RecentFailure {
        detail,
        last_line: row.dir.as_deref().and_then(|dir| match row.spec.variables.is_empty() {
            true => nexus_node::last_line(dir),
            false => nexus_node::kept_said(dir).and_then(|said| said.line),
        }),
        ended_at: clock::rfc3339(row.ended_at.unwrap_or_default()),
        exit_code: row.exit_code,
        signal: row.signal,
        id: row.id,
        reason,
    }
}

pub async fn pause(State(app): State<Shared>) -> Result<Json<Value>, Failed> {
    app.order(|reply| Message::Command { command: Command::PauseQueue, verb: "pause", skip_unfit: false, reply })
        .await?;
    Ok(Json(json!({})))
}

pub async fn resume(State(app): State<Shared>) -> Result<Json<Value>, Failed> {
    app.order(|reply| Message::Command { command: Command::ResumeQueue, verb: "resume", skip_unfit: false, reply })
        .await?;
    Ok(Json(json!({})))
}

pub async fn stop(State(app): State<Shared>, Sent(stop): Sent<Stop>) -> Result<Json<Value>, Failed> {
    let kill = !stop.keep_jobs;
    app.order(|reply| Message::Command { command: Command::Stop { kill }, verb: "stop", skip_unfit: false, reply })
        .await?;
    Ok(Json(json!({})))
}

pub async fn simulate(State(app): State<Shared>, Sent(wanted): Sent<SimulatedGpus>) -> Result<Json<Value>, Failed> {
    let count = wanted.count;
    if count > MAX_GPUS {
        let want = format!("at most {MAX_GPUS}");
        return Err(Failed(Problem::BadField { field: "simulate-gpus".into(), value: count.to_string(), want }));
    }
    app.order(|reply| Message::SimulateGpus { count, reply }).await?;
    Ok(Json(json!({})))
}
