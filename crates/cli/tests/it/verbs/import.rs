//! `nexus import`: jobs from a file, each once.

use std::io::Write;
use std::process::Stdio;

use nexus_testkit::{Nexus, until};
use serde_json::Value;

use crate::NEXUS;

const GATE: &str = "until [ -e go ]; do sleep 0.02; done";

/// What became of each line.
fn fates(nexus: &Nexus, args: &[&str]) -> Vec<(u64, String)> {
    let report: Value = nexus.json(&[&["import", "--json"], args].concat());
    let entries = report["entries"].as_array().unwrap();
    entries.iter().map(|one| (one["line"].as_u64().unwrap(), one["fate"].as_str().unwrap().to_string())).collect()
}

fn ids(text: &str) -> Vec<String> {
    text.lines().map(String::from).collect()
}

#[test]
fn commands_are_queued_in_their_order_and_never_twice() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.ok(&["pause"]);
    nexus.file("c.txt", "# a comment\necho one >> seen\n\n  echo two >> seen  \necho one >> seen\necho three >> seen");
    let said = nexus.run(&["import", "c.txt"]);
    let new = ids(&said.stdout);
    assert_eq!((said.code, new.len()), (0, 3), "{said:?}");
    assert_eq!(said.stderr, "note: c.txt is read as lines\n1 line stands in the file twice; --again queues it again\n");
    assert_eq!(nexus.job(&new[1])["command"], "echo two >> seen");
    assert_eq!(nexus.ok(&["import", "c.txt"]), "", "queued ones are known");
    nexus.ok(&["resume"]);
    nexus.ok(&["wait", "--all"]);
    let seen = || std::fs::read_to_string(nexus.work().join("seen")).unwrap();
    assert_eq!(seen(), "one\ntwo\nthree\n");
    nexus.ok(&["restart"]);
    let known = vec![(2, "known".into()), (4, "known".into()), (5, "repeated".into()), (6, "known".into())];
    assert_eq!(fates(&nexus, &["c.txt"]), known, "completed ones too, after a restart");
    assert_eq!(ids(&nexus.ok(&["import", "--again", "c.txt"])).len(), 4, "as the file stands");
    nexus.ok(&["wait", "--all"]);
    assert_eq!(seen(), "one\ntwo\nthree\none\ntwo\none\nthree\n");
}

#[test]
fn what_failed_was_killed_or_removed_may_come_again() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.file("c.txt", "exit 3\nsleep 1000\necho removed\ntrue\n");
    nexus.ok(&["pause"]);
    let first = ids(&nexus.ok(&["import", "c.txt"]));
    nexus.ok(&["remove", &first[2]]);
    nexus.ok(&["resume"]);
    nexus.ended(&first[0]);
    nexus.in_state(&first[1], "running");
    nexus.ok(&["kill", &first[1]]);
    nexus.ended(&first[3]);
    nexus.ok(&["pause"]);
    let fates = fates(&nexus, &["c.txt"]);
    let words: Vec<&str> = fates.iter().map(|(_, word)| word.as_str()).collect();
    assert_eq!(words, ["queued", "queued", "queued", "known"]);
}

#[test]
fn another_priority_or_other_gpus_change_the_queued_job() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    nexus.ok(&["pause"]);
    nexus.file("c.txt", &format!("#@ priority=1\n{GATE}\ntrue\n"));
    let new = ids(&nexus.ok(&["import", "c.txt"]));
    nexus.ok(&["edit", &new[1], "--priority", "7"]);
    nexus.file("c.txt", &format!("#@ priority=4 on=1\n{GATE}\ntrue\n"));
    let said = nexus.run(&["import", "c.txt"]);
    assert_eq!(said.stdout, "");
    let changed =
        format!("line 1 changes {}: priority 1 -> 4, on any GPU -> 1\n1 line known already: 1 queued\n", new[0]);
    assert_eq!(said.stderr, format!("note: c.txt is read as lines\n{changed}"));
    let job = nexus.job(&new[0]);
    assert_eq!((job["priority"].as_i64(), &job["request"]["on"]), (Some(4), &serde_json::json!([1])));
    assert_eq!(nexus.job(&new[1])["priority"], 7, "a line that says nothing of it changes nothing");
    assert!(nexus.service_log().contains(&format!("Job {} changed by user: priority 1 -> 4", new[0])));
    nexus.ok(&["resume"]);
    nexus.in_state(&new[0], "running");
    nexus.file("c.txt", &format!("#@ priority=5 on=1\n{GATE}\n"));
    let said = nexus.run(&["import", "c.txt"]);
    let stays = format!("line 1 is {}, which is running and stays as it is: priority 4 -> 5\n", new[0]);
    assert_eq!(said.stderr, format!("note: c.txt is read as lines\n{stays}"));
    assert_eq!(nexus.job(&new[0])["priority"], 4);
    nexus.file("go", "");
    nexus.ended(&new[0]);
}

#[test]
fn variables_of_their_own_tell_entries_apart() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.ok(&["pause"]);
    let line = |seed: &str| format!("{{\"command\": \"echo $SEED\", \"env\": {{\"SEED\": \"{seed}\"}}}}\n");
    nexus.file("e.jsonl", &[line("1"), line("2"), line("2"), line("3")].concat());
    let words = |fates: Vec<(u64, String)>| fates.into_iter().map(|(_, word)| word).collect::<Vec<_>>();
    assert_eq!(words(fates(&nexus, &["e.jsonl"])), ["queued", "queued", "repeated", "queued"]);
    nexus.file("e.jsonl", &[line("2"), line("4")].concat());
    assert_eq!(words(fates(&nexus, &["e.jsonl"])), ["known", "queued"]);
    nexus.ok(&["resume"]);
    nexus.ok(&["wait", "--all"]);
    assert_eq!(words(fates(&nexus, &["e.jsonl"])), ["known", "known"]);
    let ended = nexus.json(&["history", "--json"]);
    let printed: Vec<String> =
        ended.as_array().unwrap().iter().map(|job| nexus.stdout_of(job["id"].as_str().unwrap())).collect();
    assert_eq!(printed, ["1\n", "2\n", "3\n", "4\n"]);
}

