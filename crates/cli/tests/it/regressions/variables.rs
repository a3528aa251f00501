//! 20: the value of a variable is in no listing, argv, record or error, and goes with the last job that needs it.

use std::os::unix::fs::PermissionsExt;

use nexus_testkit::{Nexus, kill, proc, signal, until};
use serde_json::Value;

use super::environment::{files_with, vanishes};
use super::{open_gate, wait_for};
use crate::NEXUS;

const SECRET: &str = "vAr-sEcReT-987654321";

/// Leaves the value outside of the home, without a process that is given it, and waits.
fn use_it(gate: &str) -> String {
    format!("printf %s {{TOKEN}} > got-$NEXUS_JOB_ID; {}", wait_for(gate))
}

#[track_caller]
fn has_got(nexus: &Nexus, id: &str, value: &str) {
    let path = nexus.work().join(format!("got-{id}"));
    until("the job has the value", || (std::fs::read_to_string(&path).ok()? == value).then_some(()));
}

#[track_caller]
fn shown_nowhere(nexus: &Nexus, ids: &[&str]) {
    let views: &[&[&str]] = &[
        &["status"],
        &["ls"],
        &["queue"],
        &["history"],
        &["export"],
        &["var", "ls"],
        &["status", "--json"],
        &["ls", "--json"],
        &["queue", "--json"],
        &["history", "--json"],
        &["export", "--format", "csv"],
        &["var", "ls", "--json"],
    ];
    let of_jobs = ids.iter().flat_map(|id| {
        [vec!["show", *id], vec!["show", *id, "--json", "--env"], vec!["why", *id], vec!["why", *id, "--json"]]
    });
    for view in views.iter().map(|view| view.to_vec()).chain(of_jobs) {
        let shown = nexus.run(&view);
        assert!(!shown.stdout.contains(SECRET) && !shown.stderr.contains(SECRET), "{shown}");
    }
    for file in ["jobs.txt", "service.log"] {
        let text = std::fs::read_to_string(nexus.home().join(file)).unwrap_or_default();
        assert!(!text.contains(SECRET), "{file}: {text}");
    }
    let argv: Vec<u32> = proc::all().into_iter().filter(|pid| proc::cmdline(*pid).contains(SECRET)).collect();
    assert_eq!(argv, [0; 0], "in an argv");
}

#[test]
fn r20_a_variable_is_shown_nowhere_and_goes_with_the_last_job_that_needs_it() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.set_variable("TOKEN", SECRET);
    let running = nexus.add(&use_it("open"));
    has_got(&nexus, &running, SECRET);
    let given = "printf %s \"$HF_TOKEN\" > got-$NEXUS_JOB_ID";
    let queued = nexus.add_with(&["--env", "HF_TOKEN={TOKEN}", "--name", "n"], given);
    let held = nexus.add_with(&["--hold"], "{TOKEN} 2>/dev/null");
    let failing = nexus.add("{TOKEN} nonsense");
    shown_nowhere(&nexus, &[&running, &queued, &held, &failing]);
    let mode = |path: std::path::PathBuf| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(nexus.home().join("nexus.db")), 0o600);
    assert_eq!(mode(nexus.home().join(format!("logs/job_{running}/script"))), 0o600);

    nexus.ok(&["var", "unset", "TOKEN"]);
    let kept = nexus.json(&["var", "ls", "--json"]);
    assert_eq!((&kept[0]["is_set"], &kept[0]["jobs"]), (&Value::Bool(false), &Value::from(4)));
    open_gate(&nexus, "open");
    assert_eq!(nexus.ended(&queued)["state"], "completed");
    has_got(&nexus, &queued, SECRET);
    assert_eq!(nexus.ended(&failing)["reason"], "start-error");
    assert!(!files_with(&nexus, SECRET).is_empty(), "it is kept while it is needed, or this test looks at nothing");
    shown_nowhere(&nexus, &[&running, &queued, &held, &failing]);
    nexus.ok(&["remove", &held]);
    assert_eq!(nexus.json(&["var", "ls", "--json"]), serde_json::json!([]));
    // What the program itself printed stands in its own log, and in no view.
    shown_nowhere(&nexus, &[&failing]);
    assert!(nexus.ok(&["why", &failing]).contains("{TOKEN}: command not found"));
    nexus.ok(&["forget", "-y", &failing]);
    vanishes(&nexus, SECRET, "all jobs have ended");
}

#[test]
fn r20_another_value_leaves_nothing_of_the_one_before() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.set_variable("TOKEN", SECRET);
    assert!(!files_with(&nexus, SECRET).is_empty(), "it is kept, or this test looks at nothing");
    let held = nexus.add_with(&["--hold"], &use_it("open"));
    nexus.set_variable("TOKEN", "another");
    vanishes(&nexus, SECRET, "another value is set");
    nexus.ok(&["release", &held]);
    has_got(&nexus, &held, "another");
}

#[test]
fn r20_a_variable_does_not_outlive_its_jobs_through_crashes() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    nexus.set_variable("TOKEN", SECRET);
    let (one, two) = (nexus.add(&use_it("one")), nexus.add(&use_it("never")));
    has_got(&nexus, &one, SECRET);
    has_got(&nexus, &two, SECRET);
    nexus.ok(&["var", "unset", "TOKEN"]);
    nexus.kill_service();
    open_gate(&nexus, "one");
    // Its shim ends it without a service.
    let exit = nexus.home().join(format!("logs/job_{one}/exit.json"));
    until("the first has ended", || exit.exists().then_some(()));
    assert!(!nexus.home().join(format!("logs/job_{one}/script")).exists());
    nexus.ok(&["start"]);
    assert_eq!(nexus.ended(&one)["state"], "completed");
    shown_nowhere(&nexus, &[&one, &two]);

    let pid = nexus.job(&two)["pid"].as_u64().unwrap() as u32;
    let shim = proc::parent(pid).expect("a shim");
    kill(shim, signal::SIGKILL);
    assert_eq!(nexus.ended(&two)["reason"], "lost");
    vanishes(&nexus, SECRET, "the shim was killed");
    shown_nowhere(&nexus, &[&one, &two]);

    nexus.set_variable("TOKEN", SECRET);
    let service = nexus.service_pid();
    nexus.ok(&["var", "unset", "TOKEN"]);
    kill(service, signal::SIGKILL);
    until("the service is gone", || (!nexus_testkit::alive(service)).then_some(()));
    nexus.ok(&["start"]);
    vanishes(&nexus, SECRET, "the service was killed right after");
}
