//! `nexus web`: who gets in, and how long.

use nexus_testkit::{Browser, Nexus, Web};
use serde_json::json;

use crate::NEXUS;

/// The status of a request that shows a session of this browser; 401 too if the service does not know its key.
#[track_caller]
fn status_of(web: &Web, browser: &Browser) -> u16 {
    match browser.session(web) {
        Ok(session) => status(web, &[("authorization", &session)]),
        Err(refused) => refused,
    }
}

/// As if the last proofs of all browsers were older.
fn aged(nexus: &Nexus, seconds: u64) {
    with_older(nexus, &["proved_s"], seconds);
}

/// Changes what the service of this home has stored of browsers while it was away.
fn with_older(nexus: &Nexus, times: &[&str], seconds: u64) {
    nexus.ok(&["stop"]);
    let file = nexus.home().join("web.browsers");
    let text = std::fs::read_to_string(&file).unwrap();
    let mut stored: serde_json::Value = serde_json::from_str(&text).unwrap();
    fn age(value: &mut serde_json::Value, times: &[&str], seconds: u64) {
        for (name, value) in value.as_object_mut().into_iter().flatten() {
            match value.as_u64().filter(|_| times.contains(&name.as_str())) {
                Some(at) => *value = json!(at - seconds),
                None => age(value, times, seconds),
            }
        }
    }
    age(&mut stored, times, seconds);
    std::fs::write(&file, stored.to_string()).unwrap();
    nexus.ok(&["start"]);
}

fn status(web: &Web, headers: &[(&str, &str)]) -> u16 {
    let headers = [&[("host", web.address.as_str())], headers].concat();
    web.ask("GET", "/v1/status", &headers, "").status
}

#[test]
fn a_link_works_once_and_its_key_after_a_restart_too() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let web = Web::of(&nexus);
    assert_eq!(status(&web, &[]), 401);
    let browser = web.enter(&web.link).expect("a key");
    assert!(web.enter(&web.link).is_none(), "the link worked twice");
    let session = browser.session(&web).unwrap();
    assert_eq!(status(&web, &[("authorization", &session)]), 200);
    assert_eq!(status(&web, &[("authorization", &format!("{session}0"))]), 401);
    assert_eq!(status(&web, &[("authorization", &format!("Nexus {}", browser.key))]), 401, "the key itself");
    nexus.ok(&["restart"]);
    assert_eq!(status(&web, &[("authorization", &session)]), 401, "a session of the service before");
    assert_eq!(status_of(&web, &browser), 200, "the restart forgot");
    nexus.kill_service();
    nexus.ok(&["start"]);
    assert_eq!(status_of(&web, &browser), 200, "the crash forgot");
}

#[test]
fn a_proof_of_another_address_is_none() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let web = Web::of(&nexus);
    let browser = web.enter(&web.link).expect("a key");
    // The service moves; what relays from its old port to the new one gets proofs that are wrong there.
    nexus.ok(&["web", "--no-open", "--port", "0"]);
    let moved = Web { address: nexus.json(&["web", "--no-open", "--json"])["address"].as_str().unwrap().into(), ..web };
    assert_ne!(moved.address, browser.at);
    assert_eq!(browser.session(&moved), Err(0), "a proof for another address was taken");
    let there = Browser { at: moved.address.clone(), ..browser };
    assert_eq!(status_of(&moved, &there), 200);
}

/// Ids of the keys that this browser lacked, and the session that it showed.
#[track_caller]
fn further_keys(web: &Web, browser: &Browser) -> (serde_json::Value, String) {
    let session = browser.session(web).unwrap();
    let answer = web.ask("POST", "/v1/web/keys", &[("host", &web.address), ("authorization", &session)], "");
    (answer.json(), session)
}

#[test]
fn a_program_that_relays_reads_no_key() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let web = Web::of(&nexus);
    let browser = web.enter(&web.link).expect("a key");
    let (ids, session) = further_keys(&web, &browser);
    let tab = browser.derived("tab", &ids["tab_id"], &session);
    aged(&nexus, 13 * 3600);
    let (further, _) = further_keys(&web, &tab);
    let stored = std::fs::read_to_string(nexus.home().join("web.browsers")).unwrap();
    let stored: serde_json::Value = serde_json::from_str(&stored).unwrap();
    let (_, stored) = stored["browsers"].as_object().unwrap().iter().next().expect("a browser");
    let keys = [&tab.key, stored["stored"]["key"].as_str().expect("a new stored key")];
    assert_eq!(stored["tabs"][&tab.id]["key"], *tab.key, "both sides have the same key");
    let read = format!("{ids} {further}");
    assert!(further["stored_id"].is_string() && keys.iter().all(|key| !read.contains(*key)), "{read}");
}

