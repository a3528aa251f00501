//! All jobs, one after the other, to whoever reads them: however many there are, however slowly they are read.
//!
//! A view of the database that is kept lets the write-ahead log grow and keeps deleted secrets in it; on a network file
//! system nobody can write meanwhile. So a view is kept for a moment only, and jobs that come later are told as they
//! are then. Each is told once, and those that are submitted after the beginning not at all.

use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use nexus_api::env::Env;
use nexus_api::export::{Aside, CSV_HEADER, Exported, csv_row};
use nexus_api::jobs::{JobQuery, State as Word};
use nexus_api::problem::Problem;
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};
use utoipa::IntoParams;

use super::extract::Asked;
use super::jobs::filter;
use super::problem::Failed;
use super::{Shared, stream};
use crate::engine::Message;
use crate::service_log::Line;
use crate::store::{Envs, Filter, JobRow, Reader, RunRow, StoreError, View};
use crate::{blocking, clock, view};

#[cfg(test)]
mod tests;

/// How long a view is kept.
const VIEW_LASTS: Duration = Duration::from_millis(500);

/// Bytes sent at once, about.
const PIECE: usize = 64 << 10;

#[derive(Deserialize, IntoParams)]
pub struct ExportQuery {
    /// `jsonl`, which is meant where nothing is said, or `csv`.
    format: Option<String>,
    /// As in a listing, as are the others. Nothing said: all jobs.
    state: Option<String>,
    since: Option<String>,
    select: Option<String>,
    project: Option<String>,
    tag: Option<String>,
    sweep: Option<String>,
    name: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Jsonl,
    Csv,
}

pub async fn export(State(app): State<Shared>, Asked(query): Asked<ExportQuery>) -> Result<Response, Failed> {
    let ExportQuery { format, state, since, select, project, tag, sweep, name } = query;
    let (format, content_type) = match format.as_deref() {
        None | Some("jsonl") => (Format::Jsonl, "application/jsonl"),
        Some("csv") => (Format::Csv, "text/csv; charset=utf-8"),
        Some(other) => {
            let (field, value) = ("format".into(), other.to_string());
            return Err(Failed(Problem::BadField { field, value, want: "jsonl or csv".into() }));
        }
    };
    let filter = filter(&JobQuery { state, since, project, tag, sweep, name, ..JobQuery::default() })?;
    let only = match select {
        None => None,
        Some(texts) => Some(app.selected_numbers(&texts).await?.into_iter().collect()),
    };
    let (sender, body) = stream::whole_body();
    let (until, envs) = (Instant::now(), Envs::default());
    let walk = Walk { app, filter, only, format, view: None, until, place: None, envs };
    tokio::spawn(send(walk, sender));
    Ok(([(header::CONTENT_TYPE, content_type)], body).into_response())
}

/// Sends all there is. One that fails breaks off, so that nobody takes it for the whole.
async fn send(mut walk: Walk, sender: mpsc::Sender<Option<Bytes>>) {
    let header = Bytes::from_static(CSV_HEADER.as_bytes());
    if walk.format == Format::Csv && sender.send(Some(header)).await.is_err() {
        return;
    }
    loop {
        let read = blocking::answer(move || {
            let piece = walk.piece();
            (walk, piece)
        });
        let Ok((back, piece)) = read.await else { return };
        walk = back;
        let piece = match piece {
            Ok(piece) => piece.map(Bytes::from),
            Err(error) => {
                let line = Line::error(format!("an export broke off: {}", error.problem()));
                // A service that stops has broken it off itself.
                let _ = walk.app.post(Message::Log(vec![line]));
                return;
            }
        };
        let over = match &piece {
            None => true,
            // Nothing that fits the filter so far.
            Some(piece) if piece.is_empty() => continue,
            Some(_) => false,
        };
        let room = match timeout_at(walk.until, sender.reserve()).await {
            Ok(room) => room,
            Err(_) => {
                blocking::in_place(|| walk.let_go());
                sender.reserve().await
            }
        };
        // The client went away.
        let Ok(room) = room else { return };
        room.send(piece);
        if over {
            return;
        }
    }
}

