//! That a shim which is done takes the next run, and that nothing of one reaches the other.

use std::fs;

use nexus_api::run_dir::{ExitStatus, ResourceLimits, RunSpec, Started};
use nexus_node::cgroup;
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
    announce(stage, stage.shell(run, text))
}

fn announce(stage: &Stage, spec: RunSpec) -> RunSpec {
    let results_dir = Some(stage.home.path().join("results").join(&spec.run));
    let spec = RunSpec { results_dir, ..spec };
    stage.node().announce(&mut spec.clone());
    wait_until("it is ready", || spec.results_dir.as_ref().unwrap().exists());
    spec
}

/// The process that a run which is announced has already, once it waits.
fn waiting_process_of(shim: Process) -> Process {
    let calls_poll = |process: &Process| {
        let call = fs::read_to_string(format!("/proc/{}/syscall", process.pid)).unwrap_or_default();
        call.split(' ').next() == Some(&libc::SYS_ppoll.to_string())
    };
    let waiting = || processes::descendants(shim.pid).unwrap().into_iter().find(calls_poll);
    wait_until("its process waits", || waiting().is_some());
    waiting().unwrap()
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
fn a_run_that_waits_with_a_process_begins_as_any_other() {
    let stage = Stage::new();
    // The process, its session, its share of the processor and its limits.
    let text = "echo $$ $(cut -d' ' -f6 /proc/$$/stat) $(grep se.slice /proc/self/sched) $(ulimit -n) $(pwd); exit 7";
    let with_limits =
        |run: &str| RunSpec { limits: ResourceLimits { nofile: Some(123), memlock: None }, ..stage.shell(run, text) };
    let own_turns = fs::read_to_string("/proc/thread-self/sched").unwrap_or_default();
    let own_turns: Vec<&str> =
        own_turns.lines().filter(|line| line.contains("se.slice")).flat_map(str::split_whitespace).collect();
    let expected = |pid: u32| {
        let [own_turns, home] = [own_turns.join(" "), stage.home.path().display().to_string()];
        [format!("{pid} {pid}"), own_turns, format!("123 {home}")].join(" ").replace("  ", " ") + "\n"
    };
    let first = stage.run(with_limits("aaa.1"));
    assert_eq!((first.status, stage.log("aaa.1", "stdout.log")), (exited(7), expected(first.pid.unwrap())));
    let shim = shim_of(&stage, "bbb.1");
    let spec = announce(&stage, with_limits("ccc.1"));
    let waiting = waiting_process_of(shim);
    wait_until("what is owed is written", || stage.place("bbb.1").dir.join("exit.json").exists());
    let record = stage.run(spec);
    assert_eq!((record.status, record.pid), (exited(7), Some(waiting.pid)));
    assert_eq!(stage.log("ccc.1", "stdout.log"), expected(waiting.pid));
    assert_eq!(shim_of(&stage, "ddd.1"), shim);
}

#[test]
fn what_keeps_a_run_that_waited_from_its_command_is_told() {
    let stage = Stage::new();
    for (number, (spec, words)) in [
        (stage.spec("bbb.2", &["/no/such/program"]), "/no/such/program"),
        (RunSpec { cwd: "/no/such/folder".into(), ..stage.shell("bbb.1", "exit 7") }, "/no/such/folder"),
    ]
    .into_iter()
    .enumerate()
    {
        let shim = shim_of(&stage, &format!("aaa.{}", number + 1));
        let spec = announce(&stage, spec);
        waiting_process_of(shim);
        let status = stage.run(spec).status;
        assert!(matches!(&status, ExitStatus::StartError { error, .. } if error.contains(words)), "{status:?}");
    }
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
fn a_run_that_was_announced_and_comes_otherwise_begins_as_it_comes() {
    let stage = Stage::new();
    let shim = shim_of(&stage, "aaa.1");
    let announced = announced(&stage, "bbb.1", "exit 3");
    waiting_process_of(shim);
    stage.node().withdraw();
    let spec = RunSpec { argv: stage.shell("bbb.1", "exit 7").argv, ..announced };
    assert_eq!(stage.run(spec).status, exited(7));
}

#[test]
fn a_run_that_waited_says_who_it_is_before_its_command_can_and_nothing_after() {
    let stage = Stage::new();
    let shim = shim_of(&stage, "aaa.1");
    let others = stage.home.path().join("others");
    fs::write(&others, "mine").unwrap();
    // As a command that was faster than its shim would have it.
    let spec = announced(&stage, "bbb.1", "until [ -e go ]; do sleep 0.01; done; exit 7");
    let waiting = waiting_process_of(shim);
    shim.signal(libc::SIGSTOP);
    let marker = stage.dir("bbb.1").join("started");
    stage.start(spec);
    let told = || serde_json::from_slice::<Started>(&fs::read(&marker).ok()?).ok();
    wait_until("the run has begun", || told().is_some());
    let Started { pid, shim_pid, cgroup, .. } = told().unwrap();
    assert_eq!((pid, shim_pid), (waiting.pid, shim.pid));
    let in_it = cgroup.is_none_or(|group| cgroup::members(&group).unwrap().contains(&pid));
    assert!(in_it, "its group is the one that it says");
    fs::remove_file(&marker).unwrap();
    std::os::unix::fs::symlink(&others, &marker).unwrap();
    fs::write(stage.home.path().join("go"), "").unwrap();
    shim.signal(libc::SIGCONT);
    assert_eq!(stage.end_of("bbb.1").status, exited(7));
    assert_eq!(fs::read_to_string(others).unwrap(), "mine");
}

#[test]
fn a_run_that_was_announced_to_a_shim_that_dies_is_started_by_another_once() {
    let stage = Stage::new();
    for number in 1..=10 {
        let shim = shim_of(&stage, &format!("aaa.{number}"));
        let spec = announced(&stage, &format!("bbb.{number}"), "echo once >> count; exit 7");
        let waiting = waiting_process_of(shim);
        shim.signal(libc::SIGSTOP);
        waiting.signal(libc::SIGSTOP);
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
