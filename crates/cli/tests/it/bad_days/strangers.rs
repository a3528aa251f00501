//! Files that other users can write are not obeyed: jobs.txt, watched files, configuration, models.

use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use nexus_testkit::{Nexus, until};
use serde_json::Value;

use super::is_root;
use crate::NEXUS;

/// A user of this machine who has no account, and no part in the home.
const STRANGER: u32 = 61001;

/// What a stranger types, with one more group.
fn stranger(group: u32, script: &str) {
    let done = Command::new("setpriv")
        .args(["--reuid", &STRANGER.to_string(), "--regid", &STRANGER.to_string()])
        .args(["--groups", &group.to_string(), "sh", "-c", script])
        .output()
        .expect("setpriv is there");
    assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// A home that strangers cannot enter, in a folder that they can.
fn among_strangers() -> Nexus {
    let nexus = Nexus::fresh(NEXUS);
    set_mode(&nexus.root(), 0o755);
    nexus
}

/// A group of this machine with a name, other than root's.
fn some_group() -> (String, u32) {
    let groups = std::fs::read_to_string("/etc/group").unwrap();
    let mut found = groups.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let (name, gid) = (fields.next()?, fields.nth(1)?.parse().ok()?);
        (gid != 0).then(|| (name.to_string(), gid))
    });
    found.next().expect("a machine has more groups than root's")
}

fn waits_for(nexus: &Nexus, command: &str) {
    until(command, || commands(nexus).iter().any(|known| known == command).then_some(()));
}

fn commands(nexus: &Nexus) -> Vec<String> {
    let jobs = nexus.json(&["ls", "--json"]);
    jobs.as_array().unwrap().iter().map(|job| job["command"].as_str().unwrap().to_string()).collect()
}

/// What doctor says of one thing, once it says `part`.
fn doctor_says(nexus: &Nexus, name: &str, level: &str, part: &str) {
    until(&format!("{name}: {part}"), || {
        let told: Value = serde_json::from_str(&nexus.run(&["doctor", "--json"]).stdout).ok()?;
        let fits = |check: &Value| {
            check["name"] == name
                && check["level"] == level
                && check["says"].as_str().is_some_and(|says| says.contains(part))
        };
        told["checks"].as_array()?.iter().any(fits).then_some(())
    });
}

#[test]
fn lines_of_strangers_in_jobs_txt_are_not_taken() {
    if !is_root() {
        return;
    }
    let nexus = among_strangers();
    let file = nexus.file("jobs.txt", "");
    set_mode(&file, 0o666);
    nexus.config(&format!("[paths]\njobs_file = {:?}\n", file.display().to_string()));
    nexus.start(1);
    nexus.ok(&["pause"]);
    stranger(STRANGER, &format!("echo echo stranger >> {}", file.display()));
    doctor_says(&nexus, "jobs.txt", "warn", &format!("anybody can write to {}", file.display()));
    assert!(nexus.service_log().contains("check what it says, then chmod o-w"), "{}", nexus.service_log());
    // Mended, and looked through by its owner.
    set_mode(&file, 0o600);
    std::fs::write(&file, "echo mine\n").unwrap();
    waits_for(&nexus, "echo mine");
    assert_eq!(commands(&nexus), ["echo mine"]);
    assert!(!nexus.run(&["doctor"]).stdout.contains("it is not kept"));
    // Nor what lies where a service that was killed would have left it, in a folder in which anybody makes files.
    let folder = nexus.work();
    set_mode(&folder, 0o1777);
    nexus.kill_service();
    stranger(STRANGER, &format!("echo echo left > {}/.jobs.txt.next", folder.display()));
    nexus.start(1);
    std::fs::write(&file, "echo mine\necho after\n").unwrap();
    waits_for(&nexus, "echo after");
    assert!(!commands(&nexus).iter().any(|command| command == "echo left"), "{:?}", commands(&nexus));
}

