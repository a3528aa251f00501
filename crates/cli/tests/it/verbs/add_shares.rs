//! Parts of GPUs, their memory, their models, and the machine's memory.

use nexus_testkit::Nexus;
use serde_json::{Value, json};

use super::LONG;
use crate::{NEXUS, said};

/// Where a job runs.
#[track_caller]
fn runs_on(nexus: &Nexus, options: &[&str]) -> (String, Value) {
    let id = nexus.add_with(options, LONG);
    let job = nexus.in_state(&id, "running");
    (id, job["gpus"].clone())
}

#[track_caller]
fn waits(nexus: &Nexus, options: &[&str], reason: &str) -> String {
    let id = nexus.add_with(options, LONG);
    let shown = nexus.ok(&["show", &id]);
    assert!(shown.contains(&format!("\nWaiting:     {reason}\n")), "{reason}\nis not in\n{shown}");
    id
}

#[test]
fn halves_stand_side_by_side_and_never_beside_one_that_has_it_alone() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    let (alone, on) = runs_on(&nexus, &[]);
    assert_eq!(on, json!([0]));
    let halves: Vec<(String, Value)> = (0..2).map(|_| runs_on(&nexus, &["--gpus", "0.5"])).collect();
    assert!(halves.iter().all(|(_, on)| *on == json!([1])), "{halves:?}");
    let third = waits(&nexus, &["--gpus", "0.5"], "needs 0.5 GPU: 1 held by jobs, 1 full (0 left)");
    let whole = waits(&nexus, &[], "needs 1 GPU: 1 held by jobs, 1 shared by jobs");
    let told = json!({"kind": "gpus", "need": 1, "exist": 2, "held": 1, "shared": 1});
    assert_eq!(said(&nexus.job(&whole)["waiting"]), said(&told));
    let status = nexus.ok(&["status"]);
    assert!(status.contains(&format!("  Job ID: {} (0.5)\n", halves[0].0)), "{status}");
    assert!(status.contains("\n  Left: 0, 0M"), "{status}");
    assert!(nexus.ok(&["gpus"]).contains(&format!("{}(0.5)", halves[1].0)));
    assert!(nexus.ok(&["ls"]).contains("0.5"));

    nexus.ok(&["restart"]);
    assert_eq!(nexus.job(&third)["waiting"]["full"], 1, "what a run holds is known after a restart");
    nexus.ok(&["kill", &halves[0].0]);
    assert_eq!(nexus.in_state(&third, "running")["gpus"], json!([1]));
    nexus.ok(&["kill", &alone]);
    assert_eq!(nexus.in_state(&whole, "running")["gpus"], json!([0]));
}

#[test]
fn memory_fills_a_card_and_no_more() {
    // A simulated GPU has 24 GB.
    let nexus = Nexus::with_gpus(NEXUS, 1);
    for _ in 0..3 {
        runs_on(&nexus, &["--vram", "7G"]);
    }
    let waiting = waits(&nexus, &["--vram", "7G"], "needs 7G of 1 GPU: 1 full (3G left)");
    runs_on(&nexus, &["--vram", "3G"]);
    let why = nexus.ok(&["why", &waiting]);
    assert!(why.contains("  Needs:    1 GPU, shared, 7G of each\n") && why.contains("  Held by:"), "{why}");
    waits(&nexus, &["--vram", "25G"], "needs 25G of 1 GPU, there are none; GPU 0 is too small");
    waits(&nexus, &["--gpus", "0.01"], "needs 0.01 GPU: 1 full (0M left)");
    let seen = nexus.json(&["gpus", "--json"]);
    assert_eq!(seen[0]["gpus"][0]["shares"].as_array().map(Vec::len), Some(4));
}

