//! Arguments as a model gives them, and what is told where they cannot be read: always which field.

use nexus_api::nearest::nearest;
use rmcp::model::{JsonObject, Tool};
use rmcp::schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::answer::bad;
use crate::error::CliError;

/// One text, or a list of them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(crate = "rmcp::schemars")]
pub enum Texts {
    One(String),
    Many(Vec<String>),
}

impl Texts {
    pub fn list(&self) -> Vec<String> {
        match self {
            Texts::One(text) => vec![text.clone()],
            Texts::Many(texts) => texts.clone(),
        }
    }
}

/// A number, or a text that is one.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(crate = "rmcp::schemars")]
pub enum Amount {
    Number(f64),
    Text(String),
}

impl std::fmt::Display for Amount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Amount::Number(number) => write!(f, "{number}"),
            Amount::Text(text) => f.write_str(text),
        }
    }
}

/// The arguments of a call of this tool.
pub fn read<T: DeserializeOwned>(tool: &Tool, arguments: &JsonObject) -> Result<T, CliError> {
    let fields: Vec<&str> = fields(tool).collect();
    if let Some(unknown) = arguments.keys().find(|name| !fields.contains(&name.as_str())) {
        let near = nearest(unknown, fields.iter().copied()).map(|near| format!("did you mean {near}? "));
        let hint = format!("{}there are: {}", near.unwrap_or_default(), fields.join(", "));
        return Err(bad(format!("{} has no field {unknown:?}", tool.name), hint));
    }
    parsed(arguments).map_err(|error| {
        let (field, error) = (guilty::<T>(arguments, &error), error.to_string());
        match field {
            Some(field) => bad(format!("field {field}: {error}"), described(tool, &field)),
            None => bad(error, format!("the schema of {} says what it takes", tool.name)),
        }
    })
}

fn parsed<T: DeserializeOwned>(arguments: &JsonObject) -> Result<T, serde_json::Error> {
    serde_json::from_value(Value::Object(arguments.clone()))
}

fn fields(tool: &Tool) -> impl Iterator<Item = &str> {
    tool.input_schema.get("properties").and_then(Value::as_object).into_iter().flatten().map(|(name, _)| name.as_str())
}

fn described(tool: &Tool, field: &str) -> String {
    let property = tool.input_schema.get("properties").and_then(|all| all.get(field));
    let said = property.and_then(|property| property.get("description")).and_then(Value::as_str);
    said.map_or_else(|| format!("the schema of {} says what it takes", tool.name), |said| format!("{field}: {said}"))
}

/// Which field cannot be read: serde does not say. The one without which all is well, or else is wrong.
fn guilty<T: DeserializeOwned>(arguments: &JsonObject, error: &serde_json::Error) -> Option<String> {
    let error = error.to_string();
    let without = |name: &String| {
        let mut others = arguments.clone();
        others.remove(name);
        parsed::<T>(&others).err().map(|error| error.to_string())
    };
    let left: Vec<(&String, Option<String>)> = arguments.keys().map(|name| (name, without(name))).collect();
    let cured = left.iter().find(|(_, error)| error.is_none());
    let cured = cured.or_else(|| left.iter().find(|(_, left)| left.as_ref() != Some(&error)));
    cured.map(|(name, _)| name.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::mcp::tools;

    #[derive(Debug, Deserialize)]
    struct Some {
        #[allow(dead_code)]
        id: String,
        #[allow(dead_code)]
        lines: Option<u32>,
    }

    fn told(arguments: Value) -> String {
        let tools = tools::all(false);
        let logs = tools.iter().find(|tool| tool.name == "logs").expect("there is one");
        let Value::Object(arguments) = arguments else { unreachable!() };
        match read::<Some>(logs, &arguments) {
            Ok(_) => String::new(),
            Err(error) => format!("{} / {}", error.told().error, error.told().hint.unwrap_or_default()),
        }
    }

    #[test]
    fn what_cannot_be_read_is_told_by_its_field() {
        use serde_json::json;
        assert_eq!(told(json!({"id": "abc", "lines": 3})), "");
        assert!(told(json!({"id": "abc", "lines": "many"})).starts_with("field lines: invalid type"));
        assert!(told(json!({"id": 5})).starts_with("field id: invalid type"));
        assert!(told(json!({"lines": 3})).starts_with("missing field `id`"));
        let unknown = told(json!({"id": "abc", "line": 3}));
        assert!(unknown.starts_with("logs has no field \"line\" / did you mean lines? "), "{unknown}");
    }
}
