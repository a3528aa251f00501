//! The configuration in force.

use axum::Json;
use axum::extract::State;
use nexus_api::config::{ConfigView, Overrides};
use serde_json::{Value, json};

use super::Shared;
use super::extract::Sent;
use super::problem::Failed;
use crate::blocking;

pub async fn show(State(app): State<Shared>) -> Result<Json<ConfigView>, Failed> {
    view(app).await
}

/// `PUT /v1/config/overrides`
pub async fn override_keys(State(app): State<Shared>, Sent(sent): Sent<Overrides>) -> Result<Json<Value>, Failed> {
    let overriding = app.clone();
    blocking::answer(move || overriding.reload.override_keys(&sent.keys)).await??;
    // When the engine answers, it goes by them.
    app.ask(|_| ()).await?;
    Ok(Json(json!({})))
}

/// Files are read for it, off the threads that serve clients.
async fn view(app: Shared) -> Result<Json<ConfigView>, Failed> {
    Ok(Json(blocking::answer(move || app.reload.view()).await?))
}

/// Reads the file now: for whoever changed it and wants to know what came of it.
pub async fn reload(State(app): State<Shared>) -> Result<Json<ConfigView>, Failed> {
    let looking = app.clone();
    blocking::answer(move || looking.reload.look()).await?;
    // When the engine answers it has taken what it was told before, and service.log says so.
    app.ask(|_| ()).await?;
    view(app).await
}
