//! Tests in a process of their own, for what counts for a whole process, such as its limits. `cargo test` runs all in one.

use std::process::Command;

use nexus_testkit::Limited;

const VARIABLE: &str = "NEXUS_TEST_ALONE";

/// Runs `check` in another process of this test, in which every open(2) fails with EMFILE.
pub fn without_descriptors(test: &str, check: impl FnOnce()) {
    if std::env::var_os(VARIABLE).is_some() {
        let _limit = Limited::no_descriptor(std::process::id()).expect("the own limit can be set");
        return check();
    }
    let own = std::env::current_exe().expect("the test has a path");
    let ended =
        Command::new(own).args([test, "--exact", "--nocapture"]).env(VARIABLE, "1").output().expect("it starts");
    let said = String::from_utf8_lossy(&ended.stdout) + String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success() && said.contains("1 passed"), "{said}");
}
