//! Exports whose readers stall or leave, and those that break off.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use nexus_testkit::{Mount, Nexus, Output, alive, kill, signal, until};

use super::{is_root, lives};
use crate::NEXUS;

/// Enough that no buffer between service and reader holds it.
const MANY: &str = "6000";

fn with_many() -> Nexus {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.ok(&["add", "--quiet", "--hold", "-x", MANY, "--", "true"]);
    nexus
}

/// A service that does not get on, until this is dropped.
struct Stopped(u32);

impl Stopped {
    fn of(nexus: &Nexus) -> Stopped {
        let service = Stopped(nexus.service_pid());
        kill(service.0, signal::SIGSTOP);
        service
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        kill(self.0, signal::SIGCONT);
    }
}

/// Somebody who asked for all jobs and reads only the beginning.
fn stalled(nexus: &Nexus) -> UnixStream {
    let mut stream = UnixStream::connect(nexus.home().join("nexus.sock")).expect("the service listens");
    stream.write_all(b"GET /v1/export HTTP/1.1\r\nhost: nexus\r\n\r\n").unwrap();
    stream.read_exact(&mut [0; 200]).unwrap();
    stream
}

#[test]
fn a_reader_that_stalls_or_leaves_blocks_nobody() {
    let nexus = with_many();
    let readers: Vec<UnixStream> = (0..20).map(|_| stalled(&nexus)).collect();
    lives(&nexus);
    // While somebody reads, the log before the database cannot be emptied; and a secret stays in it.
    let id = nexus.add_with(&["--hold", "--env", "MY_TOKEN=xyzzy"], "true");
    nexus.ok(&["remove", &id]);
    let log = nexus.home().join("nexus.db-wal");
    let is_empty = || std::fs::read(&log).unwrap().iter().all(|byte| *byte == 0);
    until("the log is emptied", || is_empty().then_some(()));
    drop(readers);
    lives(&nexus);
    let reader = stalled(&nexus);
    let service = nexus.service_pid();
    nexus.ok(&["stop"]);
    assert!(!alive(service), "a stop does not wait for it");
    drop(reader);
}

#[test]
fn a_closed_pipe_ends_it_in_silence() {
    let nexus = with_many();
    let mut child = nexus.command(&["export"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdout.take().unwrap().read_exact(&mut [0; 100]).unwrap();
    let done = Output::new("export".into(), child.wait_with_output().unwrap()).expect_code(0);
    assert_eq!(done.stderr, "");
    lives(&nexus);
}

#[test]
fn one_that_breaks_off_does_not_look_whole() {
    let nexus = with_many();
    let mut child = nexus.command(&["export"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut [0; 100]).unwrap();
    nexus.kill_service();
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    let done = Output::new("export".into(), child.wait_with_output().unwrap()).expect_code(1);
    assert!(done.stderr.starts_with("error: the export broke off after "), "{done}");
    assert!(done.stderr.contains("service.log tells which\nhint: nexus doctor"), "{done}");

    // To a file: the old one stays, and nothing half lies beside it.
    nexus.ok(&["start"]);
    let file = nexus.file("jobs.jsonl", "old");
    let service = Stopped::of(&nexus);
    let child = nexus.command(&["export", "-o", "jobs.jsonl"]).stderr(Stdio::piped()).spawn().unwrap();
    let part = nexus.work().join(format!(".jobs.jsonl.{}.part", child.id()));
    until("it has begun", || part.exists().then_some(()));
    kill(service.0, signal::SIGKILL);
    let done = Output::new("export -o".into(), child.wait_with_output().unwrap());
    assert!(done.code != 0 && done.stderr.starts_with("error: "), "{done}");
    assert!(!part.exists(), "{done}");
    assert_eq!(std::fs::read_to_string(file).unwrap(), "old", "{done}");
}

#[test]
fn a_job_that_cannot_be_read_is_not_left_out_in_silence() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.ok(&["add", "--quiet", "--hold", "-x", "1000", "--", "true"]);
    let broken = nexus.add_with(&["--hold"], "true");
    nexus.ok(&["remove", &broken]);
    nexus.ok(&["stop"]);
    let spoil = format!("UPDATE jobs SET spec = 'spoilt' WHERE id = '{broken}'");
    super::sql(&nexus.home().join("nexus.db"), &spoil);
    nexus.ok(&["start"]);
    let done = nexus.run(&["export", "-o", "jobs.jsonl"]).expect_code(1);
    assert!(done.stderr.starts_with("error: the export broke off after "), "{done}");
    assert_eq!(std::fs::read_dir(nexus.work()).unwrap().count(), 0);
    until("it is told", || nexus.service_log().contains("Error: an export broke off: ").then_some(()));
    // The others can be had.
    assert_eq!(nexus.ok(&["export", "--state", "held"]).lines().count(), 1000);
}

#[test]
fn an_interrupted_one_leaves_nothing() {
    let nexus = with_many();
    let service = Stopped::of(&nexus);
    let child = nexus.command(&["export", "-o", "jobs.jsonl"]).stderr(Stdio::piped()).spawn().unwrap();
    let part = nexus.work().join(format!(".jobs.jsonl.{}.part", child.id()));
    until("it has begun", || part.exists().then_some(()));
    kill(child.id(), signal::SIGINT);
    let done = Output::new("export -o".into(), child.wait_with_output().unwrap());
    drop(service);
    assert_eq!((done.code, done.stderr.as_str()), (130, "interrupted: jobs.jsonl was not written\n"), "{done}");
    assert_eq!(std::fs::read_dir(nexus.work()).unwrap().count(), 0);
}

#[test]
fn a_full_disk_leaves_the_old_file() {
    if !is_root() {
        return;
    }
    let nexus = with_many();
    let folder = nexus.work().join("small");
    let _mount = Mount::small(&folder, "size=256k");
    let file = folder.join("jobs.jsonl");
    std::fs::write(&file, "old").unwrap();
    let said = nexus.fails(1, &["export", "-o", "small/jobs.jsonl"]);
    assert_eq!(
        said,
        "error: small/jobs.jsonl was not written\nNo space left on device\nhint: -o FILE names another place\n"
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "old");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
    nexus.ok(&["stop", "-y"]);
}
