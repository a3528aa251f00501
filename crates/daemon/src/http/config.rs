//! The configuration in force.

use axum::Json;
use axum::extract::State;
use nexus_api::config::{ConfigView, Overrides};
use nexus_api::problem::Problem;
use serde_json::{Value, json};

use super::Shared;
use super::extract::Sent;
use super::problem::Failed;

pub async fn show(State(app): State<Shared>) -> Result<Json<ConfigView>, Failed> {
    view(app).await
}

/// `PUT /v1/config/overrides`
pub async fn override_keys(State(app): State<Shared>, Sent(sent): Sent<Overrides>) -> Result<Json<Value>, Failed> {
    let overriding = app.clone();
    let done = tokio::task::spawn_blocking(move || overriding.reload.override_keys(&sent.keys)).await;
    done.map_err(|error| Problem::Internal { error: error.to_string() })??;
    // When the engine answers, it goes by them.
    app.ask(|_| ()).await?;
    Ok(Json(json!({})))
}

/// Files are read for it, off the threads that serve clients.
async fn view(app: Shared) -> Result<Json<ConfigView>, Failed> {
    let view = tokio::task::spawn_blocking(move || app.reload.view()).await;
    view.map(Json).map_err(|error| Failed(Problem::Internal { error: error.to_string() }))
}

/// Reads the file now: for whoever changed it and wants to know what came of it.
pub async fn reload(State(app): State<Shared>) -> Result<Json<ConfigView>, Failed> {
    let looking = app.clone();
    let looked = tokio::task::spawn_blocking(move || looking.reload.look()).await;
    looked.map_err(|error| Failed(Problem::Internal { error: error.to_string() }))?;
    // When the engine answers it has taken what it was told before, and service.log says so.
    app.ask(|_| ()).await?;
    view(app).await
}
