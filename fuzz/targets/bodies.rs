//! Any bytes as the body of a request.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../room.rs"]
mod room;

#[path = "../../crates/api/tests/outside/bodies.rs"]
mod bodies;

fuzz_target!(|bytes: &[u8]| bodies::hold(bytes));
