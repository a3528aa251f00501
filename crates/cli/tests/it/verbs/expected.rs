//! When jobs are expected to start and to end, and what is kept for the one that waits longest.

use nexus_testkit::Nexus;

use super::{LONG, SCREEN};
use crate::NEXUS;

/// A time as it is shown here: hours and minutes, with the day before them if that is another. Services under test live in UTC.
fn shown(time: &serde_json::Value) -> String {
    let time: jiff::Timestamp = time.as_str().unwrap().parse().unwrap();
    let is_today = day_of(time) == day_of(jiff::Timestamp::now());
    time.strftime(if is_today { "%H:%M" } else { "%Y-%m-%d %H:%M" }).to_string()
}

fn day_of(time: jiff::Timestamp) -> jiff::civil::Date {
    time.to_zoned(jiff::tz::TimeZone::UTC).date()
}

#[test]
fn by_limits_it_is_no_later() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    let runs = nexus.add_with(&["--time", "1h"], LONG);
    nexus.in_state(&runs, "running");
    let wide = nexus.add_with(&["--gpus", "2", "--time", "30m"], "true");
    let long = nexus.add_with(&["--time", "2h"], "true");
    let jobs = nexus.json(&["queue", "--json"]);
    assert_eq!((&jobs[0]["id"], &jobs[1]["id"]), (&wide.clone().into(), &long.clone().into()));
    assert_eq!((&jobs[0]["expected"]["at_latest"], &jobs[1]["waiting"]["kind"]), (&true.into(), &"kept".into()));
    let start = shown(&jobs[0]["expected"]["start"]);
    let queue = nexus.ok(&["queue"]);
    // The column is as wide as its widest time: the other job's may be of tomorrow.
    let words = queue.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(&format!(" by {start} true ")), "{queue}");
    assert!(queue.contains(&format!("room is kept for {wide}, to start by {start}")), "{queue}");
    let show = nexus.ok(&["show", &wide]);
    let end = shown(&jobs[0]["expected"]["end"]);
    assert!(show.contains(&format!("Starts:      by {start}\nEnds:        by {end}\n")), "{show}");
    assert!(nexus.ok(&["show", &runs]).contains("\nEnds:        by "));
    let why = nexus.ok(&["why", &long]);
    assert!(why.contains(&format!("nexus why {wide}")) && why.contains(&format!("nexus edit {long} --time")), "{why}");
    // One that is gone by then has the free GPU at once; one that is not may have it after the wide one.
    let tried = nexus.ok(&["add", "--dry-run", "--time", "20m", "true"]);
    assert!(tried.starts_with("would start now on GPU "), "{tried}");
    let tried = nexus.ok(&["add", "--dry-run", "--time", "3h", "true"]);
    assert!(tried.contains(&format!("room is kept for {wide}, to start by {start}, starts by ")), "{tried}");
    let short = nexus.add_with(&["--time", "20m"], "echo gone");
    assert_eq!(nexus.ended(&short)["state"], "completed");
    let told = nexus.on_terminal(SCREEN, "", &["--color", "never", "add", "--gpus", "2", "--time", "1m", "true"]);
    let told = told.expect_code(0).stdout;
    assert!(told.contains("position 3") && told.contains("starts by "), "{told}");
}

#[test]
fn by_earlier_runs_it_is_about_then_and_stays_so_over_a_restart() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.done("sleep 0.2");
    let runs = nexus.add_with(&["--name", "alone", "--time", "1h"], LONG);
    let waits = nexus.add("sleep 0.1");
    for _ in 0..2 {
        nexus.in_state(&runs, "running");
        let expected = nexus.job(&waits)["expected"].clone();
        assert_eq!(expected["at_latest"], false, "as long as another of the same words took");
        assert!(expected["end"].as_str() > expected["start"].as_str(), "{expected}");
        assert!(nexus.ok(&["queue"]).contains(&format!("~{}", shown(&expected["start"]))));
        nexus.ok(&["restart"]);
    }
    nexus.ok(&["kill", &runs]);
    nexus.ended(&waits);
    let runs = nexus.add_with(&["--name", "another"], LONG);
    let waits = nexus.add("sleep 0.1");
    nexus.in_state(&runs, "running");
    assert_eq!(nexus.job(&runs).get("expected"), None);
    assert_eq!(nexus.job(&waits).get("expected"), None, "nobody knows how long that one takes");
}
