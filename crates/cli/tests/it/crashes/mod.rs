//! The service dies, restarts, is upgraded; the machine reboots. Jobs do not notice.

mod boot;
mod client;
mod gate;
mod launching;
mod ledger;
mod power;
pub mod readopt;
mod shims;
mod storm;
mod torture;
mod verdict;

use std::os::unix::fs::DirBuilderExt;

use nexus_testkit::Nexus;

use crate::NEXUS;

/// A home with GPUs in which a failed job is tried again after a second.
fn with_quick_retries(gpus: u16) -> Nexus {
    let nexus = Nexus::fresh(NEXUS);
    std::fs::DirBuilder::new().mode(0o700).create(nexus.home()).expect("a fresh home");
    std::fs::write(nexus.home().join("config.toml"), "[jobs]\nretry_wait = \"1s\"\n").expect("a fresh home");
    nexus.start(gpus);
    nexus
}

/// How many blows a test that stirs deals: `NEXUS_TEST_ROUNDS`, or these.
fn rounds(usual: usize, long: usize) -> usize {
    match std::env::var("NEXUS_TEST_ROUNDS") {
        Ok(text) => text.parse().expect("NEXUS_TEST_ROUNDS is a number"),
        Err(_) if std::env::var_os("NEXUS_TEST_LONG").is_some() => long,
        Err(_) => usual,
    }
}
