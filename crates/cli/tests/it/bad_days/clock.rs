//! The wall clock is set while jobs run: how long they ran is what passed on the boot clock.

use nexus_testkit::Nexus;

use super::{lives, sql};
use crate::NEXUS;

const TEN_DAYS_MS: i64 = 10 * 86_400_000;

/// The service was away when NTP corrected the clock of the machine by ten days: all that is in the database is by the clock of before.
#[test]
fn a_clock_that_was_set_between_two_services_adds_nothing_to_run_times() {
    for step in [TEN_DAYS_MS, -TEN_DAYS_MS] {
        let nexus = Nexus::with_gpus(NEXUS, 2);
        let ended = nexus.done("true")["id"].as_str().expect("an id").to_string();
        let before = nexus.job(&ended);
        let running = nexus.add("exec sleep 1000");
        nexus.in_state(&running, "running");
        nexus.kill_service();
        let database = nexus.home().join("nexus.db");
        let known = sql(&database, "SELECT value FROM meta WHERE key = 'clock'");
        let (boot, offset) = known.split_once(' ').expect("the id of the boot, and a number");
        let offset = offset.parse::<i64>().expect("milliseconds") - step;
        sql(
            &database,
            &format!(
                "UPDATE meta SET value = '{boot} {offset}' WHERE key = 'clock';
                 UPDATE runs SET planned_at = planned_at - {step}, started_at = started_at - {step} WHERE ended_at IS NULL;
                 UPDATE jobs SET started_at = started_at - {step} WHERE ended_at IS NULL"
            ),
        );

        nexus.ok(&["start"]);
        let job = nexus.job(&running);
        assert!((0.0..120.0).contains(&job["runtime_seconds"].as_f64().expect("a number")), "set by {step} ms: {job}");
        assert_eq!(nexus.job(&ended), before, "what has ended stays as it was written");
        let way = if step > 0 { "forward" } else { "back" };
        assert!(nexus.service_log().contains(&format!("Clock set {way} by 864000.")), "{}", nexus.service_log());
        nexus.ok(&["kill", "-y", &running]);
        let job = nexus.ended(&running);
        assert!((0.0..120.0).contains(&job["runtime_seconds"].as_f64().expect("a number")), "set by {step} ms: {job}");
        let report = nexus.json(&["report", "--by", "day", "--json"]);
        let hours = |group: &serde_json::Value| group["gpu_hours"].as_f64().expect("a number");
        let groups = report.as_array().expect("groups");
        assert!(groups.iter().map(hours).sum::<f64>() < 0.1, "set by {step} ms: {report}");
        lives(&nexus);
    }
}

/// The hardware clock was behind when the machine booted, and NTP set it while the service ran. Times that the boot before
/// wrote were right.
#[test]
fn a_clock_that_was_behind_after_a_boot_moves_nothing_into_the_future() {
    let nexus = Nexus::fresh(NEXUS);
    nexus.config("[jobs]\nretry_wait = \"5m\"\nretry_wait_max = \"5m\"\n");
    nexus.start(1);
    let running = nexus.add_with(&["--gpus", "0"], "exec sleep 1000");
    nexus.in_state(&running, "running");
    let retried = nexus.add_with(&["--retries", "1"], "false");
    let wait = || {
        let waiting = nexus.job(&retried)["waiting"].clone();
        let until = waiting["until"].as_str()?.parse::<jiff::Timestamp>().ok()?;
        Some(until.as_millisecond() - jiff::Timestamp::now().as_millisecond())
    };
    nexus_testkit::until("it waits for its retry", wait);
    nexus.kill_service();
    let database = nexus.home().join("nexus.db");
    let known = sql(&database, "SELECT value FROM meta WHERE key = 'clock'");
    let (boot, offset) = known.split_once(' ').expect("the id of the boot, and a number");
    let offset = offset.parse::<i64>().expect("milliseconds") - TEN_DAYS_MS;
    sql(&database, &format!("UPDATE meta SET value = '{boot} {offset}' WHERE key = 'clock'"));
    nexus.ok(&["start"]);
    // The second service reads what the first one wrote.
    for _ in 0..2 {
        let seconds = nexus.job(&running)["runtime_seconds"].as_f64().expect("a number");
        assert!((0.001..120.0).contains(&seconds), "{seconds}");
        let wait_ms = wait().expect("it waits still");
        assert!((0..=300_000).contains(&wait_ms), "{wait_ms}");
        nexus.ok(&["restart"]);
    }
    assert!(nexus.service_log().contains("Clock set forward by 864000."), "{}", nexus.service_log());
    nexus.ok(&["kill", "-y", &running]);
}

/// The same clock again: nothing moves, and nothing is told.
#[test]
fn a_clock_that_nobody_set_is_not_told() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let running = nexus.add("exec sleep 1000");
    let before = nexus.in_state(&running, "running");
    nexus.kill_service();
    nexus.ok(&["start"]);
    assert_eq!(nexus.job(&running)["started_at"], before["started_at"]);
    assert!(!nexus.service_log().contains("Clock set"), "{}", nexus.service_log());
}
