//! Copies of results on bad days: a full target, a service that dies, a copy that somebody gives up.

use std::process::Command;

use nexus_testkit::{Mount, Nexus, until};
use serde_json::json;

use super::is_root;
use crate::NEXUS;

/// Leaves three megabytes.
const BIG: &str = "head -c 3000000 /dev/urandom > big; echo RESULTS: big";

/// A service with one GPU, and a folder that takes one megabyte; none where such cannot be made.
fn with_a_small_target() -> Option<(Mount, Nexus)> {
    if !is_root() {
        return None;
    }
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let mount = Mount::small(&nexus.work().join("small"), "size=1m");
    Some((mount, nexus))
}

fn make_room(nexus: &Nexus) {
    let done = Command::new("mount").args(["-o", "remount,size=16m"]).arg(nexus.work().join("small")).status();
    assert!(done.expect("mount is there").success());
}

fn left_in_target(nexus: &Nexus, id: &str) -> Vec<String> {
    let names = std::fs::read_dir(nexus.work().join("small").join(id)).into_iter().flatten();
    names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Its copy has met the full target, and is tried again.
fn in_trouble(nexus: &Nexus, id: &str) {
    until("the copy is in trouble", || {
        let trouble = nexus.json(&["show", id, "--json"])["results_copy"]["trouble"].clone();
        trouble.as_str().is_some_and(|words| words.contains("No space left on device")).then_some(())
    });
}

#[test]
fn a_full_target_is_waited_for_while_the_gpu_is_free() {
    let Some((_mount, nexus)) = with_a_small_target() else { return };
    let copies = nexus.add_with(&["--results", "small"], BIG);
    let after = nexus.add_with(&["--after", &copies], "true");
    in_trouble(&nexus, &copies);
    assert_eq!(nexus.done("true")["state"], "completed", "the GPU is free");
    assert_eq!(nexus.job(&copies)["state"], "copying");
    assert_eq!(nexus.job(&after)["waiting"], json!({"kind": "after", "jobs": [copies], "count": 1}));
    make_room(&nexus);
    let job = nexus.ended(&copies);
    assert_eq!((&job["state"], &job["results_state"]), (&json!("completed"), &json!("copied")), "{job}");
    assert_eq!(left_in_target(&nexus, &copies), ["big"]);
    assert_eq!(nexus.ended(&after)["state"], "completed");
}

#[test]
fn a_target_that_stays_full_fails_the_copy_alone_and_nothing_half_stays() {
    let Some((_mount, nexus)) = with_a_small_target() else { return };
    let id = nexus.add_with(&["--results", "small"], BIG);
    let job = nexus.ended(&id);
    assert_eq!((&job["state"], &job["results_state"]), (&json!("completed"), &json!("failed")), "{job}");
    let error = job["results_error"].as_str().unwrap_or_default();
    assert!(error.ends_with("/big cannot be written: No space left on device"), "{job}");
    assert_eq!(left_in_target(&nexus, &id), Vec::<String>::new());
    let tries = nexus.service_log().matches(&format!("Results of job {id} not copied")).count();
    assert_eq!(tries, 1, "it is told once, and does not go on for ever");
    make_room(&nexus);
    nexus.ok(&["results", &id]);
    assert_eq!(left_in_target(&nexus, &id), ["big"]);
    assert_eq!(nexus.job(&id)["results_state"], "copied");
}

#[test]
fn a_copy_goes_on_when_the_service_was_killed() {
    let Some((_mount, nexus)) = with_a_small_target() else { return };
    let id = nexus.add_with(&["--results", "small"], BIG);
    in_trouble(&nexus, &id);
    let before = nexus.job(&id);
    nexus.kill_service();
    make_room(&nexus);
    nexus.ok(&["start"]);
    let job = nexus.ended(&id);
    assert_eq!((&job["state"], &job["results_state"]), (&json!("completed"), &json!("copied")), "{job}");
    assert_eq!(left_in_target(&nexus, &id), ["big"]);
    let original = std::fs::read(nexus.work().join("big")).unwrap();
    assert_eq!(std::fs::read(nexus.work().join("small").join(&id).join("big")).unwrap(), original);
    assert_eq!((&job["exit_code"], &job["runtime_seconds"]), (&json!(0), &before["runtime_seconds"]), "as it ended");
    assert!(nexus.service_log().contains(&format!("Job {id} completed successfully\n")), "{}", nexus.service_log());
}

#[test]
fn a_copy_that_is_given_up_leaves_a_job_that_completed() {
    let Some((_mount, nexus)) = with_a_small_target() else { return };
    for verb in ["kill", "cancel"] {
        let id = nexus.add_with(&["--results", "small"], BIG);
        in_trouble(&nexus, &id);
        let said = nexus.fails(1, &["remove", &id]);
        assert!(said.contains("it is copying"), "{said}");
        nexus.ok(&[verb, &id]);
        let job = nexus.job(&id);
        assert_eq!((&job["state"], &job["results_state"]), (&json!("completed"), &json!("failed")), "{job}");
        assert_eq!(job["results_error"], "stopped by user", "{job}");
        until("nothing half-copied stays", || left_in_target(&nexus, &id).is_empty().then_some(()));
    }
    // A stop of the service does not wait for a copy, and does not end it either.
    let id = nexus.add_with(&["--results", "small"], BIG);
    in_trouble(&nexus, &id);
    nexus.ok(&["stop", "-y"]);
    make_room(&nexus);
    nexus.ok(&["start"]);
    assert_eq!(nexus.ended(&id)["results_state"], "copied");
}
