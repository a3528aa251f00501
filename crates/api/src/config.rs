//! The configuration as clients see it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::problem::Problem;

/// `GET /v1/config`: what is in force.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ConfigView {
    /// The file.
    pub path: String,
    /// Why the file as it lies on disk is not in force, if it is not.
    pub refused: Option<Problem>,
    /// Why the file of `models.file` as it lies on disk is not in force, if it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub models_refused: Option<Problem>,
    pub keys: Vec<ConfigKey>,
}

/// One setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ConfigKey {
    /// `jobs.grace`
    pub key: String,
    pub value: Value,
    pub default: Value,
    /// The line of the file that says it; null = the default.
    pub line: Option<u64>,
    /// Whether a change waits for a restart of the service.
    pub needs_restart: bool,
    /// What the file says by now, and a restart will put into force.
    pub after_restart: Option<Value>,
    /// What the file says, or the default, where an option of `nexus start` goes over it until the next start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overridden: Option<Value>,
    /// False for a setting of something that this version does not do yet.
    pub used: bool,
}

/// Body of `PUT /v1/config/overrides`: keys that have another value than the file says, as typed, until the next
/// start. Those that are not named stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Overrides {
    pub keys: BTreeMap<String, String>,
}

impl ConfigView {
    pub fn key(&self, key: &str) -> Option<&ConfigKey> {
        self.keys.iter().find(|known| known.key == key)
    }
}

/// A value as one would type it: without the quotes of a text, a list with commas.
pub fn typed(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().map(typed).collect::<Vec<_>>().join(","),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}
