//! `nexus mcp` as lines of JSON on its input and output. What a real client sees of it: `python/tests/test_mcp.py`.

use std::collections::BTreeMap;

use nexus_testkit::Nexus;
use serde_json::{Value, json};

use crate::NEXUS;

/// Says hello, sends these requests, closes the input; results and errors by the place of their request, from 1.
fn talk(nexus: &Nexus, options: &[&str], requests: &[(&str, Value)]) -> BTreeMap<u64, Value> {
    let who = json!({"name": "test", "version": "0"});
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": who});
    let mut sent = vec![
        json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
    ];
    let numbered = (1..).zip(requests);
    sent.extend(
        numbered.map(|(id, (method, params))| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})),
    );
    let lines: String = sent.iter().map(|message| format!("{message}\n")).collect();
    let said = nexus.run_with_input(&[&["mcp"], options].concat(), lines.as_bytes());
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    let answers = said.stdout.lines().map(|line| serde_json::from_str::<Value>(line).expect("nothing but messages"));
    let answers = answers.filter_map(|answer| Some((answer["id"].as_u64()?, answer)));
    answers.map(|(id, mut answer)| (id, answer["result"].take())).collect()
}

fn call(name: &str, arguments: Value) -> (&'static str, Value) {
    ("tools/call", json!({"name": name, "arguments": arguments}))
}

fn names(answer: &Value) -> Vec<&str> {
    let tools = answer["tools"].as_array().expect("a list");
    tools.iter().map(|tool| tool["name"].as_str().expect("a name")).collect()
}

#[test]
fn it_ends_with_its_input_and_answers_what_was_asked_before() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let submit = json!({"command": ["true"], "cwd": "/", "gpus": 0, "name": "from-outside"});
    let answers = talk(&nexus, &[], &[("tools/list", json!({})), call("submit", submit)]);
    assert_eq!(answers[&0]["serverInfo"]["name"], "nexus");
    assert!(names(&answers[&1]).contains(&"submit"));
    let id = answers[&2]["structuredContent"]["jobs"][0]["id"].as_str().expect("an id").to_string();
    nexus.run_limited(&["wait", &id]).expect_code(0);
    assert_eq!(nexus.run_with_input(&["mcp"], b"").stdout, "");
}

#[test]
fn a_dry_run_queues_nothing() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let submit = call("submit", json!({"command": "true", "cwd": "/", "dry_run": true}));
    let sweep = call("sweep", json!({"command": "true {x}", "params": {"x": [1, 2]}, "cwd": "/", "dry_run": true}));
    let answers = talk(&nexus, &[], &[submit, sweep]);
    assert_eq!(answers[&1]["structuredContent"]["dry_run"], true);
    assert_eq!(answers[&2]["structuredContent"]["commands"], json!(["true 1", "true 2"]));
    assert_eq!(nexus.ok(&["ls", "--json"]).trim(), "[]");
    assert_eq!(nexus.ok(&["sweep", "ls", "--json"]).trim(), "[]");
}

#[test]
fn read_only_offers_nothing_that_changes_and_starts_no_service() {
    let nexus = Nexus::fresh(NEXUS);
    let requests = [("tools/list", json!({})), call("submit", json!({"command": "true"})), call("list", json!({}))];
    let answers = talk(&nexus, &["--read-only"], &requests);
    let offered = names(&answers[&1]);
    assert!(offered.contains(&"list") && !["submit", "sweep", "kill"].iter().any(|name| offered.contains(name)));
    for (place, word) in [(2, "read-only"), (3, "no_service")] {
        assert_eq!(answers[&place]["isError"], true);
        assert!(answers[&place]["content"][0]["text"].as_str().expect("words").contains(word), "{answers:?}");
    }
    assert!(!nexus.home().join("nexus.sock").exists());
}
