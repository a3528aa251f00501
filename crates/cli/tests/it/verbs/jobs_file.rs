//! `jobs.txt`: the queue as text, and an inbox.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nexus_testkit::{Nexus, until};
use serde_json::Value;

use crate::NEXUS;

fn jobs_txt(nexus: &Nexus) -> PathBuf {
    nexus.home().join("jobs.txt")
}

fn text(nexus: &Nexus) -> String {
    std::fs::read_to_string(jobs_txt(nexus)).unwrap_or_default()
}

fn append(nexus: &Nexus, lines: &str) {
    let mut file = std::fs::File::options().append(true).open(jobs_txt(nexus)).expect("the file is there");
    file.write_all(lines.as_bytes()).expect("it can be written");
}

/// Waits for a job with this command; the job.
#[track_caller]
fn queued(nexus: &Nexus, command: &str) -> Value {
    until(&format!("{command} is queued"), || {
        let jobs = nexus.json(&["ls", "--json"]);
        jobs.as_array()?.iter().find(|job| job["command"] == command).cloned()
    })
}

#[track_caller]
fn shows(nexus: &Nexus, part: &str) {
    until(&format!("jobs.txt shows {part}"), || text(nexus).contains(part).then_some(()));
}

#[test]
fn it_is_made_at_first_start_and_follows_the_queue() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    shows(&nexus, "#: The queue");
    assert_eq!(std::fs::metadata(jobs_txt(&nexus)).unwrap().permissions().mode() & 0o777, 0o600);
    nexus.ok(&["pause"]);
    let low = nexus.add_with(&["--priority", "2", "--name", "a b"], "echo low");
    let held = nexus.add_with(&["--hold", "--env", "SECRET=hidden"], "echo held");
    shows(&nexus, "echo held");
    let work = nexus.work();
    let expected = format!(
        "#@ {held} cwd={0} hold\necho held\n#@ {low} priority=2 name='a b' cwd={0}\necho low\n",
        work.display()
    );
    assert!(text(&nexus).ends_with(&expected), "{}", text(&nexus));
    assert!(!text(&nexus).contains("hidden"));
    std::fs::set_permissions(jobs_txt(&nexus), std::fs::Permissions::from_mode(0o640)).unwrap();
    nexus.ok(&["remove", &low]);
    until("the removed job is gone", || (!text(&nexus).contains("echo low")).then_some(()));
    assert_eq!(std::fs::metadata(jobs_txt(&nexus)).unwrap().permissions().mode() & 0o777, 0o640);
}

#[test]
fn a_line_that_is_added_becomes_a_job() {
    let nexus = Nexus::with_gpus(NEXUS, 1).env("MARK", "of the service");
    nexus.ok(&["restart"]);
    shows(&nexus, "#: The queue");
    append(&nexus, "echo $MARK $PWD\n#@ gpus=0 name='by file' retries=1 hold\nexit 3\n\n# a remark\n");
    let first = queued_or_ended(&nexus, "echo $MARK $PWD");
    assert_eq!(nexus.ended(&first)["state"], "completed");
    let home = nexus.home();
    assert_eq!(nexus.stdout_of(&first).trim(), format!("of the service {}", home.parent().unwrap().display()));
    let second = queued(&nexus, "exit 3");
    assert_eq!((&second["name"], &second["retries"], &second["state"]), (&"by file".into(), &1.into(), &"held".into()));
    let id = second["id"].as_str().unwrap();
    shows(&nexus, &format!("#@ {id} gpus=0 retries=1 name='by file' hold\nexit 3\n"));
    shows(&nexus, "# a remark\n");
    // The same line once more is one more job.
    append(&nexus, "#@ hold\nexit 3\n");
    until("there are two of them", || {
        let jobs = nexus.json(&["queue", "--json"]);
        (jobs.as_array()?.iter().filter(|job| job["command"] == "exit 3").count() == 2).then_some(())
    });
}

fn queued_or_ended(nexus: &Nexus, command: &str) -> String {
    until(&format!("{command} is a job"), || {
        let (alive, ended) = (nexus.json(&["ls", "--json"]), nexus.json(&["history", "--json"]));
        let mut all = alive.as_array()?.iter().chain(ended.as_array()?);
        all.find(|job| job["command"] == command).and_then(|job| job["id"].as_str().map(String::from))
    })
}

#[test]
fn editors_that_replace_the_file_are_heard() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.ok(&["pause"]);
    let old = nexus.add("echo old");
    shows(&nexus, "echo old");
    let beside = nexus.home().join("elsewhere");
    std::fs::write(&beside, format!("{}echo replaced\n", text(&nexus))).unwrap();
    std::fs::rename(&beside, jobs_txt(&nexus)).unwrap();
    let id = queued(&nexus, "echo replaced")["id"].as_str().unwrap().to_string();
    shows(&nexus, &format!("#@ {id}\necho replaced\n"));
    assert_eq!(nexus.json(&["queue", "--json"])[0]["id"], old.as_str());
}

