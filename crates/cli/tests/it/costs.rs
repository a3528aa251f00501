//! What things cost, counted and not timed: system calls, syncs, instructions, allocations. Each has a budget, which is
//! what was counted when it was last made cheaper, and a quarter more.

use std::fs;

use nexus_testkit::trace::{Calls, Watched, allocations_of, calls_of, instructions_of, is_there};
use nexus_testkit::{Nexus, until};
use serde_json::Value;

use crate::NEXUS;

/// Fails where something costs more than it may, and says how much.
fn within(what: &str, counted: u64, budget: u64) {
    eprintln!("{what}: {counted} of {budget}");
    assert!(counted <= budget, "{what}: {counted}, {budget} at most");
}

/// A queue in which nothing starts; none where nothing can be counted.
fn paused() -> Option<Nexus> {
    is_there().then(|| {
        let nexus = Nexus::with_gpus(NEXUS, 1);
        nexus.ok(&["pause"]);
        nexus
    })
}

/// What the service and its launcher, with all that come of them, ask of the kernel meanwhile.
fn watched(nexus: &Nexus, work: impl FnOnce()) -> Calls {
    let service = nexus.service_pid();
    let launcher = until("there is a launcher", || nexus.launcher_of(service));
    let watched = Watched::begin(&[service, launcher], nexus.root().join("calls"));
    work();
    watched.end()
}

#[test]
fn a_submission_is_cheap_for_the_client() {
    let Some(nexus) = paused() else { return };
    let add = nexus.command(&["add", "--", "true"]);
    let calls = calls_of(&add, nexus.root().join("calls"));
    within("connections of a submission", calls.of(&["connect"]), 1);
    within("system calls of a submission", calls.all(), 105);
    // The client under test is not optimized: 1,287,197 were counted.
    within("instructions of a submission", instructions_of(&add), 1_350_000);
    within("allocations of a submission", allocations_of(&add), 810);
}

#[test]
fn a_submission_is_one_sync_for_the_service() {
    const JOBS: u64 = 40;
    let Some(nexus) = paused() else { return };
    nexus.ok(&["add", "--", "true"]);
    let calls = watched(&nexus, || {
        for _ in 0..JOBS {
            nexus.ok(&["add", "--", "true"]);
        }
    });
    // The log of the database is now and then brought into it.
    within("syncs of 40 submissions", calls.syncs(), JOBS + 10);
    within("system calls of a submission, in the service", calls.all() / JOBS, 50);
}

#[test]
fn a_run_is_few_calls_and_one_program() {
    const JOBS: u64 = 40;
    let Some(nexus) = paused() else { return };
    nexus.ok(&["add", "-x", "40", "--", "true"]);
    let calls = watched(&nexus, || {
        nexus.ok(&["resume"]);
        nexus.run_limited(&["wait", "--all"]).expect_code(0);
    });
    within("programs started for 40 jobs", calls.of(&["execve"]), JOBS);
    // One where its start is told with its end; two where counting makes it so slow that it is told before.
    within("syncs of a run", calls.syncs() / JOBS, 2);
    within("system calls of a run", calls.all() / JOBS, 280);
}

#[test]
fn ten_thousand_jobs_are_few_syncs() {
    const JOBS: u64 = 10_000;
    let Some(nexus) = paused() else { return };
    let lines: String = (0..JOBS).map(|number| format!("{{\"argv\": [\"true\", \"{number}\"]}}\n")).collect();
    let file = nexus.file("many.jsonl", &lines);
    let calls = watched(&nexus, || {
        nexus.run_limited(&["import", "--format", "jsonl", &file.to_string_lossy()]).expect_code(0);
    });
    within("syncs of 10,000 jobs", calls.syncs(), 6);
    // The log of the database may be brought into it meanwhile, a page at a time.
    within("system calls of 10,000 jobs", calls.all(), 24_000);
}

/// Ended jobs as another service exported them.
fn take_over(nexus: &Nexus, count: u64) {
    let id = nexus.done("true")["id"].as_str().expect("an id").to_string();
    let exported = nexus.ok(&["export"]);
    let one: Value = serde_json::from_str(exported.lines().next().expect("a line")).expect("JSON");
    let lines: Vec<String> = (0..count)
        .map(|number| {
            let mut job = one.clone();
            let digit =
                |place: u32| char::from(b"abcdefghijkmnopqrstuvwxyz"[(number / 25u64.pow(place) % 25) as usize]);
            job["id"] = (0..5).map(digit).collect::<String>().into();
            job.to_string()
        })
        .collect();
    nexus.ok(&["forget", "-y", &id]);
    let file = nexus.file("old.jsonl", &(lines.join("\n") + "\n"));
    nexus.run_limited(&["import", "--as-history", &file.to_string_lossy()]).expect_code(0);
    fs::remove_file(file).expect("it is there");
}

#[test]
fn what_is_read_does_not_grow_with_the_history() {
    if !is_there() {
        return;
    }
    let costs = |ended: u64| {
        let nexus = Nexus::with_gpus(NEXUS, 1);
        take_over(&nexus, ended);
        let reads: [&[&str]; 4] = [&[], &["queue"], &["history"], &["add", "--hold", "--", "true"]];
        // The first has the pages of its file read.
        reads.iter().for_each(|words| drop(nexus.ok(words)));
        // The service has other things to do meanwhile: the least of several is what the read itself costs.
        let once = |words: &[&str]| watched(&nexus, || drop(nexus.ok(words))).all();
        reads.map(|words| (0..5).map(|_| once(words)).min().expect("five of them"))
    };
    let (few, many) = (costs(100), costs(20_000));
    for (place, what) in ["status", "queue", "history", "submission"].into_iter().enumerate() {
        within(&format!("{what} with 20,000 ended"), many[place], few[place] + few[place] / 4 + 10);
    }
}
