//! The dispatcher goes on where it was: killed at any moment, it loses no line and runs none twice.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

use nexus_testkit::signal::{SIGKILL, SIGTERM};
use nexus_testkit::{Chance, Nexus, kill, until};
use serde_json::{Value, json};

use super::dispatch::objects;
use crate::NEXUS;

const RUN: &[&str] = &["run", "--commands-file", "c"];

/// Lines that others wrote, sorted.
fn ledger(nexus: &Nexus) -> Vec<String> {
    let text = std::fs::read_to_string(nexus.work().join("ledger")).unwrap_or_default();
    let mut lines: Vec<String> = text.lines().map(String::from).collect();
    lines.sort();
    lines
}

/// The last word on each job.
fn last(nexus: &Nexus) -> BTreeMap<String, Value> {
    let all = objects(&nexus.work().join("jobs.jsonl"));
    all.into_iter().map(|object| (object["id"].as_str().unwrap().to_string(), object)).collect()
}

fn id_of(object: &Value) -> String {
    object["id"].as_str().unwrap().to_string()
}

#[test]
fn killed_at_any_moment_it_loses_no_line_and_runs_none_twice() {
    let nexus = Nexus::with_gpus(NEXUS, 3);
    let seed = Chance::seed_from("NEXUS_TEST_SEED");
    let mut chance = Chance::from_seed(seed);
    let lines: Vec<String> = (100..160).map(|n| n.to_string()).collect();
    let commands = |count: usize| lines[..count].iter().map(|n| format!("sleep 0.0{n}; echo {n} >> ledger\n"));
    for round in 1..=15 {
        // Lines come to it between the rounds.
        nexus.file("c", &commands(round * 4).collect::<String>());
        let mut run = nexus.piped(RUN);
        std::thread::sleep(Duration::from_millis(chance.below(60)));
        kill(run.id(), SIGKILL);
        run.wait().unwrap();
    }
    let done = nexus.run_limited(RUN).expect_code(0);
    assert!(done.stderr.ends_with("60 jobs: all completed\n"), "{done}");
    assert_eq!(ledger(&nexus), lines, "seed {seed}");
    // A kill in the middle of a line leaves a line that cannot be read, and that is all.
    let text = std::fs::read_to_string(nexus.work().join("jobs.jsonl")).unwrap();
    let ids: std::collections::BTreeSet<String> = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|object| object["status"] == "completed")
        .map(|object| id_of(&object))
        .collect();
    assert_eq!(ids.len(), 60);
}

#[test]
fn jobs_that_were_not_written_down_are_removed_and_held_ones_released() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.file("c", "echo one >> ledger\n");
    nexus.run_limited(RUN).expect_code(0);
    let first = nexus.job("last");
    let tag = first["tags"][0].as_str().unwrap().to_string();
    assert!(tag.starts_with("dispatch-"), "{tag}");
    // As after a kill between the submission and the file.
    let leftover = nexus.add_with(&["--hold", "--tag", &tag], "echo two >> ledger");
    // What somebody repeated and held is his.
    nexus.ok(&["pause"]);
    let repeated = nexus.ok(&["rerun", &id_of(&first)]);
    nexus.ok(&["hold", &repeated]);
    nexus.ok(&["resume"]);
    // As after a kill between the file and the release.
    let written = nexus.add_with(&["--hold", "--tag", &tag], "echo three >> ledger");
    let mut text = std::fs::read_to_string(nexus.work().join("jobs.jsonl")).unwrap();
    text.push_str(&format!("{{\"id\":\"{written}\",\"command\":\"echo three >> ledger\",\"status\":\"pending\"}}\n"));
    nexus.file("jobs.jsonl", &text);
    nexus.file("c", "echo one >> ledger\necho two >> ledger\necho three >> ledger\n");
    nexus.run_limited(RUN).expect_code(0);
    let job = nexus.job(&leftover);
    assert_eq!((&job["state"], &job["reason"]), (&json!("killed"), &json!("removed")));
    assert_eq!(nexus.job(&written)["state"], "completed");
    assert_eq!(nexus.job(&repeated)["state"], "held");
    assert_eq!(ledger(&nexus), ["one", "three", "two"]);
}

