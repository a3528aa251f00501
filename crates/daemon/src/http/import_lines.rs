//! Entries of files, line by line: those that have come are queued while the next are on their way, and what became of them
//! is told as it is known. A hundred thousand are neither held in memory nor waited for.

use std::future::poll_fn;
use std::io::{self, BufRead, Read};
use std::pin::Pin;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use http_body::Body as _;
use hyper::body::Buf;
use nexus_api::import::{Import, Imported};
use nexus_api::job_file::Entry;
use nexus_api::problem::Problem;
use nexus_api::strict;
use serde::de::DeserializeOwned;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::timeout;

use super::problem::Failed;
use super::{BODY_LIMIT, Shared, stream};
use crate::blocking;
use crate::import::{Importer, TOGETHER};

/// Pieces of a body that have come and are not read yet.
const IN_FLIGHT: usize = 16;

/// Lines that go on for longer are fewer at a time.
const PART_BYTES: usize = 16 << 20;

/// Imports by lines at once. Each holds a thread of the pool while its client is slow or stands still, and the pool has twice
/// as many, so that other requests are answered.
const MAX_IMPORTS: usize = 4;

/// How long one more import waits for its turn.
const TURN_PATIENCE: Duration = Duration::from_secs(30);

static TURNS: Semaphore = Semaphore::const_new(MAX_IMPORTS);

/// `POST /v1/import/lines`
pub async fn import(State(app): State<Shared>, body: Body) -> Result<Response, Failed> {
    let turn = timeout(TURN_PATIENCE, TURNS.acquire()).await.map_err(|_| {
        let error = format!("{MAX_IMPORTS} imports are under way already; try again later");
        Problem::Busy { error }
    })?;
    let importer = app.watches.importer();
    let (pieces, arriving) = mpsc::channel(IN_FLIGHT);
    let (sender, answer) = stream::whole_body();
    let (begun, begins) = oneshot::channel();
    tokio::spawn(pass_on(body, pieces));
    let work = move || {
        let _turn = turn;
        let mut begun = Some(begun);
        // Who does not hear it is gone, and with it the rest of the lines.
        let done = import_lines(&importer, Arriving::new(arriving), &mut |part| {
            begun.take().map(|begun| begun.send(Ok(())));
            let _ = sender.blocking_send(Some(line(&part)));
        });
        match (done, begun) {
            (Err(problem), Some(begun)) => drop(begun.send(Err(problem))),
            _ => drop(sender.blocking_send(None)),
        }
    };
    // It tells its end by what it sends.
    drop(blocking::begin(work)?);
    // Where nothing was taken it is an error like any other.
    begins.await.unwrap_or(Err(Problem::Stopping))?;
    Ok(([(header::CONTENT_TYPE, "application/jsonl")], answer).into_response())
}

/// The last is none, unless it broke off. What comes when nobody takes it any more is read all the same: its sender hears
/// what was wrong once all of it is sent.
async fn pass_on(mut body: Body, pieces: mpsc::Sender<Option<Bytes>>) {
    loop {
        let piece = match poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
            None => None,
            Some(Ok(frame)) => match frame.into_data() {
                Ok(bytes) => Some(bytes),
                Err(_) => continue,
            },
            Some(Err(_)) => return,
        };
        let is_last = piece.is_none();
        let _ = pieces.send(piece).await;
        if is_last {
            return;
        }
    }
}

fn import_lines(importer: &Importer, mut lines: Arriving, tell: &mut dyn FnMut(Imported)) -> Result<(), Problem> {
    let missing = || Problem::BadRequest { error: "it has no first line".into() };
    let import: Import = lines.next(strict::read)?.ok_or_else(missing)?;
    let together = import.dry_run || import.together;
    importer.import_parts(import, &mut || lines.entries(together), None, tell)
}

fn line(part: &Imported) -> Bytes {
    let mut text = serde_json::to_vec(part).expect("it is plain data");
    text.push(b'\n');
    text.into()
}

/// The lines of a body that is on its way.
struct Arriving {
    pieces: mpsc::Receiver<Option<Bytes>>,
    piece: Bytes,
    is_over: bool,
    line: Vec<u8>,
    /// Of the line.
    number: u64,
}

impl Arriving {
    fn new(pieces: mpsc::Receiver<Option<Bytes>>) -> Arriving {
        Arriving { pieces, piece: Bytes::new(), is_over: false, line: Vec::new(), number: 0 }
    }

    /// None at the end.
    fn next<T: DeserializeOwned>(&mut self, read: fn(&[u8]) -> Result<T, String>) -> Result<Option<T>, Problem> {
        let mut line = std::mem::take(&mut self.line);
        line.clear();
        self.number += 1;
        let wrong =
            |number, error: &dyn std::fmt::Display| Problem::BadRequest { error: format!("line {number}: {error}") };
        let taken = Read::by_ref(self).take(BODY_LIMIT as u64).read_until(b'\n', &mut line);
        let length = taken.map_err(|error| wrong(self.number, &error))?;
        let read = match length {
            0 => None,
            BODY_LIMIT => return Err(wrong(self.number, &"it is too long")),
            _ => Some(read(&line).map_err(|error| wrong(self.number, &error))?),
        };
        self.line = line;
        Ok(read)
    }

    /// All of them, or as many as share a transaction. None at the end.
    fn entries(&mut self, together: bool) -> Result<Option<Vec<Entry>>, Problem> {
        let (mut entries, mut bytes) = (Vec::new(), 0);
        while together || (entries.len() < TOGETHER && bytes < PART_BYTES) {
            let Some(entry) = self.next(entry)? else { break };
            entries.push(entry);
            bytes += self.line.len();
            if bytes > BODY_LIMIT {
                let error = format!("line {}: those before it are too much to be taken at once", self.number);
                return Err(Problem::BadRequest { error });
            }
        }
        Ok((!entries.is_empty()).then_some(entries))
    }
}

/// There may be a hundred thousand: one that is well is read once, since the type itself refuses keys that it does not know.
fn entry(line: &[u8]) -> Result<Entry, String> {
    serde_json::from_slice(line).or_else(|_| strict::read(line))
}

impl Read for Arriving {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(into)?;
        self.consume(count);
        Ok(count)
    }
}

impl BufRead for Arriving {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.piece.is_empty() && !self.is_over {
            match self.pieces.blocking_recv() {
                Some(Some(piece)) => self.piece = piece,
                Some(None) => self.is_over = true,
                None => return Err(io::Error::other("the rest of it did not come")),
            }
        }
        Ok(&self.piece)
    }

    fn consume(&mut self, count: usize) {
        self.piece.advance(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_not_known_is_refused_wherever_it_stands() {
        let refused = |line: &str, key: &str| {
            let error = entry(line.as_bytes()).expect_err(line);
            assert!(error.contains(&format!("there is no key {key}")), "{error}");
        };
        let script = r#"{"line":1,"command":{"script":{"script":"a.py","torchrun":null,"arguments":[]}}}"#;
        let carried =
            r#"{"line":1,"command":{"command":{"shell":"true"}},"carried":{"code":{"content":"0a","of":"/src"}}}"#;
        for line in [script, carried] {
            entry(line.as_bytes()).expect(line);
        }
        refused(&script.replace(r#""line""#, r#""lime":1,"line""#), "lime");
        refused(&script.replace(r#""torchrun""#, r#""torchrum":2,"torchrun""#), "torchrum");
        refused(&carried.replace(r#""code""#, r#""coda":1,"code""#), "coda");
        refused(&carried.replace(r#""of""#, r#""off":1,"of""#), "off");
    }
}