#[test]
fn a_stolen_key_is_out_30_days_after_its_link() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.ok(&["config", "set", "web.session", "30d"]);
    let web = Web::of(&nexus);
    let stolen = web.enter(&web.link).expect("a key");
    let (ids, session) = further_keys(&web, &stolen);
    let tab = stolen.derived("tab", &ids["tab_id"], &session);
    // Its proofs are as new as they can be.
    with_older(&nexus, &["added_s"], 29 * 24 * 3600);
    assert_eq!((status_of(&web, &stolen), status_of(&web, &tab)), (200, 200));
    with_older(&nexus, &["added_s"], 24 * 3600 + 1);
    assert_eq!((status_of(&web, &stolen), status_of(&web, &tab)), (401, 401));
    assert_eq!(nexus.json(&["web", "browsers", "--json"]), json!([]));
}

#[test]
fn a_closed_browser_is_in_for_web_session_and_an_open_tab_longer() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let web = Web::of(&nexus);
    let (closed, open) = (web.enter(&web.link).unwrap(), nexus.json(&["web", "--no-open", "--json"]));
    let open = web.enter(open["link"].as_str().unwrap()).unwrap();
    let (ids, session) = further_keys(&web, &open);
    assert_eq!(ids["stored_id"], json!(null), "the stored key is good");
    let tab = open.derived("tab", &ids["tab_id"], &session);
    assert_eq!(further_keys(&web, &tab).0, json!({ "tab_id": null, "stored_id": null }));
    aged(&nexus, 11 * 3600);
    assert_eq!((status_of(&web, &open), status_of(&web, &tab)), (200, 200));
    // The open browser took a proof since, the closed one did not.
    aged(&nexus, 2 * 3600);
    assert_eq!((status_of(&web, &closed), status_of(&web, &open)), (401, 200));
    aged(&nexus, 13 * 3600);
    assert_eq!((status_of(&web, &open), status_of(&web, &tab)), (401, 200));
    let (ids, session) = further_keys(&web, &tab);
    assert_eq!(ids["tab_id"], json!(null));
    let stored = tab.derived("stored", &ids["stored_id"], &session);
    assert_eq!((status_of(&web, &open), status_of(&web, &stored)), (401, 200));
    nexus.ok(&["config", "set", "web.session", "30d"]);
    aged(&nexus, 29 * 24 * 3600);
    assert_eq!((status_of(&web, &stored), status_of(&web, &closed)), (200, 401));
}

#[test]
fn browsers_are_listed_and_revoked_with_what_they_have_open() {
    use std::io::{Read, Write};

    let nexus = Nexus::with_gpus(NEXUS, 1);
    assert_eq!(nexus.run(&["web", "browsers"]).stderr, "no browser is let in: nexus web prints a link\n");
    let web = Web::of(&nexus);
    let (one, other) = (web.enter(&web.link).unwrap(), nexus.json(&["web", "--no-open", "--json"]));
    let other = web.enter(other["link"].as_str().unwrap()).unwrap();
    let listed = nexus.json(&["web", "browsers", "--json"]);
    let ids: Vec<&str> = listed.as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 2);
    assert_eq!(listed[0]["name"], "Firefox on Linux");
    let shown = nexus.ok(&["web", "browsers"]);
    assert!(shown.starts_with("ID ") && ids.iter().all(|id| shown.contains(id)), "{shown}");
    assert!(!shown.contains(&one.key) && !listed.to_string().contains(&one.key), "a key is shown");

    // A stream of events that is open ends with its browser.
    let follow = |browser: &Browser| {
        let mut stream = web.connect();
        let (host, session) = (&web.address, browser.session(&web).unwrap());
        write!(stream, "GET /v1/events HTTP/1.1\r\nhost: {host}\r\nauthorization: {session}\r\n\r\n").unwrap();
        let mut answer = [0; 4096];
        let count = stream.read(&mut answer).unwrap();
        assert!(answer[..count].starts_with(b"HTTP/1.1 200 "));
        stream
    };
    let (mut first, mut second) = (follow(&one), follow(&other));
    let of_one = status_of(&web, &one);
    nexus.ok(&["web", "revoke", ids[0]]);
    let (gone, left) = if status_of(&web, &one) == 401 { (&mut first, &mut second) } else { (&mut second, &mut first) };
    assert_eq!(of_one, 200);
    assert_eq!(status_of(&web, &one) + status_of(&web, &other), 601, "one of the two is out");
    let mut rest = Vec::new();
    gone.read_to_end(&mut rest).expect("it was closed");
    left.set_nonblocking(true).unwrap();
    let open = loop {
        match left.read(&mut [0; 4096]) {
            Ok(0) => break false,
            Ok(_) => {}
            Err(error) => break error.kind() == std::io::ErrorKind::WouldBlock,
        }
    };
    assert!(open, "the other browser's stream ended too");
    let said = nexus.fails(1, &["web", "revoke", ids[0]]);
    assert!(said.contains("nexus web browsers lists them"), "{said}");
    nexus.ok(&["web", "revoke", "--all"]);
    assert_eq!((status_of(&web, &one), status_of(&web, &other)), (401, 401));
    assert_eq!(nexus.json(&["web", "browsers", "--json"]), json!([]));
}

