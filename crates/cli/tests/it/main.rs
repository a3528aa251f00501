//! The real binary and its service, each test in a temporary home of its own.

#![allow(
    clippy::disallowed_methods,
    reason = "tests play clients, strangers and other programs, and read what they like"
)]

mod bad_days;
mod book;
mod costs;
mod crashes;
mod gpus;
mod openapi;
mod pool;
mod reference;
mod regressions;
mod slurm;
mod verbs;

/// The binary under test.
const NEXUS: &str = env!("CARGO_BIN_EXE_nexus");

/// What an object says: without what is null, zero or empty.
fn said(object: &serde_json::Value) -> serde_json::Map<String, serde_json::Value> {
    let says_nothing = |value: &serde_json::Value| {
        value.is_null() || value.as_u64() == Some(0) || value.as_array().is_some_and(Vec::is_empty)
    };
    let fields = object.as_object().expect("an object").iter().filter(|(_, value)| !says_nothing(value));
    fields.map(|(name, value)| (name.clone(), value.clone())).collect()
}
