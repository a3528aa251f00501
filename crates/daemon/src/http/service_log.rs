//! service.log as it grows, from its last lines on.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use nexus_core::apply::Command;
use nexus_node::own_file;
use serde::Deserialize;
use tokio::sync::mpsc;
use utoipa::IntoParams;

use super::changes::Changes;
use super::extract::Asked;
use super::problem::Failed;
use super::{Shared, stream};
use crate::blocking;
use crate::engine::Message;

/// Bytes read at a time, and looked through for the last lines.
const PART: usize = 64 << 10;

#[derive(Deserialize, IntoParams)]
pub struct LogQuery {
    /// Begin with the last so many lines; with all of the last 64 KiB where nothing is said.
    tail: Option<usize>,
    /// The service's own screen session, of which this is the window: when that is closed the service stops.
    session: Option<String>,
}

pub async fn log(State(app): State<Shared>, Asked(query): Asked<LogQuery>) -> Result<Response, Failed> {
    let (sender, body) = stream::body();
    tokio::spawn(async move {
        let is_session = query.session.is_some();
        if is_session {
            app.screen.window(query.session);
        }
        follow(app.home.service_log(), query.tail.unwrap_or(usize::MAX), &sender).await;
        if is_session {
            app.screen.window(None);
            let (reply, _) = tokio::sync::oneshot::channel();
            let command = Command::Stop { kill: false };
            // The engine is gone: then the service is, too.
            let _ = app.post(Message::Command { command, verb: "stop", skip_unfit: false, reply });
        }
    });
    Ok(([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], body).into_response())
}

/// Sends what is written, through rotations, until the client is gone.
async fn follow(path: PathBuf, lines: usize, sender: &mpsc::Sender<Bytes>) {
    let mut skip_to = Some(lines);
    while !sender.is_closed() {
        // Watched before it is read: what is written in between is not missed.
        let changes = Changes::watch(&path);
        let Ok(file) = blocking::in_place(|| own_file::open(&path)) else {
            Changes::next(&None).await;
            continue;
        };
        let mut position = skip_to.take().map_or(0, |lines| blocking::in_place(|| tail(&file, lines)));
        loop {
            let is_newest = is_at(&file, &path);
            let Some(read) = send_from(&file, position, sender).await else { return };
            position += read;
            if !is_newest {
                break;
            }
            tokio::select! {
                () = Changes::next(&changes) => {}
                () = sender.closed() => return,
            }
        }
    }
}

/// Whether the file is still the one of that name.
fn is_at(file: &File, path: &std::path::Path) -> bool {
    blocking::in_place(|| match (file.metadata(), std::fs::metadata(path)) {
        (Ok(open), Ok(named)) => open.ino() == named.ino() && open.dev() == named.dev(),
        // Between one file and the next there is none.
        _ => true,
    })
}

/// None: the client is gone.
async fn send_from(file: &File, from: u64, sender: &mpsc::Sender<Bytes>) -> Option<u64> {
    let mut sent = 0;
    loop {
        let mut part = vec![0; PART];
        let count = blocking::in_place(|| file.read_at(&mut part, from + sent)).unwrap_or(0);
        if count == 0 {
            return Some(sent);
        }
        part.truncate(count);
        sent += count as u64;
        sender.send(Bytes::from(part)).await.ok()?;
    }
}

/// Where the last lines begin; no further back than one part.
fn tail(file: &File, lines: usize) -> u64 {
    let length = file.metadata().map_or(0, |metadata| metadata.len());
    let from = length.saturating_sub(PART as u64);
    let mut part = vec![0; (length - from) as usize];
    let count = file.read_at(&mut part, from).unwrap_or(0);
    let ends = part[..count].iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(index, _)| index as u64 + 1);
    let begins: Vec<u64> = std::iter::once(0).chain(ends).filter(|begin| *begin < count as u64).collect();
    from + begins.get(begins.len().saturating_sub(lines.max(1))).copied().unwrap_or(0)
}
