//! What the services of several users on one machine tell each other about GPUs, without a master.
//!
//! ```text
//!   folder of the locks: turn.61001.<chance>, a socket of user 61001 ──┐ one thread for each service: accepts, connects to the
//!                        turn.61002.<chance>, a socket of user 61002 ──┘ sockets of the others, sends and takes messages
//! ```
//! A message counts as long as its connection lasts, and for the user whom the kernel names as its other end. A socket file counts
//! only if that user owns it, so nobody speaks for somebody else. Each user has one voice: of several services of one user the
//! first one that listens has it, and the others connect without a word. Peers are strangers: their messages are short, few, and
//! believed by nobody here.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::{AtFlags, Dir, FileType, Mode, chmodat, statat, unlinkat};
use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;
use rustix::rand::{GetRandomFlags, getrandom};

use super::locks::Locks;
use crate::threads;

/// A service that wishes for a GPU looks for new services this often.
const SCAN_INTERVAL: Duration = Duration::from_secs(2);

/// Longest message, with its newline.
const MAX_MESSAGE_BYTES: usize = 256;

/// Connections of more are closed.
const MAX_PEERS: usize = 64;

/// Connections that one user may have opened to this service: one for each service of that user, of which one speaks.
const MAX_CONNECTIONS_PER_USER: usize = 4;

/// Entries of the folder that are looked at: somebody may have filled it.
const MAX_ENTRIES: usize = 4096;

/// A user with more messages and connections than this in a second is not heard for a while.
const MAX_MESSAGES_PER_SECOND: u32 = 200;
const BAN: Duration = Duration::from_secs(60);

/// Delay after an accept(2) that failed, as at the limit of descriptors: the connection still waits, so that poll(2) would return at
/// once.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

const PREFIX: &str = "turn.";

/// What is heard of the service of another user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerNews {
    Heard {
        user: u32,
        message: String,
    },
    /// Its last connection has ended.
    Gone {
        user: u32,
    },
}

/// What this service says. Its thread ends with it.
pub struct Peers {
    said: Arc<Said>,
    thread: Option<thread::JoinHandle<()>>,
}

struct Said {
    wake: OwnedFd,
    state: Mutex<State>,
}

#[derive(Clone, Default)]
struct State {
    message: String,
    /// Look for other services.
    seeks: bool,
    ends: bool,
}

impl Said {
    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        // It fails only where it has been woken four billion times in vain.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    fn read(&self) -> State {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Peers {
    /// The sink is called by the thread of the peers and must not block.
    pub fn start(locks: Locks, sink: Box<dyn Fn(PeerNews) + Send>) -> io::Result<Peers> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let said = Arc::new(Said { wake, state: Mutex::default() });
        let switchboard = Switchboard {
            locks,
            said: Arc::clone(&said),
            sink,
            own: geteuid().as_raw(),
            listener: None,
            connections: Vec::new(),
            told: String::new(),
            is_silent: false,
            budgets: BTreeMap::new(),
            banned: BTreeMap::new(),
            scan_at: Instant::now(),
            accept_at: None,
        };
        let thread = threads::start("gpu-peers", move || switchboard.run())?;
        Ok(Peers { said, thread: Some(thread) })
    }

    /// Says this to all peers of now and later. `seeks`: looks for new ones as well.
    pub fn say(&self, message: String, seeks: bool) {
        debug_assert!(message.len() < MAX_MESSAGE_BYTES && !message.contains('\n'), "{message}");
        self.said.change(|state| (state.message, state.seeks) = (message, seeks));
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        self.said.change(|state| state.ends = true);
        if let Some(thread) = self.thread.take() {
            // It panicked if at all in the sink, which is not ours to tell.
            let _ = thread.join();
        }
    }
}

struct Connection {
    stream: UnixStream,
    user: u32,
    /// This service connected.
    outgoing: bool,
    heard: Vec<u8>,
    /// A message has come: the user's wish lasts as long as such a connection.
    has_spoken: bool,
}

/// Messages and connections of a user within a second.
struct Budget {
    used: u32,
    since: Instant,
}

/// The socket on which this service is found.
struct Listener {
    socket: UnixListener,
    folder: File,
    name: String,
}

impl Drop for Listener {
    fn drop(&mut self) {
        // The next service removes what is left.
        let _ = unlinkat(&self.folder, &self.name, AtFlags::empty());
    }
}

struct Switchboard {
    locks: Locks,
    said: Arc<Said>,
    sink: Box<dyn Fn(PeerNews) + Send>,
    own: u32,
    listener: Option<Listener>,
    connections: Vec<Connection>,
    told: String,
    /// Another service of this user has the voice.
    is_silent: bool,
    budgets: BTreeMap<u32, Budget>,
    banned: BTreeMap<u32, Instant>,
    scan_at: Instant,
    /// When to accept again after a failure.
    accept_at: Option<Instant>,
}