#[test]
fn a_cookie_of_an_older_nexus_is_refused_and_taken_back() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.ok(&["web", "--no-open", "--port", "0"]);
    let token = std::fs::read_to_string(nexus.home().join("web.token")).unwrap();
    let old = "0123456789abcdef";
    // As that nexus left it: the digest of the cookie, whose name has the beginning of the token's digest.
    let digest = |text: &str| nexus_testkit::sha256(text.as_bytes());
    nexus.ok(&["stop"]);
    let cookies = json!({ "digests": [digest(old)] }).to_string();
    std::fs::write(nexus.home().join("web.cookies"), cookies).unwrap();
    nexus.ok(&["start"]);
    let web = Web::of(&nexus);
    let cookie = format!("nexus_{}={old}", &digest(token.trim())[..8]);
    assert_eq!(status(&web, &[("cookie", &cookie)]), 401);
    let page = web.ask("GET", "/", &[("host", &web.address), ("cookie", &cookie)], "");
    assert!(page.header("set-cookie").is_some_and(|set| set.contains("=;") && set.contains("Max-Age=0")), "{page:?}");
    assert!(!nexus.home().join("web.cookies").exists());
}

#[test]
fn what_the_page_keeps_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;

    let nexus = Nexus::with_gpus(NEXUS, 1);
    let web = Web::of(&nexus);
    web.enter(&web.link).expect("a key");
    for name in ["web.json", "web.token", "web.browsers"] {
        let mode = std::fs::metadata(nexus.home().join(name)).expect(name).permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[test]
fn off_is_off_and_whoever_was_in_is_out() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let web = Web::of(&nexus);
    let browser = web.enter(&web.link).expect("a key");
    let said = nexus.run(&["web", "--off"]);
    assert_eq!(said.stderr, "the web page is off, and nobody is let in\n");
    assert!(std::net::TcpStream::connect(&web.address).is_err(), "somebody still listens");
    let said = nexus.run(&["web", "--off"]);
    assert_eq!(said.stderr, "the web page was off already\n");
    nexus.ok(&["restart"]);
    assert!(std::net::TcpStream::connect(&web.address).is_err(), "it came back");
    let port = web.address.rsplit(':').next().unwrap();
    nexus.ok(&["web", "--no-open", "--port", port]);
    assert_eq!(status_of(&web, &browser), 401, "an old key lets in");
    assert_eq!(status(&web, &[("authorization", &format!("Bearer {}", web.token))]), 401, "the old token lets in");
    let token = std::fs::read_to_string(nexus.home().join("web.token")).unwrap();
    assert_eq!(status(&web, &[("authorization", &format!("Bearer {}", token.trim()))]), 200);
}

#[test]
fn it_is_where_it_was_unless_another_port_is_said() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let web = Web::of(&nexus);
    let again = nexus.json(&["web", "--no-open", "--json"]);
    assert_eq!(again["address"], *web.address);
    assert_ne!(again["link"], *web.link);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let said = nexus.fails(1, &["web", "--no-open", "--port", &port]);
    let expected = format!(
        "error: the web page cannot be at 127.0.0.1:{port}\nanother program has this port\nhint: nexus web --port N takes another port\n"
    );
    assert_eq!(said, expected);
    assert_eq!(status(&web, &[("authorization", &format!("Bearer {}", web.token))]), 200, "it left its old place");
    let link = nexus.ok(&["web", "--no-open", "--port", "0"]);
    assert!(link.starts_with("http://127.0.0.1:") && link.trim_end().lines().count() == 1, "{link}");
    assert!(nexus.service_log().contains("Web page on at http://127.0.0.1:"));
}

