//! Ended jobs of an export, taken over as history.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::thread::ScopedJoinHandle;

use axum::Json;
use axum::extract::State;
use nexus_api::edit::LineError;
use nexus_api::history_import::{MOST_LINES, TakenOver};
use nexus_api::problem::Problem;
use nexus_node::threads;
use serde::Deserialize;
use tokio::sync::Mutex;
use utoipa::IntoParams;

use super::extract::{Asked, Raw};
use super::problem::Failed;
use super::{Shared, past};
use crate::blocking;
use crate::engine::Message;
use crate::store::{PastJob, Took};

/// Lines are read on so many threads at most.
const MOST_THREADS: usize = 4;

/// Who reads lines, and who has them written: one each.
#[derive(Default)]
pub struct Turns {
    reading: Mutex<()>,
    writing: Mutex<()>,
}

/// A line by its number, read.
type Line = (u64, Result<PastJob, String>);

#[derive(Deserialize, IntoParams)]
pub struct HistoryQuery {
    /// Of the body, in the file that it is from.
    #[serde(default = "one")]
    first_line: u64,
}

fn one() -> u64 {
    1
}

/// Lines are read here, and written by the engine: that has others to serve.
pub async fn take_over(
    State(app): State<Shared>,
    Asked(query): Asked<HistoryQuery>,
    Raw(bytes): Raw,
) -> Result<Json<TakenOver>, Failed> {
    let lines = lines(&bytes);
    if lines.len() > MOST_LINES {
        let error = format!("it has {} lines, and at most {MOST_LINES} are taken at once", lines.len());
        return Err(Failed(Problem::BadRequest { error }));
    }
    // Those that come one after the other are read and written one after the other; while one is written the next is
    // read.
    let reading = app.taking_over.reading.lock().await;
    let log_dir = app.log_dir.clone();
    let read = blocking::answer(move || read_all(&bytes, &lines, query.first_line, &log_dir)).await?;
    let (mut jobs, mut numbers, mut answer) = (Vec::new(), Vec::new(), TakenOver::default());
    for (line, read) in read {
        match read {
            Ok(job) => {
                numbers.push((line, job.id));
                jobs.push(job);
            }
            Err(error) => answer.refused.push(LineError { line, error }),
        }
    }
    let _writing = app.taking_over.writing.lock().await;
    drop(reading);
    let took = match jobs.is_empty() {
        true => vec![],
        false => app.order(|reply| Message::TakeOver { jobs, reply }).await?,
    };
    for ((line, id), took) in numbers.into_iter().zip(took) {
        match took {
            Took::Taken => answer.taken += 1,
            Took::Known => answer.known += 1,
            Took::Another => answer.refused.push(LineError { line, error: format!("{id} is another job here") }),
            Took::Live => {
                let error = format!("{id} is a job here that has not ended");
                answer.refused.push(LineError { line, error });
            }
        }
    }
    answer.refused.sort_by_key(|refused| refused.line);
    Ok(Json(answer))
}

/// Lines that say something, by their numbers, read on several threads. What no thread can be had for is read on this one.
fn read_all(bytes: &[u8], lines: &[Range<usize>], first_line: u64, log_dir: &Path) -> Vec<Line> {
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get().min(MOST_THREADS));
    let numbered: Vec<(u64, &[u8])> = (first_line..)
        .zip(lines)
        .map(|(number, line)| (number, bytes[line.clone()].trim_ascii()))
        .filter(|(_, line)| !line.is_empty())
        .collect();
    let read = |some: &[(u64, &[u8])]| {
        some.iter().map(|(number, line)| (*number, past::read(line, log_dir))).collect::<Vec<Line>>()
    };
    let parts = numbered.chunks(numbered.len().div_ceil(threads).max(1));
    std::thread::scope(|scope| {
        let start = |part| (part, threads::start_scoped(scope, "nexus-lines", move || read(part)));
        let parts: Vec<_> = parts.map(start).collect();
        let join = |(part, thread): (_, io::Result<ScopedJoinHandle<Vec<Line>>>)| match thread {
            Ok(thread) => thread.join().expect("no line makes it panic"),
            Err(_) => read(part),
        };
        parts.into_iter().flat_map(join).collect()
    })
}

fn lines(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut begin = 0;
    let ranges = bytes.split(|byte| *byte == b'\n').map(|line| {
        let range = begin..begin + line.len();
        begin = range.end + 1;
        range
    });
    ranges.collect()
}
