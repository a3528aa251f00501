//! What of a job was changed, in words.

use nexus_api::edit::Change;
use nexus_api::jobs::JobSpec;
use nexus_api::queue_text::{self, default_of, told};

/// What differs between two specs, option by option.
pub fn changes(before: &JobSpec, after: &JobSpec) -> Vec<Change> {
    let mut changes = Vec::new();
    for name in queue_text::names() {
        let (from, to) = (told(before, name), told(after, name));
        if from != to {
            let or_default = |value: Option<String>| value.unwrap_or_else(|| default_of(name).to_string());
            changes.push(Change { what: name.into(), from: or_default(from), to: or_default(to) });
        }
    }
    let (from, to) = (before.command.text(), after.command.text());
    if from != to {
        changes.push(Change { what: "command".into(), from, to });
    }
    changes
}

/// `Job abc changed by user: priority 0 -> 2`
pub fn note(id: &str, changes: &[Change]) -> String {
    let words: Vec<String> = changes
        .iter()
        .map(|Change { what, from, to }| match from.is_empty() {
            true => format!("{what} {to}"),
            false => format!("{what} {from} -> {to}"),
        })
        .collect();
    format!("Job {id} changed by user: {}", words.join(", "))
}
