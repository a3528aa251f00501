//! Machines that cannot be had: each says why and what to do, and the others do not notice.

use std::fs;
use std::io::Write;
use std::net::TcpListener;

use nexus_testkit::{Nexus, SshHosts, until};
use serde_json::Value;

use super::machines::{in_state, machine};
use crate::NEXUS;

/// The first of two hosts is well.
fn one_of_two() -> (SshHosts, Nexus) {
    let (ssh, nexus) = (SshHosts::start(2), Nexus::with_gpus(NEXUS, 0));
    ssh.known_to(&nexus);
    ssh.add_to(&nexus, 1, 1);
    (ssh, nexus)
}

/// Nothing stays of a machine that could not be added, and the others go on.
fn refused(ssh: &SshHosts, nexus: &Nexus, more: &[&str]) -> String {
    let told = ssh.try_add(nexus, 2, more).expect_code(1).stderr;
    assert!(told.contains("host2 was not added") && told.contains("hint:"), "{told}");
    assert_eq!(nexus.json(&["machine", "ls", "--json"]).as_array().unwrap().len(), 2, "{told}");
    assert_eq!(nexus.done("true")["machine"], "host1");
    told
}

/// It is in the pool and cannot be had: that is told once, it is left alone for a while, and the others take jobs.
fn left_alone(ssh: &SshHosts, nexus: &Nexus) -> Value {
    let off = in_state(nexus, "host2", "unreachable");
    let calls = ssh.calls(2);
    assert!(off["pool"]["again_at"].is_string() && off["pool"]["hint"].is_string(), "{off}");
    assert_eq!(nexus.done("true")["machine"], "host1");
    let waits = nexus.add_with(&["--machine", "host2"], "true");
    assert_eq!(nexus.job(&waits)["waiting"]["unreachable"], 1);
    nexus.ok(&["remove", &waits]);
    let log = nexus.service_log();
    let since = log.rsplit("Machine host2 added").next().unwrap();
    assert_eq!(since.matches("Machine host2 unreachable").count(), 1, "{log}");
    assert_eq!(ssh.calls(2), calls, "it is called again at once");
    off
}

#[test]
fn a_host_key_that_is_not_known() {
    let (ssh, nexus) = one_of_two();
    fs::write(ssh.known_hosts(), fs::read_to_string(ssh.known_hosts()).unwrap().lines().next().unwrap()).unwrap();
    let told = refused(&ssh, &nexus, &[]);
    assert!(told.contains("its host key is not known here") && told.contains("ssh host2 once by hand"), "{told}");
}

#[test]
fn a_user_that_is_not_let_in() {
    let (ssh, nexus) = one_of_two();
    let told = nexus.run_limited(&["machine", "add", "nobody-here@host2", "--name", "two"]).expect_code(1).stderr;
    assert!(told.contains("it does not let this user in") && told.contains("ssh-copy-id nobody-here@host2"), "{told}");
    assert_eq!(nexus.json(&["machine", "ls", "--json"]).as_array().unwrap().len(), 2);
    drop(ssh);
}

#[test]
fn a_home_that_cannot_be_written() {
    let (ssh, nexus) = one_of_two();
    let told = nexus.run_limited(&["machine", "add", "host2", "--home", "/proc/nexus"]).expect_code(1).stderr;
    assert!(told.contains("the folder for nexus cannot be made there") && told.contains("--home DIR"), "{told}");
    drop(ssh);
}

#[test]
fn a_host_that_is_off_is_not_stormed() {
    let (ssh, nexus) = one_of_two();
    ssh.end_sshd(2);
    let told = refused(&ssh, &nexus, &[]);
    assert!(told.contains("nothing answers there"), "{told}");
    ssh.try_add(&nexus, 2, &["--no-wait"]).expect_code(0);
    let off = in_state(&nexus, "host2", "unreachable");
    assert!(off["pool"]["again_at"].is_string() && off["pool"]["hint"].is_string(), "{off}");
    let told = nexus.service_log().matches("Machine host2 unreachable").count();
    assert!(told <= 2, "told once, not at every call");
    // Jobs that name it wait, and say why.
    let id = nexus.add_with(&["--machine", "host2"], "true");
    assert_eq!(nexus.job(&id)["waiting"]["unreachable"], 1);
    ssh.power_on(2);
    nexus.ok(&["machine", "resume", "host2"]);
    in_state(&nexus, "host2", "ready");
}

