//! Ended jobs of an export, taken over as history.

use std::ops::Range;

use axum::Json;
use axum::extract::State;
use nexus_api::edit::LineError;
use nexus_api::history_import::{MOST_LINES, TakenOver};
use nexus_api::problem::Problem;
use serde::Deserialize;

use super::extract::{Asked, Raw};
use super::problem::Failed;
use super::{Shared, past};
use crate::engine::Message;
use crate::store::Took;

#[derive(Deserialize)]
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
    let log_dir = app.log_dir.clone();
    let read = tokio::task::spawn_blocking(move || {
        let mut found = Vec::with_capacity(lines.len());
        for (number, line) in (query.first_line..).zip(lines) {
            let line = bytes[line].trim_ascii();
            if !line.is_empty() {
                found.push((number, past::read(line, &log_dir)));
            }
        }
        found
    });
    let read = read.await.map_err(|error| Problem::Internal { error: error.to_string() })?;
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

fn lines(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut begin = 0;
    let ranges = bytes.split(|byte| *byte == b'\n').map(|line| {
        let range = begin..begin + line.len();
        begin = range.end + 1;
        range
    });
    ranges.collect()
}
