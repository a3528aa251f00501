//! Services of several users that tell each other what they wait for, and strangers who talk to them.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use nexus_node::gpu::locks::Locks;
use nexus_node::gpu::peers::{PeerNews, Peers};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use crate::stage::wait_until;

const STRANGER: u32 = 61_073;
const PATIENCE: Duration = Duration::from_secs(20);

/// A folder of locks that every user may write to; none where this process is not root.
fn folder() -> Option<tempfile::TempDir> {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: this test needs root");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o1777)).unwrap();
    Some(folder)
}

/// Runs something on a thread whose user is another; threads that it starts have that user too.
fn as_stranger<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let stranger = scope.spawn(|| {
            // SAFETY: the system call itself changes the calling thread alone, which ends after the work.
            assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, STRANGER, STRANGER, STRANGER) }, 0);
            work()
        });
        stranger.join().expect("the stranger's part does not panic")
    })
}

fn service(folder: &tempfile::TempDir, message: &str) -> (Peers, Receiver<PeerNews>) {
    let (sender, news) = channel();
    let peers = Peers::start(Locks::at(folder.path()), Box::new(move |news| drop(sender.send(news)))).unwrap();
    peers.say(message.into(), true);
    (peers, news)
}

fn heard(user: u32, message: &str) -> PeerNews {
    PeerNews::Heard { user, message: message.into() }
}

/// The news up to this one, which must come.
fn until(news: &Receiver<PeerNews>, last: &PeerNews) -> Vec<PeerNews> {
    let mut all = Vec::new();
    while all.last() != Some(last) {
        all.push(news.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no {last:?} after {all:?}")));
    }
    all
}

/// The socket of the one service in the folder.
fn socket_in(folder: &tempfile::TempDir) -> PathBuf {
    let entries = || std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    wait_until("a service to listen", || entries().count() == 1);
    entries().next().unwrap()
}

#[expect(clippy::disallowed_methods, reason = "plays a stranger")]
fn connected(path: &PathBuf) -> UnixStream {
    let socket: OwnedFd = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    connect(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
    let stream = UnixStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Whether the service says something over the connection, or closes it at once.
fn is_answered(stream: &mut UnixStream) -> bool {
    matches!(stream.read(&mut [0; 512]), Ok(1..))
}

#[test]
fn a_user_who_connects_without_end_is_not_heard_for_a_while() {
    let Some(folder) = folder() else { return };
    let (_service, news) = service(&folder, "here");
    let socket = socket_in(&folder);
    let refused = as_stranger(|| {
        (0..5_000).any(|number| {
            let mut stream = connected(&socket);
            let _ = writeln!(stream, "{number}");
            !is_answered(&mut stream)
        })
    });
    assert!(refused, "each of 5000 connections was taken");
    let other = as_stranger(|| is_answered(&mut connected(&socket)));
    assert!(!other, "the next connection of that user is refused too");
    assert!(news.try_iter().count() <= 5_000);
}

#[test]
fn a_wish_ends_with_its_connection_whatever_else_its_user_connects() {
    let Some(folder) = folder() else { return };
    let (_service, mut news) = service(&folder, "here");
    let socket = socket_in(&folder);
    // Exclusive access: a receiver cannot be shared with another thread.
    let hears = &mut news;
    as_stranger(move || {
        let mut speaks = connected(&socket);
        writeln!(speaks, "wish").unwrap();
        until(hears, &heard(STRANGER, "wish"));
        drop(connected(&socket));
        // Accepted after the one before.
        assert!(is_answered(&mut connected(&socket)));
    });
    until(&news, &PeerNews::Gone { user: STRANGER });
}

#[test]
fn of_two_services_of_a_user_one_speaks_and_the_other_takes_over() {
    let Some(folder) = folder() else { return };
    let root = 0;
    let (first, first_news) = service(&folder, "first");
    socket_in(&folder);
    let (_second, second_news) = service(&folder, "second");
    let (_stranger, news) = as_stranger(|| service(&folder, "stranger"));
    until(&first_news, &heard(STRANGER, "stranger"));
    until(&second_news, &heard(STRANGER, "stranger"));
    drop(first);
    let said = until(&news, &heard(root, "second"));
    assert!(said.contains(&heard(root, "first")), "{said:?}");
    let changes = said.iter().filter(|one| **one == PeerNews::Gone { user: root }).count();
    assert!(changes <= 1, "one voice after the other: {said:?}");
}
