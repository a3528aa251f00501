//! Any bytes as frames of logs and terminals.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../room.rs"]
mod room;

#[path = "../../crates/api/tests/outside/streams.rs"]
mod streams;

fuzz_target!(|bytes: &[u8]| streams::hold(bytes));
