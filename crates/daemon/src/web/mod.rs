//! The way in over TCP, for browsers: off unless somebody asks for it, on this machine alone unless somebody says
//! otherwise, and remembered. Behind it is the same router as behind the socket.

mod browsers;
mod connections;
pub mod fd_store;
mod guard;
mod keys;
mod listener;
mod page;
mod proof;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use nexus_api::paths::Home;
use nexus_api::problem::Problem;
use nexus_api::web::{Browser, BrowserKeys, Proof, Web as Told, WebOn};
use nexus_core::time::Time;
use nexus_node::own_file;
use rustix::net::{Shutdown, shutdown};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::sync::{Mutex, watch};
use tokio::task::JoinHandle;

use connections::Connections;
use guard::Session;
pub use guard::WEB_SOCKET_PROTOCOL;
use guard::{Guard, guarded};
pub use keys::BrowserCaller;
use keys::Keys;
use listener::{SWEEP_INTERVAL, Sweep};
use proof::Prover;

use crate::clock;

pub struct Web {
    home: Home,
    host: String,
    session: Session,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Made at the first use.
    keys: Option<Arc<Keys>>,
    router: Option<Router>,
    /// The socket that systemd kept while the service restarted.
    kept: Option<std::net::TcpListener>,
    open: Option<Open>,
    trouble: Option<String>,
}

/// A listener.
struct Open {
    at: SocketAddr,
    prover: Arc<Prover>,
    connections: Arc<Connections>,
    /// The listening socket.
    socket: OwnedFd,
    until: watch::Sender<()>,
    task: JoinHandle<()>,
}

impl Open {
    /// Nobody listens when it comes back; connections end.
    async fn close(self) {
        drop(self.until);
        // It ends by itself, and has no reason to panic.
        let _ = self.task.await;
        stop_listening(&self.socket);
    }
}

/// Closing a descriptor does not free the port while systemd holds a duplicate (`fd_store.rs`), and systemd closes that some
/// time after it is told to. shutdown(2) ends listening for all duplicates at once.
fn stop_listening(socket: &impl AsFd) {
    let _ = shutdown(socket, Shutdown::Both);
}

/// An address and a port are no longer.
const MAX_REMEMBERED_BYTES: u64 = 4096;

/// `web.json`: what is to be there after a restart.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Remembered {
    address: IpAddr,
    port: u16,
}

impl Web {
    /// `kept`: what [`fd_store::take_over`] found.
    pub fn new(home: &Home, host: &str, session: Session, kept: Option<std::net::TcpListener>) -> Web {
        let state = Mutex::new(State { kept, ..State::default() });
        Web { home: home.clone(), host: host.to_string(), session, state }
    }

    /// What is behind it, and all that is remembered. An address that cannot be had is told in `GET /v1/web`, and by the
    /// answer, for service.log.
    pub async fn begin(&self, router: Router) -> Option<String> {
        let mut state = self.state.lock().await;
        state.router = Some(router);
        let Some(remembered) = self.remembered() else {
            state.release_kept();
            return None;
        };
        match self.listen(&mut state, remembered).await {
            Ok(()) => None,
            Err(problem) => {
                state.trouble = Some(problem.to_string());
                Some(format!("Web page is off: {problem}"))
            }
        }
    }

    /// `usual_port`: where it is if nobody says otherwise.
    pub async fn on(&self, wish: WebOn, usual_port: u16) -> Result<Told, Problem> {
        let mut state = self.state.lock().await;
        let address = match &wish.expose {
            None => IpAddr::V4(Ipv4Addr::LOCALHOST),
            Some(text) => text.parse().map_err(|_| Problem::BadField {
                field: "expose".into(),
                value: text.clone(),
                want: "an address of this machine, as in 192.168.1.20, or 0.0.0.0 for all of them".into(),
            })?,
        };
        let before = self.remembered().map(|before| before.port);
        let port = wish.port.or(before).unwrap_or(usual_port);
        let there = state.open.as_ref().is_some_and(|open| open.at == SocketAddr::new(address, port));
        if !there {
            self.listen(&mut state, Remembered { address, port }).await?;
        }
        let keys = state.keys.clone().expect("a listener has keys");
        let link = keys.new_link().map_err(|error| self.unusable(&error))?;
        let mut told = self.told(&state);
        told.link = told.address.as_ref().map(|at| format!("http://{at}/enter/{link}"));
        Ok(told)
    }

