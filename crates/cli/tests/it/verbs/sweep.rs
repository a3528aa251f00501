//! `sweep` with a service: queued whole or not at all, looked at, and as a table.

use std::collections::BTreeSet;

use nexus_testkit::{Nexus, until};

use super::{LONG, SCREEN};
use crate::NEXUS;

fn ids(text: &str) -> Vec<String> {
    text.lines().map(String::from).collect()
}

#[test]
fn each_with_each_is_queued_in_order_and_runs_with_its_values() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    let typed = ["sweep", "echo {a}-{b}-$NEXUS_PARAM_a", "a=1,2", "b=x,y", "--name", "m", "--tag", "t"];
    let ids = ids(&nexus.ok(&typed));
    assert_eq!(ids.len(), 4);
    for (id, expected) in ids.iter().zip(["1-x-1", "1-y-1", "2-x-2", "2-y-2"]) {
        nexus.in_state(id, "completed");
        assert_eq!(nexus.ok(&["logs", id]).trim_end(), expected);
        let job = nexus.json(&["show", id, "--json"]);
        assert_eq!((&job["sweep"], &job["tags"][0]), (&"m".into(), &"t".into()));
    }
    let jobs = nexus.json(&["show", &ids[2], "--json"]);
    assert_eq!(jobs["params"], serde_json::json!({"a": "2", "b": "x"}));
}

#[test]
fn a_name_is_taken_once_and_one_is_made_up() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.ok(&["pause"]);
    nexus.ok(&["sweep", "echo {a}", "a=1,2", "--name", "m"]);
    let seen = nexus.run(&["sweep", "echo {a}", "a=1,2", "--name", "m"]).expect_code(1);
    assert!(seen.stderr.contains('m'), "{}", seen.stderr);
    let made = nexus.json(&["sweep", "echo {a}", "a=3", "--json"]);
    assert_eq!(made["ids"].as_array().map(Vec::len), Some(1));
    assert_eq!(nexus.json(&["sweep", "ls", "--json"]).as_array().map(Vec::len), Some(2));
    assert_eq!(nexus.json(&["sweep", "show", "--json"])["name"], made["sweep"]["name"], "the newest");
    let seen = nexus.run(&["sweep", "show", "nonesuch"]).expect_code(1);
    assert!(seen.stderr.contains("nonesuch"), "{}", seen.stderr);
}

#[test]
fn a_selector_names_its_jobs() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.ok(&["pause"]);
    let ids = ids(&nexus.ok(&["sweep", "echo {a}", "a=1..3", "--name", "m"]));
    let other = nexus.add("true");
    let held = nexus.json(&["queue", "--json"]).as_array().map(Vec::len);
    assert_eq!(held, Some(4));
    nexus.ok(&["cancel", "-y", "sweep:m"]);
    for id in &ids {
        nexus.in_state(id, "killed");
    }
    nexus.in_state(&other, "queued");
}

#[test]
fn the_table_has_parameters_ends_and_values() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    let command = "echo 'loss: 9.9'; echo 'loss: 0.{a}'; exit {a}";
    let typed = ["sweep", command, "a=0,3", "--name", "m", "--extract", "loss=loss: ([0-9.]+)", "--stop-after", "0"];
    let ids = ids(&nexus.ok(&typed));
    nexus.in_state(&ids[0], "completed");
    nexus.in_state(&ids[1], "failed");
    let table = nexus.ok(&["sweep", "csv", "m"]);
    let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(lines[0], ["id", "a", "state", "exit_code", "runtime_seconds", "results", "loss"]);
    let [first, second] = &lines[1..] else { panic!("{table}") };
    assert_eq!((first[0], &first[1..4], first[6]), (ids[0].as_str(), &["0", "completed", "0"][..], "0.0"));
    assert_eq!((second[0], &second[1..4], second[6]), (ids[1].as_str(), &["3", "failed", "3"][..], "0.3"));
}

#[test]
fn r12_draws_differ_and_the_seed_is_written_down() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.ok(&["pause"]);
    nexus.ok(&["sweep", "echo {lr}", "lr=log:1e-4..1e-1", "--random", "5", "-x", "3", "--seed", "7", "--name", "m"]);
    let jobs = nexus.json(&["queue", "--json"]);
    let commands: BTreeSet<&str> = jobs.as_array().unwrap().iter().filter_map(|job| job["command"].as_str()).collect();
    assert_eq!(commands.len(), 15);
    assert_eq!(nexus.json(&["sweep", "show", "m", "--json"])["plan"]["random"]["seed"], 7);
}

#[test]
fn many_that_wait_are_one_row_on_a_terminal_and_all_elsewhere() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let runs = nexus.add(LONG);
    nexus.in_state(&runs, "running");
    nexus.ok(&["sweep", "echo {a}", "a=1..6", "--name", "m"]);
    nexus.ok(&["sweep", "echo {b}", "b=1..5", "--name", "few"]);
    let shown = |typed: &[&str]| nexus.on_terminal(SCREEN, "", typed).expect_code(0).stdout.lines().count();
    assert_eq!(shown(&["--color", "never", "queue"]), 1 + 1 + 5);
    assert_eq!(shown(&["--color", "never", "queue", "--expand"]), 1 + 11);
    assert_eq!(nexus.ok(&["queue"]).lines().count(), 11);
    let row = nexus.on_terminal(SCREEN, "", &["--color", "never", "queue"]).expect_code(0).stdout;
    assert!(row.contains("sweep:m") && row.contains("6Q") && row.contains("echo {a}"), "{row}");
}

#[test]
fn one_line_is_told_on_a_terminal() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.ok(&["pause"]);
    let typed = ["--color", "never", "sweep", "x {I} {J} {K}", "I=1,2,3,4", "J=a,b,c", "K=a,b,c", "--name", "m"];
    let seen = nexus.on_terminal(SCREEN, "", &typed).expect_code(0).stdout;
    assert!(seen.contains("sweep m: 36 jobs queued (4×3×3: I, J, K)"), "{seen}");
    assert!(seen.contains("nexus sweep show m"), "{seen}");
}

#[test]
fn the_rest_is_held_when_the_first_fail_alike() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.ok(&["sweep", "exit {a}; echo {b}", "a=3", "b=1..10", "--name", "m", "--stop-after", "2"]);
    let stopped = || nexus.json(&["sweep", "show", "m", "--json"])["stopped"].as_str().map(String::from);
    until("the rest is held", stopped);
    let seen = nexus.ok(&["sweep", "show", "m"]);
    assert!(seen.contains("nexus release sweep:m"), "{seen}");
}
