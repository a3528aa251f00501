//! What is in force, key by key; and what a change changed.

use std::collections::BTreeMap;
use std::fmt;

use nexus_api::config::{ConfigKey, ConfigView, typed};
use nexus_api::paths::Home;
use nexus_api::problem::Problem;
use toml::Value;

use super::entries::RULE;
use super::key::{Access, Force, Key};
use super::overrides::Overrides;
use super::read::Settings;
use super::{Config, keys, models};

/// `on_disk` is the newest text that was accepted: what of it waits for a restart is not in force yet.
/// `overrides` are over it as long as the service lives.
pub fn view(
    home: &Home,
    in_force: &Config,
    on_disk: &Settings,
    overrides: &Overrides,
    refused: Option<Problem>,
) -> ConfigView {
    let newest: BTreeMap<String, Value> =
        rows(&on_disk.config, home).into_iter().map(|row| (row.name, row.value)).collect();
    let of_file = |row: &Row| newest.get(&row.name).map(json);
    let row = |row: Row| ConfigKey {
        line: on_disk.lines.get(&row.name).copied(),
        overridden: of_file(&row).filter(|_| overrides.has(&row.name)),
        after_restart: of_file(&row).filter(|value| *value != json(&row.value) && !overrides.has(&row.name)),
        needs_restart: row.force == Force::AtRestart,
        used: true,
        value: json(&row.value),
        default: json(&row.default),
        key: row.name,
    };
    let keys = rows(in_force, home).into_iter().map(row).collect();
    ConfigView { path: home.config().display().to_string(), refused, models_refused: None, keys }
}

/// A key that two configurations differ in.
pub struct Change {
    pub key: String,
    pub old: String,
    pub new: String,
    force: Force,
}

impl Change {
    /// Where no service runs there is none to wait for.
    pub fn without_service(&self) -> String {
        format!("{} {} -> {}", self.key, self.old, self.new)
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let note = if self.force == Force::AtRestart { "; it waits for nexus restart" } else { "" };
        write!(f, "{}{note}", self.without_service())
    }
}

pub fn changes(old: &Config, new: &Config, home: &Home) -> Vec<Change> {
    let (old, new) = (rows(old, home), rows(new, home));
    let value = |rows: &[Row], name: &str| rows.iter().find(|row| row.name == name).map(|row| row.value.clone());
    let whole = |rows: &[Row], name: &str| rows.iter().find(|row| row.name == name).map(|row| row.whole.clone());
    let added = new.iter().filter(|row| old.iter().all(|known| known.name != row.name));
    old.iter()
        .chain(added)
        .filter_map(|row| {
            let (before, after) = (value(&old, &row.name), value(&new, &row.name));
            let change = || Change {
                key: row.name.clone(),
                old: told(before.as_ref()),
                new: told(after.as_ref()),
                force: row.force,
            };
            (whole(&old, &row.name) != whole(&new, &row.name)).then(change)
        })
        .collect()
}

struct Row {
    name: String,
    value: Value,
    /// What it is, where that is not shown.
    whole: Value,
    default: Value,
    force: Force,
}

/// Every key; those of machines as far as a machine differs; every rule.
fn rows(config: &Config, home: &Home) -> Vec<Row> {
    let usual = Config::default();
    let plain = |key: &Key| {
        let name = key.full_name();
        let (value, default) = (key.show(config), key.show(&usual));
        Row {
            whole: or_usual_place(&name, key.whole(config), home),
            value: or_usual_place(&name, value, home),
            default: or_usual_place(&name, default, home),
            force: key.force,
            name,
        }
    };
    let mut rows: Vec<Row> = keys::all().map(plain).collect();
    for (machine, gpus) in &config.machines {
        for key in keys::all() {
            let Access::Gpus(_, show) = key.access else { continue };
            let (value, default) = (show(gpus), show(&config.usual_gpus));
            if value != default {
                let name = format!("machine.{machine}.gpus.{}", key.name);
                rows.push(Row { name, whole: value.clone(), value, default, force: key.force });
            }
        }
    }
    for (place, rule) in config.rules.iter().enumerate() {
        let (name, value) = (format!("{RULE}.{}", place + 1), models::shown(rule));
        let default = Value::String(String::new());
        rows.push(Row { name, whole: value.clone(), value, default, force: Force::AtOnce });
    }
    rows
}

/// These two have a place that hangs on the home.
fn or_usual_place(name: &str, value: Value, home: &Home) -> Value {
    let place = match name {
        "paths.log_dir" => home.default_log_dir(),
        "paths.jobs_file" => home.dir.join("jobs.txt"),
        _ => return value,
    };
    match value.as_str() {
        Some("") => Value::String(place.display().to_string()),
        _ => value,
    }
}

fn json(value: &Value) -> serde_json::Value {
    serde_json::to_value(value).expect("a value of the file is plain data")
}

/// In one line for people; nothing is shown as such.
fn told(value: Option<&Value>) -> String {
    match value.map(|value| typed(&json(value))).as_deref() {
        None | Some("") => "\"\"".into(),
        Some(text) => text.to_string(),
    }
}
