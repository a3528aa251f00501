//! Tries out who is told.

use axum::Json;
use axum::extract::State;
use nexus_api::notify::Tried;
use nexus_api::problem::Problem;

use super::Shared;
use super::problem::Failed;
use crate::blocking;

/// `POST /v1/notify/test`
pub async fn test(State(app): State<Shared>) -> Result<Json<Vec<Tried>>, Failed> {
    // What was configured a moment ago counts; the engine passes it on.
    app.ask(|_| ()).await?;
    let tried = blocking::answer(move || app.notices.test()).await?;
    Ok(Json(tried.ok_or(Problem::NobodyToTell)?))
}
