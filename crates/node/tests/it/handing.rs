//! That a shim which is done takes the next run, and that nothing of one reaches the other.

use std::fs;

use nexus_api::run_dir::RunSpec;
use nexus_node::processes::{self, Process};

use crate::stage::{Stage, exited, id, wait_until};

/// Runs something short; the shim that watched it.
fn shim_of(stage: &Stage, run: &str) -> Process {
    assert_eq!(stage.run(stage.shell(run, "echo $PPID; exit 4")).status, exited(4));
    let pid = stage.log(run, "stdout.log").trim().parse().expect("a pid");
    processes::stat(pid).expect("it listens for a while").process
}

#[test]
fn the_next_run_has_the_shim_of_the_last() {
    let stage = Stage::new();
    let first = shim_of(&stage, "aaa.1");
    assert_eq!(shim_of(&stage, "bbb.1"), first);
    assert_eq!(shim_of(&stage, "ccc.1"), first);
    assert_eq!(stage.run(stage.spec("ddd.1", &["sh", "-c", "exit 9"])).status, exited(9));
}

#[test]
fn a_shim_that_was_asked_to_end_a_run_takes_no_other() {
    let stage = Stage::new();
    stage.start(stage.shell("aaa.1", "echo $PPID > shim; trap 'exit 0' TERM; while :; do sleep 0.01; done"));
    let asked = stage.process_in("shim");
    stage.stop("aaa.1");
    stage.end_of("aaa.1");
    assert_ne!(shim_of(&stage, "bbb.1"), asked);
}

#[test]
fn a_stop_that_comes_late_does_not_reach_the_next_run() {
    let stage = Stage::new();
    for number in 1..=20 {
        let (first, next) = (format!("aaa.{number}"), format!("bbb.{number}"));
        stage.start(stage.shell(&first, "exit 0"));
        stage.end_of(&first);
        stage.start(stage.shell(&next, "sleep 0.03; exit 5"));
        stage.stop(&first);
        stage.stop(&first);
        assert_eq!(stage.end_of(&next).status, exited(5), "{next}");
    }
}

#[test]
fn a_run_handed_to_a_shim_that_dies_is_started_by_another_once() {
    let stage = Stage::new();
    let shim = shim_of(&stage, "aaa.1");
    shim.signal(libc::SIGSTOP);
    stage.start(stage.shell("bbb.1", "echo once >> count; echo $PPID; exit 7"));
    stage.node().observe(vec![stage.place("bbb.1"), stage.place("fff.1")]);
    stage.wait_for("answer", |report| (report == nexus_node::Report::NotStarted { run: id("fff.1") }).then_some(()));
    assert!(!stage.home.path().join("count").exists(), "it was handed to the one that stands still");
    shim.signal(libc::SIGKILL);
    assert_eq!(stage.end_of("bbb.1").status, exited(7));
    assert_eq!(fs::read_to_string(stage.home.path().join("count")).unwrap(), "once\n");
    assert_ne!(stage.log("bbb.1", "stdout.log").trim(), shim.pid.to_string());
}

#[test]
fn a_run_that_was_handed_can_be_stopped_before_it_begins() {
    let stage = Stage::new();
    let shim = shim_of(&stage, "aaa.1");
    shim.signal(libc::SIGSTOP);
    stage.start(stage.shell("bbb.1", "sleep 60"));
    stage.stop("bbb.1");
    shim.signal(libc::SIGCONT);
    assert_eq!(stage.end_of("bbb.1").cause, nexus_api::run_dir::Cause::Asked);
}

#[test]
fn shims_without_a_run_go_with_their_node_or_by_themselves() {
    let mut stage = Stage::new();
    let shim = shim_of(&stage, "aaa.1");
    wait_until("it has waited long enough", || !shim.is_current());
    let shim = shim_of(&stage, "bbb.1");
    stage.close_node();
    wait_until("it has gone", || !shim.is_current());
}

