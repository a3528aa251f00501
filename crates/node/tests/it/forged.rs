//! Files that a job wrote into its run directory in the place of the shim's own: no other run and no other process has to suffer, and
//! the job's end is not told while it lives.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use nexus_api::run_dir::{Cause, EXIT, ExitRecord, ExitStatus, FORMAT, RunSpec, STARTED, ShimMessage, Started};
use nexus_node::Report;
use nexus_node::inspect::{Seen, inspect};
use nexus_node::processes::{self, Process};
use nexus_node::sockets;
use rustix::net::{SendFlags, send};
use serde::Serialize;

use crate::stage::{Stage, exited, id, lives, wait_until};

const WAITS: &str = "trap '' HUP; while ! [ -e go ]; do sleep 0.01; done; exit 5";

fn started(stage: &Stage, run: &str) -> Started {
    match inspect(&stage.dir(run)).unwrap() {
        Seen::Alive(started) => started,
        other => panic!("{other:?}"),
    }
}

fn put(dir: &Path, name: &str, value: &impl Serialize) {
    fs::write(dir.join(name), serde_json::to_vec(value).unwrap()).unwrap();
}

fn record(run: &str) -> ExitRecord {
    ExitRecord {
        format: FORMAT,
        run: run.into(),
        status: ExitStatus::Exited { code: 0 },
        cause: Cause::Own,
        pid: Some(1),
        started_at_ms: Some(1),
        ended_at_ms: 2,
        lost_output_bytes: 0,
        oom: None,
        found: Default::default(),
    }
}

fn go(stage: &Stage) {
    fs::write(stage.home.path().join("go"), "").unwrap();
}

/// Nothing that ends the run may be told while its processes live.
fn is_not_ended(report: &Report) {
    assert!(matches!(report, Report::Underway { .. } | Report::Started { .. }), "{report:?}");
}

#[test]
fn a_record_that_the_job_wrote_ends_nothing() {
    for name in ["aaa.1", "aaa.2"] {
        let mut stage = Stage::new();
        stage.start(stage.shell("aaa.1", WAITS));
        stage.start_of("aaa.1");
        put(&stage.dir("aaa.1"), EXIT, &record(name));
        stage.node().observe(vec![stage.place("aaa.1")]);
        stage.reports_until_quiet(Duration::from_millis(200)).iter().for_each(is_not_ended);
        stage.close_node();
        stage.open_node();
        stage.node().observe(vec![stage.place("aaa.1")]);
        stage.reports_until_quiet(Duration::from_millis(200)).iter().for_each(is_not_ended);
        go(&stage);
        assert_eq!(stage.end_of("aaa.1").status, exited(5), "the shim's own record, written over that of {name}");
    }
}

#[test]
fn messages_of_another_process_than_the_shim_are_not_believed() {
    let stage = Stage::new();
    stage.start(stage.shell("aaa.1", WAITS));
    stage.start_of("aaa.1");
    let reports = stage.home.path().join("reports.sock");
    let socket = sockets::connect_packets(&reports, Instant::now()).unwrap();
    for run in ["aaa.1", "bbb.1"] {
        let forged = serde_json::to_vec(&ShimMessage::Ended(record(run))).unwrap();
        send(&socket, &forged, SendFlags::NOSIGNAL).unwrap();
    }
    stage.reports_until_quiet(Duration::from_millis(200)).iter().for_each(is_not_ended);
    go(&stage);
    assert_eq!(stage.end_of("aaa.1").status, exited(5));
}

#[test]
fn a_claim_that_the_job_wrote_ends_nothing() {
    let mut stage = Stage::new();
    stage.start(stage.shell("aaa.1", WAITS));
    stage.start_of("aaa.1");
    stage.close_node();
    fs::write(stage.dir("aaa.1").join(STARTED), r#"{"format":1,"claimed":true}"#).unwrap();
    stage.open_node();
    stage.node().observe(vec![stage.place("aaa.1")]);
    stage.wait_for("the shim to be found", |report| {
        is_not_ended(&report);
        Some(())
    });
    stage.stop("aaa.1");
    assert_eq!(stage.end_of("aaa.1").cause, Cause::Asked);
}

#[test]
fn a_job_that_names_another_process_as_its_shim_has_that_one_left_alone() {
    let mut stage = Stage::new();
    let mut bystander = Command::new("sleep").arg("60").spawn().unwrap();
    let other = processes::stat(bystander.id()).unwrap().process;
    stage.start(stage.shell("aaa.1", WAITS));
    stage.start_of("aaa.1");
    let own = started(&stage, "aaa.1");
    stage.close_node();
    let forged = Started { shim_pid: other.pid, shim_start: other.start, ..own.clone() };
    put(&stage.dir("aaa.1"), STARTED, &forged);
    stage.open_node();
    stage.stop("aaa.1");
    assert_eq!(stage.end_of("aaa.1").cause, Cause::Asked, "its real shim was asked");
    wait_until("its shim to go", || !lives(Process { pid: own.shim_pid, start: own.shim_start }));
    assert!(lives(other), "it is none of the run's");
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}

#[test]
fn a_job_that_copies_the_marker_of_another_does_not_end_that_one() {
    let mut stage = Stage::new();
    for run in ["aaa.1", "bbb.1"] {
        stage.start(RunSpec { grace_ms: 200, ..stage.shell(run, WAITS) });
        stage.start_of(run);
    }
    let other = started(&stage, "bbb.1");
    for forged in [other.clone(), Started { run: "aaa.1".into(), ..other.clone() }] {
        stage.close_node();
        put(&stage.dir("aaa.1"), STARTED, &forged);
        stage.open_node();
        stage.node().observe(vec![stage.place("aaa.1"), stage.place("bbb.1")]);
        let mut unseen = vec![id("aaa.1"), id("bbb.1")];
        stage.wait_for("both", |report| {
            is_not_ended(&report);
            if let Report::Underway { run } | Report::Started { run, .. } = report {
                unseen.retain(|unseen| *unseen != run);
            }
            unseen.is_empty().then_some(())
        });
    }
    stage.stop("aaa.1");
    assert_eq!(stage.end_of("aaa.1").cause, Cause::Asked);
    go(&stage);
    assert_eq!(stage.end_of("bbb.1").status, exited(5), "nobody has asked it to end");
}

#[test]
fn what_a_job_left_is_not_looked_for_by_the_marker_of_another() {
    let stage = Stage::new();
    for run in ["aaa.1", "bbb.1", "ccc.1"] {
        stage.start(stage.shell(run, WAITS));
        stage.start_of(run);
    }
    let other = started(&stage, "ccc.1");
    for (run, names_group_alone) in [("aaa.1", false), ("bbb.1", true)] {
        let own = started(&stage, run);
        let of_group = Started { cgroup: other.cgroup.clone(), ..own.clone() };
        put(&stage.dir(run), STARTED, if names_group_alone { &of_group } else { &other });
        assert!(Process { pid: own.shim_pid, start: own.shim_start }.signal(libc::SIGKILL));
        stage.wait_for("loss", |report| match report {
            Report::Ended { .. } => panic!("{report:?}"),
            Report::Lost { run: lost, .. } => (lost == id(run)).then_some(()),
            _ => None,
        });
    }
    go(&stage);
    assert_eq!(stage.end_of("ccc.1").status, exited(5), "it is another run");
}
