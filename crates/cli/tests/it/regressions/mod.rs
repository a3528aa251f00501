//! Faults of the systems before this one, by their number in the list: none of them comes back.

mod after_crashes;
mod commands;
mod endings;
mod environment;
mod files;
mod logs;
mod order;
mod scale;
mod sweeps;
mod variables;

use nexus_testkit::Nexus;

/// Shell words that wait until the test opens this gate.
fn wait_for(gate: &str) -> String {
    format!("until [ -e {gate} ]; do sleep 0.02; done")
}

fn open_gate(nexus: &Nexus, gate: &str) {
    nexus.file(gate, "");
}

/// What jobs wrote into a file of the test's folder; none if it is not there yet.
fn lines_of(nexus: &Nexus, name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(nexus.work().join(name)).unwrap_or_default();
    text.lines().map(String::from).collect()
}