#[test]
fn a_watched_file_is_obeyed_while_no_stranger_can_write_to_it() {
    if !is_root() {
        return;
    }
    let nexus = among_strangers();
    nexus.start(1);
    nexus.ok(&["pause"]);
    let file = nexus.file("j.txt", "echo a\n");
    set_mode(&file, 0o666);
    let refused = nexus.fails(1, &["import", "--watch", "j.txt"]);
    let says =
        format!("error: {0} cannot be watched\nanybody can write to {0}; check what it says, then", file.display());
    assert!(refused.starts_with(&says), "{refused}");
    set_mode(&file, 0o644);
    nexus.ok(&["import", "--watch", "j.txt"]);
    // It becomes one that strangers can write.
    set_mode(&file, 0o666);
    stranger(STRANGER, &format!("echo echo b >> {}", file.display()));
    doctor_says(&nexus, "watched", "bad", "anybody can write to");
    assert!(nexus.service_log().contains("j.txt is not taken: anybody can write to"), "{}", nexus.service_log());
    set_mode(&file, 0o644);
    std::fs::write(&file, "echo a\necho c\n").unwrap();
    waits_for(&nexus, "echo c");
    assert_eq!(commands(&nexus), ["echo a", "echo c"]);
    // In a folder like /tmp anybody can be the first to make a file.
    let shared = nexus.work().join("tmp");
    std::fs::create_dir(&shared).unwrap();
    set_mode(&shared, 0o1777);
    nexus.ok(&["import", "--watch", "tmp/k.txt"]);
    stranger(STRANGER, &format!("umask 022; echo echo k > {}/k.txt", shared.display()));
    doctor_says(&nexus, "watched", "bad", &format!("tmp/k.txt belongs to {STRANGER}"));
    assert_eq!(commands(&nexus), ["echo a", "echo c"]);
}

#[test]
fn a_list_that_a_group_shares_on_purpose_is_obeyed() {
    if !is_root() {
        return;
    }
    let nexus = among_strangers();
    nexus.start(1);
    nexus.ok(&["pause"]);
    let (group, gid) = some_group();
    let file = nexus.file("lab/j.txt", "echo a\n");
    chown(&file, None, Some(gid)).unwrap();
    set_mode(&file, 0o664);
    let refused = nexus.fails(1, &["import", "--watch", "lab/j.txt"]);
    let hint = format!("if it is shared on purpose: nexus import --watch {} --shared-with {group}", file.display());
    assert!(refused.contains(&format!("group {group}")) && refused.contains(&hint), "{refused}");
    let unknown = nexus.fails(1, &["import", "--watch", "lab/j.txt", "--shared-with", "no-such-group"]);
    assert!(unknown.contains("there is no group no-such-group"), "{unknown}");
    let said = nexus.run(&["import", "--watch", "lab/j.txt", "--shared-with", &group]);
    assert!(said.stderr.contains(&format!("every member of group {group} can queue commands")), "{said}");
    stranger(gid, &format!("echo echo b >> {}", file.display()));
    waits_for(&nexus, "echo b");
    // A service that starts later knows it too.
    nexus.ok(&["restart"]);
    stranger(gid, &format!("echo echo c >> {}", file.display()));
    waits_for(&nexus, "echo c");
    doctor_says(&nexus, "watched", "ok", &format!("is shared with group {group}"));
    assert_eq!(nexus.json(&["import", "--list", "--json"])[0]["shared_with"], *group);
    // The group may, and nobody else.
    set_mode(&file, 0o666);
    stranger(STRANGER, &format!("echo echo d >> {}", file.display()));
    doctor_says(&nexus, "watched", "bad", "anybody can write to");
    assert_eq!(commands(&nexus), ["echo a", "echo b", "echo c"]);
}

fn config_of(nexus: &Nexus) -> PathBuf {
    nexus.home().join("config.toml")
}

#[test]
fn configuration_of_strangers_is_refused_but_for_the_first_start() {
    let nexus = Nexus::fresh(NEXUS);
    // A home of a version that did not look.
    nexus.config("[jobs]\ngrace = \"3s\"\n");
    set_mode(&config_of(&nexus), 0o666);
    let first = nexus.run(&["start"]);
    let told = format!(
        "read this once, and refused from the next start on: anybody can write to {}",
        config_of(&nexus).display()
    );
    assert!(first.stderr.contains(&told) && first.code == 0, "{first}");
    assert!(nexus.service_log().contains(&told), "{}", nexus.service_log());
    assert!(nexus.ok(&["config", "get", "jobs.grace"]).contains("3s"));
    // A change of it is none already, and the service is not stopped for a start that would fail.
    std::fs::write(config_of(&nexus), "[jobs]\ngrace = \"4s\"\n").unwrap();
    doctor_says(&nexus, "config", "bad", "anybody can write to");
    let pid = nexus.service_process();
    assert!(nexus.fails(1, &["restart"]).contains("anybody can write to"));
    assert_eq!(nexus.service_process(), pid);
    assert!(nexus.ok(&["config", "get", "jobs.grace"]).contains("3s"));
    nexus.ok(&["stop", "-y"]);
    let refused = nexus.fails(1, &["start"]);
    assert!(refused.contains(&format!("chmod o-w {}", config_of(&nexus).display())), "{refused}");
    set_mode(&config_of(&nexus), 0o600);
    nexus.ok(&["start"]);
    assert!(nexus.ok(&["config", "get", "jobs.grace"]).contains("4s"));
}

