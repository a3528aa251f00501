//! Every key there is, by section, and the one most like a word that is none.

pub use nexus_api::nearest::nearest;

use super::key::Key;
use super::{gpus, jobs, log, models, notify, outside, paths, queue, retention};

/// In the order of the file made at first use.
const SECTIONS: &[&[Key]] = &[
    paths::KEYS,
    jobs::KEYS,
    queue::KEYS,
    gpus::KEYS,
    models::KEYS,
    outside::KEYS,
    log::KEYS,
    notify::KEYS,
    retention::KEYS,
];

pub fn all() -> impl Iterator<Item = &'static Key> {
    SECTIONS.iter().copied().flatten()
}

pub fn find(section: &str, name: &str) -> Option<&'static Key> {
    all().find(|key| key.section == section && key.name == name)
}

/// In order, each once.
pub fn sections() -> Vec<&'static str> {
    let mut names: Vec<&str> = all().map(|key| key.section).collect();
    names.dedup();
    names
}

/// Why there is no such key in this section, and which was meant.
pub fn no_key(section: &str, name: &str) -> String {
    if let Some(key) = all().find(|key| key.name == name) {
        return format!("{name} belongs to [{}]", key.section);
    }
    let own = all().filter(|key| key.section == section).map(|key| key.name);
    if let Some(near) = nearest(name, own) {
        return format!("there is no key {name}; did you mean {near}?");
    }
    match nearest(name, all().map(|key| key.name)).and_then(|near| all().find(|key| key.name == near)) {
        Some(key) => format!("there is no key {name}; did you mean {} of [{}]?", key.name, key.section),
        None => format!("there is no key {name}"),
    }
}

pub fn no_section(name: &str) -> String {
    let known = sections().into_iter().chain(["machine"]);
    match nearest(name, known) {
        Some("machine") => format!("there is no section [{name}]; did you mean [machine.NAME.gpus]?"),
        Some(near) => format!("there is no section [{name}]; did you mean [{near}]?"),
        None => format!("there is no section [{name}]; there are {}", sections().join(", ")),
    }
}
