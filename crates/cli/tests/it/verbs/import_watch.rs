//! `nexus import --watch`: new entries of a file become jobs as they are written.

use std::fs::OpenOptions;
use std::io::Write;

use nexus_testkit::{Nexus, until};
use serde_json::Value;

use crate::NEXUS;

fn append(nexus: &Nexus, name: &str, text: &str) {
    let path = nexus.work().join(name);
    let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

/// Commands of all jobs there ever were, in their order.
fn commands(nexus: &Nexus) -> Vec<String> {
    let mut jobs: Vec<Value> = nexus.json(&["ls", "--json"]).as_array().unwrap().clone();
    jobs.extend(nexus.json(&["history", "--all", "--json"]).as_array().unwrap().clone());
    jobs.sort_by_key(|job| job["submitted_at"].as_str().unwrap().to_string());
    jobs.iter().map(|job| job["command"].as_str().unwrap().to_string()).collect()
}

fn has(nexus: &Nexus, wanted: &[&str]) {
    until(&format!("{wanted:?}"), || (commands(nexus) == wanted).then_some(()));
}

/// The one watch there is.
fn watched(nexus: &Nexus) -> Value {
    let list = nexus.json(&["import", "--list", "--json"]);
    assert_eq!(list.as_array().unwrap().len(), 1, "{list}");
    list[0].clone()
}

/// Until the file was looked at when it was quiet: what is gone is forgotten then.
fn settled(nexus: &Nexus, taken: u64) {
    until("the file is settled", || (watched(nexus)["taken"] == taken).then_some(()));
}

#[test]
fn lines_are_taken_as_they_come() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.file("j.txt", "echo a\n");
    let said = nexus.run(&["import", "--watch", "j.txt"]);
    assert_eq!(said.stdout.lines().count(), 1, "what stands there is taken at once");
    let path = nexus.work().join("j.txt").display().to_string();
    let told = format!("{path} is watched: new lines are queued as they come; nexus import --stop j.txt\n");
    assert_eq!(said.stderr, format!("note: {path} is read as lines\n{told}"));
    append(&nexus, "j.txt", "echo b\necho c\n");
    has(&nexus, &["echo a", "echo b", "echo c"]);
    // A line without an end is taken when nobody goes on writing it.
    append(&nexus, "j.txt", "echo d");
    has(&nexus, &["echo a", "echo b", "echo c", "echo d"]);
    let view = watched(&nexus);
    assert_eq!((view["file"].as_str(), view["format"].as_str()), (Some(path.as_str()), Some("lines")));
    nexus.ok(&["import", "--stop", "j.txt"]);
    assert_eq!(nexus.json(&["import", "--list", "--json"]), serde_json::json!([]));
    append(&nexus, "j.txt", "\necho e\n");
    nexus.done("echo after");
    assert_eq!(commands(&nexus).last().unwrap(), "echo after", "no longer watched");
    assert_eq!(
        nexus.fails(1, &["import", "--stop", "j.txt"]),
        format!("error: {path} is not watched\nno file is\nhint: nexus import --list\n")
    );
}

#[test]
fn a_file_that_is_not_there_yet_and_one_that_is_replaced() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let said = nexus.run(&["import", "--watch", "deep/down/j.txt"]);
    assert!(said.stderr.ends_with("warning: nothing is taken now: it is not there yet\n"), "{said}");
    assert_eq!(watched(&nexus)["trouble"], "it is not there yet");
    nexus.ok(&["import", "--stop", "deep/x/../down/j.txt"]);
    nexus.ok(&["import", "--watch", "deep/down/j.txt"]);
    nexus.file("deep/down/j.txt", "echo a\n");
    has(&nexus, &["echo a"]);
    // As editors do it.
    nexus.file("deep/down/new", "echo a\necho b\n");
    std::fs::rename(nexus.work().join("deep/down/new"), nexus.work().join("deep/down/j.txt")).unwrap();
    has(&nexus, &["echo a", "echo b"]);
    std::fs::remove_file(nexus.work().join("deep/down/j.txt")).unwrap();
    nexus.file("deep/down/j.txt", "echo a\necho b\necho c\n");
    has(&nexus, &["echo a", "echo b", "echo c"]);
}

#[test]
fn a_watch_outlives_restarts_and_kill_9() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.file("j.txt", "exit 3\necho a\n");
    nexus.command(&["import", "--watch", "j.txt"]).env("WORD", "mine").output().unwrap();
    has(&nexus, &["exit 3", "echo a"]);
    nexus.run(&["wait", "--all"]);
    for number in 0..4 {
        match number % 2 {
            0 => nexus.kill_service(),
            _ => drop(nexus.ok(&["stop", "-y"])),
        }
        append(&nexus, "j.txt", &format!("echo $WORD {number}\n"));
        nexus.ok(&["start"]);
    }
    let all = ["exit 3", "echo a", "echo $WORD 0", "echo $WORD 1", "echo $WORD 2", "echo $WORD 3"];
    has(&nexus, &all);
    nexus.run(&["wait", "--all"]);
    has(&nexus, &all);
    let last = nexus.json(&["history", "-n", "1", "--json"]);
    assert_eq!(nexus.stdout_of(last[0]["id"].as_str().unwrap()), "mine 3\n", "the environment is that of the watch");
}

