//! From the text of `config.toml` to what it means. The first thing that is wrong is named with its line and what
//! would be right. Reads nothing but its arguments.

use std::collections::BTreeMap;
use std::path::Path;

use toml::Value;

use super::entries::{Entry, Fault, RULE, entries, line_of};
use super::given::Given;
use super::key::Access;
use super::models::{self, RULE_KEYS};
use super::{Config, keys};

/// What a file says, and where.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    pub config: Config,
    /// Lines of the keys that the file sets: `jobs.grace`, `machine.box.gpus.use`, `rule.1`.
    pub lines: BTreeMap<String, u64>,
}

pub fn read(text: &str, user_home: Option<&Path>) -> Result<Settings, Fault> {
    let entries = entries(text)?;
    let mut reading = Reading { user_home, settings: Settings::default(), rules: BTreeMap::new() };
    let at = |entry: &Entry| line_of(text, entry.key.start);
    // What holds for all machines comes before what holds for one, wherever it stands.
    let (of_machines, others): (Vec<&Entry>, Vec<&Entry>) =
        entries.iter().partition(|entry| entry.path[0] == "machine");
    let mut faults = Vec::new();
    for entry in others.into_iter().chain(of_machines) {
        let line = at(entry);
        match reading.take(entry) {
            Ok(Some(name)) => drop(reading.settings.lines.insert(name, line)),
            Ok(None) => {}
            Err(error) => faults.push(Fault { line: Some(line), error }),
        }
    }
    if faults.is_empty() {
        faults.extend(reading.take_rules().err());
    }
    match faults.into_iter().min_by_key(|fault| fault.line.unwrap_or(u64::MAX)) {
        Some(fault) => Err(fault),
        None => Ok(reading.finished()),
    }
}

struct Reading<'a> {
    user_home: Option<&'a Path>,
    settings: Settings,
    rules: BTreeMap<usize, BTreeMap<String, Value>>,
}

impl Reading<'_> {
    /// The full name of the key that this sets, if it is one.
    fn take(&mut self, entry: &Entry) -> Result<Option<String>, String> {
        let path: Vec<&str> = entry.path.iter().map(String::as_str).collect();
        match (path.as_slice(), &entry.value) {
            ([RULE], _) => Err("rules are written [[rule]], with match and gpus or vram below it".into()),
            ([RULE, number], None) => {
                self.rules.entry(number.parse().unwrap_or(0)).or_default();
                Ok(Some(format!("{RULE}.{number}")))
            }
            // Of a `[rule]`, which was named already.
            ([RULE, _], Some(_)) => Ok(None),
            ([RULE, number, name], Some(value)) => self.rule_part(number, name, value),
            (["machine"] | ["machine", _] | ["machine", _, "gpus"], None) => Ok(None),
            (["machine", name, "gpus", key], Some(value)) => self.set_for_machine(name, key, value),
            (["machine", ..], _) => Err("a machine's settings stand under [machine.NAME.gpus]".into()),
            ([section], None) if keys::sections().contains(section) => Ok(None),
            ([section], None) => Err(keys::no_section(section)),
            ([name], Some(_)) if keys::sections().contains(name) => {
                Err(format!("{name} is a section: write [{name}] and its keys below"))
            }
            ([name], Some(_)) => Err(keys::no_key("", name)),
            ([section, name], Some(value)) => self.set(section, name, value),
            ([section, name, ..], _) => match keys::find(section, name) {
                Some(_) if path.len() == 2 => Err(format!("{name} is a key of [{section}], not a section")),
                // It was named where it began.
                _ if path.len() > 2 => Ok(None),
                _ => Err(keys::no_key(section, name)),
            },
            ([], _) => Ok(None),
        }
    }

    fn set(&mut self, section: &str, name: &str, value: &Value) -> Result<Option<String>, String> {
        if !keys::sections().contains(&section) {
            // The section itself was named already.
            return Ok(None);
        }
        let Some(key) = keys::find(section, name) else { return Err(keys::no_key(section, name)) };
        let given = Given { value, user_home: self.user_home };
        key.set(&mut self.settings.config, &given).map_err(|want| match key.secret {
            Some(_) => format!("{name} must be {want}"),
            None => cannot_be(name, value, &want),
        })?;
        Ok(Some(key.full_name()))
    }

    fn set_for_machine(&mut self, machine: &str, name: &str, value: &Value) -> Result<Option<String>, String> {
        let Some(Access::Gpus(set, _)) = keys::find("gpus", name).map(|key| &key.access) else {
            return Err(keys::no_key("gpus", name));
        };
        let config = &mut self.settings.config;
        let gpus = config.machines.entry(machine.into()).or_insert_with(|| config.usual_gpus.clone());
        set(gpus, &Given { value, user_home: self.user_home }).map_err(|want| cannot_be(name, value, &want))?;
        Ok(Some(format!("machine.{machine}.gpus.{name}")))
    }

    fn rule_part(&mut self, number: &str, name: &str, value: &Value) -> Result<Option<String>, String> {
        if !RULE_KEYS.contains(&name) {
            let near = keys::nearest(name, RULE_KEYS.iter().copied());
            let meant = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
            return Err(format!("a rule has no key {name}{meant}"));
        }
        self.rules.entry(number.parse().unwrap_or(0)).or_default().insert(name.into(), value.clone());
        Ok(None)
    }

    fn take_rules(&mut self) -> Result<(), Fault> {
        for (number, values) in &self.rules {
            let rule = models::rule(values).map_err(|(name, want)| Fault {
                line: self.settings.lines.get(&format!("{RULE}.{number}")).copied(),
                error: name.map_or(want.clone(), |name| cannot_be(name, &values[name], &want)),
            })?;
            self.settings.config.rules.push(rule);
        }
        Ok(())
    }

    /// `local` is this machine.
    fn finished(mut self) -> Settings {
        let config = &mut self.settings.config;
        config.gpus = config.gpus_of("local").clone();
        self.settings
    }
}

pub fn cannot_be(name: &str, value: &Value, want: &str) -> String {
    let mut shown = value.to_string();
    if shown.chars().count() > 60 {
        shown = shown.chars().take(59).chain(['…']).collect();
    }
    format!("{name} cannot be {shown}; it is {want}")
}
