//! The notice `blocked`: a queue that stands still is told once, by a notice, the status and `doctor`.

use nexus_testkit::{FakeGpu, FakeGpus, Nexus, until};
use serde_json::{Value, json};

use super::TIMES;
use super::server::Server;
use crate::NEXUS;
use crate::bad_days::sql;

/// Seconds in place of ten minutes.
const AFTER: &str = "0.4";

/// A service that tells `server`, and tells it soon that the queue stands still.
fn told(nexus: Nexus, server: &Server) -> Nexus {
    let nexus = nexus.env("NEXUS_NOTIFY_TIMES", TIMES).env("NEXUS_BLOCKED_AFTER", AFTER);
    nexus.config(&format!("[notify]\nwebhooks = [{}]\n[gpus]\npoll = \"1s\"\n", json!(server.address("json"))));
    nexus
}

fn kinds(standstill: &Value) -> Vec<&str> {
    standstill["reasons"].as_array().expect("reasons").iter().map(|it| it["kind"].as_str().expect("a kind")).collect()
}

fn standstill(nexus: &Nexus) -> Value {
    nexus.json(&["status", "--json"])["standstill"].clone()
}

#[test]
fn a_paused_queue_is_told_once_and_not_by_the_next_service_again() {
    let server = Server::start(&[]);
    let nexus = told(Nexus::fresh(NEXUS), &server);
    nexus.start(1);
    nexus.ok(&["pause"]);
    let id = nexus.add("true");
    let notice = server.next();
    assert_eq!((&notice["event"], kinds(&notice["standstill"])), (&json!("blocked"), vec!["queue-paused"]));
    let text = notice["text"].as_str().expect("a text");
    assert!(
        text.contains("the queue stands still: 1 job waits") && text.ends_with("\nthe queue is paused\n  nexus resume"),
        "{text}"
    );
    let seen = nexus.ok::<&str>(&[]);
    assert!(seen.starts_with("the queue stands still: 1 job waits, and none has started for "), "{seen}");
    let doctor = nexus.run(&["doctor"]);
    let says = "bad   queue        the queue stands still: ";
    assert!(doctor.code == 1 && doctor.stdout.contains(says), "{}", doctor.stdout);
    assert!(nexus.service_log().contains("Blocked: the queue stands still"), "{}", nexus.service_log());
    nexus.ok(&["restart"]);
    until("the next service says it too", || (!standstill(&nexus).is_null()).then_some(()));
    assert_eq!(server.left(), 0, "it was told before");
    nexus.ok(&["resume"]);
    assert_eq!(nexus.ended(&id)["state"], "completed");
    until("it is over", || standstill(&nexus).is_null().then_some(()));
    assert!(nexus.ok::<&str>(&[]).starts_with("Queue: "));
    nexus.ok(&["pause"]);
    nexus.add("true");
    assert_eq!(kinds(&server.next()["standstill"]), ["queue-paused"], "it stands still again");
}

#[test]
fn a_driver_that_fails_is_told_with_its_gpus() {
    let (server, two) = (Server::start(&[]), [FakeGpu::new('a'), FakeGpu::new('b')]);
    let fake = FakeGpus::new(&two);
    let nexus = told(Nexus::fresh(NEXUS).fake_gpus(&fake), &server);
    nexus.ok(&["start"]);
    assert_eq!(nexus.done("true")["state"], "completed");
    fake.set_fault("driver-gone", &two);
    until("both cannot be read", || {
        let gpus = nexus.json(&["gpus", "--json"])[0]["gpus"].clone();
        gpus.as_array()?.iter().all(|gpu| gpu["obstacle"]["kind"] == "unreadable").then_some(())
    });
    let id = nexus.add("true");
    let notice = server.next();
    let reason = &notice["standstill"]["reasons"][0];
    assert_eq!((&reason["kind"], &reason["gpus"]), (&json!("gpus-unreadable"), &json!([0, 1])), "{notice}");
    assert!(reason["error"].as_str().is_some_and(|error| error.contains("driver is not loaded")), "{notice}");
    fake.set(&two);
    assert_eq!(nexus.ended(&id)["state"], "completed");
    assert_eq!(server.left(), 0);
}

