//! A job's output: the end of it, all of it, or as it comes.

use std::path::PathBuf;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use nexus_api::events::{Event, What};
use nexus_api::jobs::State as Word;
use nexus_api::log::{CONTENT_TYPE, Frame, Place};
use nexus_api::problem::Problem;
use nexus_node::logs::{LogReader, Which};
use nexus_node::run_file;
use serde::Deserialize;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use utoipa::IntoParams;

use super::changes::Changes;
use super::extract::{Asked, Path};
use super::log_range::{self, Range};
use super::problem::Failed;
use super::{App, Shared, stream};
use crate::blocking;
use crate::events::Receiver;
use crate::store::StoreError;

/// Bytes read at a time.
const PART: usize = 64 << 10;

#[derive(Deserialize, IntoParams)]
pub struct LogQuery {
    /// `stdout`, `stderr`, or `both` of them as they came, which is meant where nothing is said.
    #[serde(default)]
    stream: Option<String>,
    /// From 1; the newest where nothing is said.
    attempt: Option<u32>,
    /// The last so many lines alone.
    tail: Option<usize>,
    /// Goes on with what is printed, through all attempts, until the job has ended.
    #[serde(default)]
    follow: bool,
    /// Follows both streams from this [`Place`] on, as in `1.0.0`, and answers in frames. The others do not count then.
    from: Option<String>,
}

pub async fn log(
    State(app): State<Shared>,
    Path(id): Path<String>,
    Asked(query): Asked<LogQuery>,
    headers: HeaderMap,
) -> Result<Response, Failed> {
    let range = Range::asked(&headers)?;
    if let Some(from) = &query.from {
        return app.follow_from(id, from).await;
    }
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
    // Held until the answer was given: what is read is whole.
    let _brought = match attempt {
        Some(attempt) if !query.follow || state.has_ended() => app.brought(&id, attempt).await?,
        _ => None,
    };
    if let Some(attempt) = attempt {
        let dir = app.dir_of(&id, attempt).await?;
        if state.has_ended() && !blocking::in_place(|| dir.is_dir()) {
            return Err(Failed(Problem::LogsGone { id, path: dir.display().to_string() }));
        }
        // Once the answer has begun nothing can be said of it any more.
        if let Err(error) = blocking::in_place(|| LogReader::open(&dir, which))
            && let Some(unfit) = run_file::unfit(&error)
        {
            return Err(Failed(Problem::LogUnreadable { id, error: unfit.to_string() }));
        }
        if let Some(range) = range {
            return blocking::in_place(|| log_range::answer(&dir, which, range));
        }
    }
    let (sender, body) = stream::body();
    let follower = Follower { app, id, which, tail: query.tail, follow: query.follow, from: None, events, sender };
    tokio::spawn(follower.run(attempt));
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], body).into_response())
}

impl App {
    async fn follow_from(self: Shared, id: String, from: &str) -> Result<Response, Failed> {
        let from: Place = from.parse().map_err(|bad: nexus_api::log::BadFrame| Problem::BadField {
            field: "from".into(),
            value: from.to_string(),
            want: bad.to_string(),
        })?;
        let events = self.events.subscribe();
        self.state_of(&id).await?;
        let (sender, body) = stream::body();
        let follower =
            Follower { app: self, id, which: Which::Both, tail: None, follow: true, from: Some(from), events, sender };
        tokio::spawn(follower.run(None));
        Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], body).into_response())
    }

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
    /// Where it goes on; then it is told what is what, in frames.
    from: Option<Place>,
    events: Receiver,
    sender: mpsc::Sender<Bytes>,
}

