//! A database that is damaged or gone, under a running service and without one: a sentence that says what to do, no job that
//! is lost without a word, and nothing that hangs.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nexus_testkit::{Chance, Nexus, until};
use serde_json::Value;

use super::lives;
use crate::NEXUS;

const DAMAGED: &str = "error: the database is damaged: nexus takes no jobs and starts none\n";
const GONE: &str = "error: the database is gone, and nexus does not begin a new one by itself\n";

/// No command of a test takes longer.
const LONGEST: Duration = Duration::from_secs(20);

fn database(nexus: &Nexus) -> PathBuf {
    nexus.home().join("nexus.db")
}

/// A home with a job that runs, one that waits and some that ended.
fn busy() -> (Nexus, String) {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    for number in 0..8 {
        nexus.add_with(&["--gpus", "0"], &format!("echo {number}"));
    }
    nexus.done("true");
    let runs = nexus.add("sleep 1000");
    nexus.in_state(&runs, "running");
    nexus.add("true");
    (nexus, runs)
}

/// Writes chance over some pages of a file.
fn overwrite(file: &Path, pages: impl Iterator<Item = u64>, chance: &mut Chance) {
    let opened = OpenOptions::new().write(true).open(file).unwrap();
    for page in pages {
        let rubbish: Vec<u8> = (0..4096).map(|_| chance.below(256) as u8).collect();
        opened.write_all_at(&rubbish, page * 4096).unwrap();
    }
}

/// The verbs of a user who does not know yet; none panics, hangs or claims to have done something. What `add` said.
fn tries_everything(nexus: &Nexus) -> String {
    for args in [&[][..], &["ls"], &["history"], &["queue"], &["doctor"], &["gpus"], &["report"]] {
        let begun = Instant::now();
        let done = nexus.run(args);
        assert!(begun.elapsed() < LONGEST, "{args:?} took {:?}", begun.elapsed());
        assert!(!done.stderr.contains("bug") && !done.stderr.contains("panicked"), "{args:?}: {}", done.stderr);
    }
    nexus.fails(1, &["add", "true"])
}

fn stops(nexus: &Nexus) {
    let begun = Instant::now();
    let said = nexus.run(&["stop"]).expect_code(0).stderr;
    assert!(begun.elapsed() < LONGEST, "{:?}", begun.elapsed());
    assert!(said.contains("service stopped; running jobs go on"), "{said}");
    assert!(!nexus.service_log().contains("Bug:"), "{}", nexus.service_log());
}

/// The service knows, after the verbs of a user at the latest.
fn knows(nexus: &Nexus) -> Value {
    until("the service knows of the damage", || {
        let _ = nexus.run(&["ls"]);
        let service: Value = serde_json::from_str(&nexus.run(&["doctor", "--json"]).stdout).unwrap();
        service["service"]["trouble"]["title"].is_string().then_some(service)
    })
}

#[test]
fn a_running_service_whose_database_is_damaged_takes_no_jobs_and_can_be_stopped() {
    type Damage = fn(&Path, &mut Chance);
    let damages: [(&str, Damage); 4] = [
        ("its header", |file, chance| overwrite(file, 0..1, chance)),
        ("all of its pages", |file, chance| {
            let pages = fs::metadata(file).unwrap().len() / 4096;
            overwrite(file, 0..pages, chance);
        }),
        ("its length", |file, _| fs::write(file, "").unwrap()),
        ("its name", |file, _| fs::remove_file(file).unwrap()),
    ];
    for (seed, (what, damage)) in damages.into_iter().enumerate() {
        println!("{what}");
        let (nexus, runs) = busy();
        // What is in the log of the database goes into the file, so that the file counts.
        nexus.ok(&["restart"]);
        nexus.in_state(&runs, "running");
        damage(&database(&nexus), &mut Chance::from_seed(seed as u64));
        let report = knows(&nexus);
        let finding = report["checks"].as_array().unwrap().iter().find(|check| check["name"] == "database").unwrap();
        assert_eq!(finding["level"], "bad", "{finding}");
        let said = tries_everything(&nexus);
        assert!(said.starts_with(DAMAGED), "{said}");
        let mends = if what == "its name" { "nexus backup restore" } else { "nexus start --new-database" };
        assert!(said.contains(mends), "{said}");
        assert!(nexus.service_log().contains("the database is damaged"), "{}", nexus.service_log());
        stops(&nexus);
        assert!(nexus.home().join(format!("logs/job_{runs}/started")).exists(), "the running job goes on");
        nexus.fails(1, &["add", "true"]);
        if what == "its name" {
            // The service had it open, and saved it: nothing is lost.
            nexus.ok(&["backup", "restore"]);
            nexus.ok(&["start"]);
            nexus.in_state(&runs, "running");
            nexus.ok(&["kill", "-y", &runs]);
        } else {
            let said = nexus.run(&["start", "--new-database", "--simulate-gpus", "1"]).expect_code(0).stderr;
            assert!(said.contains("the database is empty"), "{said}");
        }
        lives(&nexus);
    }
}

