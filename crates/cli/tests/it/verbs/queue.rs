//! `queue`: position, id, reason, whole command.

use nexus_testkit::Nexus;

use super::{LONG, SCREEN};
use crate::NEXUS;

#[test]
fn each_waiting_job_says_why() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    let runs = nexus.add(LONG);
    nexus.in_state(&runs, "running");
    let long = format!("echo {}", "x".repeat(300));
    let wide = nexus.add_with(&["--gpus", "2"], &long);
    let held = nexus.add_with(&["--hold"], "echo 1\necho 2");
    let seen = nexus.ok(&["queue"]);
    let lines: Vec<&str> = seen.lines().collect();
    assert_eq!(lines[0], format!("1  {wide}  needs 2 GPUs: 1 free, 1 held by jobs  {long}"));
    assert_eq!(lines[1], format!("2  {held}  held: nexus release {held}               echo 1"));
    assert_eq!(lines[2].trim_start(), "echo 2");
    assert!(!seen.contains(&runs));
    let told = nexus.json(&["queue", "--json"]);
    let numbers = &told[0]["waiting"];
    let numbers = ["kind", "need", "free", "held"].map(|name| &numbers[name]);
    assert_eq!(numbers, [&serde_json::json!("gpus"), &2.into(), &1.into(), &1.into()], "{}", told[0]);
    assert_eq!((&told[0]["position"], &told[1]["position"]), (&1.into(), &2.into()));
}

#[test]
fn priorities_are_shown_when_there_are_any() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.ok(&["pause"]);
    nexus.add("true");
    let first = nexus.add_with(&["--priority", "-2", "--name", "n"], "true");
    let shown = nexus.on_terminal(SCREEN, "", &["--color", "never", "queue"]).expect_code(0).stdout;
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[0].trim_end(), "POS  ID   PRIO (LOW FIRST)  NAME  REASON                      COMMAND");
    assert!(lines[1].starts_with(&format!("1    {first}  -2 ")), "{shown}");
    assert!(lines[1].contains("queue paused: nexus resume"), "{shown}");
}

#[test]
fn an_empty_queue_is_said_and_no_data() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let seen = nexus.run(&["queue"]).expect_code(0);
    assert_eq!((seen.stdout.as_str(), seen.stderr.as_str()), ("", "no jobs pending\n"));
    assert_eq!(nexus.ok(&["queue", "--json"]), "[]");
}