#[test]
fn ends_that_no_dispatcher_saw_are_made_up_for() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.file("c", "until [ -e go ]; do sleep 0.02; done; echo one >> ledger\necho two >> ledger; exit 4\n");
    let run = nexus.piped(RUN);
    until("the first runs", || last(&nexus).into_values().find(|object| object["status"] == "running"));
    kill(run.id(), SIGTERM);
    let done = run.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(143), "{said}");
    assert!(said.ends_with("2 jobs go on; the same command picks them up again\n"), "{said}");
    nexus.file("go", "");
    let ids: Vec<String> = last(&nexus).into_keys().collect();
    ids.iter().for_each(|id| drop(nexus.ended(id)));
    let shown = nexus.ok(&["run", "--status"]);
    assert!(shown.contains("→ Completed") && shown.contains("→ Failed (exit 4)"), "the look knows: {shown}");
    let before = objects(&nexus.work().join("jobs.jsonl")).len();
    let done = nexus.run_limited(RUN).expect_code(1);
    assert!(done.stderr.contains("no new commands\n"), "{done}");
    let all = objects(&nexus.work().join("jobs.jsonl"));
    let made_up: Vec<(&str, bool)> = all[before..]
        .iter()
        .map(|object| (object["status"].as_str().unwrap(), object["pid"].is_number() && object["log_file"].is_string()))
        .collect();
    let mut sorted = made_up.clone();
    sorted.sort();
    assert_eq!(sorted, [("completed", true), ("failed", true), ("running", true)], "{made_up:?}");
    assert_eq!(ledger(&nexus), ["one", "two"]);
}

#[test]
fn a_restart_and_a_crash_of_the_service_are_lived_through() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let command = |n: u32| format!("until [ -e go{n} ]; do sleep 0.02; done; echo {n} >> ledger\n");
    nexus.file("c", &(1..=3).map(command).collect::<String>());
    let run = nexus.piped(RUN);
    let runs = |n: usize| {
        let objects = objects(&nexus.work().join("jobs.jsonl"));
        (objects.iter().filter(|object| object["status"] == "running").count() == n).then_some(())
    };
    until("the first runs", || runs(1));
    nexus.ok(&["restart"]);
    nexus.file("go1", "");
    until("the second runs", || runs(2));
    nexus.kill_service();
    nexus.file("go2", "");
    // Nobody else starts it again.
    until("the third runs", || runs(3));
    nexus.file("go3", "");
    let done = run.wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(ledger(&nexus), ["1", "2", "3"]);
    assert_eq!(objects(&nexus.work().join("jobs.jsonl")).len(), 9, "nothing is written twice");
}

#[test]
fn a_stopped_service_is_told_and_the_same_command_goes_on() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.file("c", "until [ -e go ]; do sleep 0.02; done\n");
    let run = nexus.piped(RUN);
    until("it runs", || last(&nexus).into_values().find(|object| object["status"] == "running"));
    nexus.ok(&["stop", "--keep-jobs"]);
    let done = run.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(3), "{said}");
    assert!(said.contains("1 job is not followed to its end; the same command picks it up again\n"), "{said}");
    nexus.file("go", "");
    nexus.run_limited(RUN).expect_code(0);
}

#[test]
fn one_dispatcher_at_a_time() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.file("c", "until [ -e go ]; do sleep 0.02; done\n");
    let run = nexus.piped(RUN);
    until("it is queued", || (!last(&nexus).is_empty()).then_some(()));
    let said = nexus.fails(1, RUN);
    assert!(said.starts_with(&format!("error: another dispatcher (pid {}) goes by ", run.id())), "{said}");
    // Another file of jobs is another dispatcher.
    nexus.file("d", "true\n");
    let other = nexus.piped(&["run", "--commands-file", "d", "--jobs-file", "d.jsonl"]);
    nexus.file("go", "");
    for run in [run, other] {
        assert_eq!(run.wait_with_output().unwrap().status.code(), Some(0));
    }
    assert_eq!(last(&nexus).len(), 1);
}

