//! A job put elsewhere in the queue.

use axum::Json;
use axum::extract::State;
use nexus_api::jobs::{Job, Move};
use nexus_api::problem::Problem;
use nexus_core::ids::JobId;

use super::Shared;
use super::extract::{Path, Sent};
use super::jobs::is_waiting;
use super::problem::Failed;
use crate::engine::{Message, Revision, Slot};
use crate::store::{JobRow, Reader, StoreError};

/// A job may start between the look at the queue and the change of it: then one looks again, so often.
const ATTEMPTS: usize = 5;

/// `POST /v1/jobs/{id}/move`
pub async fn move_job(
    State(app): State<Shared>,
    Path(id): Path<String>,
    Sent(to): Sent<Move>,
) -> Result<Json<Job>, Failed> {
    let _turn = app.edits.lock().await;
    for _ in 0..ATTEMPTS {
        let (job, before) = (id.clone(), to.before.clone());
        let order = app.read(move |reader| order(reader, &job, before.as_deref())).await?;
        if !order.is_empty() {
            let place = match &to.before {
                Some(before) => format!("before {before}"),
                None => "to the end of the queue".into(),
            };
            let notes = vec![format!("Job {id} moved {place} by user").into()];
            let order = order.into_iter().map(Slot::Known).collect();
            let revision = Revision { order, notes, ..Revision::default() };
            match app.order(|reply| Message::Revise { revision, reply }).await {
                Err(Problem::WrongState { .. } | Problem::NoSuchJob { .. }) => continue,
                done => drop(done?),
            }
        }
        return Ok(Json(app.by_ids(vec![id]).await?.remove(0)));
    }
    Err(Failed(Problem::Internal { error: "the queue changes faster than a job can be moved".into() }))
}

/// The jobs between here and there, in their new order; none where it stands there already.
fn order(reader: &Reader, id: &str, before: Option<&str>) -> Result<Vec<JobId>, Problem> {
    let fail = |error: StoreError| error.problem();
    let waiting = |id: &str| -> Result<JobRow, Problem> {
        let row = reader.job(id).map_err(fail)?.ok_or_else(|| Problem::NoSuchJob { id: id.into() })?;
        match is_waiting(&row) {
            true => Ok(row),
            false => Err(Problem::WrongState { id: row.id, verb: "move".into(), state: row.state, gpus: row.gpus }),
        }
    };
    let from = waiting(id)?.place;
    let there = before.map(waiting).transpose()?;
    let moves_up = there.as_ref().is_some_and(|there| there.place < from);
    let between = match &there {
        Some(there) if moves_up => reader.waiting_between(there.place, from),
        Some(there) => reader.waiting_between(from, there.place),
        None => reader.waiting_between(from, (i64::MAX, i64::MAX)),
    };
    let mut ids: Vec<String> = between.map_err(fail)?;
    let was = ids.clone();
    ids.retain(|other| other != id);
    // The job that it is to stand before is the first of them, or the last.
    let at = match there {
        Some(_) if moves_up => 0,
        Some(_) => ids.len().saturating_sub(1),
        None => ids.len(),
    };
    ids.insert(at, id.to_string());
    if ids == was || before == Some(id) {
        return Ok(vec![]);
    }
    ids.iter().map(|id| id.parse().map_err(|_| Problem::NoSuchJob { id: id.clone() })).collect()
}
