//! `nexus machine`: machines come, are moved, paused and go.

use std::fs;
use std::time::{Duration, SystemTime};

use nexus_testkit::{Nexus, SshHosts, alive, kill, signal, until};
use serde_json::Value;

use crate::NEXUS;

/// A service with no GPU of its own, and hosts with some.
pub fn pool(hosts: usize, gpus: u16) -> (SshHosts, Nexus) {
    let (ssh, nexus) = (SshHosts::start(hosts), Nexus::with_gpus(NEXUS, 0));
    ssh.known_to(&nexus);
    for number in 1..=hosts {
        ssh.add_to(&nexus, number, gpus);
    }
    (ssh, nexus)
}

pub fn machine(nexus: &Nexus, name: &str) -> Value {
    nexus.json(&["machine", "show", name, "--json"])
}

pub fn in_state(nexus: &Nexus, name: &str, state: &str) -> Value {
    until(&format!("{name} is {state}"), || {
        Some(machine(nexus, name)).filter(|machine| machine["pool"]["state"] == state)
    })
}

#[test]
fn a_machine_comes_with_one_command_and_goes_with_one() {
    let (ssh, nexus) = (SshHosts::start(1), Nexus::with_gpus(NEXUS, 1));
    ssh.known_to(&nexus);
    assert!(nexus.ok(&["machine", "ls"]).starts_with("local"));
    let added = ssh.try_add(&nexus, 1, &["--simulate-gpus", "2", "--class", "big"]).expect_code(0);
    assert!(added.stderr.contains("host1 is in the pool, class big: 2 x simulated, 24GB"), "{}", added.stderr);
    let host = machine(&nexus, "host1");
    assert_eq!((&host["pool"]["state"], &host["pool"]["class"]), (&"ready".into(), &"big".into()));
    assert_eq!(host["gpus"].as_array().unwrap().len(), 2);
    assert!(nexus.fails(1, &["machine", "add", "host1"]).contains("there is a machine host1 already"));

    // It is found again by the next service, and has its copy of nexus already.
    nexus.ok(&["restart"]);
    in_state(&nexus, "host1", "ready");

    let gone = nexus.run(&["machine", "rm", "host1"]).expect_code(0).stderr;
    assert!(gone.contains("host1 is not in the pool any more"), "{gone}");
    assert!(nexus.fails(1, &["machine", "show", "host1"]).contains("there is no machine host1"));
    assert!(nexus.fails(1, &["machine", "rm", "local"]).contains("local cannot be removed"));
}

#[test]
fn jobs_go_where_they_are_told() {
    let (_ssh, nexus) = pool(2, 1);
    nexus.ok(&["machine", "mv", "big", "host2"]);
    let on = |options: &[&str]| nexus.ended(&nexus.add_with(options, "true"))["machine"].clone();
    // The service's own host has no GPU.
    assert_eq!(on(&[]), "host1");
    assert_eq!(on(&["--class", "big"]), "host2");
    assert_eq!(on(&["--machine", "host2"]), "host2");
    assert_eq!(on(&["--machine", "local", "--gpus", "0"]), "local");
    let unknown = nexus.fails(1, &["add", "--machine", "hots1", "true"]);
    assert!(unknown.contains("there is no machine hots1") && unknown.contains("did you mean host1?"), "{unknown}");
    assert!(nexus.fails(2, &["add", "--machine", "a", "--class", "b", "true"]).contains("both say where"));

    let waits = nexus.add_with(&["--class", "none-of-these"], "true");
    let job = nexus.job(&waits);
    assert_eq!(job["waiting"]["kind"], "no-such-machines");
    assert!(nexus.ok(&["why", &waits]).contains("no machine is of class none-of-these"));
    nexus.ok(&["machine", "mv", "none-of-these", "host2"]);
    assert_eq!(nexus.ended(&waits)["machine"], "host2");
}

#[test]
fn r30_a_machine_that_is_moved_or_paused_keeps_its_job() {
    let (_ssh, nexus) = pool(1, 1);
    let runs = nexus.add("sleep 2; exit 4");
    nexus.in_state(&runs, "running");
    nexus.ok(&["machine", "mv", "other", "host1"]);
    nexus.ok(&["machine", "pause", "host1"]);
    let waits = nexus.add_with(&["--class", "other"], "true");
    assert_eq!(nexus.job(&waits)["waiting"]["paused"], 1);
    assert!(nexus.ok(&["queue"]).contains("no machine of class other takes jobs: 1 paused"));
    assert_eq!(nexus.ended(&runs)["exit_code"], 4);
    assert_eq!(nexus.job(&waits)["state"], "queued");
    nexus.ok(&["machine", "resume", "host1"]);
    assert_eq!(nexus.ended(&waits)["state"], "completed");
}

