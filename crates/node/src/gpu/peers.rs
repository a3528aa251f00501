//! What the services of several users on one machine tell each other about GPUs, without a master.
//!
//! ```text
//!   folder of the locks: turn.61001.<chance>, a socket of user 61001 ──┐ one thread for each service: accepts, connects to the
//!                        turn.61002.<chance>, a socket of user 61002 ──┘ sockets of the others, sends and takes messages
//! ```
//! A message counts as long as its connection lasts, and for the user whom the kernel names as its other end. A socket file counts
//! only if that user owns it, so nobody speaks for somebody else. Each user has one voice: of several services of one user the
//! first one that listens has it. Peers are strangers: their messages are short, few, and believed by nobody here.

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

/// Entries of the folder that are looked at: somebody may have filled it.
const MAX_ENTRIES: usize = 4096;

/// A peer that says more than this in a second is not heard for a while.
const MAX_MESSAGES_PER_SECOND: u32 = 200;
const BAN: Duration = Duration::from_secs(60);

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
            banned: BTreeMap::new(),
            scan_at: Instant::now(),
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
    /// We connected. There may be one of each kind to a user.
    outgoing: bool,
    heard: Vec<u8>,
    messages: u32,
    counted_since: Instant,
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
    banned: BTreeMap<u32, Instant>,
    scan_at: Instant,
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
                // What cannot be done now is tried again.
                let _ = self.scan();
            }
            self.wait(state.seeks);
            self.accept();
            self.hear();
        }
    }

    fn wait(&self, seeks: bool) {
        let left = self.scan_at.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).unwrap_or_default();
        let mut polled = vec![PollFd::new(&self.said.wake, PollFlags::IN)];
        polled.extend(self.listener.iter().map(|listener| PollFd::new(&listener.socket, PollFlags::IN)));
        polled.extend(self.connections.iter().map(|one| PollFd::new(&one.stream, PollFlags::IN)));
        let _ = poll(&mut polled, seeks.then_some(&left));
        let _ = rustix::io::read(&self.said.wake, &mut [0u8; 8]);
    }

    /// Sees to it that this service listens, and connects to those of others.
    fn scan(&mut self) -> io::Result<()> {
        let folder = self.locks.open()?;
        self.banned.retain(|_, until| *until > Instant::now());
        let mut own_lives = false;
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
                    self.add(stream, user, true);
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
        Ok(())
    }

    #[expect(clippy::disallowed_methods, reason = "other users are who it is for; they are known by their uid")]
    fn accept(&mut self) {
        let Some(listener) = &self.listener else { return };
        let mut came = Vec::new();
        while let Ok((stream, _)) = listener.socket.accept() {
            came.push(stream);
            if came.len() >= MAX_PEERS {
                break;
            }
        }
        for stream in came {
            let Ok(user) = socket_peercred(&stream).map(|peer| peer.uid.as_raw()) else { continue };
            let is_banned = self.banned.get(&user).is_some_and(|until| *until > Instant::now());
            if user != self.own && !is_banned && stream.set_nonblocking(true).is_ok() {
                // The user's newest counts.
                self.connections.retain(|one| one.outgoing || one.user != user);
                self.add(stream, user, false);
            }
        }
    }

    fn add(&mut self, stream: UnixStream, user: u32, outgoing: bool) {
        if self.connections.len() >= 2 * MAX_PEERS {
            return;
        }
        let (heard, messages, counted_since) = (Vec::new(), 0, Instant::now());
        let connection = Connection { stream, user, outgoing, heard, messages, counted_since };
        if self.told.is_empty() || tell(&connection.stream, &self.told) {
            self.connections.push(connection);
        }
    }

    fn tell_all(&mut self) {
        let told = std::mem::take(&mut self.told);
        let before = self.users();
        self.connections.retain(|one| tell(&one.stream, &told));
        self.told = told;
        self.tell_gone(before);
    }

    fn hear(&mut self) {
        let before = self.users();
        let mut connections = std::mem::take(&mut self.connections);
        connections.retain_mut(|one| match one.take() {
            Ok(message) => {
                let user = one.user;
                message.into_iter().for_each(|message| (self.sink)(PeerNews::Heard { user, message }));
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
        self.tell_gone(before);
    }

    fn users(&self) -> BTreeSet<u32> {
        self.connections.iter().map(|one| one.user).collect()
    }

    fn tell_gone(&self, before: BTreeSet<u32>) {
        for user in before.difference(&self.users()) {
            (self.sink)(PeerNews::Gone { user: *user });
        }
    }
}

impl Connection {
    /// The newest message that has come. An error: it is over, or says too much.
    fn take(&mut self) -> io::Result<Option<String>> {
        let mut bytes = [0u8; 4 * MAX_MESSAGE_BYTES];
        match self.stream.read(&mut bytes) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => self.heard.extend(&bytes[..count]),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
        if self.counted_since.elapsed() > Duration::from_secs(1) {
            (self.messages, self.counted_since) = (0, Instant::now());
        }
        self.messages += self.heard.iter().filter(|byte| **byte == b'\n').count() as u32;
        let Some(end) = self.heard.iter().rposition(|byte| *byte == b'\n') else {
            return if self.heard.len() < MAX_MESSAGE_BYTES {
                Ok(None)
            } else {
                Err(io::ErrorKind::InvalidData.into())
            };
        };
        if self.messages > MAX_MESSAGES_PER_SECOND {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let rest = self.heard.split_off(end + 1);
        let lines = std::mem::replace(&mut self.heard, rest);
        let last = lines[..end].rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
        Ok(String::from_utf8(last.to_vec()).ok())
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
