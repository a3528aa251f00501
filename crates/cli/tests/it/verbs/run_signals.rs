//! `run` and those who interrupt it: on a terminal the user is asked, elsewhere signals speak for themselves.

use std::process::Child;

use nexus_testkit::signal::{SIGHUP, SIGINT, SIGTERM};
use nexus_testkit::{Nexus, Typist, kill, until};
use serde_json::json;

use super::SCREEN;
use crate::NEXUS;

/// Says that it runs, and goes on until it is ended.
const READY: &str = "echo ready; sleep 1000";

/// Does not end when it is asked to.
const STUBBORN: &str = "trap '' TERM; echo ready; while :; do sleep 0.05; done";

const QUESTION: &str = "kill or detach? [k/d]";

fn newest(nexus: &Nexus) -> String {
    nexus.job("last")["id"].as_str().unwrap().to_string()
}

/// On a terminal, with its job running.
fn in_front(nexus: &Nexus, words: &[&str]) -> (Typist, String) {
    let mut user = nexus.at_terminal(SCREEN, &[&["run"], words].concat());
    user.sees("ready");
    (user, newest(nexus))
}

/// In the background, with its job running.
fn behind(nexus: &Nexus, words: &[&str]) -> (Child, String) {
    let child = nexus.piped(&[&["run"], words].concat());
    until("its job runs", || (nexus.json(&["ls", "--json"])[0]["state"] == "running").then_some(()));
    let id = newest(nexus);
    until("it is ready", || (nexus.stdout_so_far(&id) == "ready\n").then_some(()));
    (child, id)
}

fn ended(nexus: &Nexus, id: &str) -> (String, String) {
    let job = nexus.job(id);
    (job["state"].as_str().unwrap().into(), job["reason"].as_str().unwrap_or_default().into())
}

#[test]
fn ctrl_c_asks_and_k_kills() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let (mut user, id) = in_front(&nexus, &[READY]);
    user.ctrl_c();
    user.sees(QUESTION);
    user.types("xk");
    let done = user.ends().expect_code(1);
    assert!(done.stdout.contains(&format!("ending {id}\r\n")), "{done}");
    assert!(done.stdout.contains(&format!("killed (user) {id} on GPU 0 after ")), "{done}");
    assert_eq!(ended(&nexus, &id), ("killed".into(), "user".into()));
}

#[test]
fn ctrl_c_asks_and_d_enter_or_ctrl_c_detach() {
    let nexus = Nexus::with_gpus(NEXUS, 3);
    for answer in ["d", "\n", "\x03"] {
        let (mut user, id) = in_front(&nexus, &[READY]);
        user.ctrl_c();
        user.sees(QUESTION);
        user.types(answer);
        let done = user.ends().expect_code(0);
        let told = format!("detached: {id} goes on; nexus attach {id}\r\n");
        assert!(done.stdout.ends_with(&told), "{answer:?}: {done}");
        nexus.in_state(&id, "running");
    }
}

#[test]
fn a_job_that_ends_while_the_user_is_asked_needs_no_answer() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let (mut user, _) =
        in_front(&nexus, &["echo ready; until [ -e go ]; do sleep 0.02; done; echo last words; exit 4"]);
    user.ctrl_c();
    user.sees(QUESTION);
    nexus.file("go", "");
    assert!(user.ends().expect_code(4).stdout.ends_with("last words\r\n"));
}

#[test]
fn detached_from_a_paused_queue_it_stays_queued() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.ok(&["pause"]);
    let mut user = nexus.at_terminal(SCREEN, &["run", READY]);
    user.sees("queue paused: nexus resume");
    user.ctrl_c();
    user.sees(QUESTION);
    user.types("d");
    let id = newest(&nexus);
    let done = user.ends().expect_code(0);
    assert!(done.stdout.contains("detached: ") && done.stdout.contains("stays queued; nexus why "), "{done}");
    assert_eq!(nexus.job(&id)["state"], "queued");
    nexus.ok(&["resume"]);
    nexus.in_state(&id, "running");
}

#[test]
fn off_a_terminal_int_and_term_kill() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    for (signal, code) in [(SIGINT, 130), (SIGTERM, 143)] {
        let (child, id) = behind(&nexus, &[READY]);
        kill(child.id(), signal);
        let done = child.wait_with_output().unwrap();
        assert_eq!(done.status.code(), Some(code), "{}", String::from_utf8_lossy(&done.stderr));
        assert_eq!(ended(&nexus, &id), ("killed".into(), "user".into()));
        assert_eq!(String::from_utf8_lossy(&done.stdout), "ready\n");
    }
    // One that waits is taken out of the queue.
    let child = nexus.piped(&["run", "--hold", "true"]);
    until("it is queued", || nexus.json(&["queue", "--json"])[0]["id"].as_str().map(String::from));
    kill(child.id(), SIGTERM);
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(143));
    assert_eq!(ended(&nexus, "last"), ("killed".into(), "removed".into()));
}

#[test]
fn off_a_terminal_a_hang_up_detaches_quietly() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let (child, id) = behind(&nexus, &[READY]);
    kill(child.id(), SIGHUP);
    let done = child.wait_with_output().unwrap();
    assert_eq!((done.status.code(), done.stderr.as_slice()), (Some(0), &b""[..]));
    nexus.in_state(&id, "running");
}

#[test]
fn on_a_terminal_term_kills_and_closing_it_detaches() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    let (mut user, id) = in_front(&nexus, &[READY]);
    kill(user.pid(), SIGTERM);
    user.ends().expect_code(143);
    assert_eq!(ended(&nexus, &id), ("killed".into(), "user".into()));
    let (user, id) = in_front(&nexus, &[READY]);
    user.hangs_up().expect_code(0);
    nexus.in_state(&id, "running");
}

#[test]
fn who_is_in_a_hurry_leaves_nothing_running() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let (mut user, id) = in_front(&nexus, &["--grace", "3s", STUBBORN]);
    user.ctrl_c();
    user.sees(QUESTION);
    user.types("k");
    user.sees(&format!("ending {id}"));
    user.ctrl_c();
    user.sees(&format!("{id} is ending: when its grace of 3s is over it gets KILL"));
    user.ends().expect_code(1);
    assert_eq!(nexus.job(&id)["signal"], json!(9), "it got KILL");
    let (child, id) = behind(&nexus, &["--grace", "1s", STUBBORN]);
    for _ in 0..3 {
        kill(child.id(), SIGTERM);
    }
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(143));
    assert_eq!(ended(&nexus, &id), ("killed".into(), "user".into()));
}