/// On its way through the jobs.
struct Walk {
    app: Shared,
    filter: Filter,
    /// Numbers of the jobs that were named, where some were.
    only: Option<BTreeSet<i64>>,
    format: Format,
    view: Option<View>,
    /// When the view is let go.
    until: Instant,
    /// None before the first look.
    place: Option<Place>,
    envs: Envs,
}

/// By numbers of jobs.
#[derive(Clone, Copy)]
struct Place {
    after: i64,
    last: i64,
}

impl Drop for Walk {
    fn drop(&mut self) {
        self.let_go();
    }
}

impl Walk {
    fn let_go(&mut self) {
        if let Some(view) = self.view.take() {
            self.app.readers.close(view);
        }
    }

    /// The next jobs as text; none when all were told.
    fn piece(&mut self) -> Result<Option<Vec<u8>>, StoreError> {
        if self.until <= Instant::now() {
            self.let_go();
        }
        let view = match self.view.take() {
            Some(view) => view,
            None => {
                self.until = Instant::now() + VIEW_LASTS;
                self.app.readers.view()?
            }
        };
        let piece = self.read(&view.reader());
        self.view = Some(view);
        piece
    }

    fn read(&mut self, reader: &Reader) -> Result<Option<Vec<u8>>, StoreError> {
        let mut place = match self.place {
            Some(place) => place,
            None => Place { after: i64::MIN, last: reader.last_number()?.unwrap_or(i64::MIN) },
        };
        let mut text = Vec::with_capacity(2 * PIECE);
        while text.len() < PIECE {
            let Some((after, end)) = self.stretch(reader, place)? else { break };
            place.after = after;
            for (job, runs) in reader.stretch(place.after, end, &self.filter)? {
                self.tell(reader, job, runs, &mut text)?;
            }
            place.after = end;
            // Few jobs fit the filter: others want to write meanwhile.
            if self.until <= Instant::now() {
                self.place = Some(place);
                return Ok(Some(text));
            }
        }
        self.place = Some(place);
        Ok((!text.is_empty()).then_some(text))
    }

    /// The next numbers to look at, behind the first up to the second; none where all were.
    fn stretch(&self, reader: &Reader, place: Place) -> Result<Option<(i64, i64)>, StoreError> {
        match &self.only {
            None => Ok(reader.stretch_end(place.after, place.last)?.map(|end| (place.after, end))),
            Some(only) => Ok(only.range((Excluded(place.after), Unbounded)).next().map(|next| (next - 1, *next))),
        }
    }

    fn tell(&mut self, reader: &Reader, row: JobRow, runs: Vec<RunRow>, text: &mut Vec<u8>) -> Result<(), StoreError> {
        let nothing = Default::default();
        let around = view::Surroundings { log_dir: &self.app.log_dir, now: clock::now(), waiting: &nothing };
        if self.format == Format::Csv {
            text.extend(csv_row(&view::job(row, None, &around)).into_bytes());
            return Ok(());
        }
        let (env, secret_names) = given(reader, &row, &mut self.envs)?;
        let exported = exported(row, runs, env, secret_names, &around);
        serde_json::to_writer(&mut *text, &exported).expect("a job is plain data");
        text.push(b'\n');
        Ok(())
    }
}

/// A job as a line of an export. `env` and `secret_names`: what was given for the job itself.
pub(super) fn exported(
    row: JobRow,
    runs: Vec<RunRow>,
    env: Env,
    secret_names: Vec<String>,
    around: &view::Surroundings,
) -> Exported {
    let aside = Aside {
        runs: runs.into_iter().map(view::run).collect(),
        hold: row.state == Word::Held,
        results_error: row.left.error.clone(),
        failed_by: row.failed_by.clone(),
        env,
        secret_names,
    };
    let spec = row.spec.clone();
    Exported::of(view::job(row, None, around), spec, aside)
}

/// Variables that were given for the job itself: the open ones, and the names of secrets.
fn given(reader: &Reader, row: &JobRow, known: &mut Envs) -> Result<(Env, Vec<String>), StoreError> {
    let is_secret = |name: &&String| row.secret_names.contains(name);
    let secret_names = row.spec.env_given.iter().filter(is_secret).cloned().collect();
    Ok((reader.given_env(row, known)?, secret_names))
}
