//! Databases of a newer nexus, of another host, of nobody.

use nexus_testkit::Nexus;

use super::{lives, sql};
use crate::NEXUS;

/// A home with one queued job and no service.
fn stopped() -> (Nexus, String) {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.add_with(&["--hold"], "true");
    nexus.ok(&["stop"]);
    (nexus, id)
}

/// Takes a database back to the one of before there were sweeps: every spec whole, environments by their hashes.
const TO_FORMAT_4: &str = "
    UPDATE jobs SET spec = json_set((SELECT data FROM specs WHERE n = shared),
                                    '$.command', json(json_extract(spec, '$.command')))
    WHERE shared IS NOT NULL;
    DROP INDEX jobs_by_env; DROP INDEX jobs_by_secrets; DROP INDEX jobs_by_sweep;
    DROP INDEX jobs_copying; DROP INDEX jobs_uncopied;
    ALTER TABLE jobs ADD COLUMN env_hash TEXT NOT NULL DEFAULT '';
    ALTER TABLE jobs ADD COLUMN secrets_hash TEXT;
    UPDATE jobs SET env_hash = (SELECT hash FROM envs WHERE n = env),
                    secrets_hash = (SELECT hash FROM secrets WHERE n = jobs.secrets);
    ALTER TABLE jobs DROP COLUMN env; ALTER TABLE jobs DROP COLUMN secrets; ALTER TABLE jobs DROP COLUMN shared;
    ALTER TABLE jobs DROP COLUMN sweep; ALTER TABLE jobs DROP COLUMN replaced_by; ALTER TABLE jobs DROP COLUMN found;
    ALTER TABLE jobs DROP COLUMN results; ALTER TABLE jobs DROP COLUMN results_state;
    ALTER TABLE jobs DROP COLUMN results_error;
    ALTER TABLE jobs RENAME COLUMN env_hash TO env; ALTER TABLE jobs RENAME COLUMN secrets_hash TO secrets;
    CREATE TABLE old_envs (hash TEXT PRIMARY KEY, data TEXT NOT NULL) STRICT, WITHOUT ROWID;
    INSERT INTO old_envs SELECT hash, data FROM envs; DROP TABLE envs; ALTER TABLE old_envs RENAME TO envs;
    CREATE TABLE old_secrets (hash TEXT PRIMARY KEY, data TEXT NOT NULL) STRICT, WITHOUT ROWID;
    INSERT INTO old_secrets SELECT hash, data FROM secrets; DROP TABLE secrets;
    ALTER TABLE old_secrets RENAME TO secrets;
    CREATE INDEX jobs_by_env ON jobs (env); CREATE INDEX jobs_by_secrets ON jobs (secrets) WHERE secrets IS NOT NULL;
    ALTER TABLE learned DROP COLUMN runs; ALTER TABLE learned DROP COLUMN total_ms;
    ALTER TABLE learned DROP COLUMN longest_ms;
    ALTER TABLE watches DROP COLUMN shared_with;
    ALTER TABLE runs DROP COLUMN driver; DROP TABLE machines; DROP TABLE classes;
    DROP TABLE retired; DROP TABLE submissions; DROP TABLE specs; DROP TABLE sweeps; DROP TABLE variables; DROP TABLE variables_needed;
    PRAGMA user_version = 4";

/// Takes a database back to the one of before files could be watched.
fn to_format_3(database: &std::path::Path) {
    sql(database, TO_FORMAT_4);
    sql(database, "DROP TABLE watches; DROP TABLE watched_entries; PRAGMA user_version = 3");
}

/// Takes a database back to the one of before GPUs could be shared.
fn to_format_2(database: &std::path::Path) {
    to_format_3(database);
    let columns = [
        ("jobs", &["same", "raised", "failed_by", "identity"][..]),
        ("runs", &["milli", "vram_mib", "ram_mib", "peak_mib"]),
    ];
    let dropped = columns.into_iter().flat_map(|(table, names)| names.iter().map(move |name| (table, name)));
    let dropped: String = dropped.map(|(table, name)| format!("ALTER TABLE {table} DROP COLUMN {name};")).collect();
    sql(database, &format!("DROP INDEX jobs_by_identity; DROP TABLE learned; {dropped} PRAGMA user_version = 2"));
}