impl Switchboard {
    fn run(mut self) {
        loop {
            let state = self.said.read();
            if state.ends {
                return;
            }
            if state.message != self.told {
                self.told.clone_from(&state.message);
                self.tell_all();
            }
            if state.seeks && Instant::now() >= self.scan_at {
                self.scan_at = Instant::now() + SCAN_INTERVAL;
                let was_silent = self.is_silent;
                // What cannot be done now is tried again.
                let _ = self.scan();
                if was_silent && !self.is_silent {
                    self.tell_all();
                }
            }
            self.wait(state.seeks);
            let before = self.users();
            self.accept();
            self.hear();
            self.drop_banned();
            self.tell_gone(before);
        }
    }

    fn wait(&self, seeks: bool) {
        let until = seeks.then_some(self.scan_at).into_iter().chain(self.accept_at).min();
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let left = left.map(|left| Timespec::try_from(left).unwrap_or_default());
        let mut polled = vec![PollFd::new(&self.said.wake, PollFlags::IN)];
        let listener = self.listener.iter().filter(|_| self.accept_at.is_none());
        polled.extend(listener.map(|listener| PollFd::new(&listener.socket, PollFlags::IN)));
        polled.extend(self.connections.iter().map(|one| PollFd::new(&one.stream, PollFlags::IN)));
        let _ = poll(&mut polled, left.as_ref());
        let _ = rustix::io::read(&self.said.wake, &mut [0u8; 8]);
    }

    /// Sees to it that this service listens, and connects to those of others.
    fn scan(&mut self) -> io::Result<()> {
        let folder = self.locks.open()?;
        self.banned.retain(|_, until| *until > Instant::now());
        let (mut own_lives, mut reached) = (false, Vec::new());
        let mut connected: BTreeSet<u32> = BTreeSet::new();
        connected.extend(self.connections.iter().filter(|one| one.outgoing).map(|one| one.user));
        for entry in Dir::read_from(&folder)?.take(MAX_ENTRIES) {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str().map(String::from) else { continue };
            if !name.starts_with(PREFIX) || self.listener.as_ref().is_some_and(|listener| listener.name == name) {
                continue;
            }
            let Ok(stat) = statat(&folder, &name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let owner = stat.st_uid;
            let is_known = connected.contains(&owner) || self.banned.contains_key(&owner);
            if FileType::from_raw_mode(stat.st_mode) != FileType::Socket || owner != self.own && is_known {
                continue;
            }
            match connect(&folder, &name) {
                Ok((stream, user)) if user == owner && user != self.own => {
                    connected.insert(user);
                    reached.push((stream, user));
                }
                Ok((_, user)) => own_lives |= user == self.own && owner == self.own,
                // Left behind by a service that was killed.
                Err(error) if owner == self.own && error.kind() == io::ErrorKind::ConnectionRefused => {
                    let _ = unlinkat(&folder, &name, AtFlags::empty());
                }
                Err(_) => {}
            }
        }
        let is_gone = |listener: &Listener| statat(&folder, &listener.name, AtFlags::SYMLINK_NOFOLLOW).is_err();
        if self.listener.as_ref().is_some_and(is_gone) {
            self.listener = None;
        }
        if self.listener.is_none() && !own_lives {
            self.listener = Some(listen(folder, self.own)?);
        }
        self.is_silent = self.listener.is_none();
        reached.into_iter().for_each(|(stream, user)| self.add(stream, user, true));
        Ok(())
    }

    #[expect(clippy::disallowed_methods, reason = "other users are who it is for; they are known by their uid")]
    fn accept(&mut self) {
        if self.accept_at.is_some_and(|at| at > Instant::now()) {
            return;
        }
        self.accept_at = None;
        let Some(listener) = &self.listener else { return };
        let mut came = Vec::new();
        while came.len() < MAX_PEERS {
            match listener.socket.accept() {
                Ok((stream, _)) => came.push(stream),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    self.accept_at = Some(Instant::now() + ACCEPT_RETRY_DELAY);
                    break;
                }
            }
        }
        for stream in came {
            let Ok(user) = socket_peercred(&stream).map(|peer| peer.uid.as_raw()) else { continue };
            if user == self.own || self.charge(user, 1) || stream.set_nonblocking(true).is_err() {
                continue;
            }
            let of_user = |one: &Connection| !one.outgoing && one.user == user;
            if self.connections.iter().filter(|one| of_user(one)).count() >= MAX_CONNECTIONS_PER_USER
                && let Some(oldest) = self.connections.iter().position(of_user)
            {
                self.connections.remove(oldest);
            }
            self.add(stream, user, false);
        }
    }

    /// Counts messages and connections of a user. Returns whether the user is not heard, now or already.
    fn charge(&mut self, user: u32, count: u32) -> bool {
        let now = Instant::now();
        if self.banned.get(&user).is_some_and(|until| *until > now) {
            return true;
        }
        self.budgets.retain(|_, budget| now - budget.since < Duration::from_secs(1));
        let budget = self.budgets.entry(user).or_insert(Budget { used: 0, since: now });
        budget.used = budget.used.saturating_add(count);
        let is_spent = budget.used > MAX_MESSAGES_PER_SECOND;
        if is_spent {
            self.banned.insert(user, now + BAN);
        }
        is_spent
    }

