//! `nexus web`: who gets in, and how long.

use nexus_testkit::{Nexus, Web};
use serde_json::json;

use crate::NEXUS;

/// What a browser would send that followed the link.
fn cookie(web: &Web, link: &str) -> Option<String> {
    let path = link.strip_prefix(&format!("http://{}", web.address)).expect("a link to this address");
    let answer = web.ask("GET", path, &[("host", &web.address)], "");
    let set = answer.header("set-cookie")?.to_string();
    assert!(set.contains("; HttpOnly; SameSite=Strict; Path=/"), "{set}");
    set.split(';').next().map(String::from)
}

fn status(web: &Web, headers: &[(&str, &str)]) -> u16 {
    let headers = [&[("host", web.address.as_str())], headers].concat();
    web.ask("GET", "/v1/status", &headers, "").status
}

#[test]
fn a_link_works_once_and_its_cookie_after_a_restart_too() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let web = Web::of(&nexus);
    assert_eq!(status(&web, &[]), 401);
    let cookie_of = cookie(&web, &web.link).expect("a cookie");
    assert_eq!(cookie(&web, &web.link), None, "the link worked twice");
    assert_eq!(status(&web, &[("cookie", &cookie_of)]), 200);
    assert_eq!(status(&web, &[("cookie", &format!("a=b; {cookie_of}; c=d"))]), 200);
    let wrong = cookie_of.replace('=', "=0");
    assert_eq!(status(&web, &[("cookie", &wrong)]), 401);
    nexus.ok(&["restart"]);
    assert_eq!(status(&web, &[("cookie", &cookie_of)]), 200, "the restart forgot");
    nexus.kill_service();
    nexus.ok(&["start"]);
    assert_eq!(status(&web, &[("cookie", &cookie_of)]), 200, "the crash forgot");
}

#[test]
fn what_the_page_keeps_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;

    let nexus = Nexus::with_gpus(NEXUS, 1);
    let web = Web::of(&nexus);
    cookie(&web, &web.link).expect("a cookie");
    for name in ["web.json", "web.token", "web.cookies"] {
        let mode = std::fs::metadata(nexus.home().join(name)).expect(name).permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[test]
fn off_is_off_and_whoever_was_in_is_out() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let web = Web::of(&nexus);
    let cookie_of = cookie(&web, &web.link).expect("a cookie");
    let said = nexus.run(&["web", "--off"]);
    assert_eq!(said.stderr, "the web page is off, and nobody is let in\n");
    assert!(std::net::TcpStream::connect(&web.address).is_err(), "somebody still listens");
    let said = nexus.run(&["web", "--off"]);
    assert_eq!(said.stderr, "the web page was off already\n");
    nexus.ok(&["restart"]);
    assert!(std::net::TcpStream::connect(&web.address).is_err(), "it came back");
    let port = web.address.rsplit(':').next().unwrap();
    nexus.ok(&["web", "--no-open", "--port", port]);
    assert_eq!(status(&web, &[("cookie", &cookie_of)]), 401, "an old cookie lets in");
    assert_eq!(status(&web, &[("authorization", &format!("Bearer {}", web.token))]), 200);
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
fn off_lets_nobody_in_even_if_the_page_was_not_served_since_the_start() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let web = Web::of(&nexus);
    let cookie_of = cookie(&web, &web.link).expect("a cookie");
    nexus.ok(&["stop"]);
    let taken = std::net::TcpListener::bind(&web.address).unwrap();
    nexus.ok(&["start"]);
    assert!(nexus.service_log().contains("Web page is off: the web page cannot be at"), "{}", nexus.service_log());
    nexus.ok(&["web", "--off"]);
    drop(taken);
    let port = web.address.rsplit(':').next().unwrap();
    nexus.ok(&["web", "--no-open", "--port", port]);
    assert_eq!(status(&web, &[("cookie", &cookie_of)]), 401, "an old cookie lets in");
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
}
