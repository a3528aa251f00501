//! Any bytes, read as jsonl.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nexus_api::job_file::Format;

#[path = "../../crates/api/tests/job_file/holds.rs"]
mod holds;

fuzz_target!(|bytes: &[u8]| holds::for_any(bytes, Some(Format::Jsonl)));
