//! The life of a sweep: limits, a stop and its release, repetitions, restarts, results.

use nexus_testkit::Nexus;
use serde_json::json;

use crate::NEXUS;

fn ids(text: &str) -> Vec<String> {
    text.lines().map(String::from).collect()
}

#[test]
fn the_matrix_of_the_seed_is_36_jobs_and_a_table_of_36_rows_with_results() {
    let nexus = Nexus::with_gpus(NEXUS, 4);
    let command = "echo {I}-{J}-{K} > out-{I}-{J}-{K}.txt; echo RESULTS: out-{I}-{J}-{K}.txt; echo score: {I}.5";
    let results = nexus.work().join("results");
    let (axes, to) =
        (["I=1,2,3,4", "J=linear,quadratic,exotic", "K=banana,rockingchair,airplane"], results.to_str().unwrap());
    let typed = [&["sweep", command][..], &axes, &["--results", to, "--extract", "score=score: (.*)", "--name", "m"]];
    let all = ids(&nexus.ok(&typed.concat()));
    assert_eq!(all.len(), 36);
    nexus.ok(&["wait", "sweep:m"]);
    let table = nexus.ok(&["sweep", "csv", "m"]);
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), 37);
    assert_eq!(rows[0], ["id", "I", "J", "K", "state", "exit_code", "runtime_seconds", "results", "score"]);
    for (row, id) in rows[1..].iter().zip(&all) {
        let folder = results.join(id);
        assert_eq!((row[0], row[4], row[7]), (id.as_str(), "completed", folder.to_str().unwrap()));
        let file = folder.join(format!("out-{}-{}-{}.txt", row[1], row[2], row[3]));
        assert_eq!(std::fs::read_to_string(file).unwrap(), format!("{}-{}-{}\n", row[1], row[2], row[3]));
        assert_eq!(row[8], format!("{}.5", row[1]));
    }
}

#[test]
fn no_more_run_at_once_than_it_says_through_a_restart() {
    let nexus = Nexus::with_gpus(NEXUS, 3);
    let all = ids(&nexus.ok(&["sweep", "sleep 1000; true {a}", "a=1..5", "--max-running", "2", "--name", "m"]));
    nexus.in_state(&all[1], "running");
    let other = nexus.add("sleep 1000");
    nexus.in_state(&other, "running");
    let waits = |id: &str| nexus.job(id)["waiting"].clone();
    assert_eq!(waits(&all[2]), json!({"kind": "sweep-full", "running": 2, "limit": 2}));
    nexus.ok(&["restart"]);
    assert_eq!(waits(&all[2])["kind"], "sweep-full");
    nexus.ok(&["kill", &all[0]]);
    nexus.in_state(&all[2], "running");
    let states = nexus.json(&["sweep", "show", "m", "--json"])["states"].clone();
    assert_eq!((&states["running"], &states["queued"], &states["killed"]), (&json!(2), &json!(2), &json!(1)));
    nexus.ok(&["cancel", "-y", "sweep:m", &other]);
}

#[test]
fn a_stop_is_told_survives_a_restart_and_is_released() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let all = ids(&nexus.ok(&["sweep", "true {a}; test -e mended", "a=1..6", "--name", "m"]));
    nexus.in_state(&all[5], "held");
    for restarted in [false, true] {
        if restarted {
            nexus.ok(&["restart"]);
        }
        let sweep = nexus.json(&["sweep", "show", "m", "--json"]);
        assert_eq!(sweep["stopped"], "its first 3 jobs all failed: exit 1");
        assert_eq!((&sweep["states"]["failed"], &sweep["states"]["held"]), (&json!(3), &json!(3)));
        let waiting = nexus.job(&all[5])["waiting"].clone();
        assert_eq!(waiting, json!({"kind": "sweep-stopped", "failures": 3, "failure": "exit 1"}));
        assert!(nexus.ok(&["why", &all[5]]).contains("nexus release sweep:m"));
    }
    assert!(nexus.service_log().contains("Sweep m held: its first 3 jobs all failed: exit 1"));
    nexus.file("mended", "");
    nexus.ok(&["release", "sweep:m"]);
    assert_eq!(nexus.ended(&all[5])["state"], "completed");
    let again = ids(&nexus.ok(&["rerun", "--failed", "sweep:m"]));
    assert_eq!(again.len(), 3);
    for id in &again {
        assert_eq!(nexus.ended(id)["state"], "completed");
    }
    let sweep = nexus.json(&["sweep", "show", "m", "--json"]);
    assert_eq!(
        (&sweep["jobs"], &sweep["states"]["completed"], &sweep["states"]["failed"]),
        (&json!(6), &json!(6), &json!(0))
    );
    assert_eq!(sweep["stopped"], json!(null));
    assert_eq!(nexus.ok(&["sweep", "csv", "m"]).lines().count(), 7, "each point once");
    nexus.fails(1, &["rerun", "--failed", "sweep:m"]);
    // Those that were repeated since are of the past for whoever waits or comes after, unless they are named.
    let waited = nexus.run(&["wait", "sweep:m"]).expect_code(0).stdout;
    assert_eq!(waited.lines().count(), 6, "{waited}");
    let failed = nexus.run(&["wait", "sweep:m", &all[0]]).expect_code(1).stdout;
    assert!(failed.contains(&format!("failed (exit 1) {}", all[0])), "{failed}");
    let after = nexus.add_with(&["--after", "sweep:m"], "true");
    assert_eq!(nexus.ended(&after)["state"], "completed");
}

#[test]
fn a_sweep_is_forgotten_with_its_last_job() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    let all = ids(&nexus.ok(&["sweep", "true {a}", "a=1,2,3", "--name", "m"]));
    nexus.ok(&["wait", "sweep:m"]);
    nexus.ok(&["forget", "-y", &all[0]]);
    assert_eq!(nexus.json(&["sweep", "show", "m", "--json"])["jobs"], 2);
    nexus.ok(&["forget", "-y", "sweep:m"]);
    assert_eq!(nexus.json(&["sweep", "ls", "--json"]), json!([]));
    nexus.ok(&["sweep", "true {a}", "a=1", "--name", "m"]);
}

#[test]
fn nothing_is_queued_where_one_value_is_bad() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.ok(&["pause"]);
    for typed in [
        &["sweep", "echo {a}", "a=1..3:0"][..],
        &["sweep", "echo {a}", "a=1,,2"],
        &["sweep", "echo {a} {b}", "a=1..3"],
        &["sweep", "echo {a}", "a=1..3", "c=4"],
        &["sweep", "echo {a}", "a=1..3", "--where", "a < nothing"],
        &["sweep", "echo {a}", "a=1..3", "--max-running", "0"],
    ] {
        let seen = nexus.run(typed);
        match typed[1] == "echo {a} {b}" {
            // Only names that were declared are replaced.
            true => drop(seen.expect_code(0)),
            false => drop(seen.expect_code(2)),
        }
    }
    assert_eq!(nexus.json(&["sweep", "ls", "--json"]).as_array().map(Vec::len), Some(1));
}
