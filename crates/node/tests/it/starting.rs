//! That a run is started once, by no one twice, and that a launcher's death changes nothing.

use std::time::Duration;

use nexus_api::run_dir::Cause;
use nexus_node::Report;
use nexus_node::inspect::{Seen, inspect};
use nexus_node::processes::{self, Process};

use crate::stage::{Stage, exited, id};

#[test]
fn a_run_asked_for_twice_is_started_once() {
    let mut stage = Stage::new();
    let spec = stage.shell("aaa.1", "echo once >> count; while ! [ -e go ]; do sleep 0.01; done; exit 6");
    stage.node().start(vec![spec.clone(), spec.clone()], vec![]);
    let pid = stage.start_of("aaa.1");
    stage.start(spec.clone());
    assert_eq!(stage.start_of("aaa.1"), pid, "the second start finds the first");
    // A service that does not know of the first.
    stage.close_node();
    stage.open_node();
    stage.start(spec.clone());
    assert_eq!(stage.start_of("aaa.1"), pid);
    std::fs::write(stage.home.path().join("go"), "").unwrap();
    assert_eq!(stage.end_of("aaa.1").status, exited(6));
    stage.start(spec);
    assert_eq!(stage.end_of("aaa.1").status, exited(6), "and after its end too");
    assert_eq!(stage.wait_for_file("count"), "once\n");
}

#[test]
fn a_launcher_that_a_job_stops_is_continued() {
    let stage = Stage::new();
    stage.start(stage.shell("aaa.1", "kill -STOP $(ps -o ppid= -p $PPID); sleep 0.2; exit 3"));
    assert_eq!(stage.end_of("aaa.1").status, exited(3));
    for number in 1..=3 {
        stage.start(stage.shell(&format!("bbb.{number}"), "exit 4"));
    }
    let mut ended = 0;
    stage.wait_for("three ends", |report| {
        ended += usize::from(matches!(report, Report::Ended { .. }));
        (ended == 3).then_some(())
    });
}

#[test]
fn a_claimed_run_never_starts() {
    let stage = Stage::new();
    stage.stop("aaa.1");
    stage.wait_for("claim", |report| (report == Report::Claimed { run: id("aaa.1") }).then_some(()));
    stage.start(stage.shell("aaa.1", "echo once >> count"));
    // The shim comes, finds the claim, and goes: which is reported as what it is.
    stage.wait_for("claim", |report| (report == Report::Claimed { run: id("aaa.1") }).then_some(()));
    assert!(!stage.home.path().join("count").exists());
}

#[test]
fn start_and_stop_together_end_it_either_way() {
    let stage = Stage::new();
    for number in 1..=30 {
        let run = format!("aaa.{number}");
        stage.start(stage.shell(&run, "echo x >> count; sleep 60"));
        stage.stop(&run);
        stage.wait_for("end or claim", |report| match report {
            Report::Ended { run: ended, record } if ended == id(&run) => {
                assert_eq!(record.cause, Cause::Asked);
                Some(())
            }
            Report::Claimed { run: claimed } if claimed == id(&run) => Some(()),
            Report::Lost { .. } | Report::StartFailed { .. } => panic!("{report:?}"),
            _ => None,
        });
    }
    stage.reports_until_quiet(Duration::from_millis(300));
    let sleeping = processes::all().unwrap().into_iter().filter(|pid| {
        let setting = format!("NEXUS_RUN_DIR={}", stage.dir("aaa.1").display());
        processes::environment_has(*pid, setting.as_bytes()).unwrap()
    });
    assert_eq!(sleeping.count(), 0);
}

/// Starts a run that goes on until there is a file `go`, then exits with 5, and tells who launched it.
fn launcher(stage: &Stage) -> Process {
    stage.start(stage.shell("aaa.1", "while ! [ -e go ]; do sleep 0.01; done; exit 5"));
    stage.start_of("aaa.1");
    let Ok(Seen::Alive(started)) = inspect(&stage.dir("aaa.1")) else { panic!("it runs") };
    processes::stat(processes::stat(started.shim_pid).unwrap().parent).unwrap().process
}

/// Comes back when all requests made so far were taken.
fn fence(stage: &Stage) {
    stage.node().observe(vec![stage.place("fff.1")]);
    stage.wait_for("answer", |report| (report == Report::NotStarted { run: id("fff.1") }).then_some(()));
}

#[test]
fn a_launcher_that_dies_is_started_again() {
    let stage = Stage::new();
    let launcher = launcher(&stage);
    assert!(launcher.signal(libc::SIGSTOP));
    let spec = |number| stage.shell(&format!("bbb.{number}"), "echo x >> count; exit 4");
    stage.node().start((1..=20).map(spec).collect(), vec![]);
    fence(&stage);
    assert!(launcher.signal(libc::SIGKILL));
    let mut left = 20;
    stage.wait_for("twenty ends", |report| {
        if let Report::Ended { run, record } = report
            && run.job == id("bbb.1").job
        {
            assert_eq!(record.status, exited(4));
            left -= 1;
        }
        (left == 0).then_some(())
    });
    assert_eq!(stage.wait_for_file("count").lines().count(), 20);
    std::fs::write(stage.home.path().join("go"), "").unwrap();
    assert_eq!(stage.end_of("aaa.1").status, exited(5), "shims outlive their launcher");
}

#[test]
fn a_stop_between_launch_and_start_is_kept_in_mind() {
    let stage = Stage::new();
    let launcher = launcher(&stage);
    assert!(launcher.signal(libc::SIGSTOP));
    // Somebody has the lock, as the shim will: the run cannot be claimed, and is not yet there to be signalled.
    std::fs::create_dir_all(stage.dir("bbb.1")).unwrap();
    let lock = std::fs::File::open(stage.dir("bbb.1")).unwrap();
    lock.lock().unwrap();
    stage.start(stage.spec("bbb.1", &["sleep", "600"]));
    stage.stop("bbb.1");
    fence(&stage);
    drop(lock);
    assert!(launcher.signal(libc::SIGCONT));
    assert_eq!(stage.end_of("bbb.1").cause, Cause::Asked);
    std::fs::write(stage.home.path().join("go"), "").unwrap();
    stage.end_of("aaa.1");
}

#[test]
fn a_directory_that_cannot_be_made_is_the_machines_fault() {
    let stage = Stage::new();
    std::fs::write(stage.home.path().join("logs"), "a file").unwrap();
    let record = stage.run(stage.spec("aaa.1", &["true"]));
    assert!(
        matches!(&record.status, nexus_api::run_dir::ExitStatus::MachineError { error } if error.contains("aaa.1"))
    );
}
