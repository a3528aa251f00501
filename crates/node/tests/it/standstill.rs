//! That a run ends when it should though its shim stands still: a job can stop its own shim.

use std::time::Duration;

use nexus_api::run_dir::{Cause, EXIT, ExitRecord, ExitStatus, RunSpec};
use nexus_node::inspect::{Seen, inspect};
use nexus_node::line::ToNode;
use nexus_node::processes::{self, Process};
use nexus_node::{Containment, Report, RunTerms};

use crate::line::connection::Machine;
use crate::stage::{Stage, exited, id, lives, wait_until};

const KILLED: ExitStatus = ExitStatus::Signaled { signal: libc::SIGKILL };
const PATIENCE: Duration = Duration::from_millis(200);
const GRACE_MS: u64 = 200;

/// A job that stops its shim, and a process of another session that does so over and over.
const KEEPS_ITS_SHIM_STOPPED: &str = "trap '' TERM HUP; shim=$PPID
    setsid sh -c 'trap \"\" TERM HUP; echo $$ > one; while kill -STOP '$shim'; do :; done' &
    echo $$ > two; while :; do sleep 0.05; done";

/// With a lock on a GPU, which nobody may have as long as a process of the run is there.
fn kept_stopped(spec: RunSpec) -> RunSpec {
    RunSpec { grace_ms: GRACE_MS, gpu_locks: vec!["GPU-1".into()], ..spec }
}

fn shim_of(stage: &Stage, run: &str) -> Process {
    match inspect(&stage.dir(run)).unwrap() {
        Seen::Alive(started) => Process { pid: started.shim_pid, start: started.shim_start },
        other => panic!("{other:?}"),
    }
}

fn is_killed(record: &ExitRecord, cause: Cause) {
    assert_eq!((&record.status, record.cause), (&KILLED, cause));
}

#[test]
fn a_stopped_shim_hears_that_it_should_end() {
    let stage = Stage::new();
    let text = "trap 'exit 7' TERM; kill -STOP $PPID; echo $$ > one; while :; do sleep 0.01; done";
    stage.start(stage.shell("aaa.1", text));
    stage.process_in("one");
    stage.stop("aaa.1");
    let record = stage.end_of("aaa.1");
    assert_eq!((record.status, record.cause), (exited(7), Cause::Asked));
}

#[test]
fn a_run_whose_shim_is_kept_stopped_is_ended_after_its_grace() {
    for cgroups in [true, false] {
        let stage = Stage::open(cgroups, PATIENCE);
        if cgroups && stage.node().containment() == Containment::Session {
            eprintln!("skipped: no cgroups here");
            continue;
        }
        stage.start(kept_stopped(stage.shell("aaa.1", KEEPS_ITS_SHIM_STOPPED)));
        let family = ["one", "two"].map(|name| stage.process_in(name));
        stage.stop("aaa.1");
        let record = stage.end_of("aaa.1");
        assert_eq!(family.map(lives), [false; 2], "cgroups {cgroups}");
        is_killed(&record, Cause::Asked);
        let next = RunSpec { gpu_locks: vec!["GPU-1".into()], ..stage.shell("bbb.1", "exit 3") };
        assert_eq!(stage.run(next).status, exited(3), "its GPU is free");
    }
}

#[test]
fn a_time_limit_holds_though_the_shim_is_kept_stopped() {
    let mut stage = Stage::open(false, PATIENCE);
    let spec = kept_stopped(stage.shell("aaa.1", KEEPS_ITS_SHIM_STOPPED));
    stage.start(RunSpec { time_limit_ms: Some(300), ..spec });
    let family = ["one", "two"].map(|name| stage.process_in(name));
    is_killed(&stage.end_of("aaa.1"), Cause::Timeout);
    assert_eq!(family.map(lives), [false; 2]);

    // A node that has not started it is told of the limit.
    std::fs::remove_file(stage.home.path().join("one")).unwrap();
    stage.start(kept_stopped(stage.shell("bbb.1", KEEPS_ITS_SHIM_STOPPED)));
    stage.process_in("one");
    stage.close_node();
    stage.open_node();
    stage.node().observe(vec![stage.place("bbb.1")]);
    let terms = RunTerms { run: id("bbb.1"), time_limit_ms: Some(1), grace_ms: 0 };
    stage.node().know_terms(vec![terms]);
    is_killed(&stage.end_of("bbb.1"), Cause::Timeout);
}

/// Each process lives for a millisecond, and the zombies of those before it make every look at the others longer than that.
#[test]
fn a_run_that_forks_and_exits_all_the_time_is_ended_whole() {
    let stage = Stage::open(false, PATIENCE);
    let text = "trap '' TERM HUP; export shim=$PPID; kill -STOP $shim
        i=0; while [ $i -lt 1500 ]; do (:&); i=$((i+1)); done
        export c='trap \"\" TERM HUP; kill -STOP $shim; [ -e going ] || exit; printf x >> count; setsid sh -c \"$c\" &'
        touch going; sh -c \"$c\"; echo $$ > two; while :; do sleep 0.05; done";
    stage.start(kept_stopped(stage.shell("aaa.1", text)));
    stage.process_in("two");
    stage.stop("aaa.1");
    is_killed(&stage.end_of("aaa.1"), Cause::Asked);
    let count = || std::fs::metadata(stage.home.path().join("count")).unwrap().len();
    let ended_at = count();
    std::thread::sleep(Duration::from_millis(200));
    std::fs::remove_file(stage.home.path().join("going")).unwrap();
    assert_eq!(count(), ended_at, "one lives on, and its GPU was given away");
}

