//! Sums over jobs.

use axum::Json;
use axum::extract::State;
use nexus_api::jobs::JobQuery;
use nexus_api::report::{By, Group};
use serde::Deserialize;
use utoipa::IntoParams;

use super::Shared;
use super::extract::Asked;
use super::jobs::filter;
use super::problem::Failed;
use crate::clock;

#[derive(Deserialize, IntoParams)]
pub struct ReportQuery {
    #[param(inline)]
    by: By,
    /// As in a listing, as are the others. Nothing said: all jobs.
    select: Option<String>,
    state: Option<String>,
    since: Option<String>,
    project: Option<String>,
    tag: Option<String>,
    sweep: Option<String>,
    name: Option<String>,
}

pub async fn report(State(app): State<Shared>, Asked(query): Asked<ReportQuery>) -> Result<Json<Vec<Group>>, Failed> {
    let ReportQuery { by, select, state, since, project, tag, sweep, name } = query;
    let filter = filter(&JobQuery { state, since, project, tag, sweep, name, ..JobQuery::default() })?;
    let only = match select {
        None => None,
        Some(texts) => Some(app.selected_numbers(&texts).await?),
    };
    let sums = app
        .read(move |reader| reader.sums(by, &filter, only.as_deref(), clock::now()).map_err(|error| error.problem()))
        .await?;
    Ok(Json(sums))
}
