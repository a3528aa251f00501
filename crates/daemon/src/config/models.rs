//! `[models]` and `[[rule]]`: what known commands need.

use std::collections::BTreeMap;

use nexus_api::amount::Vram;
use nexus_api::problem::Problem;
use toml::Value;

use super::Config;
use super::given::Given;
use super::given::shown::{path, size, text};
use super::key::{Key, key};
use crate::models::{Pattern, Rule, Source, is_amount};

pub const KEYS: &[Key] = &[key("models", "file", "\"\"", "an llm_config.json with what models need")
    .of_config(|config, given| given.path().map(|it| config.models_file = it), |config| path(&config.models_file))];

/// Keys of a rule.
pub const RULE_KEYS: &[&str] = &["match", "gpus", "vram"];

/// The error names the key, if it is one's, and what would be right.
pub fn rule(values: &BTreeMap<String, Value>) -> Result<Rule, (Option<&'static str>, String)> {
    let given = |name: &str| values.get(name).map(|value| Given { value, user_home: None });
    let Some(pattern) = given("match") else {
        return Err((None, "a rule needs match = \"--llm qwen*\"".into()));
    };
    let pattern = pattern.filled_text().and_then(|text| {
        Pattern::new(&text).map_err(|why| format!("words of a command, with * and ?, and here {why}"))
    });
    let pattern = pattern.map_err(|want| (Some("match"), want))?;
    let gpus = given("gpus").map(|given| amount(&given)).transpose().map_err(|want| (Some("gpus"), want))?;
    let vram = given("vram").map(|given| memory(&given)).transpose().map_err(|want| (Some("vram"), want))?;
    if gpus.is_none() && vram.is_none() {
        return Err((None, "a rule needs gpus = 0.5 or vram = \"8GB\"".into()));
    }
    if gpus == Some(0.0) && vram.is_some() {
        return Err((Some("gpus"), "more than 0 where vram is asked for".into()));
    }
    Ok(Rule { pattern, gpus, vram })
}

fn amount(given: &Given) -> Result<f64, String> {
    let number = match given.value {
        Value::Integer(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        _ => None,
    };
    number.filter(|number| is_amount(*number)).ok_or_else(|| "a number: 0.5, 1, 2, or 0 for the CPU".into())
}

fn memory(given: &Given) -> Result<Vram, String> {
    if given.value.as_str() == Some("auto") {
        return Ok(Vram::Auto);
    }
    let mib = given.size().map(|bytes| u32::try_from(bytes.div_ceil(1 << 20)).ok().filter(|mib| *mib > 0));
    match mib {
        Ok(Some(mib)) => Ok(Vram::Mib(mib)),
        Ok(None) => Err("memory that a GPU has, or \"auto\"".into()),
        Err(want) => Err(format!("{want}, or \"auto\"")),
    }
}

pub fn shown(rule: &Rule) -> Value {
    let mut table = toml::Table::new();
    table.insert("match".into(), text(rule.pattern.text()));
    if let Some(gpus) = rule.gpus {
        table.insert("gpus".into(), Value::Float(gpus));
    }
    match rule.vram {
        Some(Vram::Auto) => drop(table.insert("vram".into(), text("auto"))),
        Some(Vram::Mib(mib)) => drop(table.insert("vram".into(), size(u64::from(mib) << 20))),
        None => {}
    }
    Value::Table(table)
}

/// What is wrong with the file of models that a configuration names.
pub fn models_trouble(config: &Config) -> Option<Problem> {
    Source::open(config.models_file.as_deref()).err()
}
