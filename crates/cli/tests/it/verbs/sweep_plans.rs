//! `sweep --dry-run`, and sweeps that are refused: no service is started for either.

use nexus_testkit::{Nexus, Output};

use super::SCREEN;
use crate::NEXUS;

/// Nothing was sent anywhere: there is not even a database.
fn untouched(nexus: &Nexus) {
    assert!(!nexus.home().join("nexus.db").exists(), "a service was started");
}

fn dry(nexus: &Nexus, typed: &[&str]) -> Output {
    nexus.run(&[&["sweep", "--dry-run"], typed].concat())
}

#[test]
fn a_dry_run_shows_each_command_and_starts_no_service() {
    let nexus = Nexus::fresh(NEXUS);
    let seen = dry(&nexus, &["train --lr {lr} --seed {seed}", "lr=0.10,1e-2", "seed=1..2"]).expect_code(0);
    assert_eq!(
        seen.stdout,
        "train --lr 0.10 --seed 1\ntrain --lr 0.10 --seed 2\ntrain --lr 1e-2 --seed 1\ntrain --lr 1e-2 --seed 2\n"
    );
    assert_eq!(seen.stderr, "4 jobs would be queued\n");
    let told = nexus.json(&["sweep", "x {a}", "a=1..2", "--dry-run", "--json"]);
    assert_eq!(
        told,
        serde_json::json!([{"command": "x 1", "params": {"a": "1"}}, {"command": "x 2", "params": {"a": "2"}}])
    );
    untouched(&nexus);
}

#[test]
fn on_a_terminal_the_first_twenty_are_shown() {
    let nexus = Nexus::fresh(NEXUS);
    let seen =
        nexus.on_terminal(SCREEN, "", &["--color", "never", "sweep", "x {a}", "a=1..36", "--dry-run"]).expect_code(0);
    let shown = format!("{}{}", seen.stdout, seen.stderr);
    assert!(shown.contains("x 20\r\n") && shown.contains("… and 16 more") && !shown.contains("x 21"), "{shown}");
}

#[test]
fn the_matrix_of_the_seed_has_thirty_six_jobs() {
    let nexus = Nexus::fresh(NEXUS);
    let typed = [
        "my-experiment-cmd --param0 {I} --param1 {J} --param2 {K}",
        "I=1,2,3,4",
        "J=linear,quadratic,exotic",
        "K=banana,rockingchair,airplane",
    ];
    let seen = dry(&nexus, &typed).expect_code(0);
    let lines: Vec<&str> = seen.stdout.lines().collect();
    assert_eq!((lines.len(), lines[1]), (36, "my-experiment-cmd --param0 1 --param1 linear --param2 rockingchair"));
}

#[test]
fn r05_braces_quotes_and_dollars_of_a_command_stay() {
    let nexus = Nexus::fresh(NEXUS);
    let command = "awk '{print $1}' f.{a,b} ${lr} {} \"{other}\" '{\"lr\": {lr}}' | tr {a..z} é";
    let seen = dry(&nexus, &[command, "lr=$(x) \\1"]).expect_code(0);
    assert_eq!(seen.stdout, command.replace(" {lr}}", " $(x) \\1}") + "\n");
}

