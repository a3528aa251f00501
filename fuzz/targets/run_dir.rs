//! Any bytes as the files of a run directory.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../room.rs"]
mod room;

#[path = "../../crates/node/tests/it/outside/run_dir.rs"]
mod run_dir;

fuzz_target!(|bytes: &[u8]| run_dir::hold(bytes));
