//! One node a home, the newest; and homes that cannot be had.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use nexus_node::Report;
use nexus_node::processes::{self, Process};
use nexus_testkit::{Filler, Mount};

use super::connection::Machine;
use crate::stage::{exited, wait_until};

/// Stops a process, which takes effect when each of its threads has heard of it.
fn halt(process: Process) {
    assert!(process.signal(libc::SIGSTOP));
    let state = format!("/proc/{}/stat", process.pid);
    wait_until("it to stand still", || std::fs::read_to_string(&state).is_ok_and(|text| text.contains(") T ")));
}

#[test]
fn a_newer_node_ends_the_older_and_has_its_runs() {
    let machine = Machine::new();
    let older = machine.connect();
    older.start(machine.waiting("aaa.1", 4));
    let pid = older.start_of("aaa.1");
    let newer = machine.connect();
    assert_eq!(older.loss(), "the node's end was closed");
    assert_eq!(older.end(), (Some(0), String::new()));
    newer.observe(machine.place("aaa.1"));
    assert_eq!(newer.start_of("aaa.1"), pid);
    machine.let_go();
    assert_eq!(newer.end_of("aaa.1").status, exited(4));
}

#[test]
fn a_node_that_does_not_end_by_itself_is_killed() {
    let machine = Machine::new();
    let mut older = machine.connect();
    let process = processes::stat(older.hello.pid).unwrap().process;
    halt(process);
    let newer = machine.connect();
    assert_eq!(older.code(), None, "it was killed");
    assert_eq!(newer.run(machine.shell("aaa.1", "exit 5")).status, exited(5));
}

#[test]
fn a_killed_node_leaves_its_runs_to_the_next() {
    let machine = Machine::new();
    let mut first = machine.connect();
    first.start(machine.waiting("aaa.1", 6));
    first.start_of("aaa.1");
    first.process.kill().unwrap();
    first.process.wait().unwrap();
    let second = machine.connect();
    second.observe(machine.place("aaa.1"));
    second.start_of("aaa.1");
    machine.let_go();
    assert_eq!(second.end_of("aaa.1").status, exited(6));
}

#[test]
fn hup_and_term_end_a_node_in_good_order() {
    for signal in [libc::SIGHUP, libc::SIGTERM] {
        let machine = Machine::new();
        let mut connection = machine.connect();
        connection.start(machine.waiting("aaa.1", 0));
        let job = processes::stat(connection.start_of("aaa.1")).unwrap().process;
        assert!(processes::stat(connection.hello.pid).unwrap().process.signal(signal));
        assert_eq!(connection.code(), Some(0));
        assert!(job.is_current());
    }
}

#[test]
fn the_hello_says_where_and_who() {
    let machine = Machine::new();
    let connection = machine.connect();
    let hello = &connection.hello;
    assert_eq!((&hello.home, hello.pid), (&machine.home(), connection.process.id()));
    assert_eq!(hello.logs, machine.home().join("logs"));
    assert_eq!(hello.user_home, machine.dir.path());
    assert_eq!(hello.hostname, nexus_node::home::hostname());
    assert_eq!(hello.boot_id, processes::boot_id().unwrap());
    assert!(hello.cpus > 0 && hello.ram_mib > 0 && hello.at_ms > 0 && !hello.user.is_empty());
    assert!(hello.bash.as_ref().is_none_or(|bash| bash.is_file()));
    let mode = machine.home().metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn a_home_with_a_long_path_has_its_socket_elsewhere() {
    let machine = Machine::new();
    let runtime = tempfile::Builder::new().prefix("nx").tempdir_in("/tmp").unwrap();
    let mut command = machine.command();
    let home = machine.path(&"long".repeat(30));
    command.env("TEST_NODE_HOME", &home).env("XDG_RUNTIME_DIR", runtime.path());
    let connection = super::connection::Connection::open(command);
    assert_eq!(connection.hello.home, home);
    assert!(connection.hello.screens.starts_with(runtime.path()), "{:?}", connection.hello.screens);
    // Its end comes by message, within the time in which nobody looks by himself.
    assert_eq!(connection.run(machine.shell("aaa.1", "exit 2")).status, exited(2));
}

#[test]
fn a_home_that_cannot_be_made_is_told_in_one_line() {
    let machine = Machine::new();
    std::fs::write(machine.path("file"), "").unwrap();
    let output = machine.command().env("TEST_NODE_HOME", machine.path("file/home")).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let beginning = format!("nexus node: cannot use {}: ", machine.path("file/home").display());
    assert!(said.starts_with(&beginning) && said.contains("choose another folder"), "{said}");
    assert_eq!((said.lines().count(), output.status.code()), (1, Some(1)));
}

#[test]
fn a_full_disk_is_told_in_one_line() {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: this test needs root");
    }
    let machine = Machine::new();
    let disk = Mount::small(&machine.home(), "size=64k,mode=700");
    let _filler = Filler::of(disk.path());
    let output = machine.command().output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("nexus node: cannot use ") && said.contains("free some space there"), "{said}");
    assert_eq!((said.lines().count(), output.status.code()), (1, Some(1)));
}

#[test]
fn no_node_begins_while_a_launcher_of_the_last_may_still_start_something() {
    let machine = Machine::new();
    let mut connection = machine.connect();
    connection.wait_for_login();
    let launchers = processes::descendants(connection.hello.pid).unwrap();
    assert_eq!(launchers.len(), 1, "{launchers:?}");
    halt(launchers[0]);
    connection.process.kill().unwrap();
    connection.process.wait().unwrap();
    std::thread::scope(|scope| {
        let next = scope.spawn(|| machine.connect());
        std::thread::sleep(Duration::from_millis(500));
        let was_early = next.is_finished();
        launchers[0].signal(libc::SIGCONT);
        let next = next.join().unwrap();
        assert!(!was_early);
        wait_until("the launcher to end", || !launchers[0].is_current());
        next.observe(machine.place("aaa.1"));
        next.report("word of it", |report| matches!(report, Report::NotStarted { .. }).then_some(()));
    });
}
