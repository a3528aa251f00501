//! The interface as programs use it: pages, places in the queue, keys, ranges, events, figures.

use std::io::{BufRead, BufReader, Write};

use nexus_testkit::{FakeGpu, FakeGpus, Nexus, Web, until};
use serde_json::{Value, json};

use super::LONG;
use crate::NEXUS;

fn paused(gpus: u16) -> (Nexus, Web) {
    let nexus = Nexus::with_gpus(NEXUS, gpus);
    nexus.ok(&["pause"]);
    let web = Web::of(&nexus);
    (nexus, web)
}

fn ids(jobs: &Value) -> Vec<String> {
    jobs.as_array().expect("a list").iter().map(|job| job["id"].as_str().unwrap().to_string()).collect()
}

/// All pages of a listing, each at most so long.
fn all(web: &Web, query: &str, limit: usize) -> Vec<Value> {
    let (mut cursor, mut found) = (String::new(), Vec::new());
    loop {
        let page = web.get(&format!("{query}&limit={limit}&cursor={cursor}"));
        assert_eq!(page.status, 200, "{}", page.body);
        let jobs = page.json().as_array().unwrap().clone();
        assert!(jobs.len() <= limit);
        found.extend(jobs);
        match page.header("nexus-cursor") {
            Some(next) => cursor = next.to_string(),
            None => return found,
        }
    }
}

#[test]
fn the_queue_and_the_history_come_page_by_page() {
    let (nexus, web) = paused(1);
    let waiting: Vec<String> = (0..7).map(|number| nexus.add(&format!("echo {number}"))).collect();
    let pages = all(&web, "/v1/jobs?state=pending", 3);
    assert_eq!(ids(&json!(pages)), waiting);
    let positions: Vec<u64> = pages.iter().map(|job| job["position"].as_u64().unwrap()).collect();
    assert_eq!(positions, [1, 2, 3, 4, 5, 6, 7]);
    nexus.ok(&["remove", "-y", &waiting[0], &waiting[1], &waiting[2], &waiting[3], &waiting[4]]);
    let mut newest_first = ids(&json!(all(&web, "/v1/jobs?state=ended", 2)));
    assert_eq!(ids(&json!(all(&web, "/v1/jobs?state=killed,failed", 2))), newest_first);
    newest_first.sort();
    let mut removed = waiting[..5].to_vec();
    removed.sort();
    assert_eq!(newest_first, removed);
    for (path, field) in [
        ("/v1/jobs?state=pending&cursor=x", "cursor"),
        ("/v1/jobs?state=alive&cursor=", "state"),
        ("/v1/jobs?cursor=", "state"),
        ("/v1/jobs?state=ended&cursor=&limit=0", "limit"),
        ("/v1/jobs?state=ended&cursor=&select=last", "select"),
    ] {
        let answer = web.get(path);
        assert_eq!((answer.status, answer.json()["field"].as_str()), (400, Some(field)), "{path}");
    }
}

#[test]
fn jobs_are_found_by_what_they_contain() {
    let (nexus, web) = paused(1);
    let one = nexus.add_with(&["--name", "Big_run"], "echo a");
    let other = nexus.add("python train.py --lr 50%");
    let found = |text: &str| ids(&web.get(&format!("/v1/jobs?state=pending&contains={text}")).json()).join(" ");
    assert_eq!(found("bIG_"), one);
    assert_eq!(found("50%25"), other);
    assert_eq!(found(&one), one);
    assert_eq!(found("%25"), other, "a sign that stands for others stood for all");
    assert_eq!(found("_ig"), "");
    let marked = nexus.add_with(&["--project", "Nlp", "--tag", "night-shift"], "true");
    assert_eq!((found("nLP"), found("SHIFT")), (marked.clone(), marked));
    assert_eq!(ids(&json!(all(&web, "/v1/jobs?state=pending&contains=TRAIN", 5))), [other]);
}

