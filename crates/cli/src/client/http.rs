//! HTTP/1.1 over the service's unix socket, one connection a request; the first has that of the question whether it answers.

use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::client::conn::http1::SendRequest;
use hyper::upgrade::Upgraded;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use nexus_api::problem::Problem;
use nexus_node::{lock_holder, socket_folder, sockets};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;
use tokio::sync::mpsc;

use super::Client;
use crate::error::CliError;

/// A service that has not begun to answer by then is told about, not waited for.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// Time after which a client without an answer looks whether the service is stopped.
const STOPPED_LOOK_DELAY: Duration = Duration::from_secs(5);

/// A connection on which nothing was asked for this long is left alone: there may be another service by now.
const FRESH: Duration = Duration::from_millis(500);

type Connection = SendRequest<Full<Bytes>>;

/// One that was made or used a moment ago.
pub(super) struct Open {
    connection: Connection,
    since: Instant,
    has_answered: bool,
}

/// A body that is sent as it is written; it ends when there is nobody left to write it.
struct Pieces(mpsc::Receiver<Bytes>);

impl hyper::body::Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|bytes| Ok(Frame::data(bytes))))
    }
}

/// An answer that is read as it comes.
pub struct Body {
    incoming: Incoming,
    content_type: String,
}

impl Body {
    pub fn content_type(&self) -> &str {
        &self.content_type
    }

    /// The next bytes; none at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, CliError> {
        loop {
            match self.incoming.frame().await {
                None => return Ok(None),
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data() {
                        return Ok(Some(bytes));
                    }
                }
                Some(Err(error)) => return Err(CliError::ServiceLeft { source: Some(error.into()) }),
            }
        }
    }
}

impl Client {
    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, CliError> {
        let response = self.send(Method::GET, path, Bytes::new()).await?;
        read(path, response).await
    }

    /// The same of a list that comes in pages, with the cursor of the next.
    pub(super) async fn get_page<T: DeserializeOwned>(&self, path: &str) -> Result<(T, Option<String>), CliError> {
        let response = self.send(Method::GET, path, Bytes::new()).await?;
        let next = response.headers().get("nexus-cursor").and_then(|next| next.to_str().ok()).map(String::from);
        Ok((read(path, response).await?, next))
    }

    pub(super) async fn post<B: Serialize, T: DeserializeOwned>(&self, path: &str, body: &B) -> Result<T, CliError> {
        let response = self.send(Method::POST, path, json(body)).await?;
        read(path, response).await
    }