#[test]
fn files_go_with_values() {
    let nexus = Nexus::fresh(NEXUS);
    std::fs::write(nexus.work().join("p.csv"), "model,data\nbert,\"a, b\"\ngpt,c\n").unwrap();
    std::fs::write(nexus.work().join("p.json"), r#"[{"model": 1.50, "data": "x"}]"#).unwrap();
    let seen = dry(&nexus, &["{model}:{data}:{s}", "s=1,2", "--from", "p.csv"]).expect_code(0);
    assert_eq!(seen.stdout, "bert:a, b:1\nbert:a, b:2\ngpt:c:1\ngpt:c:2\n");
    let seen = dry(&nexus, &["--from", "p.csv", "{model}:{data}:{s}", "--zip", "s=1,2"]).expect_code(0);
    assert_eq!(seen.stdout, "bert:a, b:1\ngpt:c:2\n");
    assert_eq!(dry(&nexus, &["{model}{data}", "--from", "p.json"]).expect_code(0).stdout, "1.50x\n");
}

#[test]
fn a_draw_can_be_repeated_and_r12_copies_are_drawn_anew() {
    let nexus = Nexus::fresh(NEXUS);
    let seen = dry(&nexus, &["x {lr}", "lr=log:1e-4..1e-1", "--random", "3", "-x", "2"]).expect_code(0);
    let lines: std::collections::BTreeSet<&str> = seen.stdout.lines().collect();
    assert_eq!(lines.len(), 6, "{}", seen.stdout);
    let seed = seen.stderr.trim_end().rsplit(' ').next().unwrap();
    let again =
        dry(&nexus, &["x {lr}", "lr=log:1e-4..1e-1", "--random", "3", "-x", "2", "--seed", seed]).expect_code(0);
    assert_eq!(again.stdout, seen.stdout);
}

#[test]
fn what_is_wrong_is_told_and_nothing_is_queued() {
    let nexus = Nexus::fresh(NEXUS);
    std::fs::write(nexus.work().join("bad.csv"), "a,b\n1\n").unwrap();
    for (typed, error) in [
        (&["train {lr}"][..], "the sweep has no parameters"),
        (&["lr=1,2"], "there is no command"),
        (&["python", "train.py", "{lr}", "lr=1"], "the command of a sweep is one argument, in quotes"),
        (&["train {lr}", "lr=1", "seed=1..5"], "the command does not use {seed}"),
        (&["train ${lr}", "lr=1"], "the command does not use {lr}"),
        (&["train {lr}", "lr=1,,2"], "lr: value 2 is empty"),
        (&["train {lr}", "lr=1..5:0"], "lr: 1..5:0: the step 0 leads nowhere"),
        (&["train {lr}", "lr=1", "lr=2"], "the parameter lr is given twice"),
        (&["train {lr}", "l-r=1"], "\"l-r\" cannot be the name of a parameter"),
        (&["train {lr}", "lr=1..2000000"], "2000000 values"),
        (&["{a}{b}", "a=1..2000", "b=1..2000"], "that would be 4,000,000 jobs"),
        (&["{a}{b}", "a=1,2", "b=1..3", "--zip"], "a has 2, b has 3"),
        (&["{a}", "a=1,2", "--where", "a >"], "--where \"a >\", character 4: something is missing at its end"),
        (&["{a}", "a=1,x", "--where", "a > 0"], "for a=x"),
        (&["{a}", "a=1,2", "--where", "a > 2"], "holds for none of 2 points"),
        (&["{a}", "a=lin:0..1"], "is a span without a number of values"),
        (&["{a}", "a=1..3", "--random", "4"], "there are 3"),
        (&["{a}", "a=1..3", "--seed", "4"], "--seed repeats a draw of --random"),
        (&["{a}", "--from", "none.csv"], "--from none.csv cannot be read"),
        (&["{a}{b}", "--from", "bad.csv"], "--from bad.csv: line 2 has 1 value"),
        (&["{a}", "a=1", "--extract", "loss=x"], "has no group"),
        (&["{a}", "a=1", "--name", "a b"], "--name cannot be \"a b\""),
        (&["{a}", "a=1", "--stop-after", "x"], "--stop-after cannot be x"),
        (&["{a}", "a=1", "--max-running", "0"], "--max-running cannot be 0"),
        (&["{a}", "a=1", "--gpus", "0,1"], "--gpus"),
        (&["python", "--lr", "{lr}", "lr=1"], "there is no option --lr"),
        (&["--json", "ls"], "ls stands first"),
    ] {
        let seen = nexus.run(&[&["sweep"], typed].concat());
        let code = if error.contains("cannot be read") { 1 } else { 2 };
        let seen = seen.expect_code(code);
        assert!(seen.stderr.contains(error), "{typed:?}: {}", seen.stderr);
        assert!(seen.stderr.contains("hint: ") || code == 1, "{typed:?}: {}", seen.stderr);
        assert_eq!(seen.stdout, "");
    }
    untouched(&nexus);
}

#[test]
fn a_value_that_makes_a_command_too_long_queues_nothing() {
    let nexus = Nexus::fresh(NEXUS);
    let long = format!("a=short,{}", "x".repeat(100_000));
    let seen = nexus.run(&["sweep", "echo {a}{a}", &long]).expect_code(1);
    assert!(seen.stderr.contains("too long") || seen.stderr.contains("bytes"), "{}", seen.stderr);
    untouched(&nexus);
}

#[test]
fn reads_need_a_service() {
    let nexus = Nexus::fresh(NEXUS);
    for noun in ["ls", "show", "csv"] {
        nexus.run(&["sweep", noun]).expect_code(3);
    }
}