#[test]
fn a_job_goes_where_it_is_put() {
    let (nexus, web) = paused(1);
    let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| nexus.add(&format!("echo {name}")));
    let queue = || ids(&web.get("/v1/jobs?state=pending").json());
    let put = |job: &str, before: Value| web.post(&format!("/v1/jobs/{job}/move"), &json!({ "before": before }));
    assert_eq!(put(&d, json!(b)).json()["id"], *d);
    assert_eq!(queue(), [a.clone(), d.clone(), b.clone(), c.clone()]);
    put(&a, json!(c));
    assert_eq!(queue(), [d.clone(), b.clone(), a.clone(), c.clone()]);
    put(&d, Value::Null);
    assert_eq!(queue(), [b.clone(), a.clone(), c.clone(), d.clone()]);
    let urgent = nexus.add_with(&["--priority", "-5"], "echo now");
    put(&d, json!(urgent));
    assert_eq!(queue(), [d.clone(), urgent.clone(), b.clone(), a.clone(), c.clone()]);
    assert_eq!(put(&b, json!(b)).status, 200);
    assert_eq!(put("zzzzzz", Value::Null).status, 404);
    nexus.ok(&["restart"]);
    assert_eq!(queue(), [d, urgent, b, a, c], "the order was not kept");
    assert!(nexus.service_log().contains("moved to the end of the queue by user"));
}

#[test]
fn what_runs_is_not_moved() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let web = Web::of(&nexus);
    let runs = nexus.add(LONG);
    nexus.in_state(&runs, "running");
    let answer = web.post(&format!("/v1/jobs/{runs}/move"), &json!({ "before": null }));
    assert_eq!(
        (answer.status, answer.json()["title"].as_str().unwrap()),
        (409, &*format!("job {runs} cannot be moved"))
    );
}

#[test]
fn a_key_makes_a_submission_happen_once() {
    let (nexus, web) = paused(1);
    let spec = |command: &str| json!([{ "command": { "shell": command }, "cwd": "/tmp" }]);
    let bearer = format!("Bearer {}", web.token);
    let send = |key: &str, body: &Value| {
        let headers = [("host", web.address.as_str()), ("authorization", &bearer), ("idempotency-key", key)];
        web.ask("POST", "/v1/jobs?copies=2", &headers, &body.to_string())
    };
    let first = ids(&send("k1", &spec("echo a")).json()["jobs"]);
    assert_eq!(ids(&send("k1", &spec("echo a")).json()["jobs"]), first);
    nexus.kill_service();
    nexus.ok(&["start"]);
    assert_eq!(ids(&send("k1", &spec("echo a")).json()["jobs"]), first, "a crash forgot the key");
    let other = send("k1", &spec("echo b"));
    assert_eq!((other.status, other.json()["problem"].as_str().unwrap()), (409, "key_reused"));
    assert_ne!(ids(&send("k2", &spec("echo a")).json()["jobs"]), first);
    assert_eq!(web.get("/v1/jobs?state=pending").json().as_array().unwrap().len(), 4);
    let sweep = json!({
        "spec": { "command": { "shell": "echo {x}" }, "cwd": "/tmp" },
        "plan": { "axes": [{ "name": "x", "values": "1..3" }] }
    });
    let headers = [("host", web.address.as_str()), ("authorization", &bearer), ("idempotency-key", "s1")];
    let [one, two] = [(), ()].map(|()| web.ask("POST", "/v1/sweeps", &headers, &sweep.to_string()).json());
    assert_eq!((&one["sweep"]["name"], &one["ids"]), (&two["sweep"]["name"], &two["ids"]));
    assert_eq!(send("", &spec("true")).status, 400);
}

#[test]
fn a_page_has_no_environment_and_asks_for_the_owners() {
    let nexus = Nexus::fresh(NEXUS).env("OWN", "of the service");
    nexus.start(1);
    let web = Web::of(&nexus);
    let spec = json!([{ "command": { "shell": "echo $OWN $MINE" }, "cwd": "/tmp", "env": { "MINE": "too" } }]);
    let queued = web.post("/v1/jobs?env=service", &spec).json();
    let id = queued["jobs"][0]["id"].as_str().unwrap();
    nexus.ended(id);
    assert_eq!(nexus.stdout_of(id).trim_end(), "of the service too");
    assert_eq!(web.post("/v1/jobs?env=mine", &spec).status, 400);
}

