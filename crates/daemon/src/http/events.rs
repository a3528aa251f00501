//! Events as they happen, by server-sent events.

use axum::body::Bytes;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use nexus_api::events::{Event, What};
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

use super::{Shared, stream};

/// Bytes of events sent at once, about.
const PIECE: usize = 16 << 10;

/// Subscribed before the first byte of the answer: what a client reads after that is never older than
/// the first event it hears.
pub async fn follow(State(app): State<Shared>) -> Response {
    let mut events = app.events.subscribe();
    let (sender, body) = stream::body();
    tokio::spawn(async move {
        // A comment brings the head of the answer on its way.
        let mut part = Bytes::from_static(b": nexus events\n\n");
        while sender.send(part).await.is_ok() {
            let event = tokio::select! {
                event = events.recv() => event,
                () = sender.closed() => break,
            };
            let mut text = match event {
                Ok(event) => frame(&event),
                Err(RecvError::Lagged(_)) => frame(&Event { number: 0, what: What::Missed }),
                Err(RecvError::Closed) => break,
            };
            // What has piled up goes in one piece.
            while text.len() < PIECE {
                match events.try_recv() {
                    Ok(event) => text.push_str(&frame(&event)),
                    Err(TryRecvError::Lagged(_)) => text.push_str(&frame(&Event { number: 0, what: What::Missed })),
                    Err(TryRecvError::Empty | TryRecvError::Closed) => break,
                }
            }
            part = Bytes::from(text);
        }
    });
    ([(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")], body).into_response()
}

fn frame(event: &Event) -> String {
    let json = serde_json::to_string(event).expect("an event is plain data");
    format!("id: {}\ndata: {json}\n\n", event.number)
}
