//! A full disk: new jobs are refused, running ones end as they should, and nothing acknowledged is lost.

use nexus_testkit::{Filler, Mount, Nexus, alive, kill, until};
use serde_json::json;

use super::{is_root, lives};
use crate::NEXUS;

/// A service with one GPU whose home is a small disk of its own; none where disks cannot be made.
fn on_a_small_disk() -> Option<(Mount, Nexus)> {
    if !is_root() {
        return None;
    }
    let nexus = Nexus::fresh(NEXUS);
    let home = nexus.work().join("small");
    let mount = Mount::small(&home, "size=32m,mode=700");
    let nexus = nexus.env("NEXUS_HOME", home.to_str().unwrap());
    nexus.start(1);
    Some((mount, nexus))
}

#[test]
fn running_jobs_end_and_nothing_is_lost() {
    let Some((_mount, nexus)) = on_a_small_disk() else { return };
    let runs = nexus.add("until [ -e go ]; do sleep 0.02; done; echo still here; exit 7");
    let pid = nexus.in_state(&runs, "running")["pid"].as_u64().unwrap() as u32;
    let waits = nexus.add("echo after > after");
    let held = nexus.add_with(&["--hold"], "true");
    let filler = Filler::of(&nexus.home());

    let said = nexus.fails(1, &["add", "true"]);
    assert!(said.starts_with("error: the disk is full, and nothing was done\n"), "{said}");
    assert!(
        said.contains(nexus.home().to_str().unwrap())
            && said.contains("KiB free; no new jobs are taken, running ones go on\n"),
        "{said}"
    );
    assert!(said.ends_with("hint: make room, then try again\n"), "{said}");
    assert!(nexus.ok(&["status"]).contains("Disk: only 0MB free"), "it is told");
    nexus.file("go", "");
    until("the job has ended", || (!alive(pid)).then_some(()));
    // The service answers all the while.
    assert_eq!(nexus.job(&held)["state"], "held");

    drop(filler);
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
    let Some((_mount, nexus)) = on_a_small_disk() else { return };
    let runs = nexus.add("until [ -e go ]; do sleep 0.02; done; exit 5");
    nexus.in_state(&runs, "running");
    let held = nexus.add_with(&["--hold"], "true");
    let filler = Filler::of(&nexus.home());
    let service = nexus.service_process().expect("it runs");
    kill(service, 9);
    until("the service is gone", || (!alive(service)).then_some(()));
    nexus.file("go", "");
    // Whether it can start at all without room is its own affair; with room it must.
    nexus.run(&["start"]);
    drop(filler);
    nexus.ok(&["start"]);
    assert_eq!(nexus.ended(&runs)["exit_code"], 5);
    assert_eq!(nexus.job(&held)["state"], "held");
    lives(&nexus);
    nexus.ok(&["stop", "-y"]);
}

#[test]
fn what_runs_can_be_ended_on_a_full_disk() {
    let Some((_mount, nexus)) = on_a_small_disk() else { return };
    let runs = nexus.add("sleep 600");
    nexus.in_state(&runs, "running");
    let waits = nexus.add("true");
    let filler = Filler::of(&nexus.home());
    let said = nexus.ok(&["kill", &runs]);
    assert!(said.starts_with(&format!("killed {runs} on GPU 0")), "{said}");
    // Nothing starts without room for what it writes, and nothing is used up meanwhile.
    assert_eq!(nexus.job(&waits)["waiting"], json!({"kind": "disk-full"}));
    drop(filler);
    assert_eq!(nexus.ended(&waits)["state"], "completed");
    nexus.ok(&["stop", "-y"]);
}
