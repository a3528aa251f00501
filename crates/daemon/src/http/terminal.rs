//! A job's terminal: the connection of a client, passed on to the shim and back. The service reads none of it, so
//! that client and shim may know more than it does.

use std::path::PathBuf;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request, State, WebSocketUpgrade};
use axum::http::{StatusCode, header};
use axum::response::Response;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use nexus_api::jobs::State as Word;
use nexus_api::problem::Problem;
use nexus_api::terminal::PROTOCOL;
use nexus_node::inspect::{Seen, inspect};
use nexus_node::rendezvous;
use tokio::io::copy_bidirectional;
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep};

use super::extract::Path;
use super::problem::Failed;
use super::{App, Shared, browser_terminal};
use crate::blocking;
use crate::web::WEB_SOCKET_PROTOCOL;

/// A job that is on its way says within this time where its terminal is.
const START_LIMIT: Duration = Duration::from_secs(10);
const START_LOOK: Duration = Duration::from_millis(20);

pub async fn terminal(
    State(app): State<Shared>,
    Path(id): Path<String>,
    mut request: Request,
) -> Result<Response, Failed> {
    if request.headers().get(header::UPGRADE).is_some_and(|name| name.as_bytes().eq_ignore_ascii_case(b"websocket")) {
        let upgrade = WebSocketUpgrade::from_request(request, &()).await;
        let upgrade = upgrade.map_err(|error| Problem::BadRequest { error: error.to_string() })?;
        let (shim, _) = app.shim_of(&id, "attach").await?;
        let upgrade = upgrade.max_message_size(browser_terminal::MOST_TYPED).protocols([WEB_SOCKET_PROTOCOL]);
        return Ok(upgrade.on_upgrade(move |page| browser_terminal::pass_on(page, shim)));
    }
    let asked = request.headers().get(header::UPGRADE).is_some_and(|name| name == PROTOCOL);
    let upgrade = request.extensions_mut().remove::<OnUpgrade>().filter(|_| asked);
    let Some(upgrade) = upgrade else {
        return Err(Failed(Problem::BadRequest { error: format!("a terminal needs upgrade: {PROTOCOL}") }));
    };
    let (mut shim, _) = app.shim_of(&id, "attach").await?;
    tokio::spawn(async move {
        // A client that left before the answer has nothing to be told.
        if let Ok(client) = upgrade.await {
            // However it ends, both sides are closed: each knows by its last frame whether that was the end.
            let _ = copy_bidirectional(&mut TokioIo::new(client), &mut shim).await;
        }
    });
    let answer = Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header(header::CONNECTION, "upgrade")
        .header(header::UPGRADE, PROTOCOL)
        .body(Body::empty());
    answer.map_err(|error| Failed(Problem::Internal { error: error.to_string() }))
}

impl App {
    /// A connection to the shim of the job's newest run, and that run's number. `verb` is what it is for.
    pub(super) async fn shim_of(self: &Shared, id: &str, verb: &str) -> Result<(UnixStream, u32), Problem> {
        let deadline = Instant::now() + START_LIMIT;
        loop {
            let (state, number) = self.state_of(id).await?;
            if !matches!(state, Word::Starting | Word::Running) {
                return Err(Problem::WrongState { id: id.into(), verb: verb.into(), state, gpus: vec![] });
            }
            if let Some(away) = self.away(id, number).await? {
                let fail = |error: String| Problem::NoTerminal { id: id.into(), error };
                let stream = away.terminal().await.map_err(fail)?;
                return Ok((in_runtime(stream).map_err(|error| fail(error.to_string()))?, number));
            }
            let dir = self.dir_of(id, number).await?;
            match blocking::answer(move || reach(dir)).await? {
                Reached::Shim(stream) => {
                    let fail = |error: std::io::Error| Problem::NoTerminal { id: id.into(), error: error.to_string() };
                    return Ok((in_runtime(stream).map_err(fail)?, number));
                }
                Reached::Nothing(error) if Instant::now() > deadline => {
                    return Err(Problem::NoTerminal { id: id.into(), error });
                }
                Reached::Nothing(_) => sleep(START_LOOK).await,
                Reached::Never(error) => return Err(Problem::NoTerminal { id: id.into(), error }),
            }
        }
    }
}

fn in_runtime(stream: std::os::unix::net::UnixStream) -> std::io::Result<UnixStream> {
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

enum Reached {
    Shim(std::os::unix::net::UnixStream),
    /// Not yet, or not any more: the job's state will tell.
    Nothing(String),
    Never(String),
}

fn reach(dir: PathBuf) -> Reached {
    match inspect(&dir) {
        Ok(Seen::Alive(started)) => match started.terminal.as_deref().map(rendezvous::connect) {
            Some(Ok(stream)) => Reached::Shim(stream),
            Some(Err(error)) => Reached::Nothing(error.to_string()),
            None => Reached::Never("it was started by an older nexus".into()),
        },
        Ok(_) => Reached::Nothing("nothing answers in its run directory".into()),
        Err(error) => Reached::Never(error.to_string()),
    }
}
