//! Clients that talk nonsense, stall, or leave in the middle of a word.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use nexus_testkit::Nexus;

use super::lives;
use crate::NEXUS;

fn connect(nexus: &Nexus) -> UnixStream {
    UnixStream::connect(nexus.home().join("nexus.sock")).expect("the service listens")
}

#[test]
fn garbage_is_answered_or_cut_off() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let noise: Vec<u8> = (0..100_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for bytes in [&noise[..], b"\0", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00\x01"] {
        let mut stream = connect(&nexus);
        // It may hang up before it has read all of it.
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 4"), "{}", String::from_utf8_lossy(&answer));
    }
    lives(&nexus);
}

#[test]
fn stalling_clients_hold_nobody_up() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let head = b"POST /v1/jobs HTTP/1.1\r\nhost: nexus\r\ncontent-length: 1000\r\n\r\n[{\"comm";
    let mut stalled: Vec<UnixStream> = (0..100).map(|_| connect(&nexus)).collect();
    for (number, stream) in stalled.iter_mut().enumerate() {
        stream.write_all(&head[..number.min(head.len())]).expect("it takes the beginning");
    }
    lives(&nexus);
    let service = nexus.service_pid();
    nexus.ok(&["stop"]);
    assert!(!nexus_testkit::alive(service), "a stop waits for none of them");
}

#[test]
fn imports_that_stand_still_hold_only_each_other_up() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let head = b"POST /v1/import/lines HTTP/1.1\r\nhost: nexus\r\ntransfer-encoding: chunked\r\n\r\n";
    let mut stalled: Vec<UnixStream> = (0..20).map(|_| connect(&nexus)).collect();
    for stream in &mut stalled {
        stream.write_all(head).expect("it takes the beginning");
    }
    std::thread::sleep(std::time::Duration::from_millis(300));
    for args in [&["status"][..], &["ls"], &["history"], &["add", "true"]] {
        nexus.run_limited(args).expect_code(0);
    }
    lives(&nexus);
    drop(stalled);
    nexus.file("j.txt", "echo a\n");
    nexus.run_limited(&["import", "j.txt"]).expect_code(0);
}

#[test]
fn half_a_request_is_no_request() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let body = r#"[{"command":{"shell":"true"},"cwd":"/"}]"#;
    let whole = format!("POST /v1/jobs HTTP/1.1\r\nhost: nexus\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    for cut in [1, 20, whole.len() - body.len(), whole.len() - 1] {
        connect(&nexus).write_all(&whole.as_bytes()[..cut]).unwrap();
    }
    lives(&nexus);
    assert_eq!(nexus.json(&["history", "--all", "--json"]).as_array().unwrap().len(), 1);
}

#[test]
fn a_follower_that_leaves_is_forgotten() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.add("while :; do echo line; done");
    nexus.in_state(&id, "running");
    for _ in 0..20 {
        let mut stream = connect(&nexus);
        write!(stream, "GET /v1/jobs/{id}/log?follow=true HTTP/1.1\r\nhost: nexus\r\n\r\n").unwrap();
        stream.read_exact(&mut [0; 100]).unwrap();
    }
    nexus.ok(&["kill", &id]);
    lives(&nexus);
}
