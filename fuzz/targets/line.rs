//! Any bytes on the line to a node, or to the launcher.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../room.rs"]
mod room;

#[path = "../../crates/node/tests/it/outside/line.rs"]
mod line;

fuzz_target!(|bytes: &[u8]| line::hold(bytes));