impl Follower {
    /// Sends attempt after attempt; ends with the job, or with the client.
    async fn run(mut self, mut attempt: Option<u32>) {
        let mut shown = self.from.map_or(0, |from| from.attempt - 1);
        loop {
            let Ok((state, newest)) = self.app.state_of(&self.id).await else { return };
            // One after the other: attempts may be over before they were looked at.
            if let Some(number) = attempt.take().or((newest > shown).then_some(shown + 1)) {
                shown = number;
                if self.run_of(number).await.is_none() || !self.follow {
                    return;
                }
            } else if state.has_ended() {
                // The client that went away, or a database that cannot be read: it looks for itself.
                let _ = self.tell_end().await;
                return;
            } else if self.something().await.is_none() {
                return;
            }
        }
    }

    /// Waits until something happened to the job. None: nothing more will, or the client went away.
    async fn something(&mut self) -> Option<()> {
        let heard = tokio::select! {
            heard = next_event(&mut self.events, &self.id) => heard?,
            () = self.sender.closed() => return None,
        };
        match heard {
            Heard::Change => Some(()),
            Heard::Stopping => self.tell(&Frame::Stopping).await,
        }
    }

    /// To a client that reads frames.
    async fn tell(&self, frame: &Frame) -> Option<()> {
        match self.from {
            Some(_) => self.sender.send(Bytes::from(frame.to_bytes())).await.ok(),
            None => Some(()),
        }
    }

    async fn tell_end(&self) -> Option<()> {
        if self.from.is_none() {
            return Some(());
        }
        let id = self.id.clone();
        let row = self.app.read(move |reader| reader.job(&id).map_err(|error| error.problem())).await.ok()??;
        let job = self.app.view(vec![row], false).await.ok()?.pop()?;
        self.tell(&Frame::Ended(Box::new(job))).await
    }

    /// Sends one attempt's output, to its end if it is followed. None: the client went away.
    async fn run_of(&mut self, number: u32) -> Option<()> {
        let dir = self.app.dir_of(&self.id, number).await.ok()?;
        // Of a run elsewhere: kept up while somebody reads. Without a line it is asked for again when something happens.
        let mut brought = self.app.brought(&self.id, number).await;
        let changes = if self.follow { Changes::watch(&dir) } else { None };
        let tail = self.tail.take();
        self.tell(&Frame::Attempt(number)).await?;
        let mut reader = blocking::in_place(|| {
            let mut reader = self.open(&dir, number);
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
            if happened && (over || brought.is_err()) {
                brought = self.app.brought(&self.id, number).await;
            }
            if reader.is_none() {
                reader = self.open(&dir, number);
            }
            if let Some(reader) = &mut reader {
                self.send_all(reader).await?;
            }
            if over {
                return Some(());
            }
            happened = tokio::select! {
                () = Changes::next(&changes) => false,
                something = self.something() => {
                    something?;
                    true
                }
            };
        }
    }

    /// The log of an attempt, where this client goes on in it. None: there is none yet.
    fn open(&self, dir: &std::path::Path, number: u32) -> Option<LogReader> {
        let mut reader = LogReader::open(dir, self.which).ok()?;
        if let Some(had) = self.from.filter(|from| from.attempt == number) {
            reader.resume(had.stdout, had.stderr);
        }
        Some(reader)
    }

    async fn send_all(&self, reader: &mut LogReader) -> Option<()> {
        while let Some(chunk) = blocking::in_place(|| reader.read_next(PART)).ok()? {
            let bytes = match self.from {
                Some(_) => Frame::Output { stderr: chunk.stderr, bytes: chunk.bytes }.to_bytes(),
                None => chunk.bytes,
            };
            self.sender.send(Bytes::from(bytes)).await.ok()?;
        }
        Some(())
    }
}

enum Heard {
    Change,
    /// The service goes down.
    Stopping,
}

/// Waits until something happened to this job. None: nothing more will.
async fn next_event(events: &mut Receiver, job: &str) -> Option<Heard> {
    loop {
        match events.recv().await {
            Ok(event) if event.what == What::Stopping => return Some(Heard::Stopping),
            Ok(event) if !concerns(&event, job) => {}
            Ok(_) | Err(RecvError::Lagged(_)) => return Some(Heard::Change),
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
