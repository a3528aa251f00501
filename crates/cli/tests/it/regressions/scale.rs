//! 24, 33: a long history and a long queue cost nothing.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use nexus_testkit::Nexus;
use serde_json::{Value, json};

use crate::NEXUS;

fn ids(jobs: &Value) -> Vec<&str> {
    jobs.as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap()).collect()
}

/// The middle one of several adds.
fn time_of_an_add(nexus: &Nexus) -> Duration {
    let mut times: Vec<Duration> = (0..15)
        .map(|_| {
            let start = Instant::now();
            nexus.add_with(&["--hold", "--tag", "timed"], "true");
            start.elapsed()
        })
        .collect();
    times.sort();
    times[times.len() / 2]
}

#[test]
fn r24_a_long_history_is_whole_and_adds_stay_quick() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.add("true");
    let at_first = time_of_an_add(&nexus);
    nexus.ok(&["add", "--hold", "-x", "1490", "--tag", "old", "true"]);
    nexus.ok(&["remove", "-y", "tag:old"]);
    let newest: Vec<String> =
        (0..10).map(|n| nexus.done(&format!("exit {n}"))["id"].as_str().unwrap().into()).collect();

    let all = nexus.json(&["history", "--all", "--json"]);
    let all = ids(&all);
    assert_eq!(all.len(), 1501);
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 1501);
    assert_eq!(all[1491..], newest, "newest last");
    let usual = nexus.json(&["history", "--json"]);
    assert_eq!(ids(&usual), all[1501 - 25..]);
    let many = nexus.json(&["history", "-n", "1200", "--json"]);
    assert_eq!(ids(&many), all[1501 - 1200..]);
    let lines = nexus.ok(&["history", "--all"]);
    assert_eq!(lines.lines().count(), 1501);
    assert!(lines.lines().last().unwrap().contains(&newest[9]));
    let status = nexus.json(&["status", "--json"]);
    let totals = ["completed", "failed", "killed"].map(|state| status[state].as_u64().unwrap());
    assert_eq!(totals, [2, 9, 1490]);
    nexus.kill_service();
    nexus.ok(&["start"]);
    let after = nexus.json(&["history", "--all", "--json"]);
    assert_eq!(ids(&after), all);

    nexus.ok(&["add", "--hold", "-x", "3000", "--tag", "waits", "true"]);
    let at_last = time_of_an_add(&nexus);
    let most = at_first * 3 + Duration::from_millis(20);
    assert!(at_last < most, "an add took {at_first:?} and now takes {at_last:?}");
    assert_eq!(nexus.json(&["status", "--json"])["held"], json!(3030));
}

#[test]
fn r33_queued_jobs_hold_no_descriptors() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    nexus.ok(&["pause"]);
    nexus.add("true");
    nexus.ok(&["queue"]);
    let open = |pid: u32| std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    // Connections of clients that have just left, and of those that read the database at the same time.
    const COME_AND_GO: usize = 10;
    let before = open(nexus.service_pid());
    nexus.ok(&["add", "-x", "5000", "true"]);
    nexus.ok(&["queue"]);
    let after = open(nexus.service_pid());
    assert!(after <= before + COME_AND_GO, "{before} descriptors became {after}");
    nexus.ok(&["restart"]);
    assert_eq!(nexus.json(&["status", "--json"])["pending"], json!(5001));
    let restarted = open(nexus.service_pid());
    assert!(restarted <= before + COME_AND_GO, "{before} descriptors became {restarted} after a restart");
    let launcher = open(nexus.launcher());
    assert!(launcher <= COME_AND_GO, "{launcher} in the launcher");
}
