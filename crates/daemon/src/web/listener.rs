//! Connections over TCP: so many at once, and none that keeps one waiting for its head.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

/// Each page has a stream of events, perhaps one of a log, and asks.
const MOST_CONNECTIONS: usize = 512;

/// Who has not said by then what he wants is not waited for. A connection that is kept for the next request too.
const LONGEST_HEAD: Duration = Duration::from_secs(60);

/// Serves until `open` is dropped, which ends its connections too.
pub async fn serve(listener: TcpListener, router: Router, mut open: watch::Receiver<()>) {
    let room = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = open.changed() => return,
        };
        let Ok((stream, _)) = accepted else {
            // Out of file descriptors, say: let some go before the next try.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        // Who is one too many is told nothing.
        let Ok(place) = room.clone().try_acquire_owned() else { continue };
        // Keys that are typed are not to wait for company.
        let _ = stream.set_nodelay(true);
        let (service, mut open) = (TowerToHyperService::new(router.clone()), open.clone());
        tokio::spawn(async move {
            let mut server = http1::Builder::new();
            server.timer(TokioTimer::new()).header_read_timeout(LONGEST_HEAD);
            let connection = server.serve_connection(TokioIo::new(stream), service).with_upgrades();
            tokio::select! {
                // However it ends: a client that broke off has nothing to be told.
                _ = connection => {}
                _ = open.changed() => {}
            }
            drop(place);
        });
    }
}
