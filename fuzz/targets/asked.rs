//! Any bytes as what is asked of the service beside JSON, and as files that it reads.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../room.rs"]
mod room;

#[path = "../../crates/daemon/tests/outside/asked.rs"]
mod asked;

fuzz_target!(|bytes: &[u8]| asked::hold(bytes));
