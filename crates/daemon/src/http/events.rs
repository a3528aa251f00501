//! Events as they happen, by server-sent events.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use nexus_api::events::{Event, What};
use serde::Deserialize;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use utoipa::IntoParams;

use super::extract::Asked;
use super::{Shared, stream};

/// Bytes of events sent at once, about.
const PIECE: usize = 16 << 10;

#[derive(Deserialize, IntoParams)]
pub struct EventsQuery {
    /// What followed this number comes first; as the header `Last-Event-ID`, which has the last word.
    since: Option<u64>,
    /// Each reading of the GPUs too.
    #[serde(default)]
    readings: bool,
}

/// Subscribed before the first byte of the answer: what a client reads after that is never older than
/// the first event it hears.
pub async fn follow(State(app): State<Shared>, Asked(query): Asked<EventsQuery>, headers: HeaderMap) -> Response {
    let last = headers.get("last-event-id").and_then(|number| number.to_str().ok()?.parse().ok());
    let (missed, events) = match last.or(query.since) {
        Some(number) => app.events.since(number),
        None => (Some(vec![]), app.events.subscribe()),
    };
    let readings = query.readings.then(|| app.readings.subscribe());
    let first = match missed {
        Some(missed) => missed.iter().map(|event| frame(event)).collect(),
        None => missed_some(),
    };
    let (sender, body) = stream::body();
    let mut heard = Heard { events, readings };
    tokio::spawn(async move {
        // A comment brings the head of the answer on its way.
        let mut part = Bytes::from(format!(": nexus events\n\n{first}"));
        while sender.send(part).await.is_ok() {
            part = tokio::select! {
                more = heard.next() => match more {
                    Some(text) => Bytes::from(text),
                    None => break,
                },
                () = sender.closed() => break,
            };
        }
    });
    ([(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")], body).into_response()
}

struct Heard {
    events: Receiver<Arc<Event>>,
    readings: Option<Receiver<Arc<Event>>>,
}

impl Heard {
    /// What has piled up, in one piece; none when there will be no more.
    async fn next(&mut self) -> Option<String> {
        let reading = async {
            match &mut self.readings {
                Some(readings) => readings.recv().await,
                None => std::future::pending().await,
            }
        };
        let mut text = tokio::select! {
            event = self.events.recv() => match event {
                Ok(event) => frame(&event),
                Err(RecvError::Lagged(_)) => missed_some(),
                Err(RecvError::Closed) => return None,
            },
            reading = reading => match reading {
                Ok(reading) => return Some(frame(&reading)),
                // The next one tells all that counts.
                Err(RecvError::Lagged(_)) => return Some(String::new()),
                Err(RecvError::Closed) => return None,
            },
        };
        while text.len() < PIECE {
            match self.events.try_recv() {
                Ok(event) => text.push_str(&frame(&event)),
                Err(TryRecvError::Lagged(_)) => text.push_str(&missed_some()),
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            }
        }
        Some(text)
    }
}

fn missed_some() -> String {
    frame(&Event { number: 0, what: What::Missed })
}

/// Without a number it is nothing that one can go on from.
fn frame(event: &Event) -> String {
    let json = serde_json::to_string(event).expect("an event is plain data");
    match event.number {
        0 => format!("data: {json}\n\n"),
        number => format!("id: {number}\ndata: {json}\n\n"),
    }
}