/// The run was handed to the shim of the run before, which was stopped before it could tell that the run has begun.
#[test]
fn a_run_that_stops_the_shim_it_was_handed_to_is_ended_whole() {
    let stage = Stage::open(false, PATIENCE);
    stage.run(stage.shell("aaa.1", "exit 0"));
    let text = format!("kill -STOP $PPID; {KEEPS_ITS_SHIM_STOPPED}");
    stage.start(kept_stopped(stage.shell("bbb.1", &text)));
    let family = ["one", "two"].map(|name| stage.process_in(name));
    stage.stop("bbb.1");
    is_killed(&stage.end_of("bbb.1"), Cause::Asked);
    assert_eq!(family.map(lives), [false; 2]);
}

/// The service of today would give the run no grace at all.
#[test]
fn a_run_keeps_the_grace_it_was_started_with() {
    let mut stage = Stage::open(false, PATIENCE);
    let text = "trap 'echo $$ > asked' TERM; while ! [ -e go ]; do sleep 0.01; done; exit 7";
    stage.start(RunSpec { grace_ms: 60_000, ..stage.shell("aaa.1", text) });
    stage.start_of("aaa.1");
    stage.close_node();
    stage.open_node();
    stage.node().observe(vec![stage.place("aaa.1")]);
    stage.node().know_terms(vec![RunTerms { run: id("aaa.1"), time_limit_ms: None, grace_ms: 0 }]);
    stage.start_of("aaa.1");
    stage.stop("aaa.1");
    stage.process_in("asked");
    // Several times what the service says, and the patience with the shim.
    std::thread::sleep(PATIENCE * 8);
    std::fs::write(stage.home.path().join("go"), "").unwrap();
    let record = stage.end_of("aaa.1");
    assert_eq!((record.status, record.cause), (exited(7), Cause::Asked));
}

#[test]
fn a_time_limit_that_passes_while_the_shim_is_looked_for_holds() {
    let mut stage = Stage::open(false, PATIENCE);
    let text = "rm $NEXUS_RUN_DIR/started; echo $$ > two; while ! [ -e go ]; do sleep 0.01; done
        while :; do kill -STOP $PPID; done";
    stage.start(kept_stopped(stage.shell("aaa.1", text)));
    stage.start_of("aaa.1");
    let job = stage.process_in("two");
    stage.close_node();
    stage.open_node();
    stage.node().observe(vec![stage.place("aaa.1")]);
    stage.node().know_terms(vec![RunTerms { run: id("aaa.1"), time_limit_ms: Some(100), grace_ms: GRACE_MS }]);
    stage.wait_for("its shim to be found", |report| matches!(report, Report::Underway { .. }).then_some(()));
    std::fs::write(stage.home.path().join("go"), "").unwrap();
    is_killed(&stage.end_of("aaa.1"), Cause::Timeout);
    assert!(!lives(job));
}

#[test]
fn a_shim_that_stays_stopped_without_its_job_is_replaced() {
    let stage = Stage::open(true, PATIENCE);
    stage.start(kept_stopped(stage.shell("aaa.1", "trap '' TERM; echo $$ > two; while :; do sleep 0.05; done")));
    stage.process_in("two");
    stage.start_of("aaa.1");
    let shim = shim_of(&stage, "aaa.1");
    // A debugger holds it: no signal but KILL is heard.
    // SAFETY: plain numbers; the shim stops, and nothing of this process changes.
    let traced = unsafe { libc::ptrace(libc::PTRACE_ATTACH, shim.pid as i32, 0, 0) };
    if traced != 0 {
        return eprintln!("skipped: processes cannot be traced here");
    }
    wait_until("its shim to stop", || processes::is_stopped(shim));
    stage.stop("aaa.1");
    let record = stage.end_of("aaa.1");
    is_killed(&record, Cause::Asked);
    assert!(!lives(shim), "its shim is gone before the end is told");
    // SAFETY: collects what is left of the traced process.
    unsafe { libc::waitpid(shim.pid as i32, std::ptr::null_mut(), libc::__WALL) };
    assert_eq!(inspect(&stage.dir("aaa.1")).unwrap(), Seen::Exited(record), "who looks later finds the same");
    // The end may be told from the record while init has not collected the killed processes, which keep the group until then.
    if let Containment::Cgroup(base) = stage.node().containment() {
        let group = base.join("aaa.1");
        wait_until("its group to be removed", || !group.exists());
    }
    let next = RunSpec { gpu_locks: vec!["GPU-1".into()], ..stage.shell("bbb.1", "exit 3") };
    assert_eq!(stage.run(next).status, exited(3), "its GPU is free");
}

#[test]
fn a_time_limit_holds_over_a_line_that_was_cut() {
    let machine = Machine::new();
    let connect = || machine.connect_with("NEXUS_SHIM_PATIENCE", "200");
    let first = connect();
    let spec = kept_stopped(machine.shell("aaa.1", KEEPS_ITS_SHIM_STOPPED));
    first.start(RunSpec { time_limit_ms: Some(100), ..spec });
    wait_until("its shim to be stopped", || machine.path("one").exists());
    first.end();
    let second = connect();
    second.observe(machine.place("aaa.1"));
    let terms = RunTerms { run: id("aaa.1"), time_limit_ms: Some(100), grace_ms: GRACE_MS };
    second.line.send(&ToNode::Terms { runs: vec![terms] });
    is_killed(&second.end_of("aaa.1"), Cause::Timeout);
    wait_until("its record", || machine.run_dir("aaa.1").join(EXIT).exists());
}
