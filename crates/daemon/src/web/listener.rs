//! The accept loop of the TCP listener, and the limits of time and memory for each connection.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::connections::Connections;

/// Longest wait for the head of a request, also of the next one on a connection that is kept open.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);

/// A connection on which no caller has become known is closed after this.
const UNKNOWN_CONNECTION_LIFETIME: Duration = Duration::from_secs(60);

/// hyper's buffer for each connection: the longest head. Browsers send the cookies of all services of a host.
const BUFFER_MAX_BYTES: usize = 64 << 10;

/// Pause after an accept that failed, for example because there were no free file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// Serves until `open` is dropped, which closes the connections too.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    connections: Arc<Connections>,
    mut open: watch::Receiver<()>,
) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = open.changed() => break,
        };
        match accepted {
            Ok((stream, _)) => {
                tokio::spawn(serve_connection(stream, router.clone(), connections.clone(), open.clone()));
            }
            Err(_) => tokio::time::sleep(ACCEPT_RETRY_DELAY).await,
        }
    }
    // Terminals too: their connections are no longer hyper's.
    connections.close_all();
}

async fn serve_connection(
    stream: TcpStream,
    router: Router,
    connections: Arc<Connections>,
    mut open: watch::Receiver<()>,
) {
    // Keystrokes are sent at once (no Nagle).
    let _ = stream.set_nodelay(true);
    let (connection, stream) = connections.add(stream);
    let (router, in_requests) = (TowerToHyperService::new(router), connection.clone());
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(in_requests.clone());
        router.call(request)
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(BUFFER_MAX_BYTES);
    let mut served = pin!(http.serve_connection(TokioIo::new(stream), service).with_upgrades());
    // A client that broke off needs no answer: results are ignored.
    tokio::select! {
        _ = &mut served => return,
        _ = open.changed() => return,
        () = tokio::time::sleep(UNKNOWN_CONNECTION_LIFETIME) => {}
    }
    if connection.is_known() {
        tokio::select! {
            _ = served => {}
            _ = open.changed() => {}
        }
    }
}
