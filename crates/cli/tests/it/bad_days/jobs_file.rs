//! A broken `jobs.txt`, and a service that dies while it reads or writes it.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use nexus_testkit::{Chance, Nexus, until};

use super::lives;
use crate::NEXUS;

fn jobs_txt(nexus: &Nexus) -> PathBuf {
    nexus.home().join("jobs.txt")
}

fn text(nexus: &Nexus) -> String {
    String::from_utf8_lossy(&std::fs::read(jobs_txt(nexus)).unwrap_or_default()).into_owned()
}

/// Commands in the queue, and the ids they have.
fn queue(nexus: &Nexus) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for job in nexus.json(&["queue", "--json"]).as_array().expect("a list") {
        let word = |name: &str| job[name].as_str().expect("text").to_string();
        found.entry(word("command")).or_default().push(word("id"));
    }
    found
}

#[test]
fn of_a_broken_file_the_good_lines_count_and_the_others_are_told() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.ok(&["pause"]);
    let id = nexus.add("echo known");
    until("the file is there", || text(&nexus).contains("echo known").then_some(()));
    let mut broken =
        b"echo one\n\xff\xfe\x00\x01 binary\n#@ xyz\necho unknown id\n#@ gpus=many\necho wrong value\n".to_vec();
    broken
        .extend(b"#@ nice=1 lines=2\necho a\necho b\necho two\n#@ cwd=/no/such\necho no folder\n#@ lines=99\necho c\n");
    std::fs::write(jobs_txt(&nexus), &broken).unwrap();
    let told = until("all of it is told", || {
        let log = nexus.service_log();
        (log.matches("is not taken: ").count() == 6).then_some(log)
    });
    for part in [
        "line 2 is not taken: it has a NUL byte",
        "line 3 is not taken: there is no job xyz; take the id away to queue it",
        "line 5 is not taken: gpus: many is not a number of GPUs, or a part of one, as in 2 or 0.5",
        "line 7 is not taken: there is no option nice",
        "line 11 is not taken: the working folder /no/such cannot be used",
        "line 13 is not taken: lines=99, and 1 follow",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let queue = queue(&nexus);
    assert_eq!(queue.keys().collect::<Vec<_>>(), ["echo known", "echo one", "echo two"], "{queue:?}");
    assert_eq!(queue["echo known"], [id]);
    until("what was not taken stays there as comments", || {
        let text = text(&nexus);
        ["#! echo a\n#! echo b\n", "#! #@ gpus=many\n#! echo wrong value\n", "#! echo c\n"]
            .iter()
            .all(|part| text.contains(part))
            .then_some(())
    });
    let doctor = nexus.run(&["doctor"]).stdout;
    assert!(doctor.contains("jobs.txt") && doctor.contains("line 5 was not taken: gpus: many"), "{doctor}");
    nexus.ok(&["resume"]);
    lives(&nexus);
}

#[test]
fn something_else_in_its_place_stops_nothing() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    until("the file is there", || text(&nexus).contains("#:").then_some(()));
    std::fs::remove_file(jobs_txt(&nexus)).and_then(|()| std::fs::create_dir(jobs_txt(&nexus))).unwrap_or_else(|_| {
        // The service was quicker.
        std::fs::remove_file(jobs_txt(&nexus)).unwrap();
        std::fs::create_dir(jobs_txt(&nexus)).unwrap();
    });
    until("it is told", || nexus.service_log().contains("jobs.txt: ").then_some(()));
    lives(&nexus);
    assert_eq!(nexus.service_log().matches("Error: ").count(), 1, "{}", nexus.service_log());
    std::fs::remove_dir(jobs_txt(&nexus)).unwrap();
    until("it is written again", || text(&nexus).contains("#:").then_some(()));
}

#[test]
fn a_line_is_taken_once_though_its_id_could_not_be_written() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.ok(&["pause"]);
    until("the file is there", || text(&nexus).contains("#:").then_some(()));
    // The next file cannot be made: what is taken stays in the file as it is.
    let in_the_way = nexus.home().join(".jobs.txt.next");
    std::fs::create_dir_all(in_the_way.join("x")).unwrap();
    let append = |line: &str| {
        let mut file = std::fs::File::options().append(true).open(jobs_txt(&nexus)).unwrap();
        writeln!(file, "{line}").unwrap();
    };
    let count = |command: &str| queue(&nexus).get(command).map_or(0, Vec::len);
    append("echo first");
    until("it is taken", || (count("echo first") == 1).then_some(()));
    for round in 1..4 {
        nexus.kill_service();
        append(&format!("echo round {round}"));
        nexus.ok(&["pause"]);
        until("what is new is taken", || (count(&format!("echo round {round}")) == 1).then_some(()));
        let jobs: usize = queue(&nexus).values().map(Vec::len).sum();
        assert_eq!(jobs, 1 + round, "what was taken is not taken again");
    }
    append("echo first");
    until("the same line once more is one more job", || (count("echo first") == 2).then_some(()));
    std::fs::remove_dir_all(&in_the_way).unwrap();
    until("ids are written", || (text(&nexus).matches("#@ ").count() == 5).then_some(()));
    append("echo first");
    until("and one more", || (count("echo first") == 3).then_some(()));
    nexus.kill_service();
    nexus.ok(&["pause"]);
    assert_eq!(queue(&nexus).values().map(Vec::len).sum::<usize>(), 6);
}

#[test]
fn no_line_is_lost_or_taken_twice_when_the_service_dies() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.ok(&["pause"]);
    until("the file is there", || text(&nexus).contains("#:").then_some(()));
    let seed = Chance::seed_from("NEXUS_TEST_SEED");
    println!("NEXUS_TEST_SEED={seed}");
    let mut chance = Chance::from_seed(seed);
    let rounds = if std::env::var_os("NEXUS_TEST_LONG").is_some() { 60 } else { 15 };
    let mut ids = BTreeMap::new();
    for round in 0..rounds {
        // Appended, while it may be replaced at any moment, and sometimes while nobody reads it.
        let mut file = std::fs::File::options().append(true).open(jobs_txt(&nexus)).unwrap();
        writeln!(file, "echo line {round}\n#@ hold\necho held {round}").unwrap();
        drop(file);
        // The moment of the kill is the experiment.
        std::thread::sleep(Duration::from_millis(chance.below(900)));
        nexus.kill_service();
        nexus.ok(&["pause"]);
        for (command, found) in queue(&nexus) {
            assert_eq!(found.len(), 1, "{command} is queued {} times in round {round}", found.len());
            let before = ids.insert(command.clone(), found[0].clone());
            assert!(before.is_none_or(|before| before == found[0]), "{command} has another id");
        }
    }
    until("every line is a job", || (queue(&nexus).len() == 2 * rounds).then_some(()));
    assert!(queue(&nexus).values().all(|found| found.len() == 1));
}
