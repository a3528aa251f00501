//! The page's address in a bad neighbourhood: pages of others, names of others, bodies without end, clients that stall.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::Duration;

use nexus_testkit::{Nexus, Web, until};
use serde_json::json;

use crate::NEXUS;

fn served() -> (Nexus, Web, String) {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let web = Web::of(&nexus);
    let bearer = format!("Bearer {}", web.token);
    (nexus, web, bearer)
}

#[test]
fn r21_without_a_token_nothing_is_readable() {
    let (nexus, web, _) = served();
    let id = nexus.add("echo secret words");
    nexus.ended(&id);
    let host = ("host", web.address.as_str());
    for path in [
        "/v1/status",
        "/v1/service",
        "/v1/jobs?state=ended",
        &format!("/v1/jobs/{id}"),
        &format!("/v1/jobs/{id}/log"),
        "/v1/events",
        "/v1/openapi.json",
        "/v1/nothing",
        "/metrics",
        "/healthz",
        "/v1/web/keys",
    ] {
        let answer = web.ask("GET", path, &[host], "");
        assert_eq!(answer.status, 401, "{path}");
        assert!(!answer.body.contains("secret"), "{path}");
    }
    for wrong in ["Bearer ", "Bearer x", "Basic x", &web.token, &format!("Bearer {}x", web.token)] {
        assert_eq!(web.ask("GET", "/v1/status", &[host, ("authorization", wrong)], "").status, 401, "{wrong}");
    }
    // The page's code is the same for everybody, and says how to get in.
    let page = web.ask("GET", "/", &[host], "");
    assert_eq!((page.status, &page.body), (200, &web.get("/").body));
    assert!(page.body.contains("nexus web"), "it does not say how to get in");
    assert_eq!(web.ask("GET", "/assets/index.js", &[host], "").status, 404);
    for question in ["", "?key=0&nonce=0", "?key=0123456789abcdef&nonce=00112233445566778899aabbccddeeff"] {
        let answer = web.ask("GET", &format!("/v1/web/proof{question}"), &[host], "");
        assert!(matches!(answer.status, 400 | 401), "{question}: {}", answer.status);
    }
    assert_eq!(web.ask("POST", "/v1/jobs", &[host], "[]").status, 401);
    assert_eq!(web.ask("GET", "/enter/0123", &[host], "").status, 401);
}

#[test]
fn r21_pages_and_names_of_others_are_refused_whatever_they_know() {
    let (nexus, web, bearer) = served();
    let known = [("host", web.address.as_str()), ("authorization", &*bearer)];
    let post = |more: &[(&str, &str)]| {
        let job = json!([{ "command": { "shell": "true" }, "cwd": "/" }]).to_string();
        web.ask("POST", "/v1/jobs", &[&known[..], more].concat(), &job).status
    };
    for origin in ["http://evil.example", "null", "https://127.0.0.1", "http://127.0.0.1:1"] {
        assert_eq!(post(&[("origin", origin)]), 403, "{origin}");
    }
    assert_eq!(post(&[("sec-fetch-site", "cross-site")]), 403);
    assert_eq!(nexus.json(&["history", "--json"]), json!([]));
    assert_eq!(post(&[("origin", &format!("http://{}", web.address)), ("sec-fetch-site", "same-origin")]), 200);
    for host in ["evil.example", "evil.example:4004", "127.0.0.1.evil.example", ""] {
        let headers = [("host", host), ("authorization", &*bearer)];
        let answer = web.ask("GET", "/v1/status", &headers, "");
        assert!(matches!(answer.status, 400 | 403), "{host}: {}", answer.status);
    }
    let visit = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")];
    assert_eq!(web.ask("GET", "/v1/status", &[&known[..], &visit].concat(), "").status, 200);
    let answer = web.get("/v1/status");
    assert_eq!(answer.header("access-control-allow-origin"), None);
    let rules = answer.header("content-security-policy").expect("rules");
    assert!(rules.contains("default-src 'self'") && rules.contains("frame-ancestors 'none'"), "{rules}");
}

#[test]
fn r21_no_file_of_the_machine_is_shown() {
    let (nexus, web, bearer) = served();
    let id = nexus.add("true");
    nexus.ended(&id);
    let known = [("host", web.address.as_str()), ("authorization", &*bearer)];
    for path in [
        "/../../etc/passwd".to_string(),
        "/assets/../../../../etc/passwd".into(),
        "/assets/..%2f..%2f..%2fetc%2fpasswd".into(),
        "/assets/%2e%2e/%2e%2e/etc/passwd".into(),
        "//etc/passwd".into(),
        format!("/v1/jobs/{id}/log?stream=../../../../etc/passwd"),
        "/v1/jobs/..%2f..%2f..%2fetc%2fpasswd/log".into(),
        format!("/v1/jobs/{id}%2f..%2f../log"),
    ] {
        let answer = web.ask("GET", &path, &known, "");
        assert!(matches!(answer.status, 400 | 404), "{path}: {}", answer.status);
        assert!(!answer.body.contains("root:"), "{path}");
    }
}

