//! A service goes, in whatever way, and another comes: jobs go on, and what was said and done stays true.

use nexus_testkit::{Nexus, alive, kill, signal, until};

use super::gate::Gate;
use crate::NEXUS;

/// One runs, one waits; `change` exchanges the service; then both end as they would have.
fn jobs_go_on(change: impl Fn(&Nexus)) {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let (first, second) = (Gate::new(&nexus, "first"), Gate::new(&nexus, "second"));
    let (running, waiting) = (nexus.add(&first.command()), nexus.add(&second.command()));
    let before = nexus.in_state(&running, "running");
    let old_service = nexus.service_pid();
    change(&nexus);
    assert_ne!(nexus.service_pid(), old_service);
    let after = nexus.in_state(&running, "running");
    assert_eq!(after["pid"], before["pid"]);
    assert_eq!(after["started_at"], before["started_at"]);
    assert_eq!(after["gpus"], before["gpus"]);
    assert_eq!(nexus.job(&waiting)["state"], "queued", "its GPU is leased");
    first.open(5);
    let ended = nexus.ended(&running);
    assert_eq!((&ended["state"], &ended["exit_code"]), (&"failed".into(), &5.into()), "{ended:#}");
    assert_eq!(nexus.stdout_of(&running), "before\nafter\n");
    second.open(0);
    assert_eq!(nexus.ended(&waiting)["state"], "completed");
    assert_eq!((first.starts(), second.starts()), (1, 1));
}

#[test]
fn jobs_go_on_through_a_restart() {
    jobs_go_on(|nexus| {
        nexus.ok(&["restart"]);
    });
}

#[test]
fn jobs_go_on_through_a_stop_that_keeps_them() {
    jobs_go_on(|nexus| {
        nexus.ok(&["stop", "--keep-jobs"]);
        assert!(nexus.service_process().is_none());
        nexus.ok(&["start"]);
    });
}

#[test]
fn jobs_go_on_through_kill_9() {
    jobs_go_on(|nexus| {
        nexus.kill_service();
        nexus.ok(&["start"]);
    });
}

#[test]
fn jobs_go_on_through_kill_9_five_times_in_a_row() {
    jobs_go_on(|nexus| {
        for _ in 0..5 {
            nexus.kill_service();
            nexus.ok(&["start"]);
        }
    });
}

#[test]
fn a_job_that_ends_without_a_service_keeps_its_end() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    let gate = Gate::new(&nexus, "gate");
    let (exits, is_shot) = (nexus.add(&gate.command()), nexus.add("sleep 1000; true"));
    nexus.in_state(&exits, "running");
    let shot = nexus.in_state(&is_shot, "running")["pid"].as_u64().expect("a pid");
    let shims = [nexus.shim(&exits), nexus.shim(&is_shot)];
    nexus.kill_service();
    gate.open(42);
    kill(shot as u32, signal::SIGKILL);
    until("the shims have written their records and gone", || shims.iter().all(|shim| !alive(*shim)).then_some(()));
    let started = std::time::SystemTime::now();
    nexus.ok(&["start"]);
    let exited = nexus.ended(&exits);
    assert_eq!((&exited["state"], &exited["exit_code"]), (&"failed".into(), &42.into()), "{exited:#}");
    let ended = nexus.ended(&is_shot);
    assert_eq!((&ended["reason"], &ended["signal"]), (&"signal".into(), &9.into()), "{ended:#}");
    let since_1970 = started.duration_since(std::time::UNIX_EPOCH).expect("it is later").as_secs();
    let ended_at = exited["ended_at"].as_str().expect("a time");
    assert!(seconds_of(ended_at) <= since_1970, "it ended when it ended, not when it was found: {ended_at}");
}

/// Of an RFC 3339 time, by a program that is not ours.
fn seconds_of(time: &str) -> u64 {
    let told = std::process::Command::new("date").args(["-d", time, "+%s"]).output().expect("date is there");
    String::from_utf8_lossy(&told.stdout).trim().parse().expect("seconds")
}