    /// Whoever was in is out.
    pub async fn off(&self) -> Result<Told, Problem> {
        let mut state = self.state.lock().await;
        state.trouble = None;
        state.release_kept();
        // systemd may hold a socket even though nothing is open here: the page could not be served.
        fd_store::remove();
        if let Some(open) = state.open.take() {
            open.close().await;
        }
        let forgotten = match std::fs::remove_file(self.file()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
        // Of a page that could not be served since the start, too.
        let shut = forgotten.and_then(|()| match &state.keys {
            Some(keys) => keys.shut(),
            None => Keys::open(&self.home)?.shut(),
        });
        shut.map_err(|error| self.unusable(&error))?;
        Ok(self.told(&state))
    }

    pub async fn show(&self) -> Told {
        self.told(&*self.state.lock().await)
    }

    /// What a browser asks before it shows a session. Anybody may ask.
    pub async fn prove(&self, key_id: &str, nonce: &str) -> Result<Proof, Problem> {
        let state = self.state.lock().await;
        let (Some(keys), Some(open)) = (&state.keys, &state.open) else { return Err(Problem::NotIn) };
        let found = keys.find(key_id, (self.session)()).ok_or(Problem::NotIn)?;
        let challenge = open.prover.challenge(keys::now_s());
        let proof = open.prover.prove(&found.key, nonce, &challenge).ok_or_else(|| Problem::BadField {
            field: "nonce".into(),
            value: nonce.into(),
            want: "32 hexadecimal digits".into(),
        })?;
        Ok(Proof { challenge, proof })
    }

    pub async fn missing_keys(&self, caller: &BrowserCaller) -> Result<BrowserKeys, Problem> {
        let keys = self.state.lock().await.keys.clone().ok_or(Problem::NotIn)?;
        keys.missing(caller).map_err(|error| self.unusable(&error))
    }

    pub async fn browsers(&self) -> Result<Vec<Browser>, Problem> {
        let keys = self.keys(&*self.state.lock().await)?;
        let time = |seconds: u64| clock::rfc3339(Time(i64::try_from(seconds).unwrap_or(i64::MAX / 1000) * 1000));
        let told = |row: browsers::Row| Browser {
            id: row.id,
            name: row.name,
            added_at: time(row.added_s),
            proved_at: time(row.proved_s),
            ends_at: row.ends_s.map(time),
            tabs: row.tabs as u64,
        };
        Ok(keys.rows((self.session)()).into_iter().map(told).collect())
    }

    /// Its keys are forgotten, and its connections end.
    pub async fn revoke(&self, browser: &str) -> Result<(), Problem> {
        let state = self.state.lock().await;
        if !self.keys(&state)?.revoke(browser).map_err(|error| self.unusable(&error))? {
            let want = "the id of a browser that was let in: nexus web browsers lists them".into();
            return Err(Problem::BadField { field: "browser".into(), value: browser.into(), want });
        }
        if let Some(open) = &state.open {
            open.connections.close_browsers(|id| id == browser);
        }
        Ok(())
    }

    fn keys(&self, state: &State) -> Result<Arc<Keys>, Problem> {
        match &state.keys {
            Some(keys) => Ok(keys.clone()),
            None => Keys::open(&self.home).map(Arc::new).map_err(|error| self.unusable(&error)),
        }
    }

    fn told(&self, state: &State) -> Told {
        let at = state.open.as_ref().map(|open| open.at);
        Told {
            address: at.map(|at| at.to_string()),
            exposed: at.is_some_and(|at| !at.ip().is_loopback()),
            link: None,
            token_file: self.home.web_token().display().to_string(),
            trouble: state.trouble.clone(),
        }
    }

    async fn listen(&self, state: &mut State, wish: Remembered) -> Result<(), Problem> {
        let Remembered { address, port } = wish;
        let keys = self.keys(state)?;
        let asked = SocketAddr::new(address, port);
        let bound = self.bind_in_place(state, &keys, asked).await;
        let served = match bound {
            Ok(listener) => self.serve(state, keys, listener).await,
            Err(error) => Err(error),
        };
        let at = served.map_err(|error| no_web(asked, &error))?;
        let text = serde_json::to_string(&Remembered { address, port: at.port() }).expect("plain data");
        keys::write(&self.file(), &text).map_err(|error| self.unusable(&error))
    }

    /// Binds `asked`. The listener before stays until [`serve`](Self::serve) replaces it, unless it is itself in the way (the
    /// same port at another address). Then it is closed, and opened again if `asked` cannot be had all the same.
    async fn bind_in_place(
        &self,
        state: &mut State,
        keys: &Arc<Keys>,
        asked: SocketAddr,
    ) -> std::io::Result<TcpListener> {
        if let Some(kept) = state.kept.take_if(|kept| kept.local_addr().is_ok_and(|at| at == asked)) {
            return from_std(kept);
        }
        state.release_kept();
        let error = match bind(asked) {
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => error,
            bound => return bound,
        };
        let Some(open) = state.open.take_if(|open| open.at.port() == asked.port()) else { return Err(error) };
        let before = open.at;
        fd_store::remove();
        open.close().await;
        let error = match bind(asked) {
            Err(error) => error,
            bound => return bound,
        };
        let again = match bind(before) {
            Ok(listener) => self.serve(state, keys.clone(), listener).await,
            Err(error) => Err(error),
        };
        state.trouble = again.err().map(|error| no_web(before, &error).to_string());
        Err(error)
    }

    /// Serves the page at this listener from now on, and closes the one before.
    async fn serve(&self, state: &mut State, keys: Arc<Keys>, listener: TcpListener) -> std::io::Result<SocketAddr> {
        let (at, socket) = (listener.local_addr()?, listener.as_fd().try_clone_to_owned()?);
        let prover = Arc::new(Prover::new(at.to_string())?);
        let router = state.router.clone().expect("the service has begun");
        fd_store::store(&listener);
        let host = (!at.ip().is_loopback()).then(|| self.host.clone());
        let guard = Guard { keys: keys.clone(), prover: prover.clone(), session: self.session.clone(), host };
        let (connections, (until, open)) = (Arc::new(Connections::default()), watch::channel(()));
        let sweep = self.sweep(&keys, &connections);
        let task = tokio::spawn(listener::serve(listener, guarded(router, guard), connections.clone(), sweep, open));
        if let Some(before) = state.open.replace(Open { at, prover, connections, socket, until, task }) {
            before.close().await;
        }
        (state.keys, state.trouble) = (Some(keys), None);
        Ok(at)
    }

    fn sweep(&self, keys: &Arc<Keys>, connections: &Arc<Connections>) -> Sweep {
        let (keys, connections, session) = (keys.clone(), connections.clone(), self.session.clone());
        let run = move || {
            let browsers = keys.rows(session());
            connections.close_browsers(|id| browsers.iter().all(|browser| browser.id != id));
        };
        Sweep { interval: SWEEP_INTERVAL, run: Box::new(run) }
    }

    fn file(&self) -> PathBuf {
        self.home.dir.join("web.json")
    }

    fn remembered(&self) -> Option<Remembered> {
        serde_json::from_str(&own_file::read_text(&self.file(), MAX_REMEMBERED_BYTES).ok()?).ok()
    }

    fn unusable(&self, error: &std::io::Error) -> Problem {
        Problem::HomeUnusable { path: self.home.dir.display().to_string(), error: error.to_string() }
    }
}

impl State {
    /// Lets go of the socket that systemd kept, if there is one.
    fn release_kept(&mut self) {
        if let Some(kept) = self.kept.take() {
            fd_store::remove();
            stop_listening(&kept);
        }
    }
}

fn no_web(address: SocketAddr, error: &std::io::Error) -> Problem {
    Problem::NoWeb { address: address.to_string(), error: told_error(error) }
}

fn from_std(listener: std::net::TcpListener) -> std::io::Result<TcpListener> {
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// A service that was here a moment ago may still have connections on it.
fn bind(at: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if at.is_ipv4() { tokio::net::TcpSocket::new_v4()? } else { tokio::net::TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(at)?;
    socket.listen(128)
}

fn told_error(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::AddrInUse => "another program has this port".into(),
        std::io::ErrorKind::AddrNotAvailable => "this machine has no such address".into(),
        std::io::ErrorKind::PermissionDenied => "ports below 1024 are the system's".into(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    const SESSION: Duration = Duration::from_secs(12 * 3600);

    /// Time passes for this thread alone.
    fn at(seconds: u64) {
        crate::pretend::set(Time(seconds as i64 * 1000), Duration::ZERO, 0);
    }

    async fn page(dir: &std::path::Path) -> (Web, SocketAddr) {
        let web = Web::new(&keys::tests::home(dir), "box", Arc::new(|| SESSION), None);
        let router = Router::new().route("/v1/events", get(|| async { "an event" }));
        assert_eq!(web.begin(router).await, None);
        let told = web.on(WebOn { port: Some(0), expose: None }, 4004).await.unwrap();
        (web, told.address.unwrap().parse().unwrap())
    }

    /// A connection that a browser showed a session on, and its answer.
    async fn connect(web: &Web, at: SocketAddr, key: &browsers::Key) -> TcpStream {
        let nonce = "00112233445566778899aabbccddeeff";
        let challenge = web.prove(&key.id, nonce).await.unwrap().challenge;
        let session = proof::tests::session(&key.id, &key.key, &at.to_string(), &challenge);
        let mut peer = TcpStream::connect(at).await.unwrap();
        let request = format!("GET /v1/events HTTP/1.1\r\nhost: {at}\r\nauthorization: Nexus {session}\r\n\r\n");
        peer.write_all(request.as_bytes()).await.unwrap();
        let mut answer = [0; 4096];
        let count = peer.read(&mut answer).await.unwrap();
        assert!(answer[..count].starts_with(b"HTTP/1.1 200 "));
        peer
    }

    #[test]
    fn what_a_browser_has_open_is_closed_when_its_last_key_has_ended() {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
            at(1000);
            let dir = tempfile::tempdir().unwrap();
            let (web, address) = page(dir.path()).await;
            let keys = web.state.lock().await.keys.clone().unwrap();
            let enter = || keys.enter(&keys.new_link().unwrap(), "").unwrap().unwrap();
            let (closed, open) = (enter(), enter());
            let mut of_closed = connect(&web, address, &closed).await;
            at(1000 + SESSION.as_secs());
            let mut of_open = connect(&web, address, &open).await;
            let sweep = {
                let state = web.state.lock().await;
                web.sweep(&keys, &state.open.as_ref().unwrap().connections)
            };
            (sweep.run)();
            at(1001 + SESSION.as_secs());
            (sweep.run)();
            assert_eq!(of_closed.read(&mut [0; 1]).await.unwrap(), 0, "it outlives its keys");
            let still = tokio::time::timeout(Duration::from_millis(50), of_open.read(&mut [0; 1])).await;
            assert!(still.is_err(), "the other browser's connection was closed");
            crate::pretend::clear();
        });
    }
}
