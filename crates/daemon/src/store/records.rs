//! How raised requests are written in records.

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
