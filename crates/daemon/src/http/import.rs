//! Entries of files, and files that are watched.

use axum::Json;
use axum::extract::State;
use nexus_api::import::{Import, Imported, Watch, Watched, Watching};
use nexus_api::problem::Problem;
use serde::Deserialize;

use super::Shared;
use super::extract::{Asked, Sent};
use super::problem::Failed;

/// `POST /v1/import`
pub async fn import(State(app): State<Shared>, Sent(import): Sent<Import>) -> Result<Json<Imported>, Failed> {
    let importer = app.watches.importer();
    let imported = tokio::task::spawn_blocking(move || importer.import(import, None)).await;
    Ok(Json(imported.map_err(|error| Problem::Internal { error: error.to_string() })??))
}

/// `POST /v1/watches`
pub async fn watch(State(app): State<Shared>, Sent(watch): Sent<Watch>) -> Result<Json<Watching>, Failed> {
    Ok(Json(app.watches.watch(watch).await?))
}

/// `GET /v1/watches`
pub async fn watches(State(app): State<Shared>) -> Json<Vec<Watched>> {
    Json(app.watches.list().await)
}

#[derive(Deserialize)]
pub struct OfFile {
    file: String,
}

/// `DELETE /v1/watches?file=…`
pub async fn end_watch(State(app): State<Shared>, Asked(of): Asked<OfFile>) -> Result<Json<Watched>, Failed> {
    Ok(Json(app.watches.end(&of.file).await?))
}