#[test]
fn a_record_is_written_unless_the_end_is_known_to_be_in_the_database() {
    let stage = Stage::new();
    let has_record = |run: &str| stage.place(run).dir.join("exit.json").exists();
    // A machine that is slow lets the shim wait too long: then it has written it before.
    let spared = (1..=50).any(|number| {
        let (first, next) = (format!("aaa.{number}"), format!("bbb.{number}"));
        stage.run(stage.shell(&first, "exit 0"));
        stage.node().start(vec![stage.shell(&next, "exit 4")], vec![id(&first)]);
        assert_eq!(stage.end_of(&next).status, exited(4));
        !has_record(&first)
    });
    assert!(spared, "the service has it");
    stage.run(stage.shell("ccc.1", "exit 0"));
    stage.run(stage.shell("ddd.1", "sleep 0.1"));
    assert!(has_record("ccc.1"), "the service may not have it yet");
    wait_until("nothing has come, and it is written", || has_record("ddd.1"));
}

/// A run that is announced, once its shim has made ready for it; with a folder of its own.
fn announced(stage: &Stage, run: &str, text: &str) -> RunSpec {
    let results_dir = Some(stage.home.path().join("results").join(run));
    let spec = RunSpec { results_dir, ..stage.shell(run, text) };
    stage.node().announce(&mut spec.clone());
    wait_until("it is ready", || spec.results_dir.as_ref().unwrap().exists());
    spec
}

#[test]
fn a_run_that_was_announced_begins_when_it_is_started_and_not_before() {
    let stage = Stage::new();
    let shim = shim_of(&stage, "aaa.1");
    let spec = announced(&stage, "bbb.1", "echo once >> count; echo $PPID; exit 7");
    assert!(stage.dir("bbb.1").join("stdout.log").exists());
    assert!(!stage.dir("bbb.1").join("started").exists() && !stage.home.path().join("count").exists());
    assert_eq!(stage.run(spec).status, exited(7));
    assert_eq!(stage.log("bbb.1", "stdout.log").trim(), shim.pid.to_string());
    assert_eq!(fs::read_to_string(stage.home.path().join("count")).unwrap(), "once\n");
}

#[test]
fn a_run_that_was_announced_and_does_not_come_leaves_nothing_that_counts() {
    let stage = Stage::new();
    let shim = shim_of(&stage, "aaa.1");
    let spec = announced(&stage, "bbb.1", "echo $PPID; exit 7");
    // Meanwhile another comes, for which there is no shim that listens.
    assert_eq!(stage.run(stage.shell("ccc.1", "exit 3")).status, exited(3));
    wait_until("it has waited long enough", || !shim.is_current());
    assert!(!spec.results_dir.as_ref().unwrap().exists(), "nobody had used it");
    assert!(!stage.dir("bbb.1").join("started").exists());
    assert!(stage.place("aaa.1").dir.join("exit.json").exists(), "the service may not have it");
    assert_eq!(stage.run(spec).status, exited(7), "it is started as any other");
    assert_ne!(stage.log("bbb.1", "stdout.log").trim(), shim.pid.to_string());
}

#[test]
fn a_run_that_was_announced_to_a_shim_that_dies_is_started_by_another_once() {
    let stage = Stage::new();
    for number in 1..=10 {
        let shim = shim_of(&stage, &format!("aaa.{number}"));
        let spec = announced(&stage, &format!("bbb.{number}"), "echo once >> count; exit 7");
        shim.signal(libc::SIGSTOP);
        stage.start(spec);
        shim.signal(libc::SIGKILL);
        assert_eq!(stage.end_of(&format!("bbb.{number}")).status, exited(7));
        assert_eq!(fs::read_to_string(stage.home.path().join("count")).unwrap(), "once\n".repeat(number));
    }
}

#[test]
fn what_was_announced_by_a_node_that_is_gone_is_free_for_the_next() {
    let mut stage = Stage::new();
    let shim = shim_of(&stage, "aaa.1");
    let spec = announced(&stage, "bbb.1", "exit 7");
    stage.close_node();
    wait_until("it has gone", || !shim.is_current());
    stage.open_node();
    stage.node().observe(vec![stage.place("bbb.1")]);
    stage.wait_for("answer", |report| (report == nexus_node::Report::NotStarted { run: id("bbb.1") }).then_some(()));
    assert_eq!(stage.run(spec).status, exited(7));
}