#[test]
fn a_body_without_end_is_cut_off() {
    let (_nexus, web, bearer) = served();
    let mut stream = web.connect();
    let head = format!(
        "POST /v1/jobs HTTP/1.1\r\nhost: {}\r\nauthorization: {bearer}\r\ncontent-length: 104857600\r\n\r\n",
        web.address
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = [0; 512];
    let count = stream.read(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer[..count]);
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    // One that does not say how long it is.
    let mut stream = web.connect();
    let head = format!(
        "POST /v1/jobs HTTP/1.1\r\nhost: {}\r\nauthorization: {bearer}\r\ntransfer-encoding: chunked\r\n\r\n",
        web.address
    );
    stream.write_all(head.as_bytes()).unwrap();
    let chunk = [b"100000\r\n".to_vec(), vec![b' '; 1 << 20], b"\r\n".to_vec()].concat();
    let sent = (0..100).take_while(|_| stream.write_all(&chunk).is_ok()).count();
    assert!(sent < 100, "all of it was taken");
    assert_eq!(web.get("/v1/status").status, 200);
}

#[test]
fn r21_clients_that_stall_hold_up_nobody() {
    let (nexus, web, bearer) = served();
    // Some that never finish what they say, and some that never read what they are told.
    let mut stalled = Vec::new();
    for number in 0..40 {
        let mut stream = web.connect();
        let head = match number % 3 {
            0 => "GET /v1/sta".to_string(),
            1 => format!(
                "POST /v1/jobs HTTP/1.1\r\nhost: {}\r\nauthorization: {bearer}\r\ncontent-length: 9999\r\n\r\n[",
                web.address
            ),
            _ => format!("GET /v1/events HTTP/1.1\r\nhost: {}\r\nauthorization: {bearer}\r\n\r\n", web.address),
        };
        stream.write_all(head.as_bytes()).unwrap();
        stalled.push(stream);
    }
    // More events than anybody keeps for them.
    nexus.ok(&["pause"]);
    let lines: String = (0..6000).map(|number| format!("echo {number}\n")).collect();
    let file = nexus.file("many.txt", &lines);
    nexus.ok(&["import", "-q", file.to_str().unwrap()]);
    assert_eq!(web.get("/v1/status").json()["pending"], 6000);
    nexus.ok(&["remove", "-y", "/echo 1/"]);
    // One that was asleep is told on, of all that happened or that it missed some of it.
    let mut late = stalled.swap_remove(2);
    late.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    nexus.ok(&["pause", "0"]);
    let mut heard = String::new();
    let mut part = [0; 65536];
    while !heard.contains("\"kind\":\"machine\"") {
        let count = late.read(&mut part).expect("it is told on");
        assert!(count > 0, "it was cut off");
        heard.push_str(&String::from_utf8_lossy(&part[..count]));
    }
    let told = heard.matches("\"kind\":\"job\"").count();
    assert!(told >= 6000 || heard.contains("\"missed\""), "{told} were told, and not that there were more");
    stalled.iter().for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
}

/// Memory of a process in use, in KiB.
fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a process has memory");
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn r21_bodies_of_unknown_callers_are_not_read() {
    const CALLERS: u64 = 60;
    const SENT: usize = 2 << 20;
    let (nexus, web, _) = served();
    let pid = nexus.service_pid();
    let before = resident_kib(pid);
    let body = vec![b'x'; SENT];
    let callers: Vec<_> = (0..CALLERS)
        .map(|number| {
            let mut stream = web.connect();
            let path = if number % 2 == 0 { "/enter/0123" } else { "/v1/jobs" };
            let head = format!("POST {path} HTTP/1.1\r\nhost: {}\r\ncontent-length: 16777216\r\n\r\n", web.address);
            stream.write_all(head.as_bytes()).unwrap();
            // The service closes the connection: most of the body is never sent.
            let _ = stream.write_all(&body);
            stream
        })
        .collect();
    assert_eq!(web.get("/v1/status").status, 200);
    let grown = resident_kib(pid).saturating_sub(before);
    assert!(grown < CALLERS * SENT as u64 / 1024 / 4, "{grown} KiB more for {CALLERS} callers");
    drop(callers);
}

#[test]
fn r21_idle_connections_of_strangers_do_not_lock_the_owner_out() {
    let (_nexus, web, bearer) = served();
    let mut owner = web.connect();
    let question = format!("GET /v1/tags HTTP/1.1\r\nhost: {}\r\nauthorization: {bearer}\r\n\r\n", web.address);
    let mut ask = || {
        owner.write_all(question.as_bytes()).unwrap();
        let mut answer = [0; 4096];
        let count = owner.read(&mut answer).unwrap();
        String::from_utf8_lossy(&answer[..count]).into_owned()
    };
    assert!(ask().starts_with("HTTP/1.1 200 "));
    let idle: Vec<_> = (0..600).map(|_| web.connect()).collect();
    assert_eq!(web.get("/v1/status").status, 200, "a new connection of the owner");
    assert!(ask().starts_with("HTTP/1.1 200 "), "one that is open");
    // Some of the strangers' connections are closed, by chance, and no more of them than there is no room for.
    let is_open = |stream: &&std::net::TcpStream| {
        stream.set_nonblocking(true).unwrap();
        stream.peek(&mut [0; 1]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    };
    let open = until("512 are left", || Some(idle.iter().filter(is_open).count()).filter(|open| *open <= 512));
    assert!(open >= 500, "{open} are open");
}
