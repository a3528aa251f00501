//! `NEXUS_CHECKPOINT_DIR`, and `rerun --resume`.

use std::path::{Path, PathBuf};

use nexus_testkit::{Nexus, kill, until};
use serde_json::{Value, json};

use super::LONG;
use crate::NEXUS;

/// Counts up by one from what it finds.
const COUNT: &str = "n=$(cat $NEXUS_CHECKPOINT_DIR/n 2>/dev/null || echo 0); echo $((n+1)) > $NEXUS_CHECKPOINT_DIR/n; \
    echo at $((n+1)) in ${NEXUS_CHECKPOINT_DIR##*/}";

fn folder(nexus: &Nexus, id: &str) -> PathBuf {
    nexus.home().join("checkpoints").join(id)
}

#[test]
fn every_attempt_has_the_same_folder_and_so_has_rerun_with_resume() {
    let nexus = Nexus::fresh(NEXUS);
    nexus.config("[jobs]\nretry_wait = \"1s\"\n");
    nexus.start(1);
    let id = nexus.add_with(&["--retries", "1"], &format!("{COUNT}; exit 3"));
    nexus.ended(&id);
    assert_eq!(nexus.ok(&["logs", &id]), format!("at 2 in {id}"));
    assert!(nexus.ok(&["show", &id]).contains(&format!("Checkpoints: {}\n", folder(&nexus, &id).display())));
    let fresh = nexus.ok(&["rerun", &id]);
    nexus.ended(&fresh);
    assert_eq!(nexus.ok(&["logs", &fresh, "--attempt", "1"]), format!("at 1 in {fresh}"), "a folder of its own");
    let resumed = nexus.ok(&["rerun", "--resume", &id]);
    nexus.ended(&resumed);
    let further = nexus.ok(&["rerun", "--resume", &resumed]);
    nexus.ended(&further);
    assert_eq!(nexus.ok(&["logs", &further]), format!("at 6 in {id}"), "followed to the first");
    let fresh_again = nexus.ok(&["rerun", &further]);
    nexus.ended(&fresh_again);
    assert_eq!(nexus.ok(&["logs", &fresh_again, "--attempt", "1"]), format!("at 1 in {fresh_again}"));
    // It goes with the last job that uses it.
    nexus.ok(&["forget", "-y", &id, &further]);
    assert!(folder(&nexus, &id).join("n").exists(), "{resumed} goes on from it");
    assert_eq!(nexus.json(&["show", &resumed, "--json"])["checkpoint_dir"], json!(folder(&nexus, &id)));
    nexus.ok(&["forget", "-y", &resumed]);
    assert!(!folder(&nexus, &id).exists() && folder(&nexus, &fresh).exists());
}

#[test]
fn a_job_that_keeps_nothing_leaves_no_folder() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    let job = nexus.done("[ -d \"$NEXUS_CHECKPOINT_DIR\" ] && [ -w \"$NEXUS_CHECKPOINT_DIR\" ]");
    assert_eq!(job["state"], "completed", "{job}");
    nexus.ended(&nexus.add("no-such-program"));
    let argv = nexus.ok(&["add", "--", "no-such-program-either"]);
    assert_eq!(nexus.ended(&argv)["reason"], "start-error");
    let left = std::fs::read_dir(nexus.home().join("checkpoints")).unwrap().count();
    assert_eq!(left, 0);
    let id = nexus.add(LONG);
    nexus.in_state(&id, "running");
    let said = nexus.fails(1, &["rerun", "--resume", &id]);
    assert!(said.contains("it is running on GPU"), "{said}");
    assert!(folder(&nexus, &id).is_dir());
}

#[test]
fn two_jobs_at_once_do_not_go_on_from_the_same() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.add("[ -e again ] && exec sleep 1000; touch again");
    nexus.ended(&id);
    let resumed = nexus.ok(&["rerun", "--resume", &id]);
    nexus.in_state(&resumed, "running");
    let said = nexus.fails(1, &["rerun", "--resume", &id]);
    let expected = format!(
        "error: job {id} cannot be gone on from\njob {resumed} is running and has the same folder of checkpoints\n\
         hint: nexus wait {resumed}, or nexus kill {resumed}; then try again\n"
    );
    assert_eq!(said, expected);
    nexus.ok(&["kill", &resumed]);
    let said = nexus.fails(1, &["rerun", "--resume", &id, &resumed]);
    assert!(said.contains("another of these goes on from the same"), "{said}");
    nexus.ok(&["pause"]);
    let waits = nexus.ok(&["rerun", "--resume", &resumed]);
    assert!(nexus.fails(1, &["rerun", "--resume", &id]).contains(&format!("nexus remove {waits}")));
    nexus.ok(&["rerun", &id]);
}

#[test]
fn the_example_goes_on_from_what_it_saved() {
    let nexus = Nexus::fresh(NEXUS);
    nexus.config("[jobs]\nretry_wait = \"1s\"\n");
    nexus.start(1);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/checkpoints/train.py");
    let script = script.to_str().expect("a path of letters");
    let slow = ["--retries", "1", "python3", script, "--steps", "40", "--seconds-per-step", "0.1"];
    let id = nexus.ok(&[&["add"], &slow[..]].concat());
    let pid = nexus.in_state(&id, "running")["pid"].as_u64().expect("it runs") as u32;
    until("it trains", || nexus.stdout_so_far(&id).contains("starting at step 0 of 40").then_some(()));
    kill(pid, libc::SIGUSR1);
    until("it saves", || nexus.stdout_so_far(&id).contains("saved at step").then_some(()));
    kill(pid, libc::SIGKILL);
    let job = nexus.ended(&id);
    assert_eq!((&job["state"], &job["attempt"]), (&json!("completed"), &json!(2)), "{job}");
    let told = nexus.ok(&["logs", &id]);
    assert!(!told.contains("starting at step 0 ") && told.contains("final loss: 0."), "{told}");
    let again = nexus.ok(&["rerun", "--resume", &id]);
    nexus.ended(&again);
    assert!(nexus.ok(&["logs", &again]).contains("starting at step 40 of 40"));
}

#[test]
fn a_training_longer_than_its_limit_goes_on_by_itself() {
    let nexus = Nexus::fresh(NEXUS);
    nexus.config("[jobs]\nretry_wait = \"0s\"\n");
    nexus.start(1);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/checkpoints/train.py");
    let script = script.to_str().expect("a path of letters");
    // Python has four seconds to be there: on a busy machine it was once asked to save before it listened.
    let contract = ["--time", "5s", "--signal", "USR1@1s", "--retry-on", "timeout", "--retries", "20"];
    let training = ["python3", script, "--steps", "60", "--seconds-per-step", "0.1"];
    let id = nexus.ok(&[&["add"], &contract[..], &training[..]].concat());
    let job = nexus.ended(&id);
    assert_eq!(job["state"], "completed", "{job}");
    assert!(job["attempt"].as_u64() > Some(1), "it was cut into pieces: {job}");
    let outcomes: Vec<Value> = nexus.json(&["show", &id, "--json"])["runs"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|run| run["outcome"]["word"].clone())
        .collect();
    let (last, before) = outcomes.split_last().expect("it ran");
    assert!(*last == "completed" && before.iter().all(|word| word == "timeout"), "{outcomes:?}");
    let told = nexus.ok(&["logs", &id]);
    assert!(!told.contains("starting at step 0 ") && told.contains("final loss: 0."), "{told}");
}
