//! Requests that no client of ours would send.

use nexus_testkit::{Nexus, request};
use serde_json::{Value, json};

use super::lives;
use crate::NEXUS;

/// Submits raw JSON; status and problem.
fn submitted(nexus: &Nexus, body: &str) -> (u16, Value) {
    let (status, answer) = request(&nexus.home().join("nexus.sock"), "POST", "/v1/jobs", body);
    (status, serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer}")))
}

#[test]
fn commands_that_can_never_run_are_refused_by_the_service_too() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let megabyte = "x".repeat(1 << 20);
    for (command, kind) in [
        (json!({"shell": "a\0b"}), "nul"),
        (json!({"argv": ["a", "b\0"]}), "nul"),
        (json!({"shell": ""}), "empty"),
        (json!({"shell": " \n"}), "empty"),
        (json!({"argv": []}), "empty"),
        (json!({"argv": [""]}), "empty"),
        (json!({"shell": megabyte}), "too_long"),
    ] {
        let body = json!([{"command": command, "cwd": "/"}]).to_string();
        let (status, problem) = submitted(&nexus, &body);
        assert_eq!(status, 400, "{problem}");
        assert_eq!((&problem["problem"], &problem["bad"]["kind"]), (&json!("bad_command"), &json!(kind)));
    }
    assert_eq!(nexus.json(&["ls", "--json"]), json!([]));
    lives(&nexus);
}

#[test]
fn one_bad_job_of_many_keeps_all_out() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let job = |fields: Value| {
        let mut job = json!({"command": {"shell": "true"}, "cwd": "/", "hold": true});
        job.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        job
    };
    for wrong in [
        json!({"cwd": "/no/such"}),
        json!({"cwd": "relative"}),
        json!({"env": {"A=B": "x"}}),
        json!({"env": {"A": "x\0y"}}),
        json!({"name": "x\ny"}),
        json!({"tags": [""]}),
        json!({"request": {"gpus": 129}}),
        json!({"request": {"gpus": 2, "on": [0]}}),
    ] {
        let (status, problem) = submitted(&nexus, &json!([job(json!({})), job(wrong.clone())]).to_string());
        assert_eq!(status, 400, "{wrong}: {problem}");
        assert!(problem["problem"].is_string(), "{wrong}: {problem}");
    }
    for nonsense in ["", "null", "{}", "[", "[1]", "[{\"command\":7}]", "\u{fffd}"] {
        let (status, problem) = submitted(&nexus, nonsense);
        assert_eq!((status, &problem["problem"]), (400, &json!("bad_request")), "{nonsense}");
    }
    for (wrong, why) in [
        (json!({"afterr": ["abc"]}), "there is no key afterr in [1]; did you mean after?"),
        (json!({"request": {"gpu": 2}}), "there is no key gpu in [1].request; did you mean gpus?"),
    ] {
        let (status, problem) = submitted(&nexus, &json!([job(json!({})), job(wrong.clone())]).to_string());
        assert_eq!((status, &problem["why"]), (400, &json!(why)), "{wrong}: {problem}");
    }
    assert_eq!(nexus.json(&["ls", "--json"]), json!([]));
    lives(&nexus);
}

#[test]
fn paths_and_verbs_that_do_not_exist() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let socket = nexus.home().join("nexus.sock");
    for (method, path, body) in [
        ("GET", "/", ""),
        ("GET", "/v1/nothing", ""),
        ("GET", "/v1/jobs/zzz", ""),
        ("GET", "/v1/jobs/..%2f..%2fetc", ""),
        ("GET", "/v1/jobs/zzz/log", ""),
        ("GET", "/v1/jobs?state=odd", ""),
        ("GET", "/v1/jobs?since=odd", ""),
        ("GET", "/v1/jobs?select=%00", ""),
        ("POST", "/v1/jobs/explode", "{\"ids\":[]}"),
        ("POST", "/v1/jobs/kill", "{\"ids\":[\"../x\"]}"),
        ("PUT", "/v1/service/simulated-gpus", "{\"count\":60000}"),
    ] {
        let (status, answer) = request(&socket, method, path, body);
        assert!((400..500).contains(&status), "{method} {path}: {status} {answer}");
        let problem: Value = serde_json::from_str(&answer).unwrap_or_else(|_| panic!("{method} {path}: {answer}"));
        assert!(problem["problem"].is_string(), "{method} {path}: {answer}");
    }
    lives(&nexus);
}
