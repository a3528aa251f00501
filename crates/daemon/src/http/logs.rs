//! A job's output: the end of it, all of it, or as it comes.

use std::path::PathBuf;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use nexus_api::events::{Event, What};
use nexus_api::jobs::State as Word;
use nexus_api::problem::Problem;
use nexus_node::logs::{LogReader, Which};
use serde::Deserialize;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, mpsc};
use tokio::task::block_in_place;

use super::changes::Changes;
use super::extract::Asked;
use super::problem::Failed;
use super::{App, Shared, stream};
use crate::store::StoreError;

/// Bytes read at a time.
const PART: usize = 64 << 10;

#[derive(Deserialize)]
pub struct LogQuery {
    #[serde(default)]
    stream: Option<String>,
    attempt: Option<u32>,
    tail: Option<usize>,
    #[serde(default)]
    follow: bool,
}

pub async fn log(
    State(app): State<Shared>,
    Path(id): Path<String>,
    Asked(query): Asked<LogQuery>,
) -> Result<Response, Failed> {
    let which = match query.stream.as_deref() {
        None | Some("both") => Which::Both,
        Some("stdout") => Which::Stdout,
        Some("stderr") => Which::Stderr,
        Some(other) => {
            let want = "both, stdout or stderr".to_string();
            return Err(Failed(Problem::BadField { field: "stream".into(), value: other.to_string(), want }));
        }
    };
    // Subscribed before the state is read, so that no end is missed.
    let events = app.events.subscribe();
    let (state, newest) = app.state_of(&id).await?;
    let attempt = match query.attempt {
        Some(attempt) if attempt == 0 || attempt > newest => {
            return Err(Failed(Problem::NoLog { id, attempt: Some(attempt) }));
        }
        Some(attempt) => Some(attempt),
        None if newest > 0 => Some(newest),
        None if query.follow && !state.has_ended() => None,
        None => return Err(Failed(Problem::NoLog { id, attempt: None })),
    };
    let (sender, body) = stream::body();
    let follower = Follower { app, id, which, tail: query.tail, follow: query.follow, events, sender };
    tokio::spawn(follower.run(attempt));
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], body).into_response())
}

impl App {
    pub(super) async fn state_of(self: &Shared, id: &str) -> Result<(Word, u32), Problem> {
        let id = id.to_string();
        self.read(move |reader| match reader.job(&id).map_err(|error| error.problem())? {
            Some(row) => Ok((row.state, row.attempt)),
            None => Err(Problem::NoSuchJob { id }),
        })
        .await
    }

    pub(super) async fn dir_of(self: &Shared, id: &str, number: u32) -> Result<PathBuf, Problem> {
        let id = id.to_string();
        self.read(move |reader| {
            let fail = |error: StoreError| error.problem();
            let missing = || Problem::NoLog { id: id.clone(), attempt: Some(number) };
            let row = reader.job(&id).map_err(fail)?.ok_or_else(missing)?;
            let runs = reader.runs(row.n).map_err(fail)?;
            runs.into_iter().find(|run| run.number == number).map(|run| run.dir).ok_or_else(missing)
        })
        .await
    }
}

/// One client that reads one job's log.
struct Follower {
    app: Shared,
    id: String,
    which: Which,
    tail: Option<usize>,
    follow: bool,
    events: broadcast::Receiver<Arc<Event>>,
    sender: mpsc::Sender<Bytes>,
}

impl Follower {
    /// Sends attempt after attempt; ends with the job, or with the client.
    async fn run(mut self, mut attempt: Option<u32>) {
        let mut shown = 0;
        loop {
            let Ok((state, newest)) = self.app.state_of(&self.id).await else { return };
            if let Some(number) = attempt.or((newest > shown).then_some(newest)) {
                attempt = None;
                shown = number;
                if self.run_of(number).await.is_none() || !self.follow {
                    return;
                }
            } else if state.has_ended() {
                return;
            } else {
                tokio::select! {
                    heard = next_event(&mut self.events, &self.id) => if heard.is_none() { return },
                    () = self.sender.closed() => return,
                }
            }
        }
    }

    /// Sends one attempt's output, to its end if it is followed. None: the client went away.
    async fn run_of(&mut self, number: u32) -> Option<()> {
        let dir = self.app.dir_of(&self.id, number).await.ok()?;
        let changes = if self.follow { Changes::watch(&dir) } else { None };
        let tail = self.tail.take();
        let mut reader = block_in_place(|| {
            let mut reader = LogReader::open(&dir, self.which).ok();
            if let (Some(reader), Some(lines)) = (&mut reader, tail) {
                reader.tail(lines).ok()?;
            }
            Some(reader)
        })?;
        let (mut happened, mut over) = (true, false);
        loop {
            // Asked before reading: what is written before the end is read after it.
            if happened {
                let (state, newest) = self.app.state_of(&self.id).await.ok()?;
                over = !self.follow || newest > number || !matches!(state, Word::Starting | Word::Running);
            }
            if reader.is_none() {
                reader = LogReader::open(&dir, self.which).ok();
            }
            if let Some(reader) = &mut reader {
                self.send_all(reader).await?;
            }
            if over {
                return Some(());
            }
            happened = tokio::select! {
                () = Changes::next(&changes) => false,
                heard = next_event(&mut self.events, &self.id) => {
                    heard?;
                    true
                }
                () = self.sender.closed() => return None,
            };
        }
    }

    async fn send_all(&self, reader: &mut LogReader) -> Option<()> {
        while let Some(chunk) = block_in_place(|| reader.read_next(PART)).ok()? {
            self.sender.send(Bytes::from(chunk.bytes)).await.ok()?;
        }
        Some(())
    }
}

/// Waits until something happened to this job. None: nothing more will.
async fn next_event(events: &mut broadcast::Receiver<Arc<Event>>, job: &str) -> Option<()> {
    loop {
        match events.recv().await {
            Ok(event) if !concerns(&event, job) => {}
            Ok(_) | Err(RecvError::Lagged(_)) => return Some(()),
            Err(RecvError::Closed) => return None,
        }
    }
}

fn concerns(event: &Event, job: &str) -> bool {
    match &event.what {
        What::Job { id, .. } => id == job,
        _ => true,
    }
}
