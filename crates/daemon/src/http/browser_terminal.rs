//! A job's terminal in a browser: a WebSocket on the one side, the shim's frames on the other.
//!
//! Binary messages are bytes, of output or typed. The rest is said in texts of JSON: the page says how large its terminal
//! is, before all else and whenever that changes; the service what is no output.

use axum::body::Bytes;
use axum::extract::ws::{Message, WebSocket};
use nexus_api::run_dir::ExitStatus;
use nexus_api::terminal::{FORMAT, FromShim, FromViewer, ViewerHello};
use serde::Deserialize;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

/// More at once nobody types; it may be pasted.
pub const MOST_TYPED: usize = 1 << 20;

#[derive(Deserialize)]
struct Window {
    columns: u16,
    rows: u16,
    /// Only to look. Counts in the first.
    #[serde(default)]
    read_only: bool,
}

/// Until the job ends, or the page goes away: which of them it was, the other knows by its end.
pub async fn pass_on(mut page: WebSocket, mut shim: UnixStream) {
    // One that breaks off, here or there, has nothing more to be told.
    let _ = pass(&mut page, &mut shim).await;
}

/// None: one of the two is gone.
async fn pass(page: &mut WebSocket, shim: &mut UnixStream) -> Option<()> {
    let Window { columns, rows, read_only } = loop {
        match page.recv().await?.ok()? {
            Message::Text(text) => break serde_json::from_str(&text).ok()?,
            Message::Binary(_) | Message::Close(_) => return None,
            Message::Ping(_) | Message::Pong(_) => {}
        }
    };
    tell(shim, FromViewer::Hello(ViewerHello { format: FORMAT, columns, rows, read_only, ..ViewerHello::default() }))
        .await?;
    let mut arrived = Vec::new();
    loop {
        while let Some(frame) = FromShim::take_from(&mut arrived).ok()? {
            let ends = matches!(frame, FromShim::Ended(_));
            if let Some(message) = shown(frame) {
                page.send(message).await.ok()?;
            }
            if ends {
                return page.send(Message::Close(None)).await.ok();
            }
        }
        tokio::select! {
            read = shim.read_buf(&mut arrived) => if read.ok()? == 0 { return None },
            said = page.recv() => match said?.ok()? {
                Message::Binary(typed) if read_only => drop(typed),
                Message::Binary(typed) => tell(shim, FromViewer::Input(typed.to_vec())).await?,
                Message::Text(text) => {
                    let Window { columns, rows, .. } = serde_json::from_str(&text).ok()?;
                    tell(shim, FromViewer::Resize { columns, rows }).await?;
                }
                Message::Close(_) => return None,
                Message::Ping(_) | Message::Pong(_) => {}
            },
        }
    }
}

fn shown(frame: FromShim) -> Option<Message> {
    let said = match frame {
        FromShim::Output(bytes) => return Some(Message::Binary(Bytes::from(bytes))),
        FromShim::Hello(hello) => json!({ "kind": "hello", "tty": hello.tty }),
        FromShim::LeftOut(bytes) => json!({ "kind": "left_out", "bytes": bytes }),
        FromShim::Refused(error) => json!({ "kind": "refused", "error": error }),
        FromShim::Ended(record) => json!({
            "kind": "ended",
            "exit_code": if let ExitStatus::Exited { code } = record.status { Some(code) } else { None },
        }),
        FromShim::TimeLimitSet(_) => return None,
    };
    Some(Message::Text(said.to_string().into()))
}

async fn tell(shim: &mut UnixStream, frame: FromViewer) -> Option<()> {
    let mut bytes = Vec::new();
    frame.append_to(&mut bytes);
    shim.write_all(&bytes).await.ok()
}
