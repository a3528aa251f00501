//! Any bytes, read as whatever they look like.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/api/tests/job_file/holds.rs"]
mod holds;

fuzz_target!(|bytes: &[u8]| holds::for_any(bytes, None));
