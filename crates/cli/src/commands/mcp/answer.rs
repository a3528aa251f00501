//! What a call is answered with: text that says all of it, and facts beside it. What fails is an answer too, in the words
//! that a user would read, so that whoever called can do better.

use rmcp::model::{CallToolResult, ContentBlock, JsonObject, MetaObject};
use serde::Serialize;
use serde_json::{Value, json};

use crate::error::{CliError, Usage};

/// Where the facts of a failure stand in `_meta`: beside the answer, since facts in it would have to be of the form that
/// the tool promises.
const PROBLEM: &str = "nexus/problem";

pub struct Answer {
    blocks: Vec<String>,
    facts: Option<Value>,
}

impl Answer {
    pub fn new(text: String, facts: &impl Serialize) -> Answer {
        Answer { blocks: vec![text], facts: Some(without_nulls(value(facts))) }
    }

    /// Text alone, in parts that must not be mixed.
    pub fn blocks(blocks: Vec<String>) -> Answer {
        Answer { blocks, facts: None }
    }

    pub fn into_result(self) -> CallToolResult {
        let mut result = CallToolResult::success(self.blocks.into_iter().map(ContentBlock::text).collect());
        result.structured_content = self.facts;
        result
    }
}

pub fn value(facts: &impl Serialize) -> Value {
    serde_json::to_value(facts).expect("types of the interface are writable as JSON")
}

/// What is not known is left out: nobody has to read it.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let known = fields.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(known.map(|(name, value)| (name, without_nulls(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        other => other,
    }
}

/// A failure of the tool, not of the protocol: whoever called reads why, and what to do.
pub fn failed(error: &CliError) -> CallToolResult {
    let told = error.told();
    let in_fields = |text: String| if matches!(error, CliError::Usage { .. }) { as_fields(&text) } else { text };
    let [title, why, hint] = [Some(told.error), told.why, told.hint].map(|text| text.map(in_fields));
    let code = code(error);
    let title = title.unwrap_or_default();
    let mut text = format!("error ({code}): {title}");
    for line in why.iter().cloned().chain(hint.iter().map(|hint| format!("hint: {hint}"))) {
        text.push_str(&format!("\n{line}"));
    }
    let mut facts = match error {
        CliError::Problem(problem) => value(problem),
        _ => json!({ "problem": code }),
    };
    for (name, said) in [("title", Some(title)), ("why", why), ("hint", hint)] {
        facts[name] = said.into();
    }
    let mut result = CallToolResult::error(vec![ContentBlock::text(text)]);
    result.meta = Some(MetaObject(JsonObject::from_iter([(PROBLEM.to_string(), without_nulls(facts))])));
    result
}

fn code(error: &CliError) -> String {
    match error {
        CliError::Problem(problem) => value(problem)["problem"].as_str().unwrap_or("internal").to_string(),
        CliError::NoService { .. } => "no_service".into(),
        CliError::Usage { .. } | CliError::File(_) => "bad_argument".into(),
        CliError::Refused(_) => "refused".into(),
        CliError::Connection { .. } | CliError::ServiceLeft { .. } => "no_answer".into(),
        _ => "failed".into(),
    }
}

/// A bad argument.
pub fn bad(error: impl Into<String>, hint: impl Into<String>) -> CliError {
    Usage::new(error, hint).of("mcp")
}

/// Options as they are typed are fields here: `--gpu-model` is `gpu_model`.
fn as_fields(text: &str) -> String {
    let mut parts = text.split("--");
    let mut said = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let is_letter = |c: &char| c.is_ascii_lowercase() || *c == '-';
        let option: String = part.chars().take_while(is_letter).collect();
        let is_option = option.starts_with(|c: char| c.is_ascii_lowercase());
        said.push_str(&if is_option { option.replace('-', "_") } else { format!("--{option}") });
        said.push_str(&part[option.len()..]);
    }
    said
}

#[cfg(test)]
mod tests {
    use nexus_api::problem::Problem;

    use super::*;

    fn text(result: &CallToolResult) -> String {
        result.content[0].as_text().expect("text").text.clone()
    }

    #[test]
    fn options_are_told_as_fields() {
        assert_eq!(as_fields("--gpu-model is about GPUs and --gpus 0 asks"), "gpu_model is about GPUs and gpus 0 asks");
        assert_eq!(as_fields("leave out -- for a -x 3 --"), "leave out -- for a -x 3 --");
    }

    #[test]
    fn a_failure_is_an_answer_with_words_and_a_code() {
        let result = failed(&Problem::NoSuchJob { id: "abc".into() }.into());
        assert_eq!(result.is_error, Some(true));
        assert_eq!(text(&result), "error (no_such_job): there is no job abc\nhint: nexus ls, nexus history");
        let facts = &result.meta.expect("beside it").0[PROBLEM];
        assert_eq!((&facts["problem"], &facts["id"]), (&json!("no_such_job"), &json!("abc")));
        assert!(result.structured_content.is_none());
        assert_eq!(text(&failed(&bad("--time 0s", "--time 4h"))), "error (bad_argument): time 0s\nhint: time 4h");
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        let facts = without_nulls(json!({"a": null, "b": [{"c": null, "d": 0}], "e": {"f": null}}));
        assert_eq!(facts, json!({"b": [{"d": 0}], "e": {}}));
    }
}
