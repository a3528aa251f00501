//! A home on a network file system: no WAL, a folder for each host, the socket elsewhere.

use std::path::PathBuf;

use nexus_testkit::{Nexus, until};
use serde_json::json;

use super::{lives, sql};
use crate::NEXUS;

/// The home, and its folder of this host.
fn network() -> (Nexus, PathBuf) {
    let nexus = Nexus::fresh(NEXUS).env("NEXUS_NETWORK_HOME", "1");
    let run = nexus.work().join("run");
    std::fs::create_dir(&run).unwrap();
    let nexus = nexus.env("XDG_RUNTIME_DIR", run.to_str().unwrap());
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let dir = nexus.home().join("hosts").join(host.trim());
    (nexus, dir)
}

#[test]
fn it_is_told_once_and_laid_out_by_host() {
    let (nexus, dir) = network();
    let said = nexus.run(&["start", "--simulate-gpus", "1"]).expect_code(0).stderr;
    assert!(said.contains("network file system") && said.contains("NEXUS_HOME on a local disk"), "{said}");
    let said = nexus.run(&["restart"]).expect_code(0).stderr;
    assert!(!said.contains("network"), "{said}");
    lives(&nexus);
    let names = |dir: &std::path::Path| -> Vec<String> {
        let entries = std::fs::read_dir(dir).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    assert_eq!(names(&nexus.home()), ["hosts"]);
    let files = names(&dir);
    assert!(files.contains(&"nexus.db".to_string()), "{files:?}");
    assert!(!files.iter().any(|name| name.ends_with("-wal") || name.ends_with(".sock")), "{files:?}");
    let sockets = names(&nexus.work().join("run"));
    assert!(nexus.work().join("run").join(&sockets[0]).join("nexus.sock").exists(), "{sockets:?}");
    let told = nexus.json(&["doctor", "--json"]);
    assert_eq!(told["service"]["database"], "rollback");
    nexus.ok(&["stop"]);
    assert_eq!(sql(&dir.join("nexus.db"), "PRAGMA journal_mode"), "delete");
}

#[test]
fn every_verb_works() {
    let (nexus, _) = network();
    nexus.start(1);
    let runs = nexus.add("echo out; sleep 1000");
    nexus.in_state(&runs, "running");
    until("it printed", || nexus.ok(&["logs", &runs]).contains("out").then_some(()));
    let held = nexus.add_with(&["--hold"], "true");
    nexus.ok(&["first", &held]);
    assert!(nexus.ok(&["queue"]).contains(&held) && nexus.ok(&["ls"]).contains(&runs));
    assert!(nexus.ok(&["status"]).contains(&runs) && nexus.ok(&["show", &runs]).contains("running"));
    nexus.ok(&["kill", &runs]);
    nexus.ok(&["release", &held]);
    assert_eq!(nexus.ended(&held)["state"], "completed");
    let again = nexus.ok(&["rerun", &held]);
    assert_eq!(nexus.ended(&again)["rerun_of"], held.as_str());
    nexus.ok(&["pause"]);
    nexus.ok(&["resume"]);
    nexus.ok(&["forget", "-y", &held]);
    assert_eq!(nexus.json(&["history", "--json"]).as_array().unwrap().len(), 2);
}

#[test]
fn a_crash_loses_nothing() {
    let (nexus, _) = network();
    nexus.start(1);
    let runs = nexus.add("until [ -e go ]; do sleep 0.02; done; exit 6");
    nexus.in_state(&runs, "running");
    let waits = nexus.add("true");
    for _ in 0..3 {
        nexus.kill_service();
        nexus.ok(&["start"]);
    }
    assert_eq!(nexus.job(&runs)["state"], "running");
    nexus.file("go", "");
    let job = nexus.ended(&runs);
    assert_eq!((&job["exit_code"], &job["attempt"]), (&json!(6), &json!(1)));
    assert_eq!(nexus.ended(&waits)["state"], "completed");
}