    /// The same, once: sent again with the same key it changes nothing, and the answer names what the first one made.
    pub(super) async fn post_once<B: Serialize, T: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
        key: &str,
    ) -> Result<T, CliError> {
        let mut connection = shake_hands(path, self.connect(path)?).await?;
        let request = request(Method::POST, path).header("idempotency-key", key).body(Full::new(json(body)));
        let response = self.answered(&mut connection, path, request.map_err(self::connection(path))?).await?;
        read(path, response).await
    }

    pub(super) async fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, CliError> {
        let response = self.send(Method::DELETE, path, Bytes::new()).await?;
        read(path, response).await
    }

    /// The same with a body as it is.
    pub(super) async fn post_bytes<T: DeserializeOwned>(&self, path: &str, body: Bytes) -> Result<T, CliError> {
        let response = self.send(Method::POST, path, body).await?;
        read(path, response).await
    }

    pub(super) async fn put<B: Serialize>(&self, path: &str, body: &B) -> Result<(), CliError> {
        let response = self.send(Method::PUT, path, json(body)).await?;
        read::<serde_json::Value>(path, response).await.map(drop)
    }

    pub(super) async fn stream(&self, path: &str) -> Result<Body, CliError> {
        let response = self.send(Method::GET, path, Bytes::new()).await?;
        streamed(path, response).await
    }

    /// The same with a body that is written while the answer is read.
    pub(super) async fn post_stream(&self, path: &str, pieces: mpsc::Receiver<Bytes>) -> Result<Body, CliError> {
        let mut connection = shake_hands(path, self.connect(path)?).await?;
        let request = request(Method::POST, path).body(Pieces(pieces)).map_err(self::connection(path))?;
        let response = self.answered(&mut connection, path, request).await?;
        streamed(path, response).await
    }

    /// Turns a connection over to another protocol.
    pub(super) async fn upgrade(&self, path: &str, protocol: &'static str) -> Result<Upgraded, CliError> {
        let stream = self.connect(path)?;
        let (mut sender, connection_work) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(connection(path))?;
        tokio::spawn(connection_work.with_upgrades());
        let request = Request::get(path).header("host", "nexus").header("connection", "upgrade");
        let request = request.header("upgrade", protocol).body(Full::<Bytes>::default()).map_err(connection(path))?;
        let response = match tokio::time::timeout(ANSWER_LIMIT, sender.send_request(request)).await {
            Ok(answered) => answered.map_err(connection(path))?,
            Err(late) => return Err(connection(path)(late)),
        };
        match response.status() {
            StatusCode::SWITCHING_PROTOCOLS => hyper::upgrade::on(response).await.map_err(connection(path)),
            _ => Err(refusal(path, response).await),
        }
    }

    /// Whether a service answers. Asked, since one that was killed takes connections until its last thread is gone.
    pub async fn answers(&self) -> Result<bool, CliError> {
        let path = "/v1/service";
        match self.connect(path) {
            Ok(stream) => Ok(self.asked_first(path, stream).await.is_ok()),
            Err(CliError::NoService { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether a service takes connections. One that was killed may yet: the first request tells, by
    /// [`CliError::NoService`].
    pub async fn connects(&self) -> Result<bool, CliError> {
        let path = "/v1/service";
        match self.connect(path) {
            Ok(stream) => {
                let connection = shake_hands(path, stream).await?;
                *self.open() = Some(Open { connection, since: Instant::now(), has_answered: false });
                Ok(true)
            }
            Err(CliError::NoService { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn asked_first(&self, path: &str, stream: UnixStream) -> Result<(), CliError> {
        let mut connection = shake_hands(path, stream).await?;
        let answer = self.exchange(&mut connection, Method::GET, path, Bytes::new()).await?;
        whole(path, answer).await?;
        connection.ready().await.map_err(self::connection(path))?;
        *self.open() = Some(Open { connection, since: Instant::now(), has_answered: true });
        Ok(())
    }

    async fn exchange(
        &self,
        sender: &mut Connection,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>, CliError> {
        let request = request(method, path).body(Full::new(body)).map_err(connection(path))?;
        self.answered(sender, path, request).await
    }

    /// A stopped service (SIGSTOP, a debugger) is told early: no wait makes it answer.
    async fn answered<B>(
        &self,
        sender: &mut SendRequest<B>,
        path: &str,
        request: Request<B>,
    ) -> Result<Response<Incoming>, CliError>
    where
        B: hyper::body::Body<Data = Bytes, Error = Infallible> + Send + 'static,
    {
        let answer = sender.send_request(request);
        tokio::pin!(answer);
        if let Ok(answered) = tokio::time::timeout(STOPPED_LOOK_DELAY, &mut answer).await {
            return answered.map_err(connection(path));
        }
        if let Some(pid) = lock_holder::stopped_service(&self.home) {
            return Err(CliError::Stopped { pid });
        }
        match tokio::time::timeout(ANSWER_LIMIT - STOPPED_LOOK_DELAY, answer).await {
            Ok(answered) => answered.map_err(connection(path)),
            Err(_) => {
                let late = format!("there was no answer within {} seconds", ANSWER_LIMIT.as_secs());
                Err(connection(path)(io::Error::new(io::ErrorKind::TimedOut, late)))
            }
        }
    }

    fn open(&self) -> MutexGuard<'_, Option<Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connect(&self, path: &str) -> Result<UnixStream, CliError> {
        // A job's environment is only for a service of one's own: in a shared folder anybody can make a socket.
        let stream = match sockets::connect(&self.socket) {
            Err(error) if is_absent(&error) || sockets::is_foreign(&error) => match self.signed_socket() {
                // A stranger has the name of a service that is gone.
                Some(socket) => sockets::connect(&socket).map_err(|error| match sockets::is_foreign(&error) {
                    true => io::ErrorKind::NotFound.into(),
                    false => error,
                }),
                None => Err(error),
            },
            other => other,
        };
        let stream = stream.map_err(|error| match is_absent(&error) {
            true => CliError::NoService { home: self.home.clone() },
            false => connection(path)(error),
        })?;
        UnixStream::from_std(stream).map_err(connection(path))
    }

    /// Whether there is a socket, though nobody may listen on it: a service that stops takes its own with it.
    pub fn has_socket(&self) -> bool {
        self.socket.exists() || self.signed_socket().is_some_and(|socket| socket.exists())
    }

    /// The socket that the service has written into its lock, if this environment leads to another one. The note of a service that has
    /// ended stays there, and another user may have made its folder since.
    fn signed_socket(&self) -> Option<PathBuf> {
        let is_safe =
            |socket: &PathBuf| socket.starts_with(&self.home) || socket.parent().is_some_and(socket_folder::is_own);
        let socket = lock_holder::signature(&self.home)?.socket;
        Some(socket).filter(|socket| *socket != self.socket).filter(is_safe)
    }

    async fn send(&self, method: Method, path: &str, body: Bytes) -> Result<Response<Incoming>, CliError> {
        let open = self.open().take().filter(|open| open.since.elapsed() < FRESH);
        let (mut connection, has_answered) = match open {
            Some(open) => (open.connection, open.has_answered),
            None => (shake_hands(path, self.connect(path)?).await?, true),
        };
        match self.exchange(&mut connection, method.clone(), path, body.clone()).await {
            // A service that was killed takes connections until its last thread is gone; then it takes none. To ask
            // again does no harm, to tell it something again might.
            Err(CliError::Connection { source, .. }) if method == Method::GET && source.is::<hyper::Error>() => {
                let mut connection = shake_hands(path, self.connect(path)?).await?;
                self.exchange(&mut connection, method, path, body).await
            }
            Err(CliError::Connection { source, .. }) if !has_answered && is_unread(&*source) => {
                Err(CliError::NoService { home: self.home.clone() })
            }
            answered => answered,
        }
    }
}

/// Reset: it was about to go when we knocked.
fn is_absent(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, ConnectionReset, NotADirectory, NotFound};
    matches!(error.kind(), NotFound | ConnectionRefused | ConnectionReset | NotADirectory)
}

/// Whether a request was not read to its end, and so not followed: only then is the connection reset, or refuses what is
/// written to it.
fn is_unread(error: &(dyn Error + 'static)) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset};
    let is_cut = |error: &io::Error| matches!(error.kind(), BrokenPipe | ConnectionReset);
    error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_canceled)
        || error.downcast_ref::<io::Error>().is_some_and(is_cut)
        || error.source().is_some_and(is_unread)
}

async fn shake_hands<B>(path: &str, stream: UnixStream) -> Result<SendRequest<B>, CliError>
where
    B: hyper::body::Body<Data = Bytes, Error = Infallible> + Send + 'static,
{
    let (sender, connection_work) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(connection(path))?;
    tokio::spawn(connection_work);
    Ok(sender)
}

fn request(method: Method, path: &str) -> hyper::http::request::Builder {
    let request = Request::builder().method(method).uri(path);
    request.header("host", "nexus").header("content-type", "application/json")
}

fn connection<E: Error + Send + Sync + 'static>(path: &str) -> impl FnOnce(E) -> CliError {
    let path = path.split('?').next().unwrap_or_default().to_string();
    move |error| CliError::Connection { path, source: error.into() }
}

fn json<B: Serialize>(body: &B) -> Bytes {
    serde_json::to_vec(body).expect("types of the interface are writable as JSON").into()
}

async fn streamed(path: &str, response: Response<Incoming>) -> Result<Body, CliError> {
    if !response.status().is_success() {
        return Err(refusal(path, response).await);
    }
    let content_type = response.headers().get("content-type").and_then(|value| value.to_str().ok());
    let content_type = content_type.unwrap_or_default().to_string();
    Ok(Body { incoming: response.into_body(), content_type })
}

async fn whole(path: &str, response: Response<Incoming>) -> Result<Bytes, CliError> {
    Ok(response.into_body().collect().await.map_err(connection(path))?.to_bytes())
}

async fn read<T: DeserializeOwned>(path: &str, response: Response<Incoming>) -> Result<T, CliError> {
    if !response.status().is_success() {
        return Err(refusal(path, response).await);
    }
    let bytes = whole(path, response).await?;
    let text: &[u8] = if bytes.is_empty() { b"null" } else { &bytes };
    serde_json::from_slice(text).map_err(|source| CliError::Answer { path: path.to_string(), source })
}

/// What the service said instead of what was asked for.
async fn refusal(path: &str, response: Response<Incoming>) -> CliError {
    let status = response.status();
    let bytes = match whole(path, response).await {
        Ok(bytes) => bytes,
        Err(error) => return error,
    };
    match serde_json::from_slice::<Problem>(&bytes) {
        Ok(problem) => CliError::Problem(problem),
        Err(_) => {
            let said = String::from_utf8_lossy(&bytes);
            CliError::Connection { path: path.to_string(), source: format!("it answered {status}: {said}").into() }
        }
    }
}
