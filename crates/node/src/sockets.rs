//! The only functions that connect, bind and accept Unix sockets of nexus itself. Each asks the kernel which user has the other
//! end (SO_PEERCRED, unix(7)) and refuses all but the own one: modes of folders and files are a second line of defence.
//!
//! `clippy.toml` forbids the system's own functions. The places that use them all the same say why, and stand in SECURITY.md.

use std::fmt::Display;
use std::fs::{self, Permissions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, socket_with};
use rustix::process::geteuid;

use crate::users::name_of;

/// Wait between two attempts while the queue of connections is full, of which a Unix socket gives no notice.
const FULL_QUEUE_WAIT: Duration = Duration::from_millis(2);

/// Connections that wait to be accepted; the kernel has a limit of its own (`net.core.somaxconn`).
const BACKLOG: i32 = 4096;

/// The other end of a socket belongs to somebody else.
#[derive(Debug, thiserror::Error)]
#[error("user {} listens on the socket {socket}, not you", name_of(*uid))]
pub struct ForeignPeer {
    socket: String,
    uid: u32,
}

/// Connects to a stream socket without waiting; the stream does not block either.
pub fn connect(path: &Path) -> io::Result<UnixStream> {
    let socket = connect_as(SocketType::STREAM, path)?;
    check_peer(&socket, path.display())?;
    Ok(socket.into())
}