#[test]
fn an_rc_file_that_prints_is_passed_over() {
    let (ssh, nexus) = one_of_two();
    ssh.configure(2, "ForceCommand printf 'Welcome!\\nno newline'; eval \"$SSH_ORIGINAL_COMMAND\"\n");
    ssh.add_to(&nexus, 2, 1);
    assert_eq!(nexus.ended(&nexus.add_with(&["--machine", "host2"], "true"))["state"], "completed");
}

#[test]
fn addresses_that_are_none_are_refused() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    for address in ["-oProxyCommand=touch x", "a b", "box;id", "$(id)", "", "@box", "box:x", "-J", "box\nid"] {
        let told = nexus.run_limited(&["machine", "add", "--", address]).expect_code(1).stderr;
        assert!(told.contains("address cannot be") && told.contains("[user@]host[:port]"), "{address:?}: {told}");
    }
    assert!(!nexus.work().join("x").exists());
    assert!(nexus.fails(1, &["machine", "add", "box", "--name", "1"]).contains("name cannot be"));
    assert_eq!(machine(&nexus, "local")["pool"]["state"], "ready");
}

#[test]
fn a_disk_that_is_full_when_nexus_is_sent() {
    let (ssh, nexus) = one_of_two();
    if !ssh.mount(2, "mount -t tmpfs -o size=1m none \"$HOME_THERE\"") {
        return;
    }
    let told = refused(&ssh, &nexus, &[]);
    assert!(told.contains("its disk is full") && told.contains("make room there"), "{told}");
    assert_eq!(fs::read_dir(ssh.home_there(2).join("bin")).unwrap().count(), 0, "half a nexus stays there");
    ssh.try_add(&nexus, 2, &["--no-wait", "--simulate-gpus", "1"]).expect_code(0);
    let off = left_alone(&ssh, &nexus);
    assert_eq!(off["pool"]["detail"], "its disk is full");
    ssh.among_mounts(2, "mount -o remount,size=1g \"$HOME_THERE\"");
    nexus.ok(&["machine", "resume", "host2"]);
    in_state(&nexus, "host2", "ready");
    assert_eq!(nexus.ended(&nexus.add_with(&["--machine", "host2"], "true"))["state"], "completed");
}

/// A home of a few megabytes, with the copies of nexus elsewhere.
const SMALL: &str = "bin=$(readlink \"$HOME_THERE/bin\"); mount -t tmpfs -o size=4m none \"$HOME_THERE\"; ln -s \"$bin\" \"$HOME_THERE/bin\"";

/// Fills what is left of a host's disk; the file that did.
fn fill(ssh: &SshHosts) -> std::path::PathBuf {
    let path = ssh.home_there(2).join("ballast");
    let mut file = fs::File::create(&path).unwrap();
    let full = loop {
        // In small steps, so that nothing is left.
        if let Err(error) = file.write_all(&[0; 512]) {
            break error;
        }
    };
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull, "{full}");
    path
}