#[test]
fn a_newer_one_is_refused_and_left_alone() {
    let (nexus, id) = stopped();
    let database = nexus.home().join("nexus.db");
    let known = sql(&database, "PRAGMA user_version");
    sql(&database, "PRAGMA user_version = 99");
    let before = std::fs::read(&database).unwrap();
    for args in [&["start"][..], &["add", "true"], &["kill", &id], &[]] {
        let said = nexus.fails(1, args);
        let expected = format!(
            "error: the database was made by a newer nexus\n{} has format 99, this nexus knows up to {known}\nhint: use the newer nexus, or another NEXUS_HOME\n",
            database.display()
        );
        assert_eq!(said, expected, "{args:?}");
    }
    assert!(std::fs::read(&database).unwrap() == before, "it was changed");
    assert!(!nexus.home().join("nexus.sock").exists());
    sql(&database, &format!("PRAGMA user_version = {known}"));
    nexus.ok(&["release", &id]);
    assert_eq!(nexus.ended(&id)["state"], "completed");
}

#[test]
fn one_of_another_host_is_refused_until_it_is_adopted() {
    let (nexus, id) = stopped();
    let database = nexus.home().join("nexus.db");
    let here = sql(&database, "SELECT value FROM meta WHERE key = 'host'");
    sql(&database, "UPDATE meta SET value = 'elsewhere' WHERE key = 'host'");
    let said = nexus.fails(1, &["start"]);
    let expected = format!(
        "error: this home belongs to another machine\n{} was made on elsewhere; this is {here}\n",
        nexus.home().display()
    );
    assert!(said.starts_with(&expected), "{said}");
    assert!(said.contains("nexus start --adopt-home"), "{said}");
    nexus.fails(1, &["add", "true"]);
    nexus.ok(&["start", "--adopt-home"]);
    nexus.ok(&["restart"]);
    nexus.ok(&["release", &id]);
    assert_eq!(nexus.ended(&id)["state"], "completed");
    lives(&nexus);
}

#[test]
fn one_of_before_gpus_were_shared_is_migrated_with_what_runs() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let (runs, waits) = (nexus.add("sleep 1000"), nexus.add("true"));
    nexus.in_state(&runs, "running");
    nexus.ok(&["stop", "--keep-jobs"]);
    to_format_2(&nexus.home().join("nexus.db"));
    nexus.ok(&["start"]);
    assert!(nexus.home().join("nexus.db.format-2").is_file(), "no copy was put aside");
    let shares = nexus.add_with(&["--gpus", "0.5"], "true");
    assert_eq!(nexus.job(&shares)["waiting"]["held"], 1, "what ran before has its GPU alone");
    nexus.ok(&["kill", &runs]);
    assert_eq!(nexus.ended(&waits)["state"], "completed");
    assert_eq!(nexus.ended(&shares)["state"], "completed");
}

#[test]
fn one_of_before_there_were_sweeps_is_migrated_with_its_environments() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let waits = nexus.add_with(&["--hold", "--env", "A=1", "--env", "MY_TOKEN=hush"], "echo $A-$MY_TOKEN");
    let done = nexus.add("echo over");
    nexus.ended(&done);
    nexus.ok(&["stop"]);
    sql(&nexus.home().join("nexus.db"), TO_FORMAT_4);
    nexus.ok(&["start"]);
    assert!(nexus.home().join("nexus.db.format-4").is_file(), "no copy was put aside");
    let again = nexus.ok(&["rerun", &done]).trim().to_string();
    assert_eq!(nexus.ended(&again)["command"], "echo over");
    nexus.ok(&["release", &waits]);
    assert_eq!(nexus.ended(&waits)["state"], "completed");
    assert_eq!(nexus.ok(&["logs", &waits]).trim_end(), "1-hush");
    nexus.ok(&["forget", "-y", &done, &again, &waits]);
    assert_eq!(sql(&nexus.home().join("nexus.db"), "SELECT count(*) FROM specs"), "0");
    lives(&nexus);
}

