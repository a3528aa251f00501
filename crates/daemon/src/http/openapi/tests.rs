//! The document is held against the router, the schemas against what they describe, and `docs/api.md` against both.

use std::collections::BTreeSet;

use axum::response::IntoResponse;
use nexus_api::problem::Problem;
use serde_json::{Map, Value, json};

use super::document;
use crate::http::problem::Failed;

const ROUTER: &str = include_str!("../mod.rs");
const BOOK: &str = include_str!("../../../../../docs/api.md");

/// `get /v1/jobs`, as the router has them.
fn routes() -> BTreeSet<String> {
    let code: String = ROUTER.split("#[cfg(test)]").next().unwrap_or_default().split_whitespace().collect();
    let mut found = BTreeSet::new();
    for route in code.split(".route(\"").skip(1) {
        let (path, rest) = route.split_once("\",").expect("a path and what is behind it");
        let methods = &rest[..end_of(rest)];
        for method in ["get", "post", "put", "delete", "patch", "any"] {
            let (first, then) = (format!("{method}("), format!(".{method}("));
            if methods.starts_with(&first) || methods.contains(&then) {
                found.insert(format!("{method} {path}"));
            }
        }
    }
    found
}

/// Where the parenthesis ends in which this stands.
fn end_of(code: &str) -> usize {
    let mut open = 1;
    let closes = |letter: char| {
        open += i32::from(letter == '(') - i32::from(letter == ')');
        open == 0
    };
    code.find(closes).expect("a route ends")
}

#[test]
fn the_document_has_the_routes_of_the_router_and_no_others() {
    let document = document();
    let told: BTreeSet<String> = document["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, item)| item.as_object().unwrap().keys().map(move |method| format!("{method} {path}")))
        .collect();
    assert!(told.len() > 40, "the router was not found");
    assert_eq!(routes(), told);
}

#[test]
fn every_operation_is_whole() {
    let document = document();
    let mut ids = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let here = format!("{method} {path}");
            assert!(ids.insert(operation["operationId"].as_str().unwrap().to_string()), "{here}: its id is taken");
            assert!(operation["summary"].as_str().is_some_and(|text| !text.ends_with('.')), "{here}");
            let answers = operation["responses"].as_object().unwrap();
            assert!(answers.contains_key("default") && answers.len() >= 2, "{here}");
            let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
            let parts: Vec<&str> =
                parameters.iter().filter(|it| it["in"] == "path").map(|it| it["name"].as_str().unwrap()).collect();
            let braces: Vec<&str> = path.split('{').skip(1).map(|rest| rest.split('}').next().unwrap()).collect();
            assert_eq!(parts, braces, "{here}");
            for parameter in &parameters {
                assert!(parameter["description"].is_string() || parameter["in"] == "query", "{here}: {parameter}");
                assert!(parameter["schema"].is_object(), "{here}: {parameter}");
            }
        }
    }
}

#[test]
fn every_reference_leads_somewhere() {
    fn references<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
        match value {
            Value::Array(list) => list.iter().for_each(|value| references(value, found)),
            Value::Object(fields) => {
                found.extend(fields.get("$ref").and_then(Value::as_str));
                fields.values().for_each(|value| references(value, found));
            }
            _ => {}
        }
    }
    let document = document();
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    for reference in &found {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
    for name in document["components"]["schemas"].as_object().unwrap().keys() {
        let mentioned = ["Event", "Exported", "Notice"].contains(&name.as_str());
        let used = found.contains(format!("#/components/schemas/{name}").as_str());
        assert!(used || mentioned, "nothing leads to {name}");
    }
    assert!(!document.to_string().contains("[`"), "a link to code");
    assert_eq!(
        (&document["openapi"], &document["info"]["version"]),
        (&json!("3.1.0"), &json!(env!("CARGO_PKG_VERSION")))
    );
}

/// Something that a schema describes: the first that comes to mind.
fn sample(schema: &Value, document: &Value) -> Value {
    if let Some(reference) = schema["$ref"].as_str() {
        return sample(document.pointer(&reference[1..]).unwrap(), document);
    }
    if let Some(first) = schema["enum"].get(0).or(schema["oneOf"].get(0)) {
        return if schema["enum"].is_array() { first.clone() } else { sample(first, document) };
    }
    let kind = schema["type"].as_str().or(schema["type"][0].as_str());
    match kind {
        Some("object") => {
            let fields = schema["properties"].as_object().unwrap();
            Value::Object(fields.iter().map(|(name, field)| (name.clone(), sample(field, document))).collect())
        }
        Some("string") => json!("x"),
        Some("integer") => json!(1),
        Some("array") => json!([]),
        other => panic!("{other:?}: {schema}"),
    }
}

/// A problem of every kind, as its schema says.
fn problems() -> Vec<Map<String, Value>> {
    let document = document();
    let kinds = document["components"]["schemas"]["ProblemFacts"]["oneOf"].as_array().unwrap().clone();
    kinds.iter().map(|kind| sample(kind, &document).as_object().unwrap().clone()).collect()
}

#[test]
fn problems_are_what_their_schema_says() {
    for fields in problems() {
        let problem: Problem = serde_json::from_value(Value::Object(fields.clone())).unwrap();
        assert_eq!(serde_json::to_value(problem).unwrap(), Value::Object(fields));
    }
}

/// Codes are for programs: one that is renamed or has another status breaks them.
#[test]
fn the_book_lists_every_code_with_its_status() {
    let mut rows = Vec::new();
    for fields in problems() {
        let code = fields["problem"].as_str().unwrap().to_string();
        let problem: Problem = serde_json::from_value(Value::Object(fields)).unwrap();
        let status = Failed(problem).into_response().status().as_u16();
        rows.push(format!("| `{code}` | {status} |"));
    }
    let told: Vec<&str> =
        BOOK.lines().filter(|line| line.starts_with("| `") && line.matches('|').count() == 4).collect();
    let missing: Vec<&String> =
        rows.iter().filter(|row| !told.iter().any(|line| line.starts_with(row.as_str()))).collect();
    assert!(missing.is_empty(), "docs/api.md lacks {missing:#?}");
    assert_eq!(told.len(), rows.len(), "docs/api.md has codes that are none");
}
