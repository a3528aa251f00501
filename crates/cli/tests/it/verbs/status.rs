//! The status view, as section 2 of the specification draws it.

use nexus_testkit::Nexus;
use serde_json::json;

use super::{LONG, SCREEN};
use crate::NEXUS;

/// The view with its times taken out, which no test can know.
fn view(nexus: &Nexus) -> String {
    let lines = nexus.ok(&["status"]);
    let masked = lines.lines().map(|line| match line.split_once(": ") {
        Some((head @ ("  Runtime" | "  Started"), _)) => format!("{head}: T\n"),
        _ => format!("{line}\n"),
    });
    masked.collect()
}

#[test]
fn nothing_yet() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    let expected = "\
Queue: 0 jobs pending [RUNNING]
History: 0 jobs completed

GPUs:
GPU 0 (simulated, 24GB): Available
GPU 1 (simulated, 24GB): Available
";
    assert_eq!(view(&nexus), expected);
    assert_eq!(nexus.ok(&[] as &[&str]), nexus.ok(&["status"]));
}

#[test]
fn jobs_on_one_and_several_gpus_and_on_the_cpu() {
    let nexus = Nexus::with_gpus(NEXUS, 5);
    let one = nexus.add(LONG);
    let wide = nexus.add_with(&["--gpus", "3"], "for i in 1\ndo sleep 1000; done");
    let on_cpu = nexus.add_with(&["--gpus", "0"], LONG);
    for id in [&one, &wide, &on_cpu] {
        nexus.in_state(id, "running");
    }
    let held = nexus.add_with(&["--hold"], "true");
    nexus.add_with(&["--gpus", "2"], "true");
    let wide_lines = format!(
        "  Job ID: {wide} (GPUs 1-3)\n  Command: for i in 1\n           do sleep 1000; done\n  Runtime: T\n  Started: T\n"
    );
    let expected = format!(
        "\
Queue: 2 jobs pending, 1 held [RUNNING]
History: 0 jobs completed

GPUs:
GPU 0 (simulated, 24GB):
  Job ID: {one}
  Command: sleep 1000
  Runtime: T
  Started: T
GPU 1 (simulated, 24GB):
{wide_lines}GPU 2 (simulated, 24GB):
{wide_lines}GPU 3 (simulated, 24GB):
{wide_lines}GPU 4 (simulated, 24GB): Available

CPU:
  Job ID: {on_cpu}
  Command: sleep 1000
  Runtime: T
  Started: T
"
    );
    assert_eq!(view(&nexus), expected);
    nexus.ok(&["remove", &held]);
    nexus.ok(&["pause"]);
    assert!(view(&nexus).starts_with("Queue: 1 job pending [PAUSED]\nHistory: 0 jobs completed, 1 killed\n"));
}

#[test]
fn runtime_and_start_are_clock_times() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.add(LONG);
    nexus.in_state(&id, "running");
    let seen = nexus.ok(&["status"]);
    let value = |head: &str| seen.lines().find_map(|line| line.strip_prefix(head)).unwrap_or_else(|| panic!("{seen}"));
    assert!(value("  Runtime: ").ends_with('s'));
    let started = value("  Started: ");
    assert!(started.len() == 5 && started.as_bytes()[2] == b':', "{started}");
}

#[test]
fn failures_are_shown_until_they_were_looked_at() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.done("echo first; echo \"ModuleNotFoundError: No module named 'foo'\" >&2; exit 1")["id"].clone();
    let id = id.as_str().unwrap();
    // A program that reads JSON has shown them to nobody.
    let told = nexus.json(&["status", "--json"]);
    assert_eq!((&told["failures"][0]["id"], &told["failures"][0]["exit_code"]), (&json!(id), &json!(1)));
    let seen = nexus.ok(&["status"]);
    let line = seen.lines().nth(2).unwrap();
    assert!(line.starts_with(&format!("Failed: {id} ")), "{seen}");
    assert!(line.ends_with("s ago, exit 1: ModuleNotFoundError: No module named 'foo'"), "{seen}");
    assert_eq!(seen.lines().nth(1), Some("History: 0 jobs completed, 1 failed"));
    assert!(!nexus.ok(&["status"]).contains("Failed:"), "looked at already");
    for _ in 0..4 {
        nexus.done("exit 2");
    }
    assert_eq!(nexus.ok(&["status"]).matches("Failed: ").count(), 3, "three at most");
}

#[test]
fn counts_have_their_plural() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.done("true");
    nexus.add_with(&["--hold"], "true");
    assert!(view(&nexus).starts_with("Queue: 1 job pending, 1 held [RUNNING]\nHistory: 1 job completed\n"));
}

#[test]
fn watching_redraws_until_it_is_broken_off() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let mut watch = nexus.command(&["status", "-w"]);
    let mut watch = watch.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(watch.stdout.take().unwrap()));
    let mut wait_for = |text: &str| assert!(lines.any(|line| line.unwrap().contains(text)), "{text}");
    wait_for("Queue: 0 jobs pending");
    nexus.add_with(&["--hold"], "true");
    wait_for("Queue: 1 job pending, 1 held");
    nexus_testkit::kill(watch.id(), 2);
    assert!(watch.wait().unwrap().success());
}

#[test]
fn a_terminal_gets_colours_and_the_same_words() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let shown = nexus.on_terminal(SCREEN, "", &["status"]).expect_code(0).stdout;
    assert!(shown.contains("\x1b[34m0 jobs pending\x1b[0m \x1b[33m[RUNNING]\x1b[0m"), "{shown:?}");
    assert!(shown.contains("\x1b[37mGPU 0 (simulated, 24GB):\x1b[0m \x1b[92mAvailable\x1b[0m"), "{shown:?}");
}
