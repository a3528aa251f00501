//! Entries that are sent line by line: taken while the rest is on its way, and answered in parts.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use nexus_testkit::{Nexus, until};
use serde_json::{Value, json};

use crate::NEXUS;

/// Entries that are taken at once.
const TOGETHER: usize = 5_000;

fn head() -> Value {
    let usual = json!({ "command": { "shell": "" }, "cwd": "/tmp", "env": { "SEED": "1" } });
    json!({ "file": "f", "folder": "/tmp", "usual": usual })
}

fn entry(line: usize) -> Value {
    json!({ "line": line, "command": { "command": { "argv": ["true", line.to_string()] } } })
}

/// A connection that has sent these lines, and may send more.
fn begin(nexus: &Nexus, lines: &[Value]) -> UnixStream {
    let mut stream = UnixStream::connect(nexus.home().join("nexus.sock")).expect("the service listens");
    let head =
        "POST /v1/import/lines HTTP/1.1\r\nhost: nexus\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    send(&mut stream, lines);
    stream
}

fn send(stream: &mut UnixStream, lines: &[Value]) {
    // One of no length would be the end.
    if lines.is_empty() {
        return;
    }
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    write!(stream, "{:x}\r\n{text}\r\n", text.len()).unwrap();
}

/// Ends the lines; the status, and the lines of the answer.
fn end(mut stream: UnixStream) -> (u16, Vec<Value>) {
    stream.write_all(b"0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (
        status,
        answer.lines().filter(|line| line.starts_with('{')).map(|line| serde_json::from_str(line).unwrap()).collect(),
    )
}

fn queued(nexus: &Nexus) -> usize {
    nexus.json(&["status", "--json"])["pending"].as_u64().unwrap() as usize
}

fn paused() -> Nexus {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.ok(&["pause"]);
    nexus
}

#[test]
fn those_that_have_come_are_taken_while_the_rest_is_on_its_way() {
    let nexus = paused();
    let mut lines = vec![head()];
    lines.extend((1..=TOGETHER + 1).map(entry));
    let mut stream = begin(&nexus, &lines);
    until("the first part is queued", || (queued(&nexus) == TOGETHER).then_some(()));
    send(&mut stream, &[entry(TOGETHER + 2), entry(1)]);
    let (status, parts) = end(stream);
    assert_eq!((status, parts.len()), (200, 3));
    let entries: Vec<&Value> = parts.iter().flat_map(|part| part["entries"].as_array().unwrap()).collect();
    assert_eq!(entries.len(), TOGETHER + 3);
    assert!(
        entries[..TOGETHER + 2].iter().zip(1..).all(|(entry, line)| entry["line"] == line && entry["fate"] == "queued")
    );
    assert_eq!((&entries[TOGETHER + 2]["fate"], &entries[TOGETHER + 2]["id"]), (&json!("known"), &entries[0]["id"]));
    let last = nexus.job(entries[TOGETHER + 1]["id"].as_str().unwrap());
    assert_eq!(last["command"], format!("true {}", TOGETHER + 2));
}

#[test]
fn a_line_that_cannot_be_read_is_named_and_what_was_taken_before_it_is_told() {
    let nexus = paused();
    for (lines, error) in [
        (vec![], "it has no first line"),
        (vec![json!({ "file": "f" })], "line 1: missing field `folder`"),
        (vec![head(), entry(1), json!({ "line": 2 })], "line 3: missing field `command`"),
    ] {
        let (status, said) = end(begin(&nexus, &lines));
        assert_eq!(status, 400, "{said:?}");
        assert!(said[0].to_string().contains(error), "{said:?}");
    }
    assert_eq!(queued(&nexus), 0, "none of a part that cannot be read");
    let mut lines = vec![head()];
    lines.extend((1..=TOGETHER).map(entry));
    lines.push(json!("nonsense"));
    let (status, parts) = end(begin(&nexus, &lines));
    assert_eq!((status, parts.len()), (200, 2));
    assert_eq!(parts[0]["entries"].as_array().unwrap().len(), TOGETHER);
    assert!(parts[1]["stopped"].to_string().contains(&format!("line {}", TOGETHER + 2)), "{}", parts[1]);
    assert_eq!(queued(&nexus), TOGETHER);
}

#[test]
fn who_has_much_more_to_send_hears_what_was_wrong() {
    let nexus = paused();
    let rest: Vec<Value> = (2..20_000).map(entry).collect();
    let mut stream = begin(&nexus, &[head(), json!({ "line": 1 })]);
    // Once it is answered nobody takes them any more.
    let mut status = [0; "HTTP/1.1 400".len()];
    stream.read_exact(&mut status).unwrap();
    assert_eq!(status, *b"HTTP/1.1 400");
    rest.chunks(1_000).for_each(|lines| send(&mut stream, lines));
    stream.write_all(b"0\r\n\r\n").unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    assert!(said.contains("line 2: missing field `command`"), "{said}");
    assert_eq!(queued(&nexus), 0);
}

#[test]
fn of_one_who_leaves_in_the_middle_only_whole_parts_are_taken() {
    let nexus = paused();
    let mut lines = vec![head()];
    lines.extend((1..=TOGETHER + 100).map(entry));
    let stream = begin(&nexus, &lines);
    until("the first part is queued", || (queued(&nexus) == TOGETHER).then_some(()));
    drop(stream);
    // Whoever comes then is served, and finds nothing more.
    let (status, parts) = end(begin(&nexus, &[head(), entry(TOGETHER + 50)]));
    assert_eq!((status, &parts[0]["entries"][0]["fate"]), (200, &json!("queued")), "{parts:?}");
    assert_eq!(queued(&nexus), TOGETHER + 1);
}

#[test]
fn entries_that_name_each_other_are_taken_all_at_once() {
    let nexus = paused();
    let mut head = head();
    head["together"] = json!(true);
    let mut lines = vec![head];
    lines.extend((1..=TOGETHER + 1).map(entry));
    lines[1]["id"] = json!("aab");
    lines[TOGETHER + 1]["id"] = json!("aac");
    lines[TOGETHER + 1]["options"] = json!({ "after": "aab" });
    let (status, parts) = end(begin(&nexus, &lines));
    assert_eq!((status, parts.len()), (200, 2), "{:?}", parts.last());
    let entries = parts[0]["entries"].as_array().unwrap();
    let last = nexus.json(&["show", "--json", entries[TOGETHER]["id"].as_str().unwrap()]);
    assert_eq!(last["after"], json!([entries[0]["id"]]), "{last}");
}
