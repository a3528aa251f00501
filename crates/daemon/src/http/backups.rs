//! `/v1/backups`: copies of the database, made while the service runs.

use std::path::{Path, PathBuf};

use axum::Json;
use axum::extract::State;
use nexus_api::backup::{Backup, MakeBackup};
use nexus_api::problem::Problem;

use super::Shared;
use super::extract::Sent;
use super::problem::Failed;
use crate::home::make_private;
use crate::service_log::Line;
use crate::store::copy_database;
use crate::{backups, blocking};

/// One copy after the other.
static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

pub async fn list(State(app): State<Shared>) -> Json<Vec<Backup>> {
    let copies = backups::copies(&app.home.dir);
    Json(copies.iter().filter_map(|path| backups::described(path)).collect())
}

pub async fn make(State(app): State<Shared>, Sent(wish): Sent<MakeBackup>) -> Result<Json<Backup>, Failed> {
    if let Some(problem) = app.trouble.get() {
        return Err(Failed(problem));
    }
    let _turn = TURN.lock().await;
    let keep = app.reload.keep_backups();
    let (home, from) = (app.home.dir.clone(), app.home.database());
    let to = wish.to.map(PathBuf::from);
    let path = blocking::answer(move || made(&home, &from, to, keep)).await??;
    // The engine is gone: the service is going down.
    let _ = app.post(crate::engine::Message::Log(vec![Line::from(format!("Database copied to {}", path.display()))]));
    let gone = || Problem::HomeUnusable { path: path.display().to_string(), error: "the copy is gone again".into() };
    Ok(Json(backups::described(&path).ok_or_else(gone)?))
}

/// Makes a copy; of those that are named by time only the newest stay.
fn made(home: &Path, from: &Path, to: Option<PathBuf>, keep: usize) -> Result<PathBuf, Problem> {
    if let Some(to) = to {
        if !to.is_absolute() {
            let want = "an absolute path".into();
            return Err(Problem::BadField { field: "to".into(), value: to.display().to_string(), want });
        }
        return copy_database(from, &to).map(|()| to).map_err(|error| error.problem());
    }
    let folder = backups::folder(home);
    make_private(&folder)?;
    let to = backups::fresh(&folder, false);
    copy_database(from, &to).map_err(|error| error.problem())?;
    for old in backups::beyond(home, keep) {
        // What cannot be deleted now is deleted with the next copy, or by nexus gc.
        let _ = std::fs::remove_file(old);
    }
    Ok(to)
}
