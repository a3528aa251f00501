//! The dispatcher and those who interrupt it: its jobs are nexus's, and go on unless the user says otherwise.

use nexus_testkit::signal::{SIGHUP, SIGINT, SIGTERM};
use nexus_testkit::{Nexus, Typist, kill, until};

use super::dispatch::objects;
use super::{LONG, SCREEN};
use crate::NEXUS;

const RUN: &[&str] = &["run", "--commands-file", "c"];

const QUESTION: &str = "kill the jobs, or leave them to nexus? [k/d]";

fn in_front(nexus: &Nexus) -> Typist {
    let mut user = nexus.at_terminal(SCREEN, RUN);
    user.sees("] 0/2 done, 0 failed, 1 running, 1 pending");
    user
}

fn states(nexus: &Nexus) -> Vec<String> {
    let jobs = nexus.json(&["run", "--status", "--json"]);
    jobs.as_array().unwrap().iter().map(|job| job["status"].as_str().unwrap().to_string()).collect()
}

#[test]
fn ctrl_c_asks_and_k_kills_the_jobs() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.file("c", &format!("{LONG}\necho never >> ledger\n"));
    let mut user = in_front(&nexus);
    user.ctrl_c();
    user.sees(QUESTION);
    user.types("xk");
    user.sees("ending 2 jobs");
    let done = user.ends().expect_code(1);
    assert!(done.stdout.contains("2 jobs: 0 completed, 2 failed; "), "{done}");
    assert_eq!(states(&nexus), ["failed", "failed"]);
    assert!(!nexus.work().join("ledger").exists());
    assert!(user.is_cooked());
}

#[test]
fn ctrl_c_asks_and_d_enter_or_ctrl_c_leave_them_to_nexus() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.file("c", "until [ -e go ]; do sleep 0.02; done; echo one >> ledger\necho two >> ledger\n");
    for answer in ["d", "\n", "\x03"] {
        let mut user = in_front(&nexus);
        user.ctrl_c();
        user.sees(QUESTION);
        user.types(answer);
        let done = user.ends().expect_code(0);
        assert!(done.stdout.ends_with("2 jobs go on; the same command picks them up again\r\n"), "{answer:?}: {done}");
    }
    let mut user = in_front(&nexus);
    user.ctrl_c();
    user.sees(QUESTION);
    // What ends while the user is asked needs no answer.
    nexus.file("go", "");
    let done = user.ends().expect_code(0);
    assert!(done.stdout.ends_with("2 jobs: all completed\r\n"), "{done}");
    assert_eq!(std::fs::read_to_string(nexus.work().join("ledger")).unwrap(), "one\ntwo\n");
}

#[test]
fn term_hang_up_and_int_off_a_terminal_leave_them_to_nexus() {
    let nexus = Nexus::with_gpus(NEXUS, 4);
    nexus.file("c", "until [ -e go ]; do sleep 0.02; done; echo one >> ledger\n");
    let files = [(SIGTERM, "term.jsonl"), (SIGINT, "int.jsonl"), (SIGHUP, "hup.jsonl")];
    let with = |file| [RUN, &["--jobs-file", file]].concat();
    for (signal, file) in files {
        let run = nexus.piped(&with(file));
        let is_running = || objects(&nexus.work().join(file)).into_iter().find(|object| object["status"] == "running");
        let object = until("it runs", is_running);
        kill(run.id(), signal);
        let done = run.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(128 + signal), "{said}");
        assert!(said.ends_with("1 job goes on; the same command picks it up again\n"), "{said}");
        assert_eq!(nexus.job(object["id"].as_str().unwrap())["state"], "running");
    }
    let mut user = nexus.at_terminal(SCREEN, RUN);
    user.sees("1 running");
    kill(user.pid(), SIGTERM);
    user.ends().expect_code(143);
    nexus.file("go", "");
    for (_, file) in files {
        nexus.run_limited(&with(file)).expect_code(0);
    }
    nexus.run_limited(RUN).expect_code(0);
    assert_eq!(std::fs::read_to_string(nexus.work().join("ledger")).unwrap(), "one\n".repeat(4));
}

#[test]
fn on_a_terminal_one_line_says_how_far_it_is_and_failures_stay() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.file("c", "exit 3\nuntil [ -e go ]; do sleep 0.02; done\ntrue\n");
    let mut user = nexus.at_terminal(SCREEN, RUN);
    user.sees("failed (exit 3) ").sees("exit 3\r\n");
    user.sees("[######              ] 0/3 done, 1 failed, 1 running, 1 pending");
    nexus.file("go", "");
    let done = user.ends().expect_code(1);
    assert!(done.stdout.contains("3 jobs: 2 completed, 1 failed; nexus run --status --jobs-file "), "{done}");
    assert!(!done.stdout.contains("completed "), "what went well needs no line: {done}");
}
