//! 15, 18, 34: which job starts when, and which must not start.

use nexus_testkit::{Nexus, until};
use serde_json::{Value, json};

use super::lines_of;
use crate::NEXUS;

/// Tells that it started.
const TELL: &str = "echo $NEXUS_JOB_ID >> started";

#[test]
fn r15_a_pause_sticks_while_jobs_start_and_stop() {
    let nexus = Nexus::with_gpus(NEXUS, 4);
    let job = format!("{TELL}; sleep 0.05");
    for crash in [false, true] {
        let begun = lines_of(&nexus, "started").len();
        nexus.ok(&["add", "-x", "60", &job]);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| (0..5).for_each(|_| drop(nexus.add(&job))));
            }
            until("some have begun", || (lines_of(&nexus, "started").len() > begun + 4).then_some(()));
            scope.spawn(|| nexus.ok(&["pause"]));
            nexus.ok(&["pause"]);
        });
        let status = || nexus.json(&["status", "--json"]);
        until("what ran has ended", || status()["active"].as_array().unwrap().is_empty().then_some(()));
        let begun = lines_of(&nexus, "started");
        assert!(status()["queue_paused"] == true && status()["pending"].as_u64() > Some(0), "{}", status());
        if crash {
            nexus.kill_service();
            nexus.ok(&["start"]);
        } else {
            nexus.ok(&["restart"]);
        }
        let late = nexus.job(&nexus.add(&job));
        assert_eq!((&late["state"], &late["waiting"]["kind"]), (&json!("queued"), &json!("queue-paused")), "{late}");
        assert_eq!(status()["queue_paused"], true);
        assert!(nexus.ok(&["status"]).contains("[PAUSED]"));
        assert_eq!(lines_of(&nexus, "started"), begun, "started while the queue was paused");
        nexus.ok(&["resume"]);
    }
    nexus.ok(&["wait", "--all"]);
    let mut begun = lines_of(&nexus, "started");
    begun.sort();
    begun.dedup();
    assert_eq!((begun.len(), lines_of(&nexus, "started").len()), (152, 152), "each once");
}

#[test]
fn r18_equal_priority_is_first_come_first_served() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let mut ran = Vec::new();
    // As the service keeps it in its memory, and as it finds it again.
    for (crash, copies) in [(false, "25"), (true, "5")] {
        nexus.ok(&["pause"]);
        let mut expected: Vec<(i32, String)> = Vec::new();
        let mut add = |options: &[&str], priority: i32| {
            let ids = nexus.ok(&[&["add", "--priority", &priority.to_string()], options, &[TELL]].concat());
            expected.extend(ids.lines().map(|id| (priority, id.to_string())));
        };
        for _ in 0..10 {
            add(&[], 0);
        }
        add(&["-x", copies], 0);
        for priority in [3, -5, 0, 3, -5, -1, 2147483647, -2147483648, 0, 1, -5] {
            add(&[], priority);
        }
        add(&["-x", "4"], -5);
        // Stable: those of one priority stay in the order in which they came.
        expected.sort_by_key(|(priority, _)| *priority);
        let expected: Vec<String> = expected.into_iter().map(|(_, id)| id).collect();

        let queue = nexus.json(&["queue", "--json"]);
        let shown: Vec<&str> = queue.as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap()).collect();
        assert_eq!(shown, expected, "as the queue is shown");
        if crash {
            nexus.kill_service();
            nexus.ok(&["start"]);
        }
        nexus.ok(&["resume"]);
        nexus.ok(&["wait", "--all"]);
        ran.extend(expected);
        assert_eq!(lines_of(&nexus, "started"), ran, "as they ran");
    }
}

#[test]
fn r19_ids_stay_when_the_queue_file_is_read_again() {
    let nexus = Nexus::with_gpus(NEXUS, 1).env("EDITOR", "sh ed.sh");
    nexus.ok(&["pause"]);
    let added = nexus.add("echo added");
    let path = nexus.home().join("jobs.txt");
    let text = || std::fs::read_to_string(&path).unwrap_or_default();
    until("the file shows it", || text().contains("echo added").then_some(()));
    std::fs::write(&path, format!("{}echo by file\n", text())).expect("it can be written");
    let ids = || -> Vec<(String, String)> {
        let jobs = nexus.json(&["queue", "--json"]);
        let word = |job: &Value, name: &str| job[name].as_str().expect("text").to_string();
        jobs.as_array().expect("a list").iter().map(|job| (word(job, "command"), word(job, "id"))).collect()
    };
    let before = until("the line is a job", || Some(ids()).filter(|ids| ids.len() == 2));
    assert_eq!(before[0], ("echo added".to_string(), added));
    until("the file shows its id", || text().contains(&format!("#@ {}\necho by file", before[1].1)).then_some(()));
    for round in 0..3 {
        // Touched, written again as it is, read by a new service, edited.
        std::fs::write(&path, text()).expect("it can be written");
        nexus.kill_service();
        std::fs::write(&path, text()).expect("it can be written");
        nexus.ok(&["start"]);
        nexus.file("ed.sh", &format!("sed -i 's/ retries=[0-9]*//; s/^#@ [a-z]*/& retries={}/' \"$1\"", round + 1));
        nexus.ok(&["edit"]);
        until("the file shows the edit", || text().contains(&format!("retries={}", round + 1)).then_some(()));
        assert_eq!(ids(), before);
    }
}

#[test]
fn r34_cancel_lets_nothing_of_its_selection_start() {
    let nexus = Nexus::with_gpus(NEXUS, 3);
    let command = format!("{TELL}; sleep 300");
    let running = nexus.ok(&["add", "-x", "3", "--tag", "x", &command]);
    let running: Vec<&str> = running.lines().collect();
    until("they run", || (lines_of(&nexus, "started").len() == 3).then_some(()));
    let queued = nexus.ok(&["add", "-x", "40", "--tag", "x", &command]);
    nexus.ok(&["add", "--hold", "--tag", "x", &command]);
    let other = nexus.add("echo other");

    nexus.fails(1, &["cancel", "tag:x"]);
    assert_eq!(nexus.job(running[0])["state"], "running", "44 jobs are not cancelled without being asked for");
    nexus.ok(&["cancel", "-y", "tag:x"]);
    assert_eq!(nexus.ended(&other)["state"], "completed", "the GPUs are for the others");
    let mut begun = lines_of(&nexus, "started");
    begun.sort();
    let mut allowed = running.clone();
    allowed.sort();
    assert_eq!(begun, allowed, "one of the selection started meanwhile");
    for id in running {
        assert_eq!(nexus.job(id)["reason"], "user");
    }
    for id in queued.lines() {
        let job = nexus.job(id);
        let told: [&Value; 4] = ["state", "reason", "attempt", "started_at"].map(|name| &job[name]);
        assert_eq!(told, [&json!("killed"), &json!("removed"), &json!(0), &Value::Null], "{job}");
    }
}
