//! An answer that is written while it is read.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use http_body::Frame;
use tokio::sync::mpsc;

/// Parts on their way to a slow client before the writer waits.
const IN_FLIGHT: usize = 16;

/// What is sent goes to the client; the answer ends when the sender is dropped.
pub fn body() -> (mpsc::Sender<Bytes>, Body) {
    let (sender, receiver) = mpsc::channel(IN_FLIGHT);
    (sender, Body::new(Parts { receiver }))
}

/// An answer that must not look whole when it is not: it is cut off, as a broken connection, unless `None` was sent
/// before the sender is dropped.
pub fn whole_body() -> (mpsc::Sender<Option<Bytes>>, Body) {
    let (sender, receiver) = mpsc::channel(IN_FLIGHT);
    (sender, Body::new(WholeParts { receiver }))
}

/// What was read ended before it was whole.
#[derive(Debug, thiserror::Error)]
#[error("the answer broke off")]
struct BrokeOff;

struct WholeParts {
    receiver: mpsc::Receiver<Option<Bytes>>,
}

impl http_body::Body for WholeParts {
    type Data = Bytes;
    type Error = BrokeOff;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokeOff>>> {
        self.receiver.poll_recv(context).map(|part| match part {
            Some(Some(bytes)) => Some(Ok(Frame::data(bytes))),
            Some(None) => None,
            None => Some(Err(BrokeOff)),
        })
    }
}

struct Parts {
    receiver: mpsc::Receiver<Bytes>,
}

impl http_body::Body for Parts {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.receiver.poll_recv(context).map(|part| part.map(|bytes| Ok(Frame::data(bytes))))
    }
}
