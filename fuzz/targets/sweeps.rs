//! Any bytes as the plan of a sweep, or its table.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../room.rs"]
mod room;

#[path = "../../crates/api/tests/outside/sweeps.rs"]
mod sweeps;

fuzz_target!(|bytes: &[u8]| sweeps::hold(bytes));