#[test]
fn jobs_that_wait_for_other_jobs_are_no_standstill() {
    let server = Server::start(&[]);
    let nexus = told(Nexus::fresh(NEXUS), &server);
    nexus.start(1);
    nexus.add("sleep 1.2");
    let next = nexus.add("true");
    let held = nexus.add_with(&["--hold"], "true");
    nexus.add_with(&["--after", &held], "true");
    assert_eq!(nexus.ended(&next)["state"], "completed");
    assert!(standstill(&nexus).is_null());
    // The notice of the pause is the first: nothing was told before it.
    nexus.ok(&["pause"]);
    nexus.add("true");
    assert_eq!(kinds(&server.next()["standstill"]), ["queue-paused"]);
    assert_eq!(server.left(), 0);
}

/// One commit of the service fails, and no other one.
fn fails_a_commit(nexus: &Nexus) {
    let database = nexus.home().join("nexus.db");
    let newest = sql(&database, "SELECT max(n) FROM jobs");
    let value = format!("json_extract(CASE WHEN n > {newest} THEN '{{' ELSE '{{}}' END, '$.a')");
    sql(&database, &format!("CREATE INDEX planted ON jobs ({value})"));
    let said = nexus.fails(1, &["add", "true"]);
    assert!(said.contains("malformed JSON"), "{said}");
    sql(&database, "DROP INDEX planted");
}

#[test]
fn one_commit_that_failed_is_no_standstill_and_tells_nothing_again() {
    let server = Server::start(&[]);
    let nexus = told(Nexus::fresh(NEXUS), &server);
    nexus.start(1);
    let runs = nexus.add("exec sleep 1000");
    nexus.in_state(&runs, "running");
    nexus.add("true");
    std::thread::sleep(std::time::Duration::from_secs(1));
    fails_a_commit(&nexus);
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert!(standstill(&nexus).is_null(), "{}", standstill(&nexus));
    assert_eq!(server.left(), 0);

    nexus.ok(&["pause"]);
    assert_eq!(kinds(&server.next()["standstill"]), ["queue-paused"]);
    fails_a_commit(&nexus);
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert_eq!(server.left(), 0, "it was told before");
    assert_eq!(kinds(&standstill(&nexus)), ["queue-paused"]);
    nexus.ok(&["kill", "-y", &runs]);
}

/// Milliseconds that the service has had a processor.
fn cpu_ms(nexus: &Nexus) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", nexus.service_pid())).expect("it runs");
    let (_, numbers) = stat.rsplit_once(')').expect("its name in brackets");
    let ticks = numbers.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<u64>().expect("a number"));
    ticks.sum::<u64>() * 10
}

#[test]
fn a_stop_that_waits_for_jobs_takes_no_processor() {
    let nexus = Nexus::fresh(NEXUS).env("NEXUS_BLOCKED_AFTER", AFTER);
    nexus.start(1);
    let ready = nexus.work().join("ready");
    let stays = format!("trap '' TERM; touch {}; while :; do sleep 0.1; done", ready.display());
    nexus.add_with(&["--grace", "5s"], &stays);
    until("it does not listen any more", || ready.exists().then_some(()));
    nexus.add("true");
    nexus.ok(&["status"]);
    std::thread::scope(|scope| {
        scope.spawn(|| nexus.ok(&["stop", "-y"]));
        std::thread::sleep(std::time::Duration::from_millis(1500));
        let before = cpu_ms(&nexus);
        std::thread::sleep(std::time::Duration::from_secs(2));
        let used = cpu_ms(&nexus) - before;
        assert!(used < 300, "{used} ms of 2000");
    });
}
