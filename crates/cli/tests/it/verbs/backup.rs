//! `backup`: copies of the database while the service runs, and the way back to one.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use nexus_testkit::{Nexus, until};

use crate::NEXUS;
use crate::bad_days::sql;

#[test]
fn a_copy_that_is_put_back_works_with_the_jobs_that_ended_since() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    let ledger = nexus.work().join("ledger");
    let line = |word: &str| format!("echo {word} >> {}", ledger.display());
    let before = nexus.done(&line("before"))["id"].as_str().unwrap().to_owned();
    let runs = nexus.add("sleep 1000");
    nexus.in_state(&runs, "running");
    let ends = nexus.add_with(&["--hold", "--gpus", "0"], &format!("{}; exit 3", line("ends")));
    let goes_on = nexus.add_with(&["--hold", "--gpus", "0"], &format!("{}; sleep 1000", line("goes_on")));
    let made = nexus.json(&["backup", "--json"]);
    let copy = made["path"].as_str().unwrap();
    assert_eq!(fs::metadata(copy).unwrap().permissions().mode() & 0o777, 0o600);

    nexus.ok(&["release", &ends, &goes_on]);
    assert_eq!(nexus.ended(&ends)["exit_code"], 3);
    nexus.in_state(&goes_on, "running");
    until("it has begun", || fs::read_to_string(&ledger).ok().filter(|text| text.contains("goes_on")));
    let unknown = nexus.done("true")["id"].as_str().unwrap().to_owned();
    let said = nexus.fails(1, &["backup", "restore"]);
    assert!(said.contains("a service runs in") && said.contains("nexus stop --keep-jobs"), "{said}");
    nexus.ok(&["stop", "--keep-jobs"]);
    let restored = nexus.json(&["backup", "restore", "--json"]);
    assert_eq!(restored["from"], made["path"]);
    assert!(fs::metadata(restored["aside"].as_str().unwrap()).is_ok(), "the database before is kept");
    let mut begun = [ends.clone(), goes_on.clone()];
    begun.sort();
    let mut told: Vec<&str> = restored["begun_since"].as_array().unwrap().iter().filter_map(|id| id.as_str()).collect();
    told.sort_unstable();
    assert_eq!(told, begun);
    assert_eq!(restored["unknown"].as_array().unwrap(), &[serde_json::Value::from(unknown.clone())]);

    nexus.ok(&["start"]);
    assert_eq!(nexus.job(&before)["state"], "completed");
    nexus.in_state(&runs, "running");
    nexus.in_state(&goes_on, "running");
    // Its record is there, unless its folder was tidied already: then nobody knows, and it is lost.
    let ended = nexus.ended(&ends);
    assert!(ended["exit_code"] == 3 || ended["reason"] == "lost", "{ended}");
    nexus.fails(1, &["show", &unknown]);
    let lines = fs::read_to_string(&ledger).unwrap();
    for word in ["before", "ends", "goes_on"] {
        assert_eq!(lines.lines().filter(|line| *line == word).count(), 1, "{word} ran once: {lines}");
    }
    nexus.ok(&["kill", "-y", &runs, &goes_on]);
    assert_eq!(nexus.ended(&goes_on)["state"], "killed");
    assert_eq!(nexus.done("true")["state"], "completed");
}

/// What a service clears away once the end of a run is in its database.
fn clear(nexus: &Nexus, id: &str) {
    for name in ["started", "exit.json"] {
        let _ = fs::remove_file(nexus.home().join(format!("logs/job_{id}/{name}")));
    }
}

