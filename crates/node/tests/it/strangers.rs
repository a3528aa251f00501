//! Other users at the sockets of a node.

use std::os::fd::OwnedFd;
use std::os::unix::fs::chown;
use std::path::Path;
use std::thread;

use nexus_api::run_dir::RunSpec;
use nexus_node::sockets;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, recv, send};

use crate::stage::{Stage, exited};

const STRANGER: u32 = 61_072;

fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        println!("skipped: this test needs root");
    }
    root
}

/// A socket of messages of another user, at this path. Those who connect see who listened first.
fn stranger_listens_at(path: &Path) -> OwnedFd {
    let theirs = tempfile::tempdir().unwrap();
    chown(theirs.path(), Some(STRANGER), None).unwrap();
    let made_at = theirs.path().join("s");
    let listening = thread::spawn(move || {
        // SAFETY: the system call itself changes the calling thread alone, which ends here.
        assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, STRANGER, STRANGER, STRANGER) }, 0);
        sockets::listen_for_packets(&made_at).unwrap()
    });
    let listener = listening.join().unwrap();
    std::fs::rename(theirs.path().join("s"), path).unwrap();
    listener
}

/// Answers each message of the first who connects with a run to begin; what was heard until they left.
#[expect(clippy::disallowed_methods, reason = "plays a stranger")]
fn hand_out(listener: &OwnedFd, spec: &RunSpec) -> Vec<String> {
    let begin = serde_json::json!({ "Begin": { "spec": spec, "last_settled": true } }).to_string();
    poll(&mut [PollFd::new(listener, PollFlags::IN)], None).unwrap();
    let shim = accept_with(listener, SocketFlags::CLOEXEC).unwrap();
    let (mut heard, mut buffer) = (Vec::new(), vec![0; 128 << 10]);
    while let Ok((length @ 1.., _)) = recv(&shim, &mut buffer[..], RecvFlags::empty()) {
        heard.push(String::from_utf8_lossy(&buffer[..length]).into_owned());
        let _ = send(&shim, begin.as_bytes(), SendFlags::NOSIGNAL);
    }
    heard
}

#[test]
fn a_shim_tells_a_stranger_nothing_and_takes_no_run_from_him() {
    if !is_root() {
        return;
    }
    let stage = Stage::new();
    let listener = stranger_listens_at(&stage.home.path().join("reports.sock"));
    let spec = stage.spec("evl.1", &["touch", "owned"]);
    let stranger = thread::spawn(move || hand_out(&listener, &spec));
    assert_eq!(stage.run(stage.shell("aaa.1", "exit 3")).status, exited(3));
    assert_eq!(stranger.join().unwrap(), Vec::<String>::new(), "a stranger heard this");
    assert!(!stage.home.path().join("owned").exists(), "a stranger's command ran");
}

#[test]
fn a_node_hears_no_stranger_who_connects() {
    if !is_root() {
        return;
    }
    let stage = Stage::new();
    stage.start(stage.shell("aaa.1", "until [ -e go ]; do sleep 0.01; done; exit 4"));
    stage.start_of("aaa.1");
    let reports = stage.home.path().join("reports.sock");
    // The folder and the file are closed to others: here somebody has opened them.
    for path in [stage.home.path(), &reports] {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    }
    let forged = serde_json::json!({
        "say": "ended", "format": 1, "run": "aaa.1", "status": { "kind": "exited", "code": 0 }, "cause": "own",
        "pid": 1, "started_at_ms": 1, "ended_at_ms": 2, "lost_output_bytes": 0,
    });
    let stranger = thread::spawn(move || say_as_stranger(&reports, &forged.to_string()));
    assert!(stranger.join().unwrap(), "the stranger was not turned away");
    std::fs::write(stage.home.path().join("go"), "").unwrap();
    assert_eq!(stage.end_of("aaa.1").status, exited(4));
}

/// Connects and speaks; whether the node closed the line.
#[expect(clippy::disallowed_methods, reason = "plays a stranger")]
fn say_as_stranger(path: &Path, message: &str) -> bool {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, connect, socket_with};
    // SAFETY: the system call itself changes the calling thread alone, which ends here.
    assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, STRANGER, STRANGER, STRANGER) }, 0);
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    connect(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
    // Refused where the node was quicker.
    let _ = send(&socket, message.as_bytes(), SendFlags::NOSIGNAL);
    let wait = rustix::event::Timespec { tv_sec: 10, tv_nsec: 0 };
    poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&wait)) == Ok(1)
}
