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
use tokio::time::{Instant, MissedTickBehavior};

use super::connections::Connections;

/// Longest wait for the head of a request, also of the next one on a connection that is kept open.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);

/// A connection on which no caller has become known is closed after this.
const UNKNOWN_CONNECTION_LIFETIME: Duration = Duration::from_secs(60);

/// hyper's buffer for each connection: the longest head. Browsers send the cookies of all services of a host.
const BUFFER_MAX_BYTES: usize = 64 << 10;

/// How often connections of browsers that are out are looked for. An event stream or a terminal shows its session once, when it
/// is opened, and has to end with the browser's keys.
pub const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// Pause after an accept that failed, for example because there were no free file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// Closes what browsers have open whose keys have ended.
pub struct Sweep {
    pub interval: Duration,
    pub run: Box<dyn Fn() + Send + Sync>,
}

/// Serves until `open` is dropped, which closes the connections too.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    connections: Arc<Connections>,
    sweep: Sweep,
    mut open: watch::Receiver<()>,
) {
    let mut sweeps = tokio::time::interval_at(Instant::now() + sweep.interval, sweep.interval);
    sweeps.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = sweeps.tick() => {
                (sweep.run)();
                continue;
            }
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

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[test]
    fn sweeps_go_on_while_nobody_connects() {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let at = listener.local_addr().unwrap();
            let (connections, (until, open)) = (Arc::new(Connections::default()), watch::channel(()));
            let (swept, mut sweeps) = tokio::sync::mpsc::unbounded_channel();
            let run = move || swept.send(()).expect("the test listens");
            let sweep = Sweep { interval: Duration::from_millis(1), run: Box::new(run) };
            let task = tokio::spawn(serve(listener, Router::new(), connections, sweep, open));
            for _ in 0..3 {
                sweeps.recv().await.expect("a further sweep");
            }
            let mut peer = TcpStream::connect(at).await.unwrap();
            peer.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
            assert_ne!(peer.read(&mut [0; 64]).await.unwrap(), 0, "it still accepts");
            drop(until);
            task.await.unwrap();
        });
    }
}
