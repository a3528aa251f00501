//! The configuration, key by key.

use nexus_api::config::{ConfigKey, ConfigView, typed};
use nexus_api::problem::Problem;
use serde_json::Value;

use super::paint::Paint;
use super::table::Table;

pub fn config(view: &ConfigView, paint: Paint) -> String {
    let mut text = format!("Config: {}\n", view.path);
    if let Some(problem) = &view.refused {
        let line = format!("The file on disk is not in force: {}", reason(problem));
        text.push_str(&format!("{}\n", paint.error(&line)));
    }
    if let Some(problem) = &view.models_refused {
        text.push_str(&format!("{}\n", paint.error(&format!("The file of models is not in force: {problem}"))));
    }
    let keys = || view.keys.iter();
    let table = Table::new()
        .column("KEY", Paint::queue, keys().map(|key| key.key.clone()))
        .column("VALUE", Paint::command, keys().map(|key| value(&key.value)))
        .column("FROM", Paint::plain, keys().map(from))
        .column("NOTE", Paint::state, keys().map(note));
    format!("{text}\n{}", table.render(true, paint))
}

/// What is wrong with the file, after its line.
pub fn reason(problem: &Problem) -> String {
    match problem {
        Problem::BadConfig { line: Some(line), error, .. } => format!("line {line}: {error}"),
        Problem::BadConfig { line: None, error, .. } => error.clone(),
        other => other.to_string(),
    }
}

fn value(value: &Value) -> String {
    match value {
        Value::String(text) if text.is_empty() => "\"\"".into(),
        Value::Array(list) if list.is_empty() => "[]".into(),
        value => typed(value),
    }
}

fn from(key: &ConfigKey) -> String {
    match key.line {
        _ if key.overridden.is_some() => "nexus start".into(),
        Some(line) => format!("line {line}"),
        None => "default".into(),
    }
}

fn note(key: &ConfigKey) -> String {
    if let Some(of_file) = &key.overridden {
        return format!("until the next start; else {}", value(of_file));
    }
    match (&key.after_restart, key.used) {
        (Some(new), _) => format!("waits for nexus restart: {}", value(new)),
        (None, false) => "not used yet".into(),
        (None, true) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::paint::PLAIN;

    fn key(name: &str, value: Value, line: Option<u64>) -> ConfigKey {
        ConfigKey {
            key: name.into(),
            default: value.clone(),
            value,
            line,
            needs_restart: false,
            after_restart: None,
            overridden: None,
            used: true,
        }
    }

    #[test]
    fn values_where_they_come_from_and_what_waits() {
        let waits = ConfigKey { after_restart: Some("/new".into()), ..key("paths.log_dir", "/old".into(), Some(3)) };
        let later = ConfigKey { used: false, ..key("web.port", 4004.into(), None) };
        let over = ConfigKey { overridden: Some("all".into()), ..key("gpus.use", "0-3".into(), Some(7)) };
        let view = ConfigView {
            path: "/h/config.toml".into(),
            refused: Some(Problem::BadConfig { path: "x".into(), line: Some(9), error: "it is wrong".into() }),
            models_refused: Some(Problem::BadModels { path: "/m".into(), line: Some(2), error: "so is this".into() }),
            keys: vec![waits, key("jobs.prelude", "".into(), None), later, over],
        };
        let expected = "\
Config: /h/config.toml
The file on disk is not in force: line 9: it is wrong
The file of models is not in force: /m, line 2 is wrong: so is this

KEY            VALUE  FROM         NOTE
paths.log_dir  /old   line 3       waits for nexus restart: /new
jobs.prelude   \"\"     default
web.port       4004   default      not used yet
gpus.use       0-3    nexus start  until the next start; else all
";
        let shown: Vec<String> = config(&view, PLAIN).lines().map(|line| line.trim_end().to_string()).collect();
        assert_eq!(shown.join("\n") + "\n", expected);
    }
}