#[test]
fn what_is_changed_moved_or_deleted_in_it_means_nothing_and_comes_back() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.ok(&["pause"]);
    let ids: Vec<String> = (0..3).map(|number| nexus.add(&format!("echo {number}"))).collect();
    shows(&nexus, "echo 2");
    let before = text(&nexus);
    std::fs::write(jobs_txt(&nexus), format!("#@ {}\necho changed\n#@ {}\necho 0\n", ids[1], ids[0])).unwrap();
    until("the file is as it was", || (text(&nexus) == before).then_some(()));
    let told = format!("jobs.txt, line 1: job {} is changed by nexus edit alone; its line is put back", ids[1]);
    until("it is told", || nexus.service_log().contains(&told).then_some(()));
    assert_eq!(nexus.service_log().matches("is changed by nexus edit alone").count(), 1 + 1, "echo 0 lost its folder");
    let commands: Vec<Value> =
        nexus.json(&["queue", "--json"]).as_array().unwrap().iter().map(|job| job["command"].clone()).collect();
    assert_eq!(commands, ["echo 0", "echo 1", "echo 2"]);
    std::fs::remove_file(jobs_txt(&nexus)).unwrap();
    until("it is written anew", || (text(&nexus) == before).then_some(()));
    std::fs::write(jobs_txt(&nexus), "").unwrap();
    until("it is filled again", || (text(&nexus) == before).then_some(()));
}

/// A file is left alone while it is written to, in pieces that follow each other sooner than this.
const QUIET: Duration = Duration::from_millis(300);

#[test]
fn half_a_line_is_waited_for() {
    // A writer that was held up for longer than a file must be quiet has written two lines, by the rules: on a machine that
    // stalls it begins anew.
    assert!((0..10).any(|_| half_a_line_was_waited_for()), "a thread was never at its pace");
}

/// False where the writer was not at its pace.
fn half_a_line_was_waited_for() -> bool {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.ok(&["pause"]);
    shows(&nexus, "#: The queue");
    // Each piece comes sooner than the file is quiet, for longer than quiet is waited for. Meanwhile the queue changes, and
    // the file would be written. A thread that writes to the one open file: no process is started for each piece, which on
    // a busy machine may take longer than that.
    let mut file = std::fs::OpenOptions::new().append(true).open(jobs_txt(&nexus)).unwrap();
    let writer = std::thread::spawn(move || {
        let (mut last, mut longest) = (Instant::now(), Duration::ZERO);
        for number in 1..=45 {
            write!(file, "echo {number}; ").unwrap();
            longest = longest.max(last.elapsed());
            last = Instant::now();
            std::thread::sleep(Duration::from_millis(100));
        }
        writeln!(file, "true").unwrap();
        longest.max(last.elapsed())
    });
    let mut added = 0;
    while !writer.is_finished() {
        nexus.add("echo meanwhile");
        added += 1;
    }
    if writer.join().unwrap() >= QUIET {
        return false;
    }
    let line: String = (1..=45).map(|number| format!("echo {number}; ")).collect();
    queued(&nexus, &format!("{line}true"));
    append(&nexus, "echo without end");
    queued(&nexus, "echo without end");
    assert_eq!(nexus.json(&["queue", "--json"]).as_array().unwrap().len(), added + 2);
    true
}

#[test]
fn a_writer_that_keeps_the_file_open_is_heard_too() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.ok(&["pause"]);
    shows(&nexus, "#: The queue");
    let mut open = std::fs::File::options().append(true).open(jobs_txt(&nexus)).unwrap();
    for number in 0..3 {
        // Since the first of them the file is another one.
        writeln!(open, "echo open {number}").unwrap();
        let id = queued(&nexus, &format!("echo open {number}"))["id"].as_str().unwrap().to_string();
        shows(&nexus, &format!("#@ {id}\necho open {number}\n"));
    }
    assert_eq!(nexus.json(&["queue", "--json"]).as_array().unwrap().len(), 3);
}

#[test]
fn it_may_lie_elsewhere_in_a_folder_that_is_not_there() {
    let nexus = Nexus::fresh(NEXUS);
    let path = nexus.work().join("deep/er/queue.txt");
    nexus.config(&format!("[paths]\njobs_file = \"{}\"\n", path.display()));
    nexus.start(1);
    nexus.ok(&["pause"]);
    nexus.add("echo x");
    let shown = || std::fs::read_to_string(&path).unwrap_or_default();
    until("it is written there", || shown().contains("echo x").then_some(()));
    assert!(!jobs_txt(&nexus).exists());
    std::fs::remove_dir_all(nexus.work().join("deep")).unwrap();
    until("folder and file are made anew", || shown().contains("echo x").then_some(()));
    std::fs::write(&path, "echo added\n").unwrap();
    queued(&nexus, "echo added");
}

#[test]
fn beyond_ten_thousand_only_edit_writes_it() {
    let nexus = Nexus::with_gpus(NEXUS, 1).env("EDITOR", "sh ed.sh");
    nexus.ok(&["pause"]);
    nexus.add("echo before");
    shows(&nexus, "echo before");
    nexus.ok(&["add", "-x", "10000", "--quiet", "true"]);
    let first_line = || text(&nexus).lines().next().unwrap_or_default().to_string();
    until("it says so", || {
        first_line().contains("more than 10000 jobs this file is written by nexus edit").then_some(())
    });
    assert!(!text(&nexus).contains("echo before"));
    append(&nexus, "echo added\n");
    queued(&nexus, "echo added");
    until("the line was taken out", || (!text(&nexus).contains("echo added")).then_some(()));
    nexus.file("ed.sh", "sed -i 's/echo before/echo changed/' \"$1\"");
    nexus.ok(&["edit"]);
    until("edit wrote all of it", || (text(&nexus).matches("\ntrue\n").count() == 10_000).then_some(()));
    assert!(first_line().contains("as nexus edit left it") && text(&nexus).contains("echo changed"));
    nexus.ok(&["remove", "-y", "/^true$/"]);
    until("it is kept again", || {
        (text(&nexus).lines().filter(|line| line.starts_with("#@")).count() == 2).then_some(())
    });
}
