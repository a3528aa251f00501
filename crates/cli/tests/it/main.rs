//! The real binary and its service, each test in a temporary home of its own.

mod bad_days;
mod crashes;
mod gpus;
mod reference;
mod regressions;
mod verbs;

/// The binary under test.
const NEXUS: &str = env!("CARGO_BIN_EXE_nexus");
