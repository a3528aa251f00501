//! Homes that cannot be used, and one that only looks so.

use nexus_testkit::{Mount, Nexus};

use super::{is_root, lives};
use crate::NEXUS;

#[test]
fn a_file_in_its_place_is_told() {
    let nexus = Nexus::fresh(NEXUS);
    let file = nexus.file("file", "mine");
    for home in [file.clone(), file.join("below")] {
        let nexus = Nexus::fresh(NEXUS).env("NEXUS_HOME", home.to_str().unwrap());
        for args in [&["start"][..], &["add", "true"], &[]] {
            let said = nexus.fails(1, args);
            assert!(said.starts_with(&format!("error: nexus cannot keep its files in {}\n", home.display())), "{said}");
            assert!(said.ends_with("hint: NEXUS_HOME=/some/folder nexus … uses another place\n"), "{said}");
        }
        nexus.fails(3, &["queue"]);
    }
    assert_eq!(std::fs::read_to_string(file).unwrap(), "mine");
}

#[test]
fn a_read_only_place_is_told() {
    if !is_root() {
        return;
    }
    let nexus = Nexus::fresh(NEXUS);
    let place = nexus.work().join("ro");
    let _mount = Mount::small(&place, "size=1m,mode=700,ro");
    for home in [place.clone(), place.join("below")] {
        let nexus = Nexus::fresh(NEXUS).env("NEXUS_HOME", home.to_str().unwrap());
        let said = nexus.fails(1, &["add", "true"]);
        assert!(said.starts_with("error: nexus cannot keep its files in "), "{said}");
        assert!(said.contains("Read-only file system"), "{said}");
        let seen = nexus.run(&["doctor"]).expect_code(1).stdout;
        assert!(seen.contains("bad   home"), "{seen}");
    }
}

#[test]
fn a_very_long_path_works() {
    let nexus = Nexus::fresh(NEXUS);
    let home = nexus.work().join("long-".repeat(40)).join("path-".repeat(40));
    let run = nexus.work().join("run");
    std::fs::create_dir(&run).unwrap();
    let nexus = nexus.env("NEXUS_HOME", home.to_str().unwrap()).env("XDG_RUNTIME_DIR", run.to_str().unwrap());
    nexus.start(1);
    lives(&nexus);
    assert!(!home.join("nexus.sock").exists() && home.join("nexus.db").exists());
    let id = nexus.add_with(&["--hold"], "true");
    nexus.kill_service();
    nexus.ok(&["release", &id]);
    assert_eq!(nexus.ended(&id)["state"], "completed");
    nexus.ok(&["stop"]);
}

/// It would name another home in each folder, and still another for the service, which runs in `/`.
#[test]
fn a_relative_home_of_the_user_is_refused() {
    let nexus = Nexus::fresh(NEXUS).env("NEXUS_HOME", "").env("HOME", "some/where");
    for args in [&["start"][..], &["add", "true"], &["queue"], &[]] {
        let said = nexus.fails(1, args);
        assert!(said.contains("HOME has to be an absolute path, and is some/where\n"), "{said}");
        assert!(said.ends_with("hint: NEXUS_HOME=/some/folder names one\n"), "{said}");
    }
    assert!(!nexus.work().join("some").exists());
}

#[test]
fn a_relative_path_counts_from_where_it_was_typed() {
    let nexus = Nexus::fresh(NEXUS).env("NEXUS_HOME", "here");
    nexus.start(1);
    lives(&nexus);
    assert!(nexus.work().join("here/nexus.db").exists());
}

#[test]
fn without_any_home_it_says_what_is_missing() {
    let nexus = Nexus::fresh(NEXUS);
    let done = nexus.command(&["queue"]).env_remove("HOME").env_remove("NEXUS_HOME").output().unwrap();
    assert_eq!(done.status.code(), Some(1));
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(said.starts_with("error: the home of nexus cannot be found\n"), "{said}");
    assert!(said.contains("neither NEXUS_HOME nor HOME is set"), "{said}");
}