#[test]
fn shares_spread_while_nobody_waits_for_a_whole_gpu_and_then_fill_one() {
    let nexus = Nexus::with_gpus(NEXUS, 3);
    let quarter = || runs_on(&nexus, &["--gpus", "0.25"]).1;
    assert_eq!([quarter(), quarter()], [json!([0]), json!([1])]);
    let wide = nexus.add_with(&["--gpus", "3"], LONG);
    assert_eq!([quarter(), quarter()], [json!([0]), json!([0])], "{}", nexus.ok(&["why", &wide]));
    nexus.ok(&["remove", &wide]);
    assert_eq!(quarter(), json!([2]));
    nexus.ok(&["config", "set", "gpus.shares", "pack"]);
    assert_eq!(quarter(), json!([0]));
    nexus.ok(&["config", "set", "gpus.prefer", "2"]);
    assert_eq!(quarter(), json!([2]), "those that are preferred come first");
}

#[test]
fn models_and_the_memory_of_the_machine_are_asked_for() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let wrong = "needs 1 A100 GPU, there are none; GPU 0 is of another model";
    let id = waits(&nexus, &["--gpu-model", "a100"], wrong);
    let warned = nexus.run(&["add", "--gpu-model", "a100", "true"]).expect_code(0).stderr;
    assert_eq!(warned, format!("warning: the job cannot start here: it {wrong}\n"));
    nexus.ok(&["edit", &id, "--gpu-model", "simulated"]);
    nexus.in_state(&id, "running");
    nexus.ok(&["kill", &id]);

    let total = std::fs::read_to_string("/proc/meminfo").unwrap();
    let kib: u64 = total.lines().next().unwrap().split_whitespace().nth(1).unwrap().parse().unwrap();
    let most = kib / 1024;
    let (most_of_it, half) = (format!("{}M", most - 100), format!("{}M", most / 2));
    let first = runs_on(&nexus, &["--gpus", "0", "--ram", &most_of_it]).0;
    let second = nexus.add_with(&["--gpus", "0", "--ram", &half], LONG);
    let waiting = json!({"kind": "ram", "need_mib": most / 2, "free_mib": 100});
    assert_eq!(nexus.job(&second)["waiting"], waiting);
    nexus.ok(&["kill", &first]);
    nexus.in_state(&second, "running");
    let never = nexus.add_with(&["--gpus", "0", "--ram", &format!("{}M", most + 1)], "true");
    assert_eq!(nexus.job(&never)["waiting"]["kind"], "no-such-ram");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    for (typed, error) in [
        (&["--gpus", "0.0001"][..], "error: --gpus 0.0001 is finer than a thousandth of a GPU"),
        (&["--gpus", "0", "--vram", "8G"], "error: --vram is about GPUs and --gpus 0 asks for none"),
        (&["--vram", "8"], "error: --vram: 8 is no size: a number and its unit, as in 512M or 8G, or auto"),
        (&["--ram", "0G"], "error: --ram: 0G is no memory to run in"),
        (&["--retry-on", "timeout"], "error: --retry-on without --retries tries nothing again"),
        (&["--retries", "1", "--retry-on", "lost"], "error: --retry-on: lost is tried again anyway"),
    ] {
        let said = nexus.fails(2, &[&["add"], typed, &["true"]].concat());
        assert!(said.starts_with(error) && said.contains("\nhint: "), "{error}\nis not\n{said}");
    }
}

#[test]
fn what_why_says_to_type_for_a_hopeless_job_lets_it_start() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    let hopeless: [&[&str]; 6] = [
        &["--vram", "30G"],
        &["--on", "5"],
        &["--gpu-model", "A100"],
        &["--gpus", "8"],
        &["--gpus", "0", "--cpus", "9999"],
        &["--gpus", "0", "--ram", "90000G"],
    ];
    for options in hopeless {
        let id = nexus.add_with(options, "true");
        let kind = nexus.job(&id)["waiting"]["kind"].clone();
        assert!(kind.as_str().is_some_and(|kind| kind.starts_with("no-such-")), "{options:?}: {kind}");
        let why = nexus.ok(&["why", &id]);
        let (_, typed) = why.split_once("  Type:").unwrap_or_else(|| panic!("{why}"));
        let (command, _) = typed.trim_start().split_once("  ").unwrap_or_else(|| panic!("{why}"));
        let words: Vec<&str> = command.split(' ').skip(1).map(|word| if word == "\"\"" { "" } else { word }).collect();
        nexus.ok(&words);
        assert_eq!(nexus.ended(&id)["state"], "completed", "{options:?}: {command}");
    }
}
