//! Table of open TCP connections, in two classes: the caller is known, or not yet. Each class has its own limit, so that
//! idle connections of strangers never keep the owner out. Connections can be closed from outside the task that serves them.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, ready};

use rustix::net::{Shutdown, shutdown};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Connections whose caller is known: a browser that was let in, or a program with the token. Each tab has a stream of
/// events, perhaps one of a log, and requests.
const MAX_KNOWN_CONNECTIONS: usize = 512;

/// Connections whose caller has not shown yet who it is. A further one closes another of them by chance. If it closed the oldest,
/// a stranger who connects this many times within one round trip would close the owner's new connection every time. The head
/// of a request takes 64 KiB at most (`listener.rs`): 32 MiB in all.
const MAX_UNKNOWN_CONNECTIONS: usize = 512;

#[derive(Default)]
pub struct Connections {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    last_number: u64,
    /// In the order in which they were accepted.
    unknown: BTreeMap<u64, Arc<TcpStream>>,
    known: BTreeMap<u64, Known>,
}

struct Known {
    /// None: a program with the token.
    browser: Option<String>,
    stream: Arc<TcpStream>,
}

impl Connections {
    /// Registers an accepted connection as one of an unknown caller.
    pub fn add(self: &Arc<Self>, stream: TcpStream) -> (Connection, Stream) {
        let stream = Arc::new(stream);
        let mut table = self.table();
        table.last_number += 1;
        let number = table.last_number;
        table.unknown.insert(number, stream.clone());
        while table.unknown.len() > MAX_UNKNOWN_CONNECTIONS {
            // The further one itself is the last in the table.
            let place = random_below(table.unknown.len() - 1);
            let number = table.unknown.keys().nth(place).copied().expect("the place is in the table");
            table.unknown.remove(&number).iter().for_each(|stream| close(stream));
        }
        let connection = Connection { number, connections: self.clone() };
        (connection.clone(), Stream { stream, connection })
    }

    pub fn close_all(&self) {
        let table = self.table();
        let known = table.known.values().map(|known| &known.stream);
        table.unknown.values().chain(known).for_each(|stream| close(stream));
    }

    /// Closes the connections of these browsers, event streams and terminals among them.
    pub fn close_browsers(&self, are_out: impl Fn(&str) -> bool) {
        let table = self.table();
        let theirs = table.known.values().filter(|known| known.browser.as_deref().is_some_and(&are_out));
        theirs.for_each(|known| close(&known.stream));
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().expect("nobody panics while they hold the table")
    }
}

/// A random number below `count`, which is not 0. The remainder of 64 random bits is even enough.
fn random_below(count: usize) -> usize {
    let mut random = [0; size_of::<usize>()];
    // Without randomness it is the first: the oldest connection.
    let _ = getrandom::fill(&mut random);
    usize::from_ne_bytes(random) % count
}

/// Both directions end. Whoever reads sees the end of the stream: hyper, and after an upgrade the WebSocket.
fn close(stream: &TcpStream) {
    // Fails where the peer closed first.
    let _ = shutdown(stream, Shutdown::Both);
}

/// One entry of the table; the request guard finds it in the extensions of each request.
#[derive(Clone)]
pub struct Connection {
    number: u64,
    connections: Arc<Connections>,
}

impl Connection {
    /// Called when a request has shown who its caller is. With the class of known connections full, the connection is
    /// served and stays in the other class.
    pub fn set_known(&self, browser: Option<&str>) {
        let mut table = self.connections.table();
        if table.known.len() >= MAX_KNOWN_CONNECTIONS {
            return;
        }
        if let Some(stream) = table.unknown.remove(&self.number) {
            table.known.insert(self.number, Known { browser: browser.map(String::from), stream });
        }
    }

    pub fn is_known(&self) -> bool {
        self.connections.table().known.contains_key(&self.number)
    }
}

/// The connection's bytes. It leaves the table when it is dropped, which for a WebSocket is after the upgrade.
pub struct Stream {
    stream: Arc<TcpStream>,
    connection: Connection,
}

impl Drop for Stream {
    fn drop(&mut self) {
        let mut table = self.connection.connections.table();
        table.unknown.remove(&self.connection.number);
        table.known.remove(&self.connection.number);
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.stream.poll_read_ready(context))?;
            match self.stream.try_read_buf(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return Poll::Ready(read.map(drop)),
            }
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[io::IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.stream.poll_write_ready(context))?;
            match self.stream.try_write_vectored(parts) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(shutdown(&*self.stream, Shutdown::Write).map_err(io::Error::from))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    use super::*;

