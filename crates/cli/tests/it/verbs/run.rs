//! `run`: queue, stay, and exit as the job exits.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use nexus_testkit::{Nexus, Typist, until};
use serde_json::json;

use super::{LONG, SCREEN};
use crate::NEXUS;

/// Waits for a file of the test's.
const UNTIL_GO: &str = "until [ -e go ]; do sleep 0.02; done";

#[test]
fn it_exits_as_its_job_exits() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.file("not-executable", "true\n");
    for (words, code, said) in [
        (&["true"][..], 0, ""),
        (&["exit 3"], 3, ""),
        (&["kill -9 $$"], 137, "failed (signal 9 (KILL)) "),
        (&["--time", "1s", "--grace", "0s", LONG], 124, "failed (timeout) "),
        (&["--", "nosuchprogram"], 127, "failed (start-error) "),
        (&["nosuchprogram 2> /dev/null"], 127, "failed (start-error) "),
        (&["./not-executable 2> /dev/null"], 126, "failed (start-error) "),
    ] {
        let done = nexus.run_limited(&[&["run"], words].concat()).expect_code(code);
        assert_eq!(done.stdout, "", "{done}");
        assert!(done.stderr.starts_with(said) && done.stderr.is_empty() == said.is_empty(), "{done}");
        assert_eq!(nexus.job("last")["state"], if code == 0 { "completed" } else { "failed" });
    }
    let done = nexus.run_limited(&["run", "--", "nosuchprogram"]);
    assert!(done.stderr.ends_with(": cannot run nosuchprogram: No such file or directory\n"), "{done}");
}

#[test]
fn the_streams_stay_apart_and_whole() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let done = nexus.run_limited(&["run", "echo out; echo err >&2; echo more; printf 10%%\\\\r20%%"]).expect_code(0);
    assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("out\nmore\n10%\r20%", "err\n"));
    let done = nexus.run_limited(&["run", "seq 1 100000; seq 1 50000 >&2"]).expect_code(0);
    let seq = |last: u32| (1..=last).map(|number| format!("{number}\n")).collect::<String>();
    assert!(done.stdout == seq(100_000), "{} bytes of standard output", done.stdout.len());
    assert!(done.stderr == seq(50_000), "{} bytes of standard error", done.stderr.len());
}

#[test]
fn arguments_reach_it_byte_for_byte() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let words = ["$HOME", "a  b", "it's", "--gpus", "-x", "", "日\n\t*"];
    let done = nexus.run_limited(&[&["run", "--gpus", "0", "printf", "%s|"], &words[..]].concat()).expect_code(0);
    assert_eq!(done.stdout, words.map(|word| format!("{word}|")).concat());
    let done = nexus.run_limited(&["run", "echo \"$(echo once | tee -a count)\"; cat count"]).expect_code(0);
    assert_eq!(done.stdout, "once\nonce\n", "evaluated once");
    assert!(nexus.fails(2, &["run", "--", "echo two words"]).contains("leave out --"));
}

#[test]
fn one_that_somebody_else_ends_is_told() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let waits = nexus.piped(&["run", "--hold", "true"]);
    let id = until("it is queued", || nexus.json(&["queue", "--json"])[0]["id"].as_str().map(String::from));
    nexus.ok(&["remove", &id]);
    let done = waits.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(
        (done.status.code(), said.as_ref()),
        (Some(1), format!("killed (removed) {id}: it was taken out of the queue\n").as_str())
    );
    let runs = nexus.piped(&["run", LONG]);
    until("it runs", || (nexus.json(&["ls", "--json"])[0]["state"] == "running").then_some(()));
    let id = nexus.job("last")["id"].as_str().unwrap().to_string();
    nexus.ok(&["kill", &id]);
    let done = runs.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(1));
    assert!(said.starts_with(&format!("killed (user) {id} on GPU 0 after ")), "{said}");
}

#[test]
fn attempts_follow_each_other_and_are_told() {
    let nexus = Nexus::fresh(NEXUS);
    nexus.config("[jobs]\nretry_wait = \"0s\"\n");
    nexus.start(1);
    let command = "echo attempt $NEXUS_ATTEMPT; exit $((3 - NEXUS_ATTEMPT))";
    let done = nexus.run_limited(&["run", "--retries", "5", command]).expect_code(0);
    assert_eq!(done.stdout, "attempt 1\nattempt 2\nattempt 3\n");
    let id = nexus.job("last")["id"].as_str().unwrap().to_string();
    let told = format!(
        "attempt 1 of {id} failed (exit 2); this is attempt 2\nattempt 2 of {id} failed (exit 1); this is attempt 3\n"
    );
    assert_eq!(done.stderr, told);
    let done = nexus.run_limited(&["run", "--quiet", "--retries", "1", "exit $((4 + NEXUS_ATTEMPT))"]).expect_code(6);
    assert_eq!(done.stderr, "", "quiet says nothing of its own");
    let done = nexus.run_limited(&["run", "-q", "--", "nosuchprogram"]).expect_code(127);
    assert_eq!(done.stderr, "");
}