#[test]
fn sweeps_and_texts_are_tried_out_before_they_are_queued() {
    let (nexus, web) = paused(1);
    let sweep = json!({
        "spec": { "command": { "shell": "echo {x}" }, "cwd": "/tmp" },
        "plan": { "axes": [{ "name": "x", "values": "1..300" }] }
    });
    let planned = web.post("/v1/sweeps?dry_run=true&env=service", &sweep).json();
    assert_eq!((planned["jobs"].as_u64(), planned["first"].as_array().unwrap().len()), (Some(300), 100));
    assert_eq!(planned["first"][1], json!({ "params": { "x": "2" }, "command": "echo 2" }));
    let text = json!({ "text": "one;;/dev/null;;echo 1;;;\ntwo;;/dev/null;;;;;\n", "cwd": "/tmp", "dry_run": true });
    let report = web.post("/v1/import/text", &text).json();
    assert_eq!((report["format"].as_str(), report["entries"][0]["fate"].as_str()), (Some("esy"), Some("planned")));
    assert_eq!(report["refused"][0]["line"], 2, "{report}");
    assert_eq!(web.get("/v1/jobs?state=pending").json(), json!([]), "something was queued");
    let queued = web.post("/v1/import/text", &json!({ "text": "echo 1\necho 2\n", "cwd": "/tmp" })).json();
    assert_eq!(queued["entries"][1]["fate"], "queued");
    assert_eq!(nexus.json(&["queue", "--json"]).as_array().unwrap().len(), 2);
    let usual = json!({ "command": { "shell": "" }, "cwd": "/tmp" });
    let entry = json!({ "line": 4, "command": { "command": { "shell": "echo 2" } } });
    let import = json!({ "file": "f", "folder": "/tmp", "usual": usual, "entries": [entry] });
    let known = web.post("/v1/import", &import).json();
    assert_eq!((&known["entries"][0]["line"], &known["entries"][0]["fate"]), (&json!(4), &json!("known")), "{known}");
    let mixed = web.post("/v1/import/text", &json!({ "text": "{}\necho 1\n", "cwd": "/tmp" }));
    assert_eq!((mixed.status, mixed.json()["field"].as_str()), (400, Some("text")), "{}", mixed.body);
}

#[test]
fn a_log_is_had_in_pieces() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let web = Web::of(&nexus);
    let id = nexus.add("printf 0123456789; printf oh >&2");
    nexus.ended(&id);
    let bearer = format!("Bearer {}", web.token);
    let piece = |range: &str, stream: &str| {
        let headers = [("host", web.address.as_str()), ("authorization", &bearer), ("range", range)];
        web.ask("GET", &format!("/v1/jobs/{id}/log?stream={stream}"), &headers, "")
    };
    let middle = piece("bytes=2-4", "stdout");
    assert_eq!((middle.status, middle.body.as_str()), (206, "234"));
    assert_eq!(middle.header("content-range"), Some("bytes 2-4/10"));
    assert_eq!(piece("bytes=-3", "stdout").body, "789");
    assert_eq!(piece("bytes=0-", "stderr").body, "oh");
    let behind = piece("bytes=10-", "stdout");
    assert_eq!((behind.status, behind.header("content-range")), (416, Some("bytes */10")));
    assert_eq!(piece("bytes=0-1", "both").status, 400);
    assert_eq!(piece("lines=0-1", "stdout").status, 400);
}

/// Lines of an answer that goes on, from here.
fn listen(web: &Web, path: &str, last: Option<&str>) -> impl Iterator<Item = String> + use<> {
    let mut stream = web.connect();
    let last = last.map(|number| format!("last-event-id: {number}\r\n")).unwrap_or_default();
    let head =
        format!("GET {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\n{last}\r\n", web.address, web.token);
    stream.write_all(head.as_bytes()).unwrap();
    let mut lines = BufReader::new(stream).lines().map(|line| line.expect("the stream goes on"));
    // The comment at its beginning: from here on everything is heard.
    lines.find(|line| line.starts_with(": nexus")).expect("a beginning");
    lines
}

