//! `logs`: what a job printed.

use nexus_testkit::Nexus;

use super::SCREEN;
use crate::NEXUS;

#[test]
fn both_streams_in_order_or_one() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    // Each line waits until the one before is recorded: only so the order of two streams is known.
    let command = "recorded() { until grep -q \"$1\" $NEXUS_RUN_DIR/$2.log; do sleep 0.01; done; }
        for i in 1 2 3; do echo out $i; recorded \"out $i\" stdout; echo err $i >&2; recorded \"err $i\" stderr; done";
    let id = nexus.done(command)["id"].as_str().unwrap().to_string();
    assert_eq!(nexus.ok(&["logs", &id]), "out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3");
    assert_eq!(nexus.ok(&["logs"]), nexus.ok(&["logs", &id]), "the newest by default");
    assert_eq!(nexus.ok(&["logs", &id, "--stdout"]), "out 1\nout 2\nout 3");
    assert_eq!(nexus.ok(&["logs", &id, "--stderr"]), "err 1\nerr 2\nerr 3");
    assert_eq!(nexus.ok(&["logs", &id, "-n", "2"]), "out 3\nerr 3");
    assert_eq!(nexus.ok(&["logs", &id, "--stdout", "-n", "1"]), "out 3");
    assert_eq!(nexus.ok(&["logs", &id, "-n", "0"]), "");
    assert_eq!(nexus.ok(&["logs", &id, "-n", "100"]), nexus.ok(&["logs", &id]));
}

#[test]
fn paths_stdout_first() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let job = nexus.done("echo out; echo err >&2");
    let paths = nexus.ok(&["logs", "--path"]);
    let lines: Vec<&str> = paths.lines().collect();
    assert_eq!(lines, [job["stdout_path"].as_str().unwrap(), job["stderr_path"].as_str().unwrap()]);
    assert_eq!(std::fs::read_to_string(lines[0]).unwrap(), "out\n");
    assert_eq!(std::fs::read_to_string(lines[1]).unwrap(), "err\n");
}

#[test]
fn each_attempt_has_its_own() {
    let nexus = Nexus::fresh(NEXUS);
    nexus.config("[jobs]\nretry_wait = \"0s\"\n");
    nexus.start(1);
    let id = nexus.add_with(&["--retries", "1"], "echo attempt $NEXUS_ATTEMPT; exit 1");
    nexus.ended(&id);
    assert_eq!(nexus.ok(&["logs", &id]), "attempt 2", "the newest by default");
    assert_eq!(nexus.ok(&["logs", &id, "--attempt", "1"]), "attempt 1");
    assert!(nexus.ok(&["logs", &id, "--attempt", "2", "--path"]).contains("/attempt_2/stdout.log"));
    for wrong in ["0", "3"] {
        let said = nexus.fails(1, &["logs", &id, "--attempt", wrong]);
        assert_eq!(said, format!("error: job {id} has no attempt {wrong}\nhint: nexus show {id}\n"));
    }
}

#[test]
fn bars_are_collapsed_on_a_terminal_and_raw_in_a_pipe() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.done(r"printf '10%%\r50%%\r100%%\ndone\nlast'")["id"].as_str().unwrap().to_string();
    assert_eq!(nexus.run(&["logs", &id]).expect_code(0).stdout, "10%\r50%\r100%\ndone\nlast");
    let shown = nexus.on_terminal(SCREEN, "", &["logs", &id]).expect_code(0).stdout;
    assert_eq!(shown, "100%\r\ndone\r\nlast\r\n");
    let nexus = nexus.env("PAGER", "tr a-z A-Z");
    let paged = nexus.on_terminal(SCREEN, "", &["logs", "--pager", &id]).expect_code(0).stdout;
    assert_eq!(paged, "100%\r\nDONE\r\nLAST");
}

#[test]
fn a_job_without_a_log_is_told() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    assert_eq!(nexus.fails(1, &["logs"]), "error: there is no job yet\nhint: nexus ls, nexus history\n");
    let id = nexus.add_with(&["--hold"], "true");
    let said = nexus.fails(1, &["logs", &id]);
    assert_eq!(said, format!("error: job {id} has no log\nit has not started yet\nhint: nexus show {id}\n"));
    let said = nexus.fails(2, &["logs", "--stdout", "--stderr"]);
    assert!(said.starts_with("error: --stdout and --stderr exclude each other\n"), "{said}");
}

#[test]
fn bytes_come_as_they_were_written() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.done(r"printf 'a\000b\377c\r\n\033[1mbold\n'");
    let bytes = nexus.command(&["logs"]).output().unwrap().stdout;
    assert_eq!(bytes, b"a\0b\xffc\r\n\x1b[1mbold\n");
}