#[test]
fn a_torn_file_of_jobs_and_lines_that_cannot_be_read_are_lived_with() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.file("c", "echo one >> ledger\n");
    nexus.run_limited(RUN).expect_code(0);
    let path = nexus.work().join("jobs.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    let cut = text.lines().next().unwrap();
    std::fs::write(&path, format!("nonsense\n{text}{}", &cut[..cut.len() - 10])).unwrap();
    nexus.file("c", "echo one >> ledger\necho two >> ledger\n");
    let done = nexus.run_limited(RUN).expect_code(0);
    assert!(done.stderr.contains("jobs.jsonl was cut short and is left out\n"), "{done}");
    assert!(done.stderr.contains("jobs.jsonl, line 1: "), "{done}");
    assert_eq!(ledger(&nexus), ["one", "two"]);
    let shown = nexus.run(&["run", "--status"]).expect_code(0);
    assert_eq!(shown.stdout.matches("→ Completed").count(), 2, "{shown}");
}

#[test]
fn jobs_that_are_unknown_here_count_as_they_stood_and_live_ones_are_queued_anew() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let object = |id: &str, command: &str, status: &str| {
        format!(
            "{{\"id\":\"{id}\",\"command\":\"echo {command} >> ledger\",\"status\":\"{status}\",\"exit_code\":null}}\n"
        )
    };
    let lines =
        [object("zzzz", "one", "completed"), object("zzzy", "two", "running"), object("NOT AN ID", "three", "pending")];
    nexus.file("jobs.jsonl", &lines.concat());
    nexus.file("c", "echo one >> ledger\necho two >> ledger\necho three >> ledger\n");
    let done = nexus.run_limited(RUN).expect_code(0);
    for id in ["zzzy", "NOT AN ID"] {
        assert!(done.stderr.contains(&format!("warning: {id} of ")), "{done}");
    }
    assert!(!done.stderr.contains("zzzz"), "{done}");
    assert_eq!(ledger(&nexus), ["three", "two"]);
    nexus.run_limited(RUN).expect_code(0);
    assert_eq!(ledger(&nexus), ["three", "two"], "and once");
}

#[test]
fn the_same_command_counts_as_often_as_it_stands_there() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    for (count, total) in [(2, 2), (2, 2), (5, 5), (3, 5)] {
        nexus.file("c", &"echo x >> ledger\n".repeat(count));
        nexus.run_limited(RUN).expect_code(0);
        assert_eq!(ledger(&nexus).len(), total);
    }
}

#[test]
fn a_service_that_was_stopped_is_not_started_again() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.file("c", "sleep 1000\necho two >> ledger\n");
    let mut dispatcher = nexus.command(&["run", "--commands-file", "c"]).stderr(Stdio::null()).spawn().unwrap();
    until("it runs", || (nexus.json(&["ls", "--json"])[0]["state"] == "running").then_some(()));
    nexus.ok(&["stop", "-y"]);
    assert_eq!(dispatcher.wait().unwrap().code(), Some(3), "no service");
    assert!(!nexus.work().join("ledger").exists() && nexus.run(&["status"]).code == 3, "it was started");
    nexus.ok(&["start"]);
    assert_eq!(nexus.run(&["run", "--commands-file", "c"]).code, 1, "the first was killed");
    assert_eq!(std::fs::read_to_string(nexus.work().join("ledger")).unwrap(), "two\n");
}

#[test]
fn what_failed_of_another_file_is_not_this_ones_failure() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.file("a", "exit 3\n");
    nexus.file("b", "true\n");
    assert_eq!(nexus.run(&["run", "--commands-file", "a"]).code, 1);
    let said = nexus.run(&["run", "--commands-file", "b"]);
    assert_eq!(said.code, 0, "{said}");
    assert!(said.stderr.ends_with("1 job: all completed\n"), "{said}");
    assert_eq!(nexus.run(&["run", "--commands-file", "a"]).code, 1, "its own failure stays");
}
