//! `wait`: block until jobs end.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use nexus_testkit::Nexus;
use serde_json::json;

use super::LONG;
use crate::NEXUS;

#[test]
fn the_exit_code_says_whether_all_completed() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    let (good, bad) = (nexus.add("true"), nexus.add("exit 7"));
    let said = nexus.run(&["wait", &good]).expect_code(0).stdout;
    assert!(said.starts_with(&format!("completed {good} on GPU ")) && said.ends_with(": true\n"), "{said}");
    let said = nexus.run(&["wait", &good, &bad]).expect_code(1).stdout;
    assert!(said.contains(&format!("failed (exit 7) {bad} on GPU ")), "{said}");
    let told = nexus.run(&["wait", "--json", &bad, &good]).expect_code(1).stdout;
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!((&told[0]["id"], &told[1]["state"]), (&json!(bad), &json!("completed")), "in the order named");
}

#[test]
fn all_means_what_is_alive_now() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    nexus.run(&["wait", "--all"]).expect_code(0);
    nexus.done("exit 1");
    nexus.ok(&["add", "-x", "5", "true"]);
    nexus.add("until [ -e go ]; do sleep 0.02; done");
    let waiter = nexus.command(&["wait", "--all"]).stdout(Stdio::piped()).spawn().unwrap();
    nexus.file("go", "");
    let done = waiter.wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(0), "the failed one had ended before");
    assert_eq!(nexus.json(&["ls", "--json"]), json!([]));
}

/// `wait` for a held job, listening: it has said what it waits for.
fn waiter(nexus: &Nexus, id: &str) -> Child {
    let mut waiter =
        nexus.command(&["wait", "--json", id]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(waiter.stderr.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, format!("{id} is held and does not start before: nexus release {id}\n"));
    waiter
}

#[test]
fn a_held_job_is_said_to_be_held() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.add_with(&["--hold"], "true");
    let mut waiter = waiter(&nexus, &id);
    nexus.ok(&["release", &id]);
    assert!(waiter.wait().unwrap().success());
}

#[test]
fn many_that_are_held_are_told_in_a_line() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let two: Vec<String> = nexus.ok(&["add", "--hold", "-x", "2", "true"]).lines().map(String::from).collect();
    let said = |words: &[&str]| {
        let mut waiter = nexus.command(words).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(waiter.stderr.take().unwrap()).read_line(&mut said).unwrap();
        waiter.kill().unwrap();
        waiter.wait().unwrap();
        said
    };
    let both = two.join(" ");
    assert_eq!(said(&["wait", "--all"]), format!("{both} are held and do not start before: nexus release {both}\n"));
    nexus.ok(&["add", "--hold", "-x", "10", "true"]);
    let many = "12 jobs are held and do not start before they are released: nexus queue shows them\n";
    assert_eq!(said(&["wait", "--all"]), many);
}

#[test]
fn it_outlives_a_restart_and_a_crash() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.add_with(&["--hold"], "exit 4");
    let waiter = waiter(&nexus, &id);
    nexus.ok(&["restart"]);
    nexus.kill_service();
    nexus.ok(&["release", &id]);
    let done = waiter.wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(1));
    let told: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(told[0]["exit_code"], 4);
}

#[test]
fn without_a_job_it_is_a_usage_error() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    assert!(nexus.fails(2, &["wait"]).starts_with("error: SEL is missing\n"));
    nexus.add(LONG);
    assert!(nexus.fails(2, &["wait", "--all", "last"]).starts_with("error: --all and "));
}
