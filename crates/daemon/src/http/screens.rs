//! Sessions of GNU screen: which there are, and the service's own.

use std::collections::BTreeMap;
use std::path::PathBuf;

use axum::Json;
use axum::extract::State;
use nexus_api::run_dir::ScreenSession;
use nexus_api::screens::{Screen, ScreenState};
use nexus_node::inspect::{Seen, inspect};
use nexus_node::screens;
use serde_json::{Value, json};

use super::Shared;
use super::problem::Failed;
use crate::blocking;

pub async fn list(State(app): State<Shared>) -> Result<Json<Vec<Screen>>, Failed> {
    let own = app.screen.session();
    let runs = app
        .read(|reader| {
            let rows = reader.active().map_err(|error| error.problem())?;
            Ok(rows.into_iter().filter_map(|row| Some((row.id, row.dir?))).collect::<Vec<_>>())
        })
        .await?;
    Ok(Json(blocking::answer(move || look(own, runs)).await?))
}

fn look(own: Option<ScreenSession>, runs: Vec<(String, PathBuf)>) -> Vec<Screen> {
    let of_run = |(id, dir): (String, PathBuf)| match inspect(&dir) {
        Ok(Seen::Alive(started)) => Some((Some(id), *started.screen?)),
        _ => None,
    };
    let found: Vec<_> = own.map(|own| (None, own)).into_iter().chain(runs.into_iter().filter_map(of_run)).collect();
    let mut listings: BTreeMap<Option<PathBuf>, Vec<(String, bool)>> = BTreeMap::new();
    found
        .into_iter()
        .map(|(job, session)| {
            let listing = listings.entry(session.dir.clone()).or_insert_with_key(|dir| screens::list(dir.as_deref()));
            let state = match listing.iter().find(|(name, _)| *name == session.session) {
                Some((_, true)) => ScreenState::Attached,
                Some((_, false)) => ScreenState::Detached,
                None => ScreenState::Unknown,
            };
            let (name, pid, command) = (session.name().to_string(), session.pid(), session.to_type());
            Screen { name, pid, job, state, command }
        })
        .collect()
}

pub async fn open_own(State(app): State<Shared>) -> Result<Json<Value>, Failed> {
    app.screen.open().await?;
    Ok(Json(json!({})))
}