#[test]
fn damage_at_any_place_of_either_file_panics_nowhere_and_hangs_nothing() {
    let rounds = if std::env::var_os("NEXUS_TEST_LONG").is_some() { 24 } else { 2 };
    for seed in 0..rounds {
        let mut chance = Chance::from_seed(seed);
        let (nexus, _) = busy();
        let stopped = chance.one_in(2);
        if stopped {
            nexus.ok(&["stop", "--keep-jobs"]);
        }
        let log = nexus.home().join("nexus.db-wal");
        let file = if chance.one_in(2) && log.exists() { log } else { database(&nexus) };
        let pages = (fs::metadata(&file).unwrap().len() / 4096).max(1);
        println!("seed {seed}: {}, the service {}", file.display(), if stopped { "stopped" } else { "runs" });
        let places: Vec<u64> = (0..4).map(|_| chance.below(pages)).collect();
        overwrite(&file, places.into_iter(), &mut chance);
        for args in [&[][..], &["ls"], &["add", "true"], &["history"], &["doctor"], &["add", "true"]] {
            let begun = Instant::now();
            let done = nexus.run(args);
            assert!(begun.elapsed() < LONGEST, "{args:?} took {:?}", begun.elapsed());
            assert!(done.stderr.is_empty() || !done.stderr.contains("bug"), "{args:?}: {}", done.stderr);
        }
        let begun = Instant::now();
        nexus.run(&["stop", "-y"]);
        assert!(begun.elapsed() < LONGEST, "stop took {:?}", begun.elapsed());
        assert!(!nexus.service_log().contains("Bug:"), "{}", nexus.service_log());
    }
}

#[test]
fn a_database_that_is_gone_is_not_begun_anew_without_a_word() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.done("echo kept")["id"].as_str().unwrap().to_owned();
    nexus.ok(&["stop"]);
    fs::write(database(&nexus), "").unwrap();
    let said = nexus.fails(1, &["add", "true"]);
    assert!(said.starts_with(GONE) && said.contains("has the logs of 1 job\n"), "{said}");
    fs::remove_file(database(&nexus)).unwrap();
    for args in [&["start"][..], &["add", "true"], &["restart"]] {
        let said = nexus.fails(1, args);
        assert!(said.starts_with(GONE) && said.contains("nexus start --new-database"), "{args:?}: {said}");
        assert!(!database(&nexus).exists(), "{args:?} made one");
    }
    let doctor = nexus.run(&["doctor"]).expect_code(1).stdout;
    assert!(doctor.contains("the database is gone"), "{doctor}");
    nexus.ok(&["start", "--new-database", "--simulate-gpus", "1"]);
    assert!(nexus.json(&["history", "--json"]).as_array().unwrap().is_empty());
    let logs = nexus.home().join("logs");
    assert_eq!(fs::read_to_string(logs.join(format!("job_{id}/stdout.log"))).unwrap().trim(), "kept");
    lives(&nexus);
    let said = nexus.fails(1, &["start", "--new-database"]);
    assert!(said.contains("a service runs in") && said.contains("nexus stop --keep-jobs"), "{said}");
}
