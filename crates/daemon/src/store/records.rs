//! How machines and raised requests are written in records.

use nexus_core::ids::MachineId;
use nexus_core::request::Raise;

/// As in the column `raised`.
pub(super) fn raised(raise: Raise) -> String {
    match raise {
        Raise::Alone => ALONE.into(),
        Raise::Mib(mib) => mib.to_string(),
    }
}

/// Reads what [`raised`] wrote.
pub(super) fn raise(text: &str) -> Option<Raise> {
    match text {
        ALONE => Some(Raise::Alone),
        number => number.parse().ok().map(Raise::Mib),
    }
}

const ALONE: &str = "alone";

/// The machine of a name in records.
pub(super) fn machine_named(name: &str) -> Option<MachineId> {
    match name.strip_prefix("machine ") {
        Some(number) => number.parse().ok().map(MachineId),
        None => (name == "local").then_some(MachineId::LOCAL),
    }
}

/// The name a machine goes by in records.
pub fn machine_name(id: MachineId) -> String {
    match id {
        MachineId::LOCAL => "local".into(),
        MachineId(number) => format!("machine {number}"),
    }
}