#[test]
fn a_disk_that_fills_up_while_jobs_run_and_start() {
    let (ssh, nexus) = one_of_two();
    if !ssh.mount(2, SMALL) {
        return;
    }
    ssh.add_to(&nexus, 2, 2);
    nexus.ok(&["config", "set", "jobs.start_attempts", "2"]);
    let runs = nexus.add_with(
        &["--machine", "host2"],
        "echo before; while ! [ -e go ]; do sleep 0.02; done; seq 100000; while ! [ -e end ]; do sleep 0.02; done; exit 3",
    );
    let begun = |log: &str| log.starts_with("before\n");
    until("it has begun", || begun(&nexus.run_limited(&["logs", &runs]).stdout).then_some(()));
    let ballast = fill(&ssh);
    nexus.file("go", "");
    // One that cannot start there says why, and others start elsewhere.
    let starts = nexus.add_with(&["--machine", "host2"], "true");
    let job = nexus.ended(&starts);
    assert_eq!((&job["state"], &job["reason"]), (&"failed".into(), &"start-error".into()), "{job}");
    assert!(job["detail"].as_str().unwrap().contains("No space left on device"), "{job}");
    let why = nexus.ok(&["why", &starts]);
    assert!(why.contains("No space left on device"), "{why}");
    assert_eq!(nexus.done("true")["machine"], "host1");
    // One that runs goes on: its end is known, and that output is lost is said.
    nexus.file("end", "");
    assert_eq!(nexus.ended(&runs)["exit_code"], 3);
    let told = until("its lost output is told", || {
        nexus.service_log().lines().find(|line| line.contains("could not be written")).map(String::from)
    });
    assert!(told.contains(&runs) && told.contains("host2"), "{told}");
    fs::remove_file(ballast).unwrap();
    in_state(&nexus, "host2", "ready");
    assert_eq!(nexus.ended(&nexus.add_with(&["--machine", "host2"], "true"))["state"], "completed");
    assert!(begun(&nexus.run_limited(&["logs", &runs]).expect_code(0).stdout));
}

#[test]
fn a_home_that_is_read_only() {
    let (ssh, nexus) = one_of_two();
    if !ssh.mount(2, &format!("{SMALL}; mount -o remount,ro \"$HOME_THERE\"")) {
        return;
    }
    // The copy of nexus is there already, its own folder cannot be made.
    let told = refused(&ssh, &nexus, &[]);
    assert!(told.contains("the home folder there cannot be written to") && told.contains("--home DIR"), "{told}");
    ssh.among_mounts(
        2,
        "mount -o remount,rw \"$HOME_THERE\"; rm \"$HOME_THERE/bin\"; mount -o remount,ro \"$HOME_THERE\"",
    );
    let told = refused(&ssh, &nexus, &[]);
    assert!(told.contains("the home folder there cannot be written to"), "{told}");
    ssh.try_add(&nexus, 2, &["--no-wait", "--simulate-gpus", "1"]).expect_code(0);
    left_alone(&ssh, &nexus);
    ssh.among_mounts(2, "mount -o remount,rw,size=1g \"$HOME_THERE\"");
    nexus.ok(&["machine", "resume", "host2"]);
    in_state(&nexus, "host2", "ready");
}

#[test]
fn a_host_without_bash() {
    let (ssh, nexus) = one_of_two();
    // Neither for commands nor for the one who logs in.
    let passwd = nexus.file("passwd", "");
    let script = format!(
        "sed 's,:/bin/bash$,:/bin/sh,' /etc/passwd > '{0}'; mount --bind '{0}' /etc/passwd; \
         for bash in /bin/bash /usr/bin/bash /usr/local/bin/bash; do \
         if [ -f $bash ]; then mount --bind /dev/null $bash; fi; done",
        passwd.display()
    );
    if !ssh.mount(2, &script) {
        return;
    }
    ssh.add_to(&nexus, 2, 1);
    let ready = in_state(&nexus, "host2", "ready");
    let (detail, hint) = (ready["pool"]["detail"].as_str().unwrap(), ready["pool"]["hint"].as_str().unwrap());
    assert!(detail.contains("no bash") && detail.contains("sh") && hint.contains("install bash"), "{ready}");
    assert_eq!(machine(&nexus, "host1")["pool"]["detail"], Value::Null);
    let id = nexus.add_with(&["--machine", "host2"], "echo by $0 on $NEXUS_TEST_HOST; exit 4");
    assert_eq!(nexus.ended(&id)["exit_code"], 4);
    assert_eq!(nexus.run_limited(&["logs", &id]).stdout, "by /bin/sh on host2\n");
}

