//! What the service answers is what its own document says, and the examples of `docs/api.md` work.

use std::process::Command;

use nexus_testkit::{Nexus, request};
use serde_json::Value;

use crate::NEXUS;

const BOOK: &str = include_str!("../../../../docs/api.md");

fn asked(nexus: &Nexus, method: &str, path: &str, body: &str) -> (u16, Value) {
    let (status, answer) = request(&nexus.home().join("nexus.sock"), method, path, body);
    (status, serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{method} {path}: {error}: {answer}")))
}

/// Where a value is otherwise than its schema says; of the words of a schema those that the document uses.
fn wrong(value: &Value, schema: &Value, document: &Value, place: &str) -> Option<String> {
    let fail = |what: &str| Some(format!("{place}: {what}: {value} is not {schema}"));
    if let Some(reference) = schema["$ref"].as_str() {
        let found = document.pointer(&reference[1..]).unwrap_or_else(|| panic!("{reference}"));
        return wrong(value, found, document, place);
    }
    let fits = |one: &Value| wrong(value, one, document, place).is_none();
    if schema["oneOf"].as_array().is_some_and(|all| all.iter().filter(|one| fits(one)).count() != 1) {
        return fail("not one of them");
    }
    if schema["anyOf"].as_array().is_some_and(|all| !all.iter().any(fits)) {
        return fail("none of them");
    }
    if let Some(found) =
        schema["allOf"].as_array().into_iter().flatten().find_map(|one| wrong(value, one, document, place))
    {
        return Some(found);
    }
    if schema["enum"].as_array().is_some_and(|all| !all.contains(value)) {
        return fail("another word");
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
        one => one.as_str().into_iter().collect(),
    };
    let is = |kind: &&str| match *kind {
        "null" => value.is_null(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("{other}"),
    };
    if !types.is_empty() && !types.iter().any(is) {
        return fail("another type");
    }
    if beyond(value, schema) {
        return fail("too small or too large");
    }
    match value {
        Value::Array(list) => list.iter().enumerate().find_map(|(at, item)| {
            let part = schema["prefixItems"].get(at).unwrap_or(&schema["items"]);
            wrong(item, part, document, &format!("{place}/{at}"))
        }),
        Value::Object(fields) => {
            let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            if let Some(missing) = required.into_iter().find(|name| !fields.contains_key(*name)) {
                return fail(&format!("{missing} is missing"));
            }
            fields.iter().find_map(|(name, field)| {
                let part = schema["properties"].get(name).unwrap_or(&schema["additionalProperties"]);
                wrong(field, part, document, &format!("{place}/{name}"))
            })
        }
        _ => None,
    }
}

fn beyond(value: &Value, schema: &Value) -> bool {
    let Some(number) = value.as_f64() else { return false };
    let bound = |name: &str| schema[name].as_f64();
    bound("minimum").is_some_and(|least| number < least)
        || bound("maximum").is_some_and(|most| number > most)
        || bound("exclusiveMinimum").is_some_and(|least| number <= least)
        || bound("exclusiveMaximum").is_some_and(|most| number >= most)
}

#[test]
fn answers_are_what_the_document_says() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    let (_, document) = asked(&nexus, "GET", "/v1/openapi.json", "");
    let done = nexus.done("echo hello")["id"].as_str().unwrap().to_string();
    nexus.ok(&["pause"]);
    let waits = nexus.add_with(&["--gpus", "0.5", "--vram", "4G", "--time", "1h"], "true");
    nexus.ok(&["sweep", "--name", "grid", "true {x}", "x=1..3"]);
    let specs = r#"[{"command":{"argv":["true"]},"cwd":"/"}]"#;
    for (method, path, of, body, expected) in [
        ("GET", "/v1/service", "/v1/service", "", 200),
        ("GET", "/v1/status", "/v1/status", "", 200),
        ("GET", "/v1/gpus", "/v1/gpus", "", 200),
        ("GET", "/v1/gpus/readings", "/v1/gpus/readings", "", 200),
        ("GET", "/v1/config", "/v1/config", "", 200),
        ("GET", "/v1/jobs?state=ended,alive", "/v1/jobs", "", 200),
        ("POST", "/v1/jobs?dry_run=true", "/v1/jobs", specs, 200),
        ("GET", &format!("/v1/jobs/{done}?env=true"), "/v1/jobs/{id}", "", 200),
        ("GET", &format!("/v1/jobs/{waits}"), "/v1/jobs/{id}", "", 200),
        ("GET", &format!("/v1/jobs/{waits}/why"), "/v1/jobs/{id}/why", "", 200),
        ("GET", &format!("/v1/jobs/{done}/results"), "/v1/jobs/{id}/results", "", 200),
        ("GET", "/v1/sweeps", "/v1/sweeps", "", 200),
        ("GET", "/v1/sweeps/grid", "/v1/sweeps/{name}", "", 200),
        ("GET", "/v1/sweeps/grid/jobs", "/v1/sweeps/{name}/jobs", "", 200),
        ("GET", "/v1/report?by=sweep", "/v1/report", "", 200),
        ("GET", "/v1/web", "/v1/web", "", 200),
        ("GET", "/v1/jobs/zzzzzz", "/v1/jobs/{id}", "", 404),
        ("POST", "/v1/jobs/kill", "/v1/jobs/{id}", &format!(r#"{{"ids":["{done}"]}}"#), 409),
        ("POST", "/v1/jobs", "/v1/jobs", "[{}]", 400),
    ] {
        let (status, answer) = asked(&nexus, method, path, body);
        assert_eq!(status, expected, "{method} {path}: {answer}");
        let operation = &document["paths"][of][method.to_lowercase()];
        let mut told = operation["responses"].get(status.to_string()).unwrap_or(&operation["responses"]["default"]);
        if let Some(reference) = told["$ref"].as_str() {
            told = document.pointer(&reference[1..]).unwrap();
        }
        let schema = &told["content"]["application/json"]["schema"];
        assert!(schema.is_object(), "{method} {path}: {operation}");
        assert_eq!(wrong(&answer, schema, &document, path), None);
    }
}

/// What cannot be read is told as any other problem, even where it is a part of the path.
#[test]
fn paths_that_are_no_text_are_a_problem_like_any_other() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    for path in ["/v1/jobs/%FF", "/v1/jobs/%FF/why", "/v1/sweeps/%FF", "/v1/jobs?limit=x", "/v1/report"] {
        let (status, answer) = asked(&nexus, "GET", path, "");
        assert_eq!((status, answer["problem"].as_str()), (400, Some("bad_request")), "{path}: {answer}");
    }
}

/// Each command of the book, in a home of its own, with a job of its own.
#[test]
fn the_examples_of_the_book_work() {
    if Command::new("curl").arg("--version").output().is_err() {
        eprintln!("skipped: there is no curl");
        return;
    }
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.done("echo hello")["id"].as_str().unwrap().to_string();
    let waits = nexus.add_with(&["--hold"], "true");
    let web: Value = nexus.json(&["web", "--no-open", "--port", "0", "--json"]);
    let book = BOOK
        .replace("~/.nexus", &nexus.home().display().to_string())
        .replace("127.0.0.1:4004", web["address"].as_str().unwrap())
        .replace("/v1/jobs/abc", &format!("/v1/jobs/{id}"))
        .replace("[\"xyz\"]", &format!("[\"{waits}\"]"));
    let blocks = book.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let examples: Vec<String> =
        blocks.flat_map(|block| block.replace("\\\n", " ").lines().map(String::from).collect::<Vec<_>>()).collect();
    assert!(examples.len() > 8, "{examples:?}");
    for example in examples {
        let ran = Command::new("sh")
            .args(["-c", &example.replacen("curl ", "curl -sS --fail-with-body ", 1)])
            .output()
            .unwrap();
        // One that has no end is ended by its own limit.
        let expected = if example.contains("--max-time") { 28 } else { 0 };
        let (out, error) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        assert_eq!(ran.status.code(), Some(expected), "{example}\n{out}{error}");
        assert!(!out.is_empty(), "{example}");
    }
}