/// Connects to a socket of messages, and tries again until then where its queue is full.
pub fn connect_packets(path: &Path, until: Instant) -> io::Result<OwnedFd> {
    loop {
        match connect_as(SocketType::SEQPACKET, path) {
            Ok(socket) => {
                check_peer(&socket, path.display())?;
                return Ok(socket);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < until => {
                std::thread::sleep(FULL_QUEUE_WAIT);
            }
            Err(error) => return Err(error),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "both callers ask for the peer at once")]
fn connect_as(kind: SocketType, path: &Path) -> io::Result<OwnedFd> {
    let address = address(path)?;
    let socket = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    rustix::net::connect(&socket, &address)?;
    Ok(socket)
}

/// Connects to a name of the abstract namespace, which any user may have taken. Never waits for room in the listener's queue: a
/// stopped listener makes none. Reads and writes of the stream block.
#[expect(clippy::disallowed_methods, reason = "asks for the peer at once")]
pub fn connect_abstract(name: &str) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?).map_err(
        |errno| match errno {
            Errno::AGAIN => io::Error::new(io::ErrorKind::WouldBlock, "it does not accept connections"),
            other => other.into(),
        },
    )?;
    check_peer(&socket, name)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Listens in the place of a socket that an earlier service left behind. Nothing blocks.
pub fn listen_at(path: &Path) -> io::Result<UnixListener> {
    bind_as(SocketType::STREAM, path).map(UnixListener::from)
}

/// The same for a socket of messages.
pub fn listen_for_packets(path: &Path) -> io::Result<OwnedFd> {
    bind_as(SocketType::SEQPACKET, path)
}

#[expect(clippy::disallowed_methods, reason = "those who connect are asked when they are accepted")]
fn bind_as(kind: SocketType, path: &Path) -> io::Result<OwnedFd> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let address = address(path)?;
    let socket = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    bind(&socket, &address)?;
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Listens under a name of the abstract namespace. Nothing blocks.
#[expect(clippy::disallowed_methods, reason = "those who connect are asked when they are accepted")]
pub fn listen_abstract(name: &str) -> io::Result<UnixListener> {
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// The next connection, which does not block; none where it was another user's, who has been turned away.
#[expect(clippy::disallowed_methods, reason = "asks for the peer at once")]
pub fn accept(listener: impl AsFd) -> io::Result<Option<OwnedFd>> {
    loop {
        match accept_with(listener.as_fd(), SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(socket) => return Ok(is_own(&socket).then_some(socket)),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Whether the other end is a process of this user.
pub fn is_own(socket: impl AsFd) -> bool {
    check_peer(socket, "").is_ok()
}

/// Refuses another user at the other end of the socket, by [`ForeignPeer`].
fn check_peer(socket: impl AsFd, name: impl Display) -> io::Result<()> {
    let peer = socket_peercred(socket)?;
    if peer.uid == geteuid() {
        return Ok(());
    }
    let foreign = ForeignPeer { socket: name.to_string(), uid: peer.uid.as_raw() };
    Err(io::Error::new(io::ErrorKind::PermissionDenied, foreign))
}

/// Whether a connection failed since another user listens there.
pub fn is_foreign(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|source| source.is::<ForeignPeer>())
}

/// No socket can have a path that is too long.
fn address(path: &Path) -> io::Result<SocketAddrUnix> {
    SocketAddrUnix::new(path).map_err(|errno| match errno {
        Errno::NAMETOOLONG => io::Error::new(io::ErrorKind::NotFound, "the path is too long for a socket"),
        other => other.into(),
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::chown;
    use std::sync::mpsc::{Receiver, channel};

    use super::*;

    const STRANGER: u32 = 61_071;

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(20)
    }

    /// Runs something on a thread whose user is another; other threads keep theirs. None where this process is not root.
    fn as_stranger<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<Receiver<T>> {
        if !geteuid().is_root() {
            println!("skipped: this test needs root");
            return None;
        }
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            // SAFETY: the system call itself changes the calling thread alone, which ends after the work.
            let changed = unsafe { libc::syscall(libc::SYS_setresuid, STRANGER, STRANGER, STRANGER) };
            assert_eq!(changed, 0);
            let _ = sender.send(work());
        });
        Some(receiver)
    }

    fn folder_of(uid: u32) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        chown(dir.path(), Some(uid), None).unwrap();
        dir
    }

    #[test]
    fn whoever_connects_sees_a_stranger_who_listens() {
        let dir = folder_of(geteuid().as_raw());
        let own = dir.path().join("own");
        let _listener = listen_at(&own).unwrap();
        connect(&own).unwrap();
        if !geteuid().is_root() {
            return println!("skipped: this test needs root");
        }
        let dir = folder_of(STRANGER);
        let (stream, packets) = (dir.path().join("stream"), dir.path().join("packets"));
        let name = format!("nexus-test-{}", std::process::id());
        let (at, abstract_name) = ([stream.clone(), packets.clone()], name.clone());
        let made = as_stranger(move || {
            (listen_at(&at[0]).unwrap(), listen_for_packets(&at[1]).unwrap(), listen_abstract(&abstract_name).unwrap())
        });
        let _listening = made.unwrap().recv().unwrap();
        let refused = [
            connect(&stream).unwrap_err(),
            connect_packets(&packets, soon()).unwrap_err(),
            connect_abstract(&name).unwrap_err(),
        ];
        for error in refused {
            assert!(is_foreign(&error) && error.to_string().contains("61071"), "{error}");
        }
    }

    #[test]
    fn a_stranger_who_connects_is_turned_away_and_the_next_is_heard() {
        let name = format!("nexus-test-accept-{}", std::process::id());
        let listener = listen_abstract(&name).unwrap();
        let theirs = name.clone();
        #[expect(clippy::disallowed_methods, reason = "plays a stranger")]
        let stranger =
            as_stranger(move || UnixStream::connect_addr(&SocketAddr::from_abstract_name(theirs).unwrap()).unwrap());
        let Some(stranger) = stranger else { return };
        let _stranger = stranger.recv().unwrap();
        let _own = connect_abstract(&name).unwrap();
        assert!(accept(&listener).unwrap().is_none(), "a stranger was let in");
        assert!(accept(&listener).unwrap().is_some());
        assert_eq!(accept(&listener).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn a_listener_whose_queue_is_full_keeps_nobody_waiting() {
        let name = format!("nexus-test-full-{}", std::process::id());
        let listener = listen_abstract(&name).unwrap();
        listen(&listener, 0).unwrap();
        let (sender, tried) = channel();
        std::thread::spawn(move || {
            let connections: Vec<_> = (0..3).map(|_| connect_abstract(&name)).collect();
            let _ = sender.send(connections.into_iter().find_map(Result::err).map(|error| error.kind()));
        });
        let error = tried.recv_timeout(Duration::from_secs(20)).expect("a connection waits for room in the queue");
        assert_eq!(error, Some(io::ErrorKind::WouldBlock));
    }

    #[test]
    fn a_path_that_is_too_long_has_no_socket() {
        let long = Path::new("/").join("x".repeat(200));
        assert_eq!(connect(&long).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
