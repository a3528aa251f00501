//! Tags: how many jobs have each, and who is given one.

use axum::Json;
use axum::extract::State;
use nexus_api::jobs::Job;
use nexus_api::problem::Problem;
use nexus_api::report::{Tag, TagJobs};
use nexus_core::ids::JobId;

use super::Shared;
use super::extract::{Path, Sent};
use super::problem::Failed;
use crate::checks;
use crate::engine::Message;

pub async fn list(State(app): State<Shared>) -> Result<Json<Vec<Tag>>, Failed> {
    Ok(Json(app.read(|reader| reader.tags().map_err(|error| error.problem())).await?))
}

/// The jobs as they are then.
pub async fn tag(
    State(app): State<Shared>,
    Path(tag): Path<String>,
    Sent(TagJobs { ids, take_off }): Sent<TagJobs>,
) -> Result<Json<Vec<Job>>, Failed> {
    if !take_off {
        checks::word("tag", &tag)?;
    }
    let jobs = ids.iter().map(|id| id.parse().map_err(|_| Problem::NoSuchJob { id: id.clone() }));
    let jobs: Vec<JobId> = jobs.collect::<Result<_, _>>()?;
    // Edits that are on their way know the tags of before.
    let _turn = app.edits.lock().await;
    app.order(|reply| Message::Tag { ids: jobs, tag, take_off, reply }).await?;
    Ok(Json(app.by_ids(ids).await?))
}
