//! The service dies, restarts, is upgraded; the machine reboots. Jobs do not notice.

mod boot;
mod gate;
mod launching;
mod power;
mod readopt;
mod shims;
mod storm;

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