/// The next event, and its number.
fn event(lines: &mut impl Iterator<Item = String>) -> (Option<String>, Value) {
    let mut number = None;
    for line in lines {
        if let Some(id) = line.strip_prefix("id: ") {
            number = Some(id.to_string());
        } else if let Some(data) = line.strip_prefix("data: ") {
            return (number, serde_json::from_str(data).expect("JSON"));
        }
    }
    panic!("the stream ended")
}

#[test]
fn events_go_on_where_they_were_left_and_a_restart_is_noticed() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let web = Web::of(&nexus);
    let mut lines = listen(&web, "/v1/events", None);
    nexus.ok(&["pause"]);
    let (number, first) = event(&mut lines);
    assert_eq!((first["kind"].as_str(), first["paused"].as_bool()), (Some("queue"), Some(true)));
    let number = number.expect("a number");
    drop(lines);
    nexus.ok(&["resume"]);
    nexus.ok(&["pause"]);
    let mut lines = listen(&web, "/v1/events", Some(&number));
    let missed: Vec<bool> = (0..2).map(|_| event(&mut lines).1["paused"].as_bool().unwrap()).collect();
    assert_eq!(missed, [false, true]);
    drop(lines);
    nexus.ok(&["restart"]);
    let mut lines = listen(&web, &format!("/v1/events?since={number}"), None);
    let (number, told) = event(&mut lines);
    assert_eq!((number, told["kind"].as_str()), (None, Some("missed")));
}

#[test]
fn readings_are_told_and_kept() {
    let gpus = FakeGpus::new(&[FakeGpu::new('a').with("load", 37).with("used_mib", 2048), FakeGpu::new('b')]);
    let nexus = Nexus::fresh(NEXUS).fake_gpus(&gpus);
    nexus.config("[gpus]\npoll = \"1s\"\n");
    nexus.ok(&["start"]);
    let web = Web::of(&nexus);
    let mut lines = listen(&web, "/v1/events?readings=true", None);
    let reading = loop {
        let (number, told) = event(&mut lines);
        if told["kind"] == "readings" {
            assert_eq!(number, None, "a reading is nothing to go on from");
            break told;
        }
    };
    assert_eq!(reading["gpus"][0]["load_percent"], 37);
    let past = until("two readings", || {
        let past = web.get("/v1/gpus/readings").json();
        (past[0]["points"].as_array().is_some_and(|points| points.len() > 1)).then_some(past)
    });
    assert_eq!((past[0]["machine"].as_str(), past[0]["index"].as_u64()), (Some("local"), Some(0)));
    assert_eq!((&past[0]["points"][0][1], &past[0]["points"][0][2]), (&json!(37), &json!(2048)));
}

#[test]
fn figures_and_health_are_there_for_programs() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    let web = Web::of(&nexus);
    nexus.done("true");
    let id = nexus.add("exit 3");
    nexus.ended(&id);
    nexus.ok(&["pause", "1"]);
    assert_eq!(web.get("/healthz").json(), json!({ "ok": true }));
    let text = web.get("/metrics").body;
    for line in [
        "nexus_jobs{state=\"queued\"} 0",
        "nexus_jobs_ended_total{state=\"completed\"} 1",
        "nexus_jobs_ended_total{state=\"failed\"} 1",
        "nexus_gpu_paused{machine=\"local\",gpu=\"1\"} 1",
        "nexus_gpu_memory_bytes{machine=\"local\",gpu=\"0\"} 25769803776",
        "nexus_queue_wait_seconds_count 2",
        "# TYPE nexus_store_commit_seconds histogram",
    ] {
        assert!(text.lines().any(|it| it == line), "{line} is not in\n{text}");
    }
}