#[test]
fn an_address_that_is_not_ours_leaves_the_page_where_it_was() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let web = Web::of(&nexus);
    let said = nexus.fails(1, &["web", "--no-open", "--expose", "192.0.2.7"]);
    assert!(said.contains("this machine has no such address"), "{said}");
    assert_eq!(status(&web, &[("authorization", &format!("Bearer {}", web.token))]), 200, "it is gone");
}

#[test]
fn a_page_that_cannot_be_exposed_stays_where_it_was() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let web = Web::of(&nexus);
    let port = web.address.rsplit(':').next().unwrap();
    // Every address of this machine cannot be had while another program has one of them.
    let taken = std::net::TcpListener::bind(format!("127.0.0.2:{port}")).unwrap();
    let said = nexus.fails(1, &["web", "--no-open", "--expose", "0.0.0.0"]);
    assert!(said.contains("another program has this port"), "{said}");
    assert_eq!(status(&web, &[("authorization", &format!("Bearer {}", web.token))]), 200, "it is gone");
    drop(taken);
    let exposed = nexus.json(&["web", "--no-open", "--expose", "0.0.0.0", "--json"]);
    assert_eq!(exposed["address"], format!("0.0.0.0:{port}"));
    assert_eq!(status(&web, &[("authorization", &format!("Bearer {}", web.token))]), 200);
}

#[test]
fn localhost_is_no_name_of_the_page() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let web = Web::of(&nexus);
    let (_, port) = web.address.rsplit_once(':').unwrap();
    let host = format!("localhost:{port}");
    let answer = web.ask("GET", "/", &[("host", &host)], "");
    assert!(answer.status == 403 && answer.body.contains("127.0.0.1"), "{answer:?}");
}

#[test]
fn what_another_program_left_in_the_browser_is_taken_out() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let web = Web::of(&nexus);
    let host = ("host", web.address.as_str());
    for path in ["/worker.js", "/a/deep/path.js?x", "/v1/status"] {
        let worker = web.ask("GET", path, &[host, ("service-worker", "script")], "");
        assert_eq!((worker.status, worker.header("service-worker-allowed")), (200, Some("/")), "{path}");
        assert!(worker.header("content-type").is_some_and(|kind| kind.starts_with("text/javascript")), "{worker:?}");
        assert!(worker.body.contains("self.registration.unregister()"), "{worker:?}");
    }
    let path = web.link.strip_prefix(&format!("http://{}", web.address)).unwrap();
    let entered = web.ask("GET", path, &[host], "");
    assert_eq!((entered.status, entered.header("clear-site-data")), (200, Some("\"cache\"")));
}

#[test]
fn off_lets_nobody_in_even_if_the_page_was_not_served_since_the_start() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let web = Web::of(&nexus);
    let browser = web.enter(&web.link).expect("a key");
    nexus.ok(&["stop"]);
    let taken = std::net::TcpListener::bind(&web.address).unwrap();
    nexus.ok(&["start"]);
    assert!(nexus.service_log().contains("Web page is off: the web page cannot be at"), "{}", nexus.service_log());
    nexus.ok(&["web", "--off"]);
    drop(taken);
    let port = web.address.rsplit(':').next().unwrap();
    nexus.ok(&["web", "--no-open", "--port", port]);
    assert_eq!(status_of(&web, &browser), 401, "an old key lets in");
}

#[test]
fn a_place_that_others_reach_is_said_aloud() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let said = nexus.run(&["web", "--no-open", "--port", "0", "--expose", "0.0.0.0"]);
    let said = said.stderr;
    assert!(said.starts_with("warning: OTHERS REACH THIS PAGE, at 0.0.0.0:"), "{said}");
    assert!(said.contains("nexus web --off ends it"), "{said}");
    let said = nexus.fails(1, &["web", "--expose", "everybody"]);
    assert!(said.contains("expose cannot be everybody"), "{said}");
}

#[test]
fn nobody_lets_others_in_over_tcp() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let web = Web::of(&nexus);
    assert_eq!(web.get("/v1/web").status, 404);
    assert_eq!(web.post("/v1/web", &json!({ "expose": "0.0.0.0" })).status, 404);
    assert_eq!(web.get("/v1/web/browsers").status, 404);
    assert_eq!(web.post("/v1/web/keys", &json!({})).status, 401, "the token makes no keys of browsers");
}
