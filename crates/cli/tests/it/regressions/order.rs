//! 15, 18, 29, 34: which job starts when, which must not start, and why.

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
fn r15_a_pause_of_gpus_sticks_while_jobs_start_and_stop() {
    let nexus = Nexus::with_gpus(NEXUS, 4);
    // Where it began, and that it has ended.
    let job = "echo $NEXUS_GPU_ID >> begun; sleep 0.03";
    let status = || nexus.json(&["status", "--json"]);
    let on_paused = || lines_of(&nexus, "begun").iter().filter(|gpu| ["1", "3"].contains(&gpu.as_str())).count();
    nexus.ok(&["add", "-x", "120", job]);
    std::thread::scope(|scope| {
        until("some have begun", || (lines_of(&nexus, "begun").len() > 4).then_some(()));
        // Two people at once, while jobs come and go.
        scope.spawn(|| nexus.ok(&["pause", "1"]));
        scope.spawn(|| nexus.ok(&["add", "-x", "20", job]));
        nexus.ok(&["pause", "3"]);
    });
    let busy = |gpu: &Value| !gpu["jobs"].as_array().expect("a list").is_empty();
    until("what ran there has ended", || {
        let gpus = &status()["machines"][0]["gpus"];
        (!busy(&gpus[1]) && !busy(&gpus[3])).then_some(())
    });
    let before = on_paused();
    nexus.kill_service();
    nexus.ok(&["start"]);
    nexus.ok(&["add", "-x", "20", job]);
    nexus.ok(&["wait", "--all"]);
    assert_eq!(lines_of(&nexus, "begun").len(), 160, "each once");
    assert_eq!(on_paused(), before, "some began on a paused GPU");
    nexus.ok(&["resume", "1,3"]);
    nexus.ok(&["add", "-x", "40", "--on", "1,3", job]);
    nexus.ok(&["wait", "--all"]);
    assert_eq!(on_paused(), before + 40);
}

#[test]
fn r29_every_waiting_job_has_a_reason_of_its_own_with_numbers() {
    let nexus = Nexus::with_gpus(NEXUS, 4);
    let runs = nexus.add_with(&["--gpus", "2"], "sleep 1000");
    nexus.in_state(&runs, "running");
    nexus.ok(&["pause", "2"]);
    let wide = nexus.add_with(&["--gpus", "3"], "true");
    let table = [
        (nexus.add_with(&["--hold"], "true"), "held: nexus release ID"),
        (nexus.add_with(&["--gpus", "8"], "true"), "needs 8 GPUs, there are 4"),
        (nexus.add_with(&["--on", "0,1"], "true"), "needs 1 GPU of 0,1: 2 held by jobs"),
        (nexus.add_with(&["--on", "2"], "true"), "needs 1 GPU of 2: 1 paused"),
        (nexus.add_with(&["--on", "0,2"], "true"), "needs 1 GPU of 0,2: 1 held by jobs, 1 paused"),
        (nexus.add_with(&["--on", "9"], "true"), "needs 1 GPU of 9, there are none"),
        (nexus.add_with(&["--gpus", "4", "--force"], "true"), "needs 4 GPUs: 2 free, 2 held by jobs"),
        (wide, "needs 3 GPUs: 1 free, 2 held by jobs, 1 paused"),
    ];
    let (queue, ls) = (nexus.ok(&["queue"]), nexus.ok(&["ls"]));
    for (id, reason) in table {
        let reason = reason.replace("ID", &id);
        let line = |text: &str| text.lines().find(|line| line.contains(&id)).map(String::from).unwrap_or_default();
        assert!(line(&queue).contains(&format!("  {reason}  ")), "{reason}: {queue}");
        assert!(line(&ls).ends_with(&format!("({reason})")), "{reason}: {ls}");
        assert!(nexus.ok(&["show", &id]).contains(&format!("Waiting:     {reason}\n")), "{reason}");
    }
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
