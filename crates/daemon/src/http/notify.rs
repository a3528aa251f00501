//! Tries out who is told.

use axum::Json;
use axum::extract::State;
use nexus_api::notify::Tried;
use nexus_api::problem::Problem;

use super::Shared;
use super::problem::Failed;

/// `POST /v1/notify/test`
pub async fn test(State(app): State<Shared>) -> Result<Json<Vec<Tried>>, Failed> {
    // What was configured a moment ago counts; the engine passes it on.
    app.ask(|_| ()).await?;
    let tried = tokio::task::spawn_blocking(move || app.notices.test()).await;
    let tried = tried.map_err(|error| Problem::Internal { error: error.to_string() })?;
    Ok(Json(tried.ok_or(Problem::NobodyToTell)?))
}
