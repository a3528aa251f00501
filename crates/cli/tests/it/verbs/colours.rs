//! Colours: on a terminal, unless somebody says otherwise.

use nexus_testkit::Nexus;

use super::SCREEN;
use crate::NEXUS;

#[test]
fn pipes_are_plain_and_always_means_always() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.done("exit 1");
    let escape = |args: &[&str]| nexus.ok(args).contains('\x1b');
    assert!(!escape(&["status"]) && !escape(&["history"]) && !escape(&["--color", "auto", "history"]));
    assert!(escape(&["--color", "always", "status"]) && escape(&["history", "--color", "always"]));
    let said = nexus.run(&["show", "zzzzzz", "--color", "always"]).expect_code(1).stderr;
    assert!(said.starts_with("\x1b[31merror:\x1b[0m "), "{said:?}");
    let said = nexus.run(&["add", "--color", "always"]).expect_code(2).stderr;
    assert!(said.starts_with("\x1b[31merror:\x1b[0m "), "{said:?}");
}

#[test]
fn a_terminal_has_colours_unless_they_are_unwanted() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.done("exit 1")["id"].as_str().unwrap().to_string();
    let shown = |args: &[&str]| nexus.on_terminal(SCREEN, "", args).expect_code(0).stdout;
    let history = shown(&["history"]);
    assert!(history.contains(&format!("\x1b[35m{id}\x1b[0m")), "magenta ids: {history:?}");
    assert!(history.contains("\x1b[31mfailed (exit 1)\x1b[0m"), "red errors: {history:?}");
    assert!(!shown(&["history", "--color", "never"]).contains('\x1b'));
    let nexus = nexus.env("NO_COLOR", "1");
    assert!(!nexus.on_terminal(SCREEN, "", &["history"]).expect_code(0).stdout.contains('\x1b'));
    let always = nexus.on_terminal(SCREEN, "", &["history", "--color", "always"]).expect_code(0).stdout;
    assert!(always.contains('\x1b'));
}
