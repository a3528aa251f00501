//! A shim dies, or stands still: all that its job left is ended, the GPU is leased until then. A job whose shim died is
//! failed/lost; one whose shim stands still is ended by `kill` and by its time limit all the same.

use nexus_testkit::{Nexus, alive, kill, signal, until};
use serde_json::Value;

use crate::NEXUS;

/// A tree of three sessions that writes its pids down; none of them goes by itself.
const TREE: &str = "setsid sleep 1001 & a=$!; (sleep 1002; true) & b=$!; echo $$ $a $b > pids; wait; wait";

/// Tells which of them live when it starts.
const LOOK: &str = "for pid in $(cat pids); do grep -q '^State:.[^ZX]' /proc/$pid/status && echo alive $pid; done; \
                    echo looked";

fn tree(nexus: &Nexus) -> (String, Vec<u32>) {
    let id = nexus.add(TREE);
    let pids: Vec<u32> = until("the tree is there", || {
        let text = std::fs::read_to_string(nexus.work().join("pids")).ok().filter(|text| text.ends_with('\n'))?;
        text.split_whitespace().map(|pid| pid.parse().ok()).collect()
    });
    nexus.in_state(&id, "running");
    assert!(pids.iter().all(|pid| alive(*pid)));
    (id, pids)
}

fn is_lost(ended: &Value) {
    assert_eq!((&ended["state"], &ended["reason"]), (&"failed".into(), &"lost".into()), "{ended:#}");
    assert!(ended["detail"].as_str().is_some_and(|detail| detail.contains("shim")), "{ended:#}");
}

#[test]
fn a_dead_shim_s_tree_is_ended_before_the_next_job_gets_the_gpu() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let (id, pids) = tree(&nexus);
    let next = nexus.add(LOOK);
    kill(nexus.shim(&id), signal::SIGKILL);
    is_lost(&nexus.ended(&id));
    assert!(pids.iter().all(|pid| !alive(*pid)), "lost is said when all is gone");
    assert_eq!(nexus.ended(&next)["state"], "completed");
    assert_eq!(nexus.stdout_of(&next), "looked\n");
    assert!(nexus.job_processes().is_empty());
}

#[test]
fn a_shim_that_died_without_a_service_is_found_and_cleared_after() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let (id, pids) = tree(&nexus);
    let next = nexus.add(LOOK);
    let shim = nexus.shim(&id);
    nexus.kill_service();
    kill(shim, signal::SIGKILL);
    until("the shim is gone", || (!alive(shim)).then_some(()));
    assert!(pids.iter().any(|pid| alive(*pid)), "nobody is there to end them");
    nexus.ok(&["start"]);
    is_lost(&nexus.ended(&id));
    assert!(pids.iter().all(|pid| !alive(*pid)));
    assert_eq!(nexus.ended(&next)["state"], "completed");
    assert_eq!(nexus.stdout_of(&next), "looked\n");
}

#[test]
fn a_lost_job_with_a_retry_runs_again_when_its_tree_is_gone() {
    let nexus = super::with_quick_retries(1);
    let id = nexus.add_with(&["--retries", "1"], &format!("if [ $NEXUS_ATTEMPT = 1 ]; then {TREE}; else {LOOK}; fi"));
    until("the tree is there", || nexus.work().join("pids").exists().then_some(()));
    nexus.in_state(&id, "running");
    kill(nexus.shim(&id), signal::SIGKILL);
    let ended = nexus.ended(&id);
    assert_eq!((&ended["state"], &ended["attempt"]), (&"completed".into(), &2.into()), "{ended:#}");
    assert_eq!(ended["runs"][0]["outcome"]["word"], "lost", "{ended:#}");
    assert_eq!(nexus.stdout_of(&id), "looked\n");
}

/// A job that keeps its shim stopped once it may, from two sessions.
const STOPS_ITS_SHIM: &str = "trap '' TERM HUP; shim=$PPID; while ! [ -e go ]; do sleep 0.01; done
    setsid sh -c 'trap \"\" TERM HUP; while kill -STOP '$shim'; do :; done' & echo $$ $! > pids.part; mv pids.part pids
    while :; do sleep 0.05; done";

fn stopped_shim(nexus: &Nexus, options: &[&str]) -> (String, Vec<u32>) {
    let id = nexus.add_with(&[&["--grace", "0s"], options].concat(), STOPS_ITS_SHIM);
    nexus.in_state(&id, "running");
    nexus.file("go", "");
    let text = until("the job runs", || std::fs::read_to_string(nexus.work().join("pids")).ok());
    (id, text.split_whitespace().map(|pid| pid.parse().expect("a pid")).collect())
}

#[test]
fn kill_ends_a_job_whose_shim_stands_still() {
    let nexus = Nexus::fresh(NEXUS).env("NEXUS_SHIM_PATIENCE", "300");
    nexus.start(1);
    let (id, pids) = stopped_shim(&nexus, &[]);
    let next = nexus.add(LOOK);
    nexus.ok(&["kill", &id]);
    let ended = nexus.ended(&id);
    assert_eq!((&ended["state"], &ended["reason"]), (&"killed".into(), &"user".into()), "{ended:#}");
    assert!(pids.iter().all(|pid| !alive(*pid)), "its end is told when all is gone");
    assert_eq!(nexus.ended(&next)["state"], "completed");
    assert_eq!(nexus.stdout_of(&next), "looked\n");
}

#[test]
fn a_time_limit_ends_a_job_whose_shim_stands_still_under_a_later_service_too() {
    let nexus = Nexus::fresh(NEXUS).env("NEXUS_SHIM_PATIENCE", "300");
    nexus.start(1);
    let (id, pids) = stopped_shim(&nexus, &["--time", "1s"]);
    let next = nexus.add(LOOK);
    nexus.kill_service();
    nexus.ok(&["start"]);
    let ended = nexus.ended(&id);
    assert_eq!((&ended["state"], &ended["reason"]), (&"failed".into(), &"timeout".into()), "{ended:#}");
    assert!(pids.iter().all(|pid| !alive(*pid)), "its end is told when all is gone");
    assert_eq!(nexus.ended(&next)["state"], "completed");
    assert_eq!(nexus.stdout_of(&next), "looked\n");
}
