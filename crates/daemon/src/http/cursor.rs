//! Pages of jobs: where one ends is said to the client as a text that it gives back for the next.

use axum::Json;
use axum::http::HeaderName;
use axum::response::{IntoResponse, Response};
use nexus_api::jobs::{Job, JobQuery, State as Word};
use nexus_api::problem::Problem;

use super::jobs::filter;
use super::problem::Failed;
use super::{App, Shared};
use crate::store::{Behind, JobRow, Narrow};

/// The header with the cursor of the next page; missing behind the last.
const NEXT: HeaderName = HeaderName::from_static("nexus-cursor");

const USUAL: u64 = 200;
const MOST: u64 = 10_000;

/// How long a page may be.
pub fn limit(asked: Option<u64>) -> Result<u64, Problem> {
    let limit = asked.unwrap_or(USUAL);
    match (1..=MOST).contains(&limit) {
        true => Ok(limit),
        false => Err(bad("limit", limit, format!("1 to {MOST} jobs at a time"))),
    }
}

pub fn number(cursor: &str) -> Result<i64, Problem> {
    cursor.parse().map_err(|_| not_ours(cursor))
}

/// Of rows that are one more than a page, if more follow: the page stays, and where it ends comes back.
pub fn cut(rows: &mut Vec<JobRow>, limit: Option<u64>, end: impl Fn(&JobRow) -> String) -> Option<String> {
    let limit = usize::try_from(limit?).unwrap_or(usize::MAX);
    if rows.len() <= limit {
        return None;
    }
    rows.truncate(limit);
    rows.last().map(end)
}

pub fn answer(jobs: Vec<Job>, next: Option<String>) -> Response {
    match next {
        Some(next) => ([(NEXT, next)], Json(jobs)).into_response(),
        None => Json(jobs).into_response(),
    }
}

impl App {
    pub(super) async fn page(self: &Shared, cursor: &str, query: &JobQuery) -> Result<Response, Failed> {
        let mut filter = filter(query)?;
        if query.select.is_some() {
            return Err(Failed(bad(
                "select",
                "given",
                "no cursor beside it: what selectors name comes at once".into(),
            )));
        }
        let limit = limit(query.limit)?;
        let all_wait = filter.states.iter().all(|state| matches!(state, Word::Held | Word::Queued));
        let all_ended = filter.states.iter().all(|state| state.has_ended());
        if filter.states.is_empty() || !(all_wait || all_ended) {
            let want = "states of jobs that wait, or of ended ones: pending, ended, failed";
            let value = query.state.clone().unwrap_or_default();
            return Err(Failed(bad("state", value, format!("{want}; others are few and come without a cursor"))));
        }
        let behind = Behind::read(cursor).ok_or_else(|| not_ours(cursor))?;
        let whole_queue =
            all_wait && filter.states.len() == 2 && filter.narrow == Narrow::default() && filter.since.is_none();
        filter.limit = Some(limit + 1);
        let before = behind.position();
        let mut rows = self
            .read(move |reader| match all_wait {
                true => reader.waiting_behind(&behind, &filter).map_err(|error| error.problem()),
                false => reader.ended_behind(&behind, &filter).map_err(|error| error.problem()),
            })
            .await?;
        let positions = before + limit;
        let next = cut(&mut rows, Some(limit), |row| Behind::of(row, positions).text());
        let mut jobs = self.view(rows, false).await?;
        for (position, job) in (before + 1..).zip(&mut jobs) {
            job.position = whole_queue.then_some(position);
        }
        if query.expected {
            self.expect(&mut jobs).await?;
        }
        Ok(answer(jobs, next))
    }
}

fn not_ours(cursor: &str) -> Problem {
    bad("cursor", cursor, "empty for the first page, or the header nexus-cursor of the page before".into())
}

fn bad(field: &str, value: impl ToString, want: String) -> Problem {
    Problem::BadField { field: field.into(), value: value.to_string(), want }
}