#[test]
fn a_host_that_accepts_and_says_nothing() {
    let (ssh, nexus) = one_of_two();
    ssh.known_with(&nexus, &["-o", "ConnectTimeout=1"]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let told = nexus.run_limited(&["machine", "add", &address, "--name", "silent"]).expect_code(1).stderr;
    assert!(told.contains("it does not answer") && told.contains("hint: is it on"), "{told}");
    assert_eq!(nexus.done("true")["machine"], "host1");
}

#[test]
fn a_host_that_lets_us_in_and_hangs() {
    let (ssh, nexus) = one_of_two();
    ssh.configure(2, "ForceCommand sleep 1000\n");
    ssh.try_add(&nexus, 2, &["--no-wait"]).expect_code(0);
    // Nothing waits for it.
    assert_eq!(machine(&nexus, "host2")["pool"]["state"], "connecting");
    assert_eq!(nexus.done("true")["machine"], "host1");
    let off = in_state(&nexus, "host2", "unreachable");
    assert!(off["pool"]["detail"].as_str().unwrap().contains("it let us in and then said nothing"), "{off}");
    assert!(off["pool"]["hint"].as_str().unwrap().contains("ssh host2 true"), "{off}");
    assert_eq!(nexus.service_log().matches("Machine host2 unreachable").count(), 1);
    nexus.ok(&["machine", "rm", "host2"]);
}

#[test]
fn a_machine_that_fails_what_others_complete_is_quarantined() {
    let (ssh, nexus) = one_of_two();
    ssh.add_to(&nexus, 2, 1);
    let on = |host: &str| nexus.ended(&nexus.add_with(&["--machine", host], "test $NEXUS_TEST_HOST = host1"));
    let state = || machine(&nexus, "host2")["pool"]["state"].clone();
    // Twice is not enough, and one that completes begins anew.
    for _ in 0..2 {
        assert_eq!(on("host2")["state"], "failed");
    }
    assert_eq!(on("host1")["state"], "completed");
    assert_eq!(nexus.ended(&nexus.add_with(&["--machine", "host2"], "true"))["state"], "completed");
    let failed: Vec<String> = (0..3).map(|_| on("host2")["id"].as_str().unwrap().to_string()).collect();
    assert_eq!(state(), "ready", "nothing completed elsewhere meanwhile");
    assert_eq!(on("host1")["state"], "completed");
    let off = in_state(&nexus, "host2", "quarantined");
    let detail = off["pool"]["detail"].as_str().unwrap();
    assert!(detail.contains("3 different jobs failed on it") && detail.contains(&failed[2]), "{off}");
    let hint = format!("nexus why {}, then nexus machine resume host2", failed[2]);
    assert_eq!(off["pool"]["hint"], hint.as_str());
    assert!(nexus.ok(&["machine", "ls"]).contains("quarantined"));
    assert_eq!(nexus.service_log().matches("host2 quarantined").count(), 1, "{}", nexus.service_log());
    // It gets no more jobs: those that may go elsewhere do, those that name it wait and say why.
    let held = nexus.add_with(&["--machine", "host1"], "while ! [ -e go ]; do sleep 0.02; done");
    nexus.in_state(&held, "running");
    let (either, named) = (nexus.add("true"), nexus.add_with(&["--machine", "host2"], "true"));
    assert_eq!(nexus.job(&named)["waiting"]["quarantined"], 1);
    assert_eq!(nexus.job(&either)["state"], "queued");
    nexus.ok(&["restart"]);
    in_state(&nexus, "host2", "quarantined");
    nexus.ok(&["machine", "resume", "host2"]);
    assert_eq!(nexus.ended(&named)["machine"], "host2");
    assert_eq!(nexus.ended(&either)["machine"], "host2");
    in_state(&nexus, "host2", "ready");
    nexus.file("go", "");
    assert_eq!(nexus.ended(&held)["state"], "completed");
}