#[test]
fn a_machine_with_jobs_goes_as_one_says() {
    let (_ssh, nexus) = pool(2, 1);
    let first = nexus.add_with(&["--machine", "host1"], "sleep 60");
    let second = nexus.add_with(&["--machine", "host2"], "sleep 2; exit 3");
    nexus.in_state(&first, "running");
    nexus.in_state(&second, "running");
    let busy = nexus.fails(1, &["machine", "rm", "host1"]);
    assert!(busy.contains(&format!("job {first} is on it")) && busy.contains("--drain"), "{busy}");
    let told = nexus.run(&["machine", "rm", "host2", "--drain"]).expect_code(0).stderr;
    assert!(told.contains("host2 goes when the job on it has ended"), "{told}");
    nexus.ok(&["machine", "rm", "host1", "--kill"]);
    assert_eq!(nexus.ended(&first)["reason"], "user");
    assert_eq!(nexus.ended(&second)["exit_code"], 3);
    until("both are gone", || (nexus.json(&["machine", "ls", "--json"]).as_array().unwrap().len() == 1).then_some(()));
}

#[test]
fn gpus_of_a_machine_are_named_with_it() {
    let (_ssh, nexus) = pool(1, 2);
    let id = nexus.add("sleep 60");
    let job = nexus.in_state(&id, "running");
    let gpu = format!("host1:{}", job["gpus"][0]);
    nexus.ok(&["pause", &gpu]);
    assert!(nexus.ok(&["gpus"]).contains("paused"));
    assert!(nexus.ok(&["ls"]).contains(&gpu));
    let status = nexus.ok(&["status"]);
    assert!(status.contains("GPUs of local") && status.contains("GPUs of host1:"), "{status}");
    let told = nexus.run(&["kill", &gpu]).expect_code(0).stderr + &nexus.ok(&["history"]);
    assert!(told.contains(&id), "{told}");
}

#[test]
fn copies_of_nexus_that_nobody_runs_go() {
    let (ssh, nexus) = (SshHosts::start(1), Nexus::with_gpus(NEXUS, 0));
    ssh.known_to(&nexus);
    // A folder of its own: the copies of other tests are none of this one's.
    let bin = ssh.home(1).join("bin");
    fs::remove_file(&bin).unwrap();
    fs::create_dir(&bin).unwrap();
    let put = |name: &str, hours: u64| {
        let path = bin.join(name);
        fs::copy("/bin/sleep", &path).unwrap();
        let at = SystemTime::now() - Duration::from_secs(hours * 3600);
        fs::File::options().append(true).open(&path).unwrap().set_modified(at).unwrap();
        path
    };
    let (old, half) = (put("nexus-0.0.1-000000000001", 2), put("nexus-0.0.1-000000000001.77", 48));
    let (young, other) = (put("nexus-0.0.1-000000000002", 0), put("my-own", 1000));
    let run = put("nexus-0.0.1-000000000003", 2);
    let mut runner = std::process::Command::new(&run).arg("100").spawn().unwrap();
    ssh.add_to(&nexus, 1, 1);
    until("the old copies are gone", || (!old.exists() && !half.exists()).then_some(()));
    assert!(young.exists() && other.exists() && run.exists());
    // The node's own is used again, and the one that ran goes with the next node.
    kill(runner.id(), signal::SIGKILL);
    runner.wait().unwrap();
    let node = ssh.nodes(1)[0];
    ssh.kill_node(1);
    until("its node is gone", || (!alive(node)).then_some(()));
    until("the copy that ran is gone", || (!run.exists()).then_some(()));
    in_state(&nexus, "host1", "ready");
    assert_eq!(nexus.ended(&nexus.add("true"))["state"], "completed");
    assert_eq!(fs::read_dir(&bin).unwrap().count(), 3, "the young one, the other, and that in use");
}

#[test]
fn other_arguments_of_ssh_count_for_the_next_call() {
    let (ssh, nexus) = pool(1, 1);
    ssh.end_sshd(1);
    in_state(&nexus, "host1", "unreachable");
    ssh.known_with(&nexus, &["-l", "nobody-here"]);
    ssh.power_on(1);
    nexus.ok(&["machine", "resume", "host1"]);
    until("it is called as another", || {
        (machine(&nexus, "host1")["pool"]["detail"] == "it does not let this user in").then_some(())
    });
    ssh.known_to(&nexus);
    nexus.ok(&["machine", "resume", "host1"]);
    in_state(&nexus, "host1", "ready");
}