#[test]
fn kill_9_while_jobs_end_loses_no_exit_code() {
    let nexus = Nexus::with_gpus(NEXUS, 4);
    let gates: Vec<Gate> = (0..4).map(|number| Gate::new(&nexus, &format!("gate{number}"))).collect();
    let ids: Vec<String> = gates.iter().map(|gate| nexus.add(&gate.command())).collect();
    for id in &ids {
        nexus.in_state(id, "running");
    }
    let service = nexus.service_pid();
    for (gate, code) in gates.iter().zip(10..) {
        gate.open(code);
        if code == 12 {
            kill(service, signal::SIGKILL);
        }
    }
    until("the service is gone", || (!alive(service)).then_some(()));
    nexus.ok(&["start"]);
    for ((id, gate), code) in ids.iter().zip(&gates).zip(10..) {
        let ended = nexus.ended(id);
        assert_eq!((&ended["state"], &ended["exit_code"]), (&"failed".into(), &code.into()), "{ended:#}");
        assert_eq!(gate.starts(), 1);
    }
}

#[test]
fn a_job_that_ends_while_the_service_is_stopped_by_a_signal_keeps_its_end() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let gate = Gate::new(&nexus, "gate");
    let id = nexus.add(&gate.command());
    nexus.in_state(&id, "running");
    let (service, shim) = (nexus.service_pid(), nexus.shim(&id));
    let _awake = Awake(service);
    kill(service, signal::SIGSTOP);
    gate.open(9);
    until("the shim is done, though nobody hears it", || (!alive(shim)).then_some(()));
    kill(service, signal::SIGCONT);
    let ended = nexus.ended(&id);
    assert_eq!((&ended["state"], &ended["exit_code"]), (&"failed".into(), &9.into()), "{ended:#}");
    assert_eq!(nexus.done("exit 3")["exit_code"], 3, "the GPU is free again");
}

/// Wakes a stopped process whatever becomes of the test, or its home could not be cleaned up.
pub struct Awake(pub u32);

impl Drop for Awake {
    fn drop(&mut self) {
        kill(self.0, signal::SIGCONT);
    }
}

#[test]
fn a_kill_under_way_goes_on_under_the_next_service() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let gate = Gate::new(&nexus, "gate");
    let id = nexus.add(&format!("trap 'echo asked > asked; read code < gate; exit 7' TERM; {}", gate.command()));
    until("it waits", || (gate.starts() == 1).then_some(()));
    nexus.in_state(&id, "running");
    nexus.ok(&["kill", "--no-wait", &id]);
    until("it was asked", || nexus.work().join("asked").exists().then_some(()));
    nexus.kill_service();
    nexus.ok(&["start"]);
    assert_eq!(nexus.job(&id)["state"], "running", "its GPU is leased until it is gone");
    gate.open(7);
    let ended = nexus.ended(&id);
    assert_eq!((&ended["state"], &ended["reason"], &ended["exit_code"]), (&"killed".into(), &"user".into(), &7.into()));
}

#[test]
fn pause_hold_priority_and_place_survive_kill_9() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.ok(&["pause"]);
    let late = nexus.add_with(&["--priority", "5"], "echo late >> order");
    let usual = nexus.add("echo usual >> order");
    let early = nexus.add_with(&["--priority", "-5"], "echo early >> order");
    let first = nexus.add_with(&["--priority", "9"], "echo first >> order");
    nexus.ok(&["first", &first]);
    let held = nexus.add("echo held >> order");
    nexus.ok(&["hold", &held]);
    let order = |nexus: &Nexus| {
        let queue = nexus.json(&["queue", "--json"]);
        queue.as_array().expect("a list").iter().map(|job| job["id"].clone()).collect::<Vec<_>>()
    };
    let before = order(&nexus);
    nexus.kill_service();
    nexus.ok(&["start"]);
    assert_eq!(order(&nexus), before);
    assert_eq!(nexus.json(&["status", "--json"])["queue_paused"], true);
    assert_eq!(nexus.job(&held)["state"], "held");
    nexus.ok(&["resume"]);
    for id in [&first, &early, &usual, &late] {
        assert_eq!(nexus.ended(id)["state"], "completed");
    }
    let ran = std::fs::read_to_string(nexus.work().join("order")).expect("they ran");
    assert_eq!(ran, "first\nearly\nusual\nlate\n");
    nexus.kill_service();
    nexus.ok(&["start"]);
    assert_eq!(nexus.json(&["status", "--json"])["queue_paused"], false);
    assert_eq!(nexus.job(&held)["state"], "held");
    nexus.ok(&["release", &held]);
    assert_eq!(nexus.ended(&held)["state"], "completed");
}
