//! Several at one job's terminal, and those who do not behave.

use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};

use nexus_testkit::{Nexus, kill, signal, until};

use super::SCREEN;
use crate::NEXUS;

#[test]
fn all_see_the_same_and_all_may_type() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let look = "until [ -e go ]; do stty size; sleep 0.02; done";
    let id = nexus.add(&format!("read -r one; echo \"<$one>\"; {look}; read -r two; echo \"<$two>\""));
    let mut ann = nexus.at_terminal((100, 30), &["attach", &id]);
    let mut ben = nexus.at_terminal((90, 35), &["attach", &id]);
    for typist in [&mut ann, &mut ben] {
        typist.sees("[attached");
    }
    ann.types("from ann\r").sees("<from ann>");
    ben.sees("<from ann>");
    // The smallest of all columns and rows.
    ann.sees("30 90").resizes((80, 40)).sees("35 80");
    nexus.file("go", "");
    ben.types("from ben\r").sees("<from ben>").sees("[completed");
    ann.sees("<from ben>").sees("[completed");
}

/// REGRESSIONS 21: one that stalls holds up neither the job nor the others.
#[test]
fn r21_a_viewer_that_stalls_stops_nobody() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus
        .add("read -r x; head -c 20000000 /dev/zero | tr '\\0' 'x' | fold -w 100; echo; echo 'all printed'; read -r y");
    let mut stalled = nexus.at_terminal(SCREEN, &["attach", &id]);
    stalled.sees("[attached");
    let mut ann = nexus.at_terminal(SCREEN, &["attach", &id]);
    ann.sees("[attached");
    kill(stalled.pid(), signal::SIGSTOP);
    ann.types("\r").sees("all printed");
    // It hears what it missed when it looks again, and goes on.
    kill(stalled.pid(), signal::SIGCONT);
    stalled.sees("bytes were left out").sees("all printed");
    stalled.types("\r").sees("[completed");
    ann.sees("[completed");
    assert!(nexus.stdout_of(&id).ends_with("all printed\n\n"), "the log is whole");
}

fn terminal_of(nexus: &Nexus, id: &str) -> String {
    nexus.started(id)["terminal"].as_str().expect("a terminal").to_string()
}

#[test]
fn noise_ends_the_connection_and_nothing_else() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.add("read -r line; echo \"<$line>\"");
    let name = terminal_of(&nexus, &id);
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let mut connections = Vec::new();
    for noise in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[2, 1, 0, 0, 0, b'x'], &[255; 100], b""] {
        let mut stream = UnixStream::connect_addr(&address).unwrap();
        stream.write_all(noise).unwrap();
        connections.push(stream);
    }
    let mut ann = nexus.at_terminal(SCREEN, &["attach", &id]);
    ann.sees("[attached").types("ann\r").sees("<ann>").sees("[completed");
    until("the socket is gone", || UnixStream::connect_addr(&address).is_err().then_some(()));
}

#[test]
fn another_user_is_turned_away() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    if !crate::bad_days::is_root() {
        return;
    }
    let id = nexus.add("read -r line; echo \"<$line>\"");
    let name = terminal_of(&nexus, &id);
    let greeted = |user: u32| {
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let greet = move || {
            // SAFETY: a plain system call, of this thread alone: the others stay who they are.
            assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, user, user, user) }, 0);
            let mut stream = UnixStream::connect_addr(&address).unwrap();
            // Who is turned away may find the line closed already.
            let _ = stream.write_all(&frame(1, br#"{"format":1,"columns":80,"rows":24}"#));
            let _ = stream.write_all(&frame(2, b"eve\n"));
            stream.read(&mut [0; 100]).is_ok_and(|count| count > 0)
        };
        std::thread::spawn(greet).join().unwrap()
    };
    assert!(!greeted(65534));
    nexus.in_state(&id, "running");
    assert!(greeted(0), "the same words of the owner are heard");
    nexus.ended(&id);
    assert!(nexus.stdout_of(&id).contains("<eve>"));
}

fn frame(kind: u8, content: &[u8]) -> Vec<u8> {
    [&[kind], &(content.len() as u32).to_le_bytes()[..], content].concat()
}