#[test]
fn a_line_that_failed_comes_again_only_when_it_is_touched_or_added_anew() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.file("j.txt", "exit 3\n");
    nexus.ok(&["import", "--watch", "j.txt"]);
    has(&nexus, &["exit 3"]);
    nexus.run(&["wait", "--all"]);
    append(&nexus, "j.txt", "echo a\n");
    has(&nexus, &["exit 3", "echo a"]);
    // Written anew in place, as `cat > j.txt` does it: empty for a moment.
    nexus.file("j.txt", "exit 3\necho a\necho b\n");
    has(&nexus, &["exit 3", "echo a", "echo b"]);
    nexus.file("j.txt", "exit  3\necho a\necho b\n");
    has(&nexus, &["exit 3", "echo a", "echo b", "exit  3"]);
    nexus.run(&["wait", "--all"]);
    // Taken away, and after a while there again.
    nexus.file("j.txt", "echo a\necho b\n");
    settled(&nexus, 2);
    append(&nexus, "j.txt", "exit  3\n");
    has(&nexus, &["exit 3", "echo a", "echo b", "exit  3", "exit  3"]);
    // Those that completed do not come again, touched or not.
    nexus.file("j.txt", "echo  a\n");
    settled(&nexus, 1);
    has(&nexus, &["exit 3", "echo a", "echo b", "exit  3", "exit  3"]);
}

#[test]
fn bad_lines_are_told_once_and_taken_when_they_are_right() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.file("j.txt", "echo a\n#@ on=9\necho b\n");
    let said = nexus.run(&["import", "--watch", "j.txt"]);
    assert!(said.stderr.contains("line 2 is not taken: there is no GPU 9: there are 0\n"), "{}", said.stderr);
    assert_eq!(said.code, 1);
    append(&nexus, "j.txt", "echo c\n");
    has(&nexus, &["echo a", "echo c"]);
    let told = || nexus.service_log().matches("line 2 is not taken: there is no GPU 9").count();
    assert_eq!(told(), 1, "{}", nexus.service_log());
    nexus.file("j.txt", "echo a\n#@ on=0\necho b\necho c\n");
    has(&nexus, &["echo a", "echo c", "echo b"]);
}

#[test]
fn again_takes_repeats_as_they_are_written() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.file("j.txt", "echo a\n");
    nexus.ok(&["import", "--watch", "--again", "j.txt"]);
    append(&nexus, "j.txt", "echo a\necho a\n");
    has(&nexus, &["echo a", "echo a", "echo a"]);
    nexus.kill_service();
    nexus.ok(&["start"]);
    append(&nexus, "j.txt", "echo b\n");
    has(&nexus, &["echo a", "echo a", "echo a", "echo b"]);
}

#[test]
fn start_watches_a_jobs_file_as_well() {
    let nexus = Nexus::fresh(NEXUS);
    nexus.file("j.txt", "echo a\n");
    let said = nexus.run(&["start", "--simulate-gpus", "1", "--jobs-file", "j.txt"]);
    assert!(said.stderr.contains("j.txt is watched"), "{said:?}");
    append(&nexus, "j.txt", "echo b\n");
    has(&nexus, &["echo a", "echo b"]);
}

#[test]
fn what_is_no_file_cannot_be_watched() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let refused = nexus.fails(1, &["import", "--watch", "."]);
    assert!(refused.ends_with("cannot be watched\nit is a folder\n"), "{refused}");
    // Each job would bring a line, and that a job.
    for own in ["jobs.txt", "service.log", "nexus.db", "logs/job_abc/stdout.log"] {
        let own = nexus.home().join(own).display().to_string();
        let refused = nexus.fails(1, &["import", "--watch", &own]);
        assert!(refused.contains("it is one of nexus's own, which change with every job"), "{refused}");
    }
    let refused = nexus.fails(2, &["import", "--watch", "-"]);
    assert!(refused.starts_with("error: standard input cannot be watched\n"), "{refused}");
    // A folder that takes the place of the file later keeps nobody busy, and the file is taken when it is back.
    nexus.ok(&["import", "--watch", "j.txt"]);
    std::fs::create_dir(nexus.work().join("j.txt")).unwrap();
    until("trouble", || (watched(&nexus)["trouble"] == "it is a folder").then_some(()));
    std::fs::remove_dir(nexus.work().join("j.txt")).unwrap();
    nexus.file("j.txt", "echo a\n");
    has(&nexus, &["echo a"]);
    until("no trouble", || watched(&nexus)["trouble"].is_null().then_some(()));
}
