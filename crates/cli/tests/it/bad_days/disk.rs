//! A full disk: new jobs are refused, running ones end as they should, and nothing acknowledged is lost.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use nexus_testkit::{Nexus, alive, kill, until};
use serde_json::json;

use super::mounts::Mount;
use super::{is_root, lives};
use crate::NEXUS;

/// Writes until nothing more fits.
fn fill(file: &Path) {
    let mut file = File::create(file).expect("an empty file fits");
    for size in [1 << 20, 4096, 1] {
        let block = vec![7; size];
        while file.write_all(&block).is_ok() {}
    }
}

#[test]
fn running_jobs_end_and_nothing_is_lost() {
    if !is_root() {
        return;
    }
    let nexus = Nexus::fresh(NEXUS);
    let home = nexus.work().join("small");
    let _mount = Mount::small(&home, "size=32m,mode=700");
    let nexus = nexus.env("NEXUS_HOME", home.to_str().unwrap());
    nexus.start(1);
    let runs = nexus.add("until [ -e go ]; do sleep 0.02; done; echo still here; exit 7");
    let pid = nexus.in_state(&runs, "running")["pid"].as_u64().unwrap() as u32;
    let waits = nexus.add("echo after > after");
    let held = nexus.add_with(&["--hold"], "true");
    let filler = home.join("filler");
    fill(&filler);

    let said = nexus.fails(1, &["add", "true"]);
    assert!(said.starts_with("error: the disk is full: no new jobs are taken\n"), "{said}");
    assert!(said.contains(home.to_str().unwrap()), "{said}");
    assert!(said.ends_with("hint: make room, or nexus forget old jobs\n"), "{said}");
    assert!(nexus.ok(&["status"]).contains("Disk: only 0MB free"), "it is told");
    nexus.file("go", "");
    until("the job has ended", || (!alive(pid)).then_some(()));
    // The service answers all the while.
    assert_eq!(nexus.job(&held)["state"], "held");

    std::fs::remove_file(&filler).unwrap();
    let job = nexus.ended(&runs);
    assert_eq!((&job["state"], &job["exit_code"]), (&json!("failed"), &json!(7)));
    assert_eq!(nexus.ended(&waits)["state"], "completed");
    assert_eq!(std::fs::read_to_string(nexus.work().join("after")).unwrap(), "after\n");
    assert_eq!(nexus.job(&held)["state"], "held");
    lives(&nexus);
    // Before the folder goes.
    nexus.ok(&["stop", "-y"]);
}

#[test]
fn a_crash_with_a_full_disk_loses_nothing() {
    if !is_root() {
        return;
    }
    let nexus = Nexus::fresh(NEXUS);
    let home = nexus.work().join("small");
    let _mount = Mount::small(&home, "size=32m,mode=700");
    let nexus = nexus.env("NEXUS_HOME", home.to_str().unwrap());
    nexus.start(1);
    let runs = nexus.add("until [ -e go ]; do sleep 0.02; done; exit 5");
    nexus.in_state(&runs, "running");
    let held = nexus.add_with(&["--hold"], "true");
    let filler = home.join("filler");
    fill(&filler);
    let service = nexus.service_process().expect("it runs");
    kill(service, 9);
    until("the service is gone", || (!alive(service)).then_some(()));
    nexus.file("go", "");
    // Whether it can start at all without room is its own affair; with room it must.
    nexus.run(&["start"]);
    std::fs::remove_file(&filler).unwrap();
    nexus.ok(&["start"]);
    assert_eq!(nexus.ended(&runs)["exit_code"], 5);
    assert_eq!(nexus.job(&held)["state"], "held");
    lives(&nexus);
    nexus.ok(&["stop", "-y"]);
}
