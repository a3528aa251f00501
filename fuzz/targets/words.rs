//! Any bytes as words, amounts and names that people type.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../room.rs"]
mod room;

#[path = "../../crates/api/tests/outside/words.rs"]
mod words;

fuzz_target!(|bytes: &[u8]| words::hold(bytes));
