//! `[models]` and `[[rule]]`: what known commands need.

use std::collections::BTreeMap;

use toml::Value;

use super::given::Given;
use super::given::shown::{path, size, text};
use super::key::{Key, key};

pub const KEYS: &[Key] = &[key("models", "file", "\"\"", "an llm_config.json with what models need")
    .of_config(|config, given| given.path().map(|it| config.models_file = it), |config| path(&config.models_file))
    .not_yet()];

/// What commands that contain a pattern need.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    pub pattern: String,
    /// Under 1 a part of a GPU.
    pub gpus: Option<f64>,
    pub vram: Option<Vram>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vram {
    /// What earlier runs reached.
    Auto,
    Bytes(u64),
}

/// Keys of a rule.
pub const RULE_KEYS: &[&str] = &["match", "gpus", "vram"];

/// The error names the key, if it is one's, and what would be right.
pub fn rule(values: &BTreeMap<String, Value>) -> Result<Rule, (Option<&'static str>, String)> {
    let given = |name: &str| values.get(name).map(|value| Given { value, user_home: None });
    let Some(pattern) = given("match") else {
        return Err((None, "a rule needs match = \"--llm qwen*\"".into()));
    };
    let pattern = pattern.filled_text().map_err(|want| (Some("match"), want))?;
    let gpus = given("gpus").map(|given| part_or_whole(&given)).transpose().map_err(|want| (Some("gpus"), want))?;
    let vram = given("vram").map(|given| memory(&given)).transpose().map_err(|want| (Some("vram"), want))?;
    if gpus.is_none() && vram.is_none() {
        return Err((None, "a rule needs gpus = 0.5 or vram = \"8GB\"".into()));
    }
    Ok(Rule { pattern, gpus, vram })
}

fn part_or_whole(given: &Given) -> Result<f64, String> {
    let number = match given.value {
        Value::Integer(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        _ => None,
    };
    number.filter(|number| *number > 0.0 && *number <= 128.0).ok_or_else(|| "a number over 0: 0.5, 1, 2".into())
}

fn memory(given: &Given) -> Result<Vram, String> {
    match given.value.as_str() {
        Some("auto") => Ok(Vram::Auto),
        _ => given.size().map(Vram::Bytes).map_err(|want| format!("{want}, or \"auto\"")),
    }
}

pub fn shown(rule: &Rule) -> Value {
    let mut table = toml::Table::new();
    table.insert("match".into(), text(&rule.pattern));
    if let Some(gpus) = rule.gpus {
        table.insert("gpus".into(), Value::Float(gpus));
    }
    match rule.vram {
        Some(Vram::Auto) => drop(table.insert("vram".into(), text("auto"))),
        Some(Vram::Bytes(bytes)) => drop(table.insert("vram".into(), size(bytes))),
        None => {}
    }
    Value::Table(table)
}
