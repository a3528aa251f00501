//! Entries of files, and files that are watched.

use axum::Json;
use axum::extract::State;
use nexus_api::command::Command;
use nexus_api::edit::LineError;
use nexus_api::import::{Import, ImportReport, ImportText, Imported, Watch, Watched, Watching};
use nexus_api::job_file;
use nexus_api::jobs::JobSpec;
use nexus_api::problem::Problem;
use serde::Deserialize;
use utoipa::IntoParams;

use super::Shared;
use super::extract::{Asked, Sent};
use super::problem::Failed;
use crate::{blocking, own_env};

/// `POST /v1/import`
pub async fn import(State(app): State<Shared>, Sent(mut import): Sent<Import>) -> Result<Json<Imported>, Failed> {
    let entries = std::mem::take(&mut import.entries);
    let importer = app.watches.importer();
    Ok(Json(blocking::answer(move || importer.import(import, entries, None)).await??))
}

/// `POST /v1/import/text`, with the environment of the service's owner.
pub async fn import_text(
    State(app): State<Shared>,
    Sent(sent): Sent<ImportText>,
) -> Result<Json<ImportReport>, Failed> {
    let ImportText { text, format, cwd, again, dry_run } = sent;
    let read = job_file::read(text.as_bytes(), format);
    let read = read.map_err(|LineError { line, error }| Problem::BadField {
        field: "text".into(),
        value: format!("what it is: line {line}"),
        want: error,
    })?;
    let job_file::Read { format, mut entries, mut refused, doubtful, past, .. } = read;
    refused.extend(job_file::settle_parents(&mut entries, &past));
    refused.sort_by_key(|refused| refused.line);
    let usual = JobSpec { env: own_env::env(), ..JobSpec::new(Command::Shell(String::new()), cwd.clone()) };
    let import =
        Import { file: "the page".into(), folder: cwd, usual, again, dry_run, entries: vec![], together: false };
    let importer = app.watches.importer();
    let imported = blocking::answer(move || importer.import(import, entries, None)).await??;
    Ok(Json(ImportReport {
        file: "the page".into(),
        format: Some(format),
        entries: imported.entries,
        refused,
        doubtful,
        notes: imported.notes,
        stopped: imported.stopped,
        ended: past.iter().filter(|past| past.ended).count() as u64,
        history: None,
        running: past.into_iter().filter(|past| !past.ended).map(|past| past.id).collect(),
    }))
}

/// `POST /v1/watches`
pub async fn watch(State(app): State<Shared>, Sent(watch): Sent<Watch>) -> Result<Json<Watching>, Failed> {
    Ok(Json(app.watches.watch(watch).await?))
}

/// `GET /v1/watches`
pub async fn watches(State(app): State<Shared>) -> Json<Vec<Watched>> {
    Json(app.watches.list().await)
}

#[derive(Deserialize, IntoParams)]
pub struct OfFile {
    /// As it is listed.
    file: String,
}

/// `DELETE /v1/watches?file=…`
pub async fn end_watch(State(app): State<Shared>, Asked(of): Asked<OfFile>) -> Result<Json<Watched>, Failed> {
    Ok(Json(app.watches.end(&of.file).await?))
}