#[test]
fn what_can_never_start_is_told() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    nexus.file("c.txt", "true\n#@ gpus=99\necho wide\n");
    let said = nexus.run(&["import", "c.txt"]);
    assert!(said.stderr.contains("echo wide\nwarning: the job cannot start here: it needs 99 GPUs"), "{said}");
}

#[test]
fn of_identical_lines_the_last_says_how() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.ok(&["pause"]);
    nexus.file("c.txt", "#@ priority=1\necho a\n#@ priority=9\necho a\n");
    let said = nexus.run(&["import", "c.txt"]);
    assert!(said.stderr.contains("line 3 is line 1 again, and changes it: priority 1 -> 9\n"), "{said:?}");
    assert_eq!(nexus.job(said.stdout.trim())["priority"], 9);
}

#[test]
fn a_dry_run_shows_each_entry_and_queues_nothing() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.done("true");
    nexus.file("c.txt", "#@ priority=2 gpus=0.5\necho a\ntrue\necho a\n#@ what=1\nb\n");
    let said = nexus.run(&["import", "--dry-run", "c.txt"]);
    let known = nexus.ok(&["history", "--json"]);
    let known: Value = serde_json::from_str(&known).unwrap();
    let id = known[0]["id"].as_str().unwrap();
    let plan =
        format!("line 1: echo a\n    priority=2 gpus=0.5\nline 3: known as {id}, completed\nline 4: line 1 again\n");
    assert_eq!((said.code, said.stdout), (1, plan));
    assert!(said.stderr.contains("line 5 is not taken: there is no option what"), "{}", said.stderr);
    assert_eq!(nexus.json(&["ls", "--json"]), serde_json::json!([]));
}

#[test]
fn environment_and_folder_are_the_importers() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.file("sub/c.txt", "echo $WORD $PWD\n");
    let mut import = nexus.command(&["import", "sub/c.txt"]);
    let said = import.env("WORD", "hello").output().unwrap();
    let id = String::from_utf8(said.stdout).unwrap().trim().to_string();
    assert_eq!(nexus.ended(&id)["state"], "completed");
    assert_eq!(nexus.stdout_of(&id), format!("hello {}\n", nexus.work().display()));
}

#[test]
fn standard_input_is_a_file_too() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let mut import = nexus.command(&["import", "-"]);
    let mut child = import.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"echo a\necho b\n").unwrap();
    let said = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(said.stderr).unwrap(), "note: standard input is read as lines\n");
    let new = ids(&String::from_utf8(said.stdout).unwrap());
    assert_eq!(new.iter().map(|id| nexus.ended(id)["command"].clone()).collect::<Vec<_>>(), ["echo a", "echo b"]);
}

#[test]
fn a_long_file_is_taken_whole_and_known_whole() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.ok(&["pause"]);
    let text: String = (0..25_000).map(|number| format!("echo {number}\n")).collect();
    nexus.file("c.txt", &text);
    let new = ids(&nexus.ok(&["import", "c.txt"]));
    assert_eq!(new.len(), 25_000);
    assert_eq!(nexus.job(&new[24_999])["command"], "echo 24999");
    nexus.kill_service();
    nexus.ok(&["start"]);
    assert_eq!(nexus.ok(&["import", "--quiet", "c.txt"]), "");
    let log = nexus.service_log();
    assert!(log.contains("Read 5000 entries from c.txt"), "some thousand at a time");
}

#[test]
fn two_imports_at_once_queue_each_line_once() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.ok(&["pause"]);
    let text: String = (0..300).map(|number| format!("echo {number}\n")).collect();
    nexus.file("c.txt", &text);
    let imports: Vec<_> = (0..4)
        .map(|_| nexus.command(&["import", "-q", "c.txt"]).stdout(Stdio::piped()).spawn().unwrap())
        .map(|child| child.wait_with_output().unwrap())
        .collect();
    let new: Vec<String> = imports.iter().flat_map(|said| ids(&String::from_utf8_lossy(&said.stdout))).collect();
    assert_eq!(new.len(), 300);
    let queue: Vec<Value> = nexus.json(&["queue", "--json"]).as_array().unwrap().clone();
    assert_eq!(queue.len(), 300);
}

#[test]
fn what_is_no_file_is_told() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    assert_eq!(
        nexus.fails(1, &["import", "nope.txt"]),
        "error: nope.txt cannot be read\nthere is no such file\nhint: nexus import --watch nope.txt waits for it\n"
    );
    assert_eq!(nexus.fails(1, &["import", "/"]), "error: / cannot be read\nit is a folder\n");
    nexus.file("empty", "");
    assert_eq!(nexus.run(&["import", "empty"]).stderr, "there is no job in empty\n");
    let usage = nexus.fails(2, &["import"]);
    assert!(usage.starts_with("error: FILE is missing\nusage: nexus import [OPTIONS] [FILE]\n"), "{usage}");
    let usage = nexus.fails(2, &["import", "--format", "xml", "empty"]);
    assert!(usage.contains("--format cannot be xml"), "{usage}");
    let pipe = nexus.work().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let said = nexus.fails(1, &["import", "pipe"]);
    assert!(said.contains("it is a pipe") && said.ends_with("hint: cat pipe | nexus import -\n"), "{said}");
    until("the service answers still", || nexus.run(&["status"]).stdout.contains("Queue:").then_some(()));
}
