//! `wait`: block until jobs end.

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
    let waiter = nexus.command(&["wait", "--all"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    nexus.file("go", "");
    let done = waiter.wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(0), "the failed one had ended before");
    assert_eq!(nexus.json(&["ls", "--json"]), json!([]));
}

#[test]
fn it_outlives_a_restart() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.add("until [ -e go ]; do sleep 0.02; done; exit 4");
    nexus.in_state(&id, "running");
    let waiter = nexus.command(&["wait", "--json", &id]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    nexus.ok(&["restart"]);
    nexus.file("go", "");
    let done = waiter.wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(1));
    let told: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(told[0]["exit_code"], 4);
}

#[test]
fn a_held_job_is_said_to_be_held() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.add_with(&["--hold"], "true");
    let mut waiter = nexus.command(&["wait", &id]);
    let mut waiter = waiter.stderr(std::process::Stdio::piped()).stdout(std::process::Stdio::null()).spawn().unwrap();
    let mut said = String::new();
    let mut talk = std::io::BufReader::new(waiter.stderr.take().unwrap());
    std::io::BufRead::read_line(&mut talk, &mut said).unwrap();
    assert_eq!(said, format!("{id} is held and does not start before: nexus release {id}\n"));
    nexus.ok(&["release", &id]);
    assert!(waiter.wait().unwrap().success());
}

#[test]
fn without_a_job_it_is_a_usage_error() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    assert!(nexus.fails(2, &["wait"]).starts_with("error: SEL is missing\n"));
    nexus.add(LONG);
    assert!(nexus.fails(2, &["wait", "--all", "last"]).starts_with("error: --all and "));
}