#[test]
fn a_new_home_is_strict_at_once_and_its_models_and_variables_count() {
    let nexus = Nexus::fresh(NEXUS);
    nexus.start(2);
    let models = nexus.file("models.json", r#"{"default_requirement": 2.0, "models": {}}"#);
    set_mode(&models, 0o666);
    let shown = models.display().to_string();
    let refused = nexus.fails(1, &["config", "set", "models.file", &shown]);
    assert!(refused.contains(&format!("anybody can write to {shown}")), "{refused}");
    set_mode(&models, 0o644);
    nexus.ok(&["config", "set", "models.file", &shown]);
    let gpus = |name: &str| nexus.job(&nexus.add(&format!("true --llm {name}")))["request"]["gpus"].clone();
    assert_eq!(gpus("x"), 2.0);
    // What was read before stays in force.
    set_mode(&models, 0o666);
    std::fs::write(&models, r#"{"default_requirement": 1.0, "models": {}}"#).unwrap();
    assert_eq!(gpus("y"), 2.0);
    doctor_says(&nexus, "models", "bad", "anybody can write to");
    let variables = nexus.file("variables", "A=1\n");
    set_mode(&variables, 0o666);
    nexus.ok(&["config", "set", "jobs.env_file", variables.to_str().unwrap()]);
    let ended = nexus.ended(&nexus.add_with(&["--gpus", "0"], "true"));
    let why = ended["detail"].to_string();
    assert!(why.contains("cannot use the env_file") && why.contains("anybody can write to"), "{ended}");
    set_mode(&config_of(&nexus), 0o666);
    nexus.ok(&["stop", "-y"]);
    assert!(nexus.fails(1, &["start"]).contains("anybody can write to"));
}

#[test]
fn a_file_that_is_typed_for_one_reading_is_read_with_a_warning() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.ok(&["pause"]);
    let file = nexus.file("j.txt", "echo a\n");
    set_mode(&file, 0o666);
    let said = nexus.run(&["import", "j.txt"]);
    let warning =
        format!("warning: j.txt is read as it is now: anybody can write to {}; check what it says", file.display());
    assert!(said.code == 0 && said.stderr.contains(&warning), "{said}");
    // What a shell opened has no name that could be looked at.
    let typed =
        "umask 000; \"$0\" import <(echo echo b) && echo echo c | \"$0\" import - && \"$0\" export -o out.jsonl";
    let done = nexus.command::<&str>(&[]);
    let mut shell = Command::new("bash");
    shell.args(["-c", typed]).arg(NEXUS).env_clear().current_dir(nexus.work());
    shell.envs(done.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let done = shell.output().expect("bash is there");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && !said.contains("warning"), "{said}");
    assert_eq!(commands(&nexus), ["echo a", "echo b", "echo c"]);
    let mode = std::fs::metadata(nexus.work().join("out.jsonl")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "{mode:o}");
}

#[test]
fn a_database_that_a_stranger_put_into_an_open_home_is_refused() {
    if !is_root() {
        return;
    }
    let nexus = Nexus::fresh(NEXUS);
    nexus.start(1);
    nexus.ok(&["stop", "-y"]);
    let database = nexus.home().join("nexus.db");
    let refused = |why: &str| {
        let said = nexus.fails(1, &["start"]);
        assert!(said.contains(why), "{said}");
    };
    chown(&database, Some(STRANGER), None).unwrap();
    refused(&format!("nexus.db belongs to {STRANGER}"));
    chown(&database, Some(0), None).unwrap();
    set_mode(&database, 0o666);
    refused("others may have written to");
    set_mode(&database, 0o600);
    let log = nexus.home().join("nexus.db-wal");
    std::fs::write(&log, "").unwrap();
    chown(&log, Some(STRANGER), None).unwrap();
    refused(&format!("nexus.db-wal belongs to {STRANGER}"));
    std::fs::remove_file(&log).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &log, 0o600.into()).unwrap();
    refused("nexus.db-wal is not a file; remove it");
    std::fs::remove_file(&log).unwrap();
    nexus.ok(&["start"]);
}