#[test]
fn a_job_with_retries_that_began_is_not_started_again() {
    let nexus = Nexus::fresh(NEXUS);
    nexus.config("[jobs]\nretry_wait = \"0s\"\n");
    nexus.start(4);
    let (ledger, gate) = (nexus.work().join("ledger"), nexus.work().join("gate"));
    let line = |word: &str| format!("echo {word} >> {}", ledger.display());
    let until_gate = format!("while ! test -e {}; do sleep 0.05; done", gate.display());
    let add = |word: &str, more: &[&str], then: &str| {
        nexus.add_with(&[&["--retries", "3"], more].concat(), &format!("{}; {then}", line(word)))
    };
    let waits = add("waits", &["--hold"], "true");
    let [runs, starts] = ["runs", "starts"].map(|word| add(word, &[], &until_gate));
    let goes_on = add("goes_on", &[], "exec sleep 1000");
    for id in [&runs, &starts, &goes_on] {
        nexus.in_state(id, "running");
    }
    let pid = nexus.job(&goes_on)["pid"].clone();
    let lines = || fs::read_to_string(&ledger).unwrap_or_default();
    until("they have begun", || (lines().lines().count() == 3).then_some(()));
    let copy = nexus.json(&["backup", "--json"])["path"].as_str().unwrap().to_owned();
    // In the copy these two are on their way, as in one that was made a moment earlier.
    for id in [&starts, &goes_on] {
        let job = format!("(SELECT n FROM jobs WHERE id = '{id}')");
        let starting = format!(
            "UPDATE runs SET pid = NULL, started_at = NULL WHERE n = {job};
             UPDATE jobs SET state = 'starting', started_at = NULL WHERE id = '{id}'"
        );
        sql(copy.as_ref(), &starting);
    }

    nexus.ok(&["release", &waits]);
    fs::write(&gate, "").unwrap();
    for id in [&waits, &runs, &starts] {
        assert_eq!(nexus.ended(id)["state"], "completed");
    }
    nexus.ok(&["stop", "--keep-jobs"]);
    [&waits, &runs, &starts].into_iter().for_each(|id| clear(&nexus, id));
    nexus.ok(&["backup", "restore"]);
    nexus.ok(&["start"]);
    for id in [&waits, &runs, &starts] {
        assert_eq!(nexus.ended(id)["reason"], "lost");
    }
    nexus.in_state(&goes_on, "running");
    until("the process is known again", || (nexus.job(&goes_on)["pid"] == pid).then_some(()));
    nexus.done("true");
    for word in ["waits", "runs", "starts", "goes_on"] {
        assert_eq!(lines().lines().filter(|line| *line == word).count(), 1, "{word} ran once: {}", lines());
    }
    nexus.ok(&["kill", "-y", &goes_on]);
}

#[test]
fn only_the_newest_copies_are_kept_and_what_is_no_copy_is_refused() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.ok(&["config", "set", "retention.backups", "2"]);
    for _ in 0..3 {
        nexus.ok(&["backup"]);
    }
    let copies = nexus.json(&["backup", "ls", "--json"]);
    assert_eq!(copies.as_array().unwrap().len(), 2, "{copies}");
    let own = nexus.work().join("own.db");
    nexus.ok(&["backup", "--to", own.to_str().unwrap()]);
    let said = nexus.fails(1, &["backup", "--to", own.to_str().unwrap()]);
    assert!(said.contains("a new file in a folder that can be written"), "{said}");
    assert_eq!(nexus.json(&["backup", "ls", "--json"]).as_array().unwrap().len(), 2, "one of your own is not counted");
    nexus.ok(&["config", "set", "retention.backups", "1"]);
    let told = nexus.run(&["gc", "--dry-run"]).expect_code(0).stderr;
    assert!(told.contains("1 old backup (retention.backups): "), "{told}");
    nexus.ok(&["stop"]);
    let text = nexus.file("notes.txt", "no database");
    for bad in [text.to_str().unwrap(), "/nowhere/x.db", "/"] {
        let said = nexus.fails(1, &["backup", "restore", bad]);
        assert!(said.contains("a sound copy of a database, made by nexus backup"), "{bad}: {said}");
    }
    let other = Nexus::fresh(NEXUS);
    let said = other.fails(1, &["backup", "restore"]);
    assert!(said.starts_with("error: there is no backup\n"), "{said}");
}
