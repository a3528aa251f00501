//! Any bytes as config.toml.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../room.rs"]
mod room;

#[path = "../../crates/daemon/tests/outside/config.rs"]
mod config;

fuzz_target!(|bytes: &[u8]| config::hold(bytes));
