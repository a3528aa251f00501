//! That jobs outlive the service, and what becomes of them when their shim does not.

use std::process::Stdio;

use nexus_api::run_dir::{Cause, EXIT, STARTED, Started};
use nexus_node::inspect::{Seen, inspect};
use nexus_node::{Report, processes};

use crate::stage::{Stage, exited, id, lives, wait_until};

fn started(stage: &Stage, run: &str) -> Started {
    match inspect(&stage.dir(run)).unwrap() {
        Seen::Alive(started) => started,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_new_service_finds_a_running_job_and_hears_its_end() {
    let mut stage = Stage::new();
    stage.start(stage.shell("aaa.1", "while ! [ -e go ]; do sleep 0.01; done; exit 11"));
    let pid = stage.start_of("aaa.1");
    stage.close_node();
    stage.open_node();
    stage.node().observe(vec![stage.place("aaa.1")]);
    assert_eq!(stage.start_of("aaa.1"), pid);
    std::fs::write(stage.home.path().join("go"), "").unwrap();
    let record = stage.end_of("aaa.1");
    assert_eq!((record.status, record.cause), (exited(11), Cause::Own));
}

#[test]
fn an_adopted_job_can_be_stopped() {
    let mut stage = Stage::new();
    stage.start(stage.spec("aaa.1", &["sleep", "600"]));
    stage.start_of("aaa.1");
    stage.close_node();
    stage.open_node();
    stage.stop("aaa.1");
    assert_eq!(stage.end_of("aaa.1").cause, Cause::Asked);
}

#[test]
fn an_end_without_a_service_is_found_later() {
    let mut stage = Stage::new();
    stage.start(stage.shell("aaa.1", "while ! [ -e go ]; do sleep 0.01; done; exit 12"));
    stage.start_of("aaa.1");
    stage.close_node();
    std::fs::write(stage.home.path().join("go"), "").unwrap();
    wait_until("its record", || stage.dir("aaa.1").join(EXIT).exists());
    stage.open_node();
    stage.node().observe(vec![stage.place("aaa.1")]);
    assert_eq!(stage.end_of("aaa.1").status, exited(12));
}

#[test]
fn what_never_started_is_told_so() {
    let stage = Stage::new();
    stage.node().observe(vec![stage.place("aaa.1")]);
    stage.wait_for("word of it", |report| (report == Report::NotStarted { run: id("aaa.1") }).then_some(()));
}

#[test]
fn a_dead_shims_processes_are_ended_before_the_run_is_lost() {
    for cgroups in [true, false] {
        let stage = Stage::with_cgroups(cgroups);
        let text = "trap '' HUP TERM; setsid sh -c 'trap \"\" HUP TERM; echo $$ > one; while :; do sleep 0.05; done' &
            echo $$ > two; while :; do sleep 0.05; done";
        stage.start(stage.shell("aaa.1", text));
        stage.start_of("aaa.1");
        let family = ["one", "two"].map(|name| stage.process_in(name));
        let started = started(&stage, "aaa.1");
        let shim = processes::stat(started.shim_pid).unwrap().process;
        assert!(shim.signal(libc::SIGKILL));
        stage.wait_for("loss", |report| match report {
            Report::Lost { run, error } => {
                assert_eq!((run, family.map(lives)), (id("aaa.1"), [false; 2]), "{error}");
                Some(())
            }
            Report::Ended { .. } => panic!("{report:?}"),
            _ => None,
        });
        if let Some(group) = started.cgroup {
            assert!(!group.exists());
        }
    }
}

#[test]
fn a_shim_that_died_without_a_service_is_noticed_later() {
    let mut stage = Stage::new();
    stage.start(stage.shell("aaa.1", "trap '' HUP; echo $$ > one; while :; do sleep 0.05; done"));
    stage.start_of("aaa.1");
    let job = stage.process_in("one");
    stage.close_node();
    processes::stat(started(&stage, "aaa.1").shim_pid).unwrap().process.signal(libc::SIGKILL);
    wait_until("its death", || !matches!(inspect(&stage.dir("aaa.1")), Ok(Seen::Alive(_))));
    stage.open_node();
    stage.node().observe(vec![stage.place("aaa.1")]);
    stage.wait_for("loss", |report| matches!(report, Report::Lost { .. }).then_some(()));
    assert!(!lives(job));
}

#[test]
fn after_a_reboot_nobody_elses_process_is_touched() {
    let stage = Stage::new();
    // Leads a session, as the command of a run does.
    let mut bystander =
        std::process::Command::new("setsid").args(["sleep", "60"]).stdout(Stdio::null()).spawn().unwrap();
    wait_until("its session", || processes::stat(bystander.id()).unwrap().session == bystander.id());
    let stat = processes::stat(bystander.id()).unwrap();
    let marker = Started {
        format: 1,
        run: "aaa.1".into(),
        // The pids of before belong to others now.
        shim_pid: bystander.id(),
        shim_start: stat.process.start,
        boot_id: "another boot".into(),
        pid: bystander.id(),
        started_at_ms: 0,
        started_ticks: stat.process.start,
        grace_ms: None,
        cgroup: None,
        terminal: None,
        screen: None,
    };
    std::fs::create_dir_all(stage.dir("aaa.1")).unwrap();
    std::fs::write(stage.dir("aaa.1").join(STARTED), serde_json::to_vec(&marker).unwrap()).unwrap();
    stage.node().observe(vec![stage.place("aaa.1")]);
    let error = stage.wait_for("loss", |report| match report {
        Report::Lost { error, .. } => Some(error),
        _ => None,
    });
    assert_eq!(error, "the machine was restarted");
    assert!(lives(stat.process));
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}

#[test]
fn a_run_whose_directory_was_removed_is_not_taken_for_a_new_one() {
    let mut stage = Stage::new();
    stage.start(stage.shell("aaa.1", "echo $$ > one; while :; do sleep 0.05; done"));
    let job = stage.process_in("one");
    stage.start_of("aaa.1");
    stage.close_node();
    std::fs::remove_dir_all(stage.dir("aaa.1")).unwrap();
    stage.open_node();
    stage.node().observe(vec![stage.place("aaa.1")]);
    stage.wait_for("loss", |report| match report {
        Report::NotStarted { .. } => panic!("it would be started again"),
        Report::Lost { .. } | Report::Ended { .. } => Some(()),
        _ => None,
    });
    assert!(!lives(job));
}

#[test]
fn a_tidied_directory_keeps_its_logs_only() {
    let stage = Stage::new();
    stage.run(stage.shell("aaa.1", "echo out"));
    stage.node().tidy(vec![stage.place("aaa.1")]);
    let dir = stage.dir("aaa.1");
    wait_until("it to be tidy", || !dir.join(STARTED).exists() && !dir.join(EXIT).exists());
    assert_eq!(stage.log("aaa.1", "stdout.log"), "out\n");
}
