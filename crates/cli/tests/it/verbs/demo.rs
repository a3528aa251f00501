//! `demo`: shows itself and leaves nothing.

use nexus_testkit::{Nexus, children_marked};

use super::SCREEN;
use crate::NEXUS;

#[test]
fn it_runs_to_its_end_and_leaves_nothing() {
    let nexus = Nexus::fresh(NEXUS);
    let place = nexus.work().join("tmp");
    std::fs::create_dir(&place).unwrap();
    let nexus = nexus.env("TMPDIR", place.to_str().unwrap());
    let seen = nexus.run(&["demo"]).expect_code(0);
    for word in ["warm-up", "failed (exit 1)", "completed", "epoch 3 loss 0.6"] {
        assert!(seen.stdout.contains(word), "{word}: {seen}");
    }
    assert!(seen.stderr.contains("$ nexus add --name train "), "{seen}");
    assert_eq!(std::fs::read_dir(&place).unwrap().count(), 0, "files are left");
    assert!(children_marked(place.to_str().unwrap()).is_empty(), "processes are left");
    assert!(!nexus.home().exists(), "the user's own home was touched");
}

#[test]
fn on_a_terminal_too() {
    let nexus = Nexus::fresh(NEXUS);
    let place = nexus.work().join("tmp");
    std::fs::create_dir(&place).unwrap();
    let nexus = nexus.env("TMPDIR", place.to_str().unwrap());
    nexus.on_terminal(SCREEN, "", &["demo"]).expect_code(0);
    assert_eq!(std::fs::read_dir(&place).unwrap().count(), 0, "files are left");
}