#[test]
fn one_of_before_files_could_be_watched_is_migrated() {
    let (nexus, id) = stopped();
    to_format_3(&nexus.home().join("nexus.db"));
    nexus.file("j.txt", "echo a\n");
    nexus.ok(&["import", "--watch", "j.txt"]);
    assert!(nexus.home().join("nexus.db.format-3").is_file(), "no copy was put aside");
    assert_eq!(nexus.job(&id)["state"], "held");
    assert_eq!(nexus.json(&["import", "--list", "--json"])[0]["taken"], 1);
}

#[test]
fn a_backup_of_an_older_format_leaves_no_second_copy_of_itself() {
    let (nexus, id) = stopped();
    nexus.ok(&["start"]);
    let copy = nexus.work().join("own.db");
    nexus.ok(&["backup", "--to", copy.to_str().expect("a path in UTF-8")]);
    nexus.ok(&["stop"]);
    to_format_3(&copy);
    nexus.ok(&["backup", "restore", copy.to_str().expect("a path in UTF-8")]);
    let names = std::fs::read_dir(nexus.home()).expect("a home").flatten();
    let names: Vec<String> = names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    assert!(!names.iter().any(|name| name.contains("restoring")), "{names:?}");
    nexus.ok(&["release", &id]);
    assert_eq!(nexus.ended(&id)["state"], "completed");
}

#[test]
fn one_of_before_gpus_could_be_paused_is_migrated_and_a_copy_put_aside() {
    let (nexus, id) = stopped();
    let database = nexus.home().join("nexus.db");
    to_format_2(&database);
    sql(&database, "DROP TABLE paused_gpus; PRAGMA user_version = 1");
    nexus.ok(&["start"]);
    assert!(nexus.home().join("nexus.db.format-1").is_file(), "no copy was put aside");
    nexus.ok(&["pause", "0"]);
    nexus.ok(&["release", &id]);
    assert_eq!(nexus.job(&id)["waiting"]["paused"], 1);
    nexus.ok(&["resume", "0"]);
    assert_eq!(nexus.ended(&id)["state"], "completed");
}

#[test]
fn jobs_of_before_they_could_be_unique_are_known_when_they_come_again() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let waits = nexus.add_with(&["--hold"], "python t.py --a 1");
    nexus.done("true");
    nexus.ok(&["stop"]);
    to_format_2(&nexus.home().join("nexus.db"));
    nexus.ok(&["start"]);
    assert!(nexus.home().join("nexus.db.format-2").is_file(), "no copy was put aside");
    assert!(nexus.fails(1, &["add", "--unique", "python", "t.py", "--a", "1"]).contains(&waits));
    assert!(nexus.fails(1, &["add", "--unique", "true"]).contains("has completed"));
    nexus.ok(&["add", "--unique", "--hold", "python t.py --a 2"]);
}

#[test]
fn one_that_is_none_is_told_and_left_alone() {
    let (nexus, _) = stopped();
    let database = nexus.home().join("nexus.db");
    for suffix in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(nexus.home().join(format!("nexus.db{suffix}")));
    }
    let nonsense = "this is no database. ".repeat(1000);
    std::fs::write(&database, &nonsense).unwrap();
    let said = nexus.fails(1, &["start"]);
    assert!(said.starts_with("error: the database is damaged"), "{said}");
    assert!(said.contains(database.to_str().unwrap()) && said.contains("not a database"), "{said}");
    assert_eq!(std::fs::read_to_string(&database).unwrap(), nonsense);
}
