//! Which verbs start a service, and which say that none runs.

use nexus_testkit::Nexus;

use crate::NEXUS;

#[test]
fn reads_say_that_no_service_runs_and_make_nothing() {
    let nexus = Nexus::fresh(NEXUS);
    for args in [
        &["queue"][..],
        &["history"],
        &["ls"],
        &["status"],
        &["show", "abc"],
        &["why", "abc"],
        &["logs"],
        &["logs", "-f", "abc"],
        &["wait", "--all"],
        &["wait", "abc"],
    ] {
        let seen = nexus.run(args).expect_code(3);
        assert_eq!(seen.stdout, "");
        let expected = format!(
            "error: no service runs in this home\nnobody answers in {}\nhint: nexus start\n",
            nexus.home().display()
        );
        assert_eq!(seen.stderr, expected, "{args:?}");
    }
    assert!(!nexus.home().exists());
}

#[test]
fn the_bare_word_and_every_verb_that_changes_something_start_it() {
    for args in [&[][..], &["add", "--hold", "true"], &["run", "--gpus", "0", "true"], &["pause"], &["resume"]] {
        let nexus = Nexus::fresh(NEXUS);
        nexus.run(args).expect_code(0);
        assert!(nexus.service_process().is_some(), "{args:?}");
    }
    for verb in ["kill", "remove", "cancel", "hold", "release", "first", "rerun", "forget", "edit"] {
        let nexus = Nexus::fresh(NEXUS);
        let said = nexus.fails(1, &[verb, "abc"]);
        assert!(said.starts_with("error: there is no job abc\n"), "{said}");
    }
}

#[test]
fn a_service_that_was_killed_is_no_service() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.add_with(&["--hold"], "true");
    nexus.kill_service();
    assert!(nexus.home().join("nexus.sock").exists(), "its socket is still there");
    nexus.fails(3, &["queue"]);
    nexus.ok(&["release", &id]);
    assert_eq!(nexus.ended(&id)["state"], "completed");
}
