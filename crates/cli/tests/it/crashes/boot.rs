//! The machine was restarted: played by killing all there is of a home and giving its markers another boot id.

use std::path::Path;
use std::process::Command;

use nexus_testkit::{Nexus, alive, kill, signal, until};
use serde_json::Value;

use super::gate::Gate;

/// Ends everything at once; what `started` says is of another boot, and its pids are those of `stranger` now.
fn power_cut(nexus: &Nexus, running: &[&str], stranger: u32) {
    let shims: Vec<u32> = running.iter().map(|id| nexus.shim(id)).collect();
    let jobs = nexus.job_processes();
    nexus.kill_service();
    for pid in shims.iter().chain(&jobs) {
        kill(*pid, signal::SIGKILL);
    }
    until("nothing is left", || shims.iter().chain(&jobs).all(|pid| !alive(*pid)).then_some(()));
    for id in running {
        let path = nexus.run_dir(id, 1).join("started");
        let mut started: Value = read(&path);
        started["boot_id"] = "00000000-0000-4000-8000-000000000000".into();
        started["pid"] = stranger.into();
        started["shim_pid"] = stranger.into();
        std::fs::write(&path, started.to_string()).expect("the marker is ours to write");
    }
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).expect("the marker is there")).expect("the marker is JSON")
}

#[test]
fn a_restart_of_the_machine_loses_running_jobs_alone() {
    let nexus = super::with_quick_retries(2);
    let mut stranger = Command::new("setsid").args(["sleep", "1003"]).spawn().expect("sleep is there");
    assert_eq!(nexus.done("exit 3")["exit_code"], 3);
    let history = nexus.json(&["history", "--json"]);
    let (lost_gate, retried_gate) = (Gate::new(&nexus, "lost"), Gate::new(&nexus, "retried"));
    let lost = nexus.add(&lost_gate.command());
    let retried = nexus.add_with(&["--retries", "1"], &retried_gate.command());
    nexus.in_state(&lost, "running");
    nexus.in_state(&retried, "running");
    let (waiting, held) = (nexus.add("echo waited"), nexus.add_with(&["--hold"], "echo held"));

    power_cut(&nexus, &[&lost, &retried], stranger.id());
    nexus.ok(&["start"]);

    let ended = nexus.ended(&lost);
    assert_eq!((&ended["state"], &ended["reason"]), (&"failed".into(), &"lost".into()), "{ended:#}");
    assert!(ended["detail"].as_str().is_some_and(|detail| detail.contains("restarted")), "{ended:#}");
    assert_eq!(nexus.ended(&waiting)["state"], "completed");
    assert_eq!(nexus.job(&held)["state"], "held");
    assert_eq!(nexus.json(&["history", "--json"])[0], history[0]);
    until("it is tried again", || (retried_gate.starts() == 2).then_some(()));
    retried_gate.open(0);
    let ended = nexus.ended(&retried);
    assert_eq!((&ended["state"], &ended["attempt"]), (&"completed".into(), &2.into()), "{ended:#}");
    assert_eq!((lost_gate.starts(), retried_gate.starts()), (1, 2));
    assert!(alive(stranger.id()), "whoever has the pids now has nothing to do with it");
    stranger.kill().and_then(|()| stranger.wait()).expect("it was alive");
}