    /// Both ends of new connections.
    struct Peers {
        listener: TcpListener,
        connections: Arc<Connections>,
    }

    impl Peers {
        async fn new() -> Peers {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            Peers { listener, connections: Arc::default() }
        }

        async fn connect(&self) -> (TcpStream, Connection, Stream) {
            let peer = TcpStream::connect(self.listener.local_addr().unwrap()).await.unwrap();
            let (connection, stream) = self.connections.add(self.listener.accept().await.unwrap().0);
            (peer, connection, stream)
        }

        fn counts(&self) -> (usize, usize) {
            let table = self.connections.table();
            (table.unknown.len(), table.known.len())
        }
    }

    /// Whether the service closed the connection; a stream that is open has nothing to read here.
    fn is_closed(peer: &TcpStream) -> bool {
        matches!(peer.try_read(&mut [0; 1]), Ok(0))
    }

    fn run(test: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
    }

    #[test]
    fn unknown_connections_beyond_the_limit_are_closed_by_chance_and_known_ones_stay() {
        const FURTHER: usize = 40;
        run(async {
            let peers = Peers::new().await;
            let known = peers.connect().await;
            known.1.set_known(None);
            assert!(known.1.is_known());
            let mut all = Vec::new();
            for _ in 0..MAX_UNKNOWN_CONNECTIONS {
                all.push(peers.connect().await);
            }
            assert_eq!(peers.counts(), (MAX_UNKNOWN_CONNECTIONS, 1));
            assert!(all.iter().all(|(peer, _, _)| !is_closed(peer)));
            for _ in 0..FURTHER {
                all.push(peers.connect().await);
            }
            assert_eq!(peers.counts(), (MAX_UNKNOWN_CONNECTIONS, 1));
            let is_there = |connection: &Connection| peers.connections.table().unknown.contains_key(&connection.number);
            let mut out: Vec<_> = all.iter_mut().filter(|(_, connection, _)| !is_there(connection)).collect();
            assert_eq!(out.len(), FURTHER);
            for (peer, _, stream) in &mut out {
                assert_eq!(stream.read(&mut [0; 1]).await.unwrap(), 0, "the service's end");
                assert_eq!(peer.read(&mut [0; 1]).await.unwrap(), 0, "the caller's end");
            }
            // The probability that chance closes exactly the oldest is below 1e-60.
            assert!(all[..FURTHER].iter().any(|(_, connection, _)| is_there(connection)), "the oldest were closed");
            assert!(all.last().is_some_and(|(_, connection, _)| is_there(connection)), "a new one was closed at once");
            assert!(!is_closed(&known.0));
            drop(all);
            assert_eq!(peers.counts(), (0, 1));
            drop(known);
            assert_eq!(peers.counts(), (0, 0));
        });
    }

    #[test]
    fn the_connections_of_one_browser_are_closed_and_no_others() {
        run(async {
            let peers = Peers::new().await;
            let (mut one, other, program) = (peers.connect().await, peers.connect().await, peers.connect().await);
            one.1.set_known(Some("one"));
            other.1.set_known(Some("other"));
            program.1.set_known(None);
            peers.connections.close_browsers(|id| id == "one");
            assert_eq!(one.0.read(&mut [0; 1]).await.unwrap(), 0);
            assert!(!is_closed(&other.0) && !is_closed(&program.0));
        });
    }

    #[test]
    fn one_known_connection_too_many_stays_with_the_unknown() {
        run(async {
            let peers = Peers::new().await;
            let mut all = Vec::new();
            for _ in 0..=MAX_KNOWN_CONNECTIONS {
                all.push(peers.connect().await);
                all.last().unwrap().1.set_known(None);
            }
            assert_eq!(peers.counts(), (1, MAX_KNOWN_CONNECTIONS));
            assert!(!is_closed(&all[0].0) && !is_closed(&all[MAX_KNOWN_CONNECTIONS].0));
            peers.connections.close_all();
            for (peer, _, _) in &mut all {
                assert_eq!(peer.read(&mut [0; 1]).await.unwrap(), 0);
            }
        });
    }
}
