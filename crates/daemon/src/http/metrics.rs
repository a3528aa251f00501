//! What Prometheus and its like ask for, and whether the service is well.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use nexus_api::problem::Problem;
use nexus_api::service::{Gpu, Machine};
use serde_json::{Value, json};

use super::problem::Failed;
use super::{App, Shared, gpus};
use crate::metrics::Text;

/// An engine that takes longer is not well.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// `GET /healthz`: the engine answers, and the database can be read.
pub async fn health(State(app): State<Shared>) -> Result<Json<Value>, Failed> {
    let asked = async {
        app.ask(|_| ()).await?;
        if let Some(problem) = app.trouble.get() {
            return Err(problem);
        }
        app.read(|reader| reader.totals().map_err(|error| error.problem())).await
    };
    match tokio::time::timeout(ANSWER_LIMIT, asked).await {
        Ok(answer) => answer.map(|_| Json(json!({ "ok": true }))).map_err(Failed),
        Err(_) => {
            let error = format!("the engine did not answer within {} s", ANSWER_LIMIT.as_secs());
            Err(Failed(Problem::Busy { error }))
        }
    }
}

/// `GET /metrics`
pub async fn metrics(State(app): State<Shared>) -> Result<Response, Failed> {
    let (live, machines, paused) = app
        .ask_pool(|world, read| {
            let active = world.active_runs().count() as u64;
            let copying = world.live() - world.pending() - active;
            let live = [
                ("queued", world.pending() - world.held()),
                ("held", world.held()),
                ("running", active),
                ("copying", copying),
            ];
            (live, gpus::machines(world, read), world.queue_paused())
        })
        .await?;
    let totals = app.read(|reader| reader.totals().map_err(|error| error.problem())).await?;
    let mut text = Text::default();
    text.head("nexus_info", "gauge", "The service that answers.");
    text.value("nexus_info", &[("version", env!("CARGO_PKG_VERSION")), ("host", &app.host)], 1);
    text.head("nexus_start_time_seconds", "gauge", "When it started, since 1970.");
    text.value("nexus_start_time_seconds", &[], app.started_at.0 as f64 / 1e3);
    text.head("nexus_queue_paused", "gauge", "1 while nothing new starts.");
    text.value("nexus_queue_paused", &[], u8::from(paused));
    text.head("nexus_jobs", "gauge", "Jobs that have not ended.");
    for (state, count) in live {
        text.value("nexus_jobs", &[("state", state)], count);
    }
    text.head("nexus_jobs_ended_total", "counter", "Jobs that have ended.");
    for (state, count) in [("completed", totals.0), ("failed", totals.1), ("killed", totals.2)] {
        text.value("nexus_jobs_ended_total", &[("state", state)], count);
    }
    of_gpus(&mut text, &machines);
    of_engine(&mut text, &app);
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], text.into_string()).into_response())
}

fn of_engine(text: &mut Text, app: &App) {
    let metrics = &app.metrics;
    text.histogram("nexus_queue_wait_seconds", "From submission to the first start.", &metrics.wait);
    text.head("nexus_decisions_total", "counter", "How often it was decided who starts.");
    text.value("nexus_decisions_total", &[], metrics.decide.count());
    text.histogram("nexus_decision_seconds", "How long a decision took.", &metrics.decide);
    text.histogram("nexus_store_commit_seconds", "How long a commit took, with its fsync.", &metrics.commit);
}

fn of_gpus(text: &mut Text, machines: &[Machine]) {
    type Measure = (&'static str, &'static str, fn(&Gpu) -> Option<f64>);
    const MIB: f64 = (1 << 20) as f64;
    let measures: [Measure; 7] = [
        ("nexus_gpu_load_ratio", "Load, 0 to 1, as read last.", |gpu| Some(f64::from(gpu.load_percent?) / 100.0)),
        ("nexus_gpu_memory_used_bytes", "Memory in use, as read last.", |gpu| Some(gpu.used_mib? as f64 * MIB)),
        ("nexus_gpu_memory_bytes", "Memory in all.", |gpu| Some(gpu.memory_mib as f64 * MIB)),
        ("nexus_gpu_temperature_celsius", "Temperature, as read last.", |gpu| Some(gpu.temperature_c?.into())),
        ("nexus_gpu_power_watts", "Power, as read last.", |gpu| Some(gpu.power_w?.into())),
        ("nexus_gpu_jobs", "Jobs of nexus on it.", |gpu| Some(gpu.jobs.len() as f64)),
        ("nexus_gpu_paused", "1 while it takes no new job.", |gpu| Some(u8::from(gpu.paused).into())),
    ];
    for (name, about, of) in measures {
        text.head(name, "gauge", about);
        for machine in machines {
            for gpu in &machine.gpus {
                if let Some(value) = of(gpu) {
                    text.value(name, &[("machine", &machine.name), ("gpu", &gpu.index.to_string())], value);
                }
            }
        }
    }
}
