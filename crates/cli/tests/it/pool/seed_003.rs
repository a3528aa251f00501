//! The tour of expjobserver's README, with the commands of nexus (docs/seed-003.md) and real machines.

use std::fs;

use nexus_testkit::{Nexus, SshHosts, until};

use super::machines::machine;
use crate::NEXUS;

/// A host with two commands of the tour, and the service that is to know it.
fn tour() -> (SshHosts, Nexus) {
    let (ssh, nexus) = (SshHosts::start(1), Nexus::with_gpus(NEXUS, 0));
    ssh.known_to(&nexus);
    (ssh, nexus)
}

#[test]
fn machines_are_set_up_and_jobs_run_on_them_in_order() {
    let (ssh, nexus) = tour();
    // j machine ls: none beside the own one.
    assert_eq!(nexus.json(&["machine", "ls", "--json"]).as_array().unwrap().len(), 1);
    let home = ssh.home(1).display().to_string();
    let mark = ssh.folder(1).join("the-thing").display().to_string();

    // j machine setup --class foo -m my.machine.foo.com:22 -- "setup-the-thing {MACHINE} --flag" "another"
    nexus.run_with_input(&["var", "set", "TOKEN"], b"s3cret\n").expect_code(0);
    let first = format!("test $(printf %s {{TOKEN}} | wc -c) = 6 && echo {{MACHINE}} --flag > {mark} && sleep 1");
    let second = format!("grep -q 'host1 --flag' {mark}");
    let options = ["machine", "setup", "--class", "foo", "-m", "host1", "--home", &home, "--simulate-gpus", "1"];
    let words = [&options[..], &["--no-wait", "--", &first, &second]].concat();
    let ids = nexus.run_limited(&words).expect_code(0).stdout;
    let set_up: Vec<&str> = ids.lines().collect();
    assert_eq!(set_up.len(), 2);
    // j job ls: the set-up runs, with its variables by name.
    nexus.in_state(set_up[0], "running");
    let listed = nexus.ok(&["ls"]);
    assert!(listed.contains(set_up[0]) && listed.contains("host1") && !listed.contains("s3cret"), "{listed}");

    // j job add foo "bar --the --foo baz" /path/to/results/dir -x 3
    let results = nexus.work().join("results");
    let command = "echo data > out.$NEXUS_JOB_ID; echo RESULTS: out.$NEXUS_JOB_ID; sleep 0.3";
    let to = results.display().to_string();
    let added = nexus.ok(&["add", "-q", "--class", "foo", "--results", &to, "-x", "3", command]);
    let jobs: Vec<&str> = added.lines().collect();
    assert_eq!(jobs.len(), 3);
    let ended: Vec<_> = jobs.iter().map(|id| nexus.ended(id)).collect();
    assert_eq!(machine(&nexus, "host1")["pool"]["class"], "foo");
    for (id, job) in jobs.iter().zip(&ended) {
        assert_eq!((&job["state"], &job["machine"]), (&"completed".into(), &"host1".into()), "{job}");
        assert_eq!(fs::read_to_string(results.join(id).join(format!("out.{id}"))).unwrap(), "data\n");
    }
    // The jobs run in the enqueued order, after the set-up.
    let begun: Vec<&str> = ended.iter().map(|job| job["started_at"].as_str().unwrap()).collect();
    assert!(begun.is_sorted(), "{begun:?}");
    assert!(nexus.job(set_up[1])["ended_at"].as_str().unwrap() <= begun[0]);
}

#[test]
fn logs_are_followed_and_found_by_their_path() {
    let (ssh, nexus) = tour();
    ssh.add_to(&nexus, 1, 1);
    // j job log -t 1
    let id = nexus.add("echo begun; sleep 2; echo done");
    nexus.in_state(&id, "running");
    until("the first line", || (nexus.ok(&["logs", "-n", "1", &id]) == "begun").then_some(()));
    assert_eq!(nexus.run_limited(&["logs", "-f", &id]).expect_code(0).stdout, "begun\ndone\n");
    // j job log 0: a path that holds the log, here.
    nexus.ended(&id);
    let paths = nexus.ok(&["logs", "--path", &id]);
    let path = paths.lines().next().expect("that of standard output");
    until("it is here", || (fs::read_to_string(path).ok()? == "begun\ndone\n").then_some(()));
}

#[test]
fn a_matrix_of_36_and_its_table() {
    let (ssh, nexus) = tour();
    ssh.add_to(&nexus, 1, 4);
    nexus.ok(&["machine", "mv", "foo", "host1"]);
    // j job matrix add foo "my-experiment-cmd --param0 {I} …" /path/to/copy/results/ I=1,2,3,4 J=… K=…
    let to = nexus.work().join("copied").display().to_string();
    let command = "echo {I} {J} {K} > r.$NEXUS_JOB_ID; echo RESULTS: r.$NEXUS_JOB_ID";
    let values = ["I=1,2,3,4", "J=linear,quadratic,exotic", "K=banana,rockingchair,airplane"];
    let words = [&["sweep", "--class", "foo", "--results", &to, "--name", "matrix", command][..], &values].concat();
    nexus.run_limited(&words).expect_code(0);
    until("all of them", || {
        let sweep = nexus.json(&["sweep", "show", "matrix", "--json"]);
        (sweep["states"]["completed"] == 36).then_some(())
    });
    let table = nexus.ok(&["sweep", "csv", "matrix"]);
    let mut lines = table.lines();
    let heads: Vec<&str> = lines.next().unwrap().split(',').collect();
    let place = |name: &str| heads.iter().position(|head| *head == name).unwrap_or_else(|| panic!("{name}: {heads:?}"));
    let (i, j, k, results) = (place("I"), place("J"), place("K"), place("results"));
    let mut seen = std::collections::BTreeSet::new();
    for line in lines {
        let cells: Vec<&str> = line.split(',').collect();
        let folder = fs::read_dir(cells[results]).unwrap_or_else(|error| panic!("{}: {error}", cells[results]));
        let file = folder.flatten().next().expect("a result").path();
        let values = format!("{} {} {}", cells[i], cells[j], cells[k]);
        assert_eq!(fs::read_to_string(file).unwrap(), format!("{values}\n"));
        seen.insert(values);
    }
    assert_eq!(seen.len(), 36);
}

#[test]
fn shells_complete_verbs_and_their_options() {
    let nexus = Nexus::with_gpus(NEXUS, 0);
    for shell in ["bash", "zsh", "fish"] {
        assert!(nexus.ok(&["completions", shell]).contains(" __complete "), "{shell} asks at every Tab");
    }
    let offers = |words: &[&str]| nexus.ok(&[&["__complete", "nexus"], words].concat());
    assert!(offers(&["machine", "set"]).starts_with("setup\t"));
    assert!(offers(&["machine", "setup", "--stag"]).starts_with("--stagger\t"));
}
