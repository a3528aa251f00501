//! `nexus machine setup`: commands make machines ready for a class.

use std::fs;

use nexus_testkit::{Nexus, Output, SshHosts};

use super::machines::{in_state, machine};
use crate::NEXUS;

/// Two hosts that are not in the pool yet.
fn two() -> (SshHosts, Nexus) {
    let (ssh, nexus) = (SshHosts::start(2), Nexus::with_gpus(NEXUS, 0));
    ssh.known_to(&nexus);
    (ssh, nexus)
}

fn set_up(nexus: &Nexus, options: &[&str], commands: &[&str]) -> Output {
    let begin = ["machine", "setup", "--class", "foo", "--simulate-gpus", "1"];
    nexus.run_limited(&[&begin[..], options, &["--"], commands].concat())
}

#[test]
fn commands_run_in_order_and_the_machine_joins_its_class() {
    let (ssh, nexus) = two();
    let mark = ssh.folder(1).join("mark");
    // Each long enough to be seen: who looks on tells of the step that a machine is at.
    let first = format!("pwd; sleep 1; echo one {{MACHINE}} > {}", mark.display());
    let second = format!("grep 'one host1' {} && sleep 1", mark.display());
    let waits = nexus.add_with(&["--class", "foo"], "true");
    let done = set_up(&nexus, &["-m", "host1"], &[&first, &second]).expect_code(0).stderr;
    assert!(done.contains("host1: 1 of 2: ") && done.contains("host1: 2 of 2: "), "{done}");
    assert!(done.contains("host1 is in the pool, class foo: 1 x simulated"), "{done}");
    // What waited for the class runs only now.
    let job = nexus.ended(&waits);
    assert_eq!((&job["state"], &job["machine"]), (&"completed".into(), &"host1".into()));
    let jobs = nexus.json(&["history", "--tag", "setup", "--json"]);
    let jobs = jobs.as_array().unwrap();
    assert_eq!(jobs.len(), 2, "{jobs:?}");
    let first_job = jobs.iter().find(|job| job["command"].as_str().unwrap().starts_with("pwd")).unwrap();
    assert!(job["started_at"].as_str() > first_job["ended_at"].as_str());
    // Where nothing is said it runs in the home directory there.
    let said = nexus.ok(&["logs", first_job["id"].as_str().unwrap()]);
    assert_eq!(said, ssh.user_home(1).display().to_string());
}

#[test]
fn what_fails_keeps_the_machine_out_and_says_so() {
    let (_ssh, nexus) = two();
    let failed = set_up(&nexus, &["-m", "host1"], &["echo one; exit 3", "echo never"]).expect_code(1).stderr;
    assert!(failed.contains("host1 was not set up") && failed.contains("exit 3"), "{failed}");
    assert!(failed.contains("hint:") && failed.contains("nexus logs"), "{failed}");
    let host = machine(&nexus, "host1");
    assert_eq!((&host["pool"]["state"], &host["pool"]["class"]), (&"not-set-up".into(), &serde_json::Value::Null));
    let list = nexus.ok(&["machine", "ls"]);
    assert!(list.contains("not-set-up") && list.contains("its set-up for foo failed"), "{list}");
    // Nothing that does not name it runs there, also after a restart.
    let waits = nexus.add_with(&["--class", "foo"], "true");
    nexus.ok(&["restart"]);
    in_state(&nexus, "host1", "not-set-up");
    assert_eq!(nexus.job(&waits)["state"], "queued");
    // It is set up again as it is.
    set_up(&nexus, &["-m", "host1"], &["true"]).expect_code(0);
    assert_eq!(nexus.ended(&waits)["machine"], "host1");
    assert_eq!(machine(&nexus, "host1")["pool"]["state"], "ready");
}

#[test]
fn several_at_once_from_a_file_and_one_that_cannot_be_reached() {
    let (ssh, nexus) = two();
    ssh.end_sshd(2);
    let file = nexus.work().join("machines.txt");
    fs::write(&file, "# ours\nhost1   # the first\n\nhost2\n").unwrap();
    let file = file.display().to_string();
    let told = set_up(&nexus, &["-f", &file], &["true"]).expect_code(1).stderr;
    assert!(told.contains("host1 is in the pool, class foo"), "{told}");
    assert!(told.contains("host2 was not set up") && told.contains("nothing answers there"), "{told}");
    // Neither it nor its job stays.
    assert_eq!(nexus.json(&["machine", "ls", "--json"]).as_array().unwrap().len(), 2, "{told}");
    assert_eq!(nexus.json(&["queue", "--json"]).as_array().unwrap().len(), 0);
}

#[test]
fn a_set_up_goes_on_by_itself_and_one_machine_after_the_other() {
    let (_ssh, nexus) = two();
    let options = ["-m", "host1", "-m", "host2", "--stagger", "9s", "--no-wait"];
    let ids = set_up(&nexus, &options, &["sleep 2"]).expect_code(0).stdout;
    let ids: Vec<&str> = ids.lines().collect();
    assert_eq!(ids.len(), 2);
    let delayed = nexus.job(ids[1]);
    assert_eq!((&delayed["state"], &delayed["waiting"]["kind"]), (&"queued".into(), &"delayed".into()), "{delayed}");
    let being = in_state(&nexus, "host1", "setting-up");
    assert!(being["pool"]["detail"].as_str().unwrap().contains(ids[0]), "{being}");
    nexus.ok(&["restart"]);
    for name in ["host1", "host2"] {
        in_state(&nexus, name, "ready");
    }
    let at = |id: &str, what: &str| -> jiff::Timestamp { nexus.job(id)[what].as_str().unwrap().parse().unwrap() };
    let waited = |id: &str| at(id, "started_at").duration_since(at(id, "submitted_at"));
    assert!(waited(ids[1]).as_millis() >= 9000, "{:?}", waited(ids[1]));
}

#[test]
fn a_driver_sets_up_from_here() {
    let (_ssh, nexus) = two();
    let says = "echo {MACHINE} from ${NEXUS_TEST_HOST:-here}; pwd";
    set_up(&nexus, &["-m", "host1", "--driver"], &[says]).expect_code(0);
    let jobs = nexus.json(&["history", "--tag", "setup", "--json"]);
    let said = nexus.ok(&["logs", jobs[0]["id"].as_str().unwrap()]);
    assert_eq!(said, format!("host1 from here\n{}", nexus.work().display()));
}

#[test]
fn what_means_nothing_is_refused_before_anything_is_done() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let told = |words: &[&str]| nexus.fails(2, &[&["machine", "setup"], words].concat());
    assert!(told(&["-m", "a", "--", "true"]).contains("--class"));
    assert!(told(&["--class", "x", "--", "true"]).contains("there is no machine to set up"));
    assert!(told(&["--class", "x", "-m", "a"]).contains("there is no command to set them up with"));
    assert!(told(&["--class", "x", "-m", "a", "--stagger", "5", "--", "true"]).contains("has no unit"));
    let twice = nexus.fails(1, &["machine", "setup", "--class", "x", "-m", "a", "-m", "b@a", "--", "true"]);
    assert!(twice.contains("each machine once"), "{twice}");
    let option = nexus.fails(1, &["machine", "setup", "--class", "x", "-m", "-oProxyCommand=x", "--", "true"]);
    assert!(option.contains("address cannot be"), "{option}");
    assert_eq!(nexus.json(&["machine", "ls", "--json"]).as_array().unwrap().len(), 1);
    assert_eq!(nexus.json(&["queue", "--json"]).as_array().unwrap().len(), 0);
}
