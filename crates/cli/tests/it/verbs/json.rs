//! Names that scripts rely on: never absent, null where unknown.

use nexus_testkit::Nexus;
use serde_json::Value;

use super::LONG;
use crate::NEXUS;

const JOB: &str = "id name project command argv state reason detail waiting exit_code signal request machine class \
                   gpus pid priority attempt retries tags sweep params submitted_at started_at ended_at \
                   runtime_seconds cwd log_dir stdout_path stderr_path results results_state links";

#[track_caller]
fn has_all(job: &Value) {
    for name in JOB.split_whitespace() {
        assert!(job.get(name).is_some(), "{name} is absent: {job}");
    }
}

#[test]
fn a_job_has_all_its_fields_in_every_state_and_listing() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let done = nexus.done("true");
    let failed = nexus.done("exit 2");
    let runs = nexus.add(LONG);
    let running = nexus.in_state(&runs, "running");
    let waits = nexus.add("true");
    let waiting = nexus.job(&waits);
    for job in [&done, &failed, &running, &waiting] {
        has_all(job);
    }
    for args in [&["queue", "--json"][..], &["history", "--json"], &["ls", "--json"]] {
        let list = nexus.json(args);
        list.as_array().expect("a list is an array").iter().for_each(has_all);
        assert!(!list.as_array().unwrap().is_empty());
    }
    has_all(&nexus.json(&["status", "--json"])["active"][0]);
    has_all(&nexus.json(&["add", "--json", "--hold", "true"])["jobs"][0]);
    has_all(&nexus.json(&["add", "--json", "--dry-run", "true"])["jobs"][0]);
    for unknown in ["reason", "exit_code", "signal", "ended_at", "waiting"] {
        assert!(running[unknown].is_null(), "{unknown}: {running}");
    }
    assert_eq!(running["gpus"], serde_json::json!([0]));
    assert_eq!((&failed["reason"], &failed["exit_code"]), (&"exit".into(), &2.into()));
    assert!(failed["detail"].as_str().is_some_and(|detail| detail.contains('2')));
    assert_eq!(waiting["waiting"]["kind"], "gpus");
    assert_eq!(done["results_state"], "none");
}

#[test]
fn times_are_rfc_3339_and_attempts_stand_under_runs() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let job = nexus.done("exit 9");
    for name in ["submitted_at", "started_at", "ended_at"] {
        let time = job[name].as_str().unwrap();
        assert!(time.len() == 24 && time.ends_with('Z') && &time[10..11] == "T", "{time}");
    }
    assert!(job["runtime_seconds"].as_f64().is_some_and(|seconds| seconds >= 0.0));
    let run = &job["runs"][0];
    for name in ["attempt", "machine", "gpus", "pid", "planned_at", "started_at", "ended_at", "outcome", "log_dir"] {
        assert!(run.get(name).is_some(), "{name} is absent: {run}");
    }
    let outcome = &run["outcome"];
    assert_eq!((&outcome["word"], &outcome["exit_code"]), (&"exit".into(), &9.into()));
}