#[test]
fn on_a_terminal_it_says_why_it_waits_and_passes_progress_bars_on() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.ok(&["pause"]);
    let before = nexus.add_with(&["--hold"], "true");
    let mut user = nexus.at_terminal(SCREEN, &["run", "printf '10%%\\r20%%\\r'; sleep 0; echo done"]);
    user.sees("  position 2, queue paused: nexus resume");
    nexus.ok(&["remove", &before]);
    user.sees("  position 1, queue paused: nexus resume");
    nexus.ok(&["resume"]);
    let done = user.ends().expect_code(0);
    assert!(done.stdout.ends_with("\r\x1b[K10%\r20%\rdone\r\n"), "{:?}", done.stdout);
}

#[test]
fn a_reader_that_has_seen_enough_ends_nothing() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let mut run = nexus.piped(&["run", &format!("echo one; {UNTIL_GO}; echo two; sleep 0.1; echo three; touch end")]);
    let mut reader = BufReader::new(run.stdout.take().unwrap());
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    assert_eq!(line, "one\n");
    drop(reader);
    nexus.file("go", "");
    let mut said = String::new();
    run.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!((run.wait().unwrap().code(), said.as_str()), (Some(0), ""), "it leaves quietly");
    assert_eq!(nexus.ended("last")["state"], "completed");
    assert!(nexus.work().join("end").exists(), "the job went on");
}

#[test]
fn what_it_cannot_do_is_refused_before_anything_is_made() {
    let nexus = Nexus::fresh(NEXUS);
    for (words, error) in [
        (&["run"][..], "error: there is no command, and no terminal for a shell\n"),
        (&["run", "--json", "true"], "error: run prints what the job prints, and no JSON\n"),
        (&["run", "-x", "2", "true"], "error: run stays with one job\n"),
        (&["run", "--gpu", "1", "true"], "error: there is no option --gpu\n"),
        (&["run", "--time", "4", "true"], "error: --time 4 has no unit\n"),
    ] {
        let said = nexus.fails(2, words);
        assert!(said.starts_with(error) && said.contains("\nusage: nexus run [OPTIONS] [COMMAND]...\n"), "{said}");
    }
    assert!(!nexus.home().exists());
    nexus.start(1);
    let said = nexus.run(&["run", "--dry-run", "true"]).expect_code(0);
    assert_eq!(said.stdout, "would start now on GPU 0\n");
    assert_eq!(nexus.json(&["ls", "--json"]), json!([]));
}

#[test]
fn without_a_command_it_is_the_users_shell_on_a_gpu() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.ok(&["pause"]);
    let mut user = nexus.at_terminal(SCREEN, &["run", "--name", "mine"]);
    user.sees("queue paused: nexus resume");
    let job = nexus.job("last");
    assert_eq!((&job["argv"], &job["name"], &job["request"]["gpus"]), (&json!(["/bin/sh"]), &json!("mine"), &json!(1)));
    user.ctrl_c();
    user.sees("kill or detach? [k/d]");
    user.types("k");
    assert!(user.ends().expect_code(1).stdout.contains("killed (removed) "));
}

#[test]
fn the_shell_controls_its_jobs_and_its_exit_code_is_runs() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let settings = nexus.file("settings", "PS1='ready> '\n");
    std::fs::rename(settings, nexus.work().join("../.bashrc")).unwrap();
    let mut command = nexus.command(&["run"]);
    command.env("SHELL", "bash").env("TERM", "xterm");
    let mut user = Typist::sit_down(command, SCREEN);
    // A prompt is on standard error, the answer on standard output: in the order they were made.
    user.sees("ready> ").types("echo GPU $CUDA_VISIBLE_DEVICES\r").sees("GPU 0\r\n").sees("ready> ");
    user.types("sh -c 'echo on; exec sleep 1000'\r").sees("on\r\n").types("\x1a").sees("Stopped").sees("ready> ");
    user.types("exit\r").sees("stopped jobs").types("exit 7\r");
    user.ends().expect_code(7);
    assert!(!user.shown().contains("no job control"), "{}", user.shown());
    assert_eq!(nexus.job("last")["exit_code"], 7);
}

#[test]
fn a_crash_and_a_restart_of_the_service_are_not_noticed() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let steps = "for i in 1 2 3; do echo $i; echo e$i >&2; until [ -e go$i ]; do sleep 0.02; done; done; exit 7";
    let mut run = nexus.command(&["run", steps]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(run.stdout.take().unwrap()).lines();
    let mut line = || lines.next().map(|line| line.unwrap());
    assert_eq!(line().as_deref(), Some("1"));
    nexus.kill_service();
    nexus.file("go1", "");
    // Whoever comes first starts it again: this test, or run itself.
    assert_eq!(line().as_deref(), Some("2"));
    nexus.ok(&["restart"]);
    nexus.file("go2", "");
    assert_eq!(line().as_deref(), Some("3"));
    nexus.file("go3", "");
    assert_eq!(line(), None);
    let done = run.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&done.stderr), "e1\ne2\ne3\n", "nothing is lost and nothing comes twice");
    assert_eq!(done.status.code(), Some(7));
    assert_eq!(nexus.job("last")["attempt"], 1);
}