    fn drop_banned(&mut self) {
        let now = Instant::now();
        self.banned.retain(|_, until| *until > now);
        self.connections.retain(|one| !self.banned.contains_key(&one.user));
    }

    fn add(&mut self, stream: UnixStream, user: u32, outgoing: bool) {
        if self.connections.len() >= 2 * MAX_PEERS {
            return;
        }
        if self.is_silent || self.told.is_empty() || tell(&stream, &self.told) {
            self.connections.push(Connection { stream, user, outgoing, heard: Vec::new(), has_spoken: false });
        }
    }

    fn tell_all(&mut self) {
        if self.is_silent {
            return;
        }
        let told = std::mem::take(&mut self.told);
        let before = self.users();
        self.connections.retain(|one| tell(&one.stream, &told));
        self.told = told;
        self.tell_gone(before);
    }

    fn hear(&mut self) {
        let mut connections = std::mem::take(&mut self.connections);
        connections.retain_mut(|one| match one.take() {
            Ok(Taken { messages, newest }) => {
                let user = one.user;
                if messages > 0 && self.charge(user, messages) {
                    return false;
                }
                one.has_spoken |= newest.is_some();
                newest.into_iter().for_each(|message| (self.sink)(PeerNews::Heard { user, message }));
                true
            }
            Err(error) => {
                if error.kind() == io::ErrorKind::InvalidData {
                    self.banned.insert(one.user, Instant::now() + BAN);
                }
                false
            }
        });
        self.connections = connections;
    }

    /// Users of whom a message has come over a connection that still lives.
    fn users(&self) -> BTreeSet<u32> {
        self.connections.iter().filter(|one| one.has_spoken).map(|one| one.user).collect()
    }

    fn tell_gone(&self, before: BTreeSet<u32>) {
        for user in before.difference(&self.users()) {
            (self.sink)(PeerNews::Gone { user: *user });
        }
    }
}

/// What has come over a connection.
struct Taken {
    messages: u32,
    newest: Option<String>,
}

impl Connection {
    /// An error: the connection is over, or a message is too long.
    fn take(&mut self) -> io::Result<Taken> {
        let nothing = Taken { messages: 0, newest: None };
        let mut bytes = [0u8; 4 * MAX_MESSAGE_BYTES];
        match self.stream.read(&mut bytes) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => self.heard.extend(&bytes[..count]),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                return Ok(nothing);
            }
            Err(error) => return Err(error),
        }
        let Some(end) = self.heard.iter().rposition(|byte| *byte == b'\n') else {
            return if self.heard.len() < MAX_MESSAGE_BYTES {
                Ok(nothing)
            } else {
                Err(io::ErrorKind::InvalidData.into())
            };
        };
        let rest = self.heard.split_off(end + 1);
        let lines = std::mem::replace(&mut self.heard, rest);
        let messages = lines.iter().filter(|byte| **byte == b'\n').count() as u32;
        let last = lines[..end].rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
        Ok(Taken { messages, newest: String::from_utf8(last.to_vec()).ok() })
    }
}

/// A peer that does not read is let go of.
fn tell(mut stream: &UnixStream, message: &str) -> bool {
    let line = format!("{message}\n");
    matches!(stream.write(line.as_bytes()), Ok(count) if count == line.len())
}

/// By way of the folder that was opened: it cannot be exchanged, and its path may be too long for a socket.
fn path_in(folder: &File, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{name}", folder.as_fd().as_raw_fd()))
}

/// Whoever listens there. A stranger's socket may keep nobody waiting.
#[expect(clippy::disallowed_methods, reason = "other users are who it is for; the uid is part of the answer")]
fn connect(folder: &File, name: &str) -> io::Result<(UnixStream, u32)> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path_in(folder, name))?)?;
    let user = socket_peercred(&socket)?.uid.as_raw();
    Ok((UnixStream::from(socket), user))
}

/// On a name that nobody can guess, and so nobody can take.
#[expect(clippy::disallowed_methods, reason = "other users are who it is for")]
fn listen(folder: File, own: u32) -> io::Result<Listener> {
    let mut chance = [0u8; 8];
    getrandom(&mut chance, GetRandomFlags::empty())?;
    let name = format!("{PREFIX}{own}.{:016x}", u64::from_ne_bytes(chance));
    let socket = UnixListener::bind(path_in(&folder, &name))?;
    let listener = Listener { socket, folder, name };
    listener.socket.set_nonblocking(true)?;
    // All users may speak to it: what they say is not believed.
    chmodat(&listener.folder, &listener.name, Mode::from_raw_mode(0o666), AtFlags::empty())?;
    Ok(listener)
}
