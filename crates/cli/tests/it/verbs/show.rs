//! `show`: all that is known.

use nexus_testkit::Nexus;

use super::LONG;
use crate::NEXUS;

#[test]
fn a_finished_job_in_full() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.done("echo out; exit 4")["id"].as_str().unwrap().to_string();
    let seen = nexus.ok(&["show", &id]);
    let logs = nexus.home().join("logs").join(format!("job_{id}"));
    for line in [
        format!("Job ID:      {id}"),
        "Command:     echo out; exit 4".into(),
        "Runs as:     shell command".into(),
        format!("Folder:      {}", nexus.work().display()),
        "Needs:       1 GPU".into(),
        "State:       failed (exit 4)".into(),
        "Detail:      it exited with code 4".into(),
        "Exit code:   4".into(),
        "GPU:         GPU 0 (simulated)".into(),
        format!("Stdout:      {}/stdout.log", logs.display()),
        format!("Stderr:      {}/stderr.log", logs.display()),
    ] {
        assert!(seen.lines().any(|shown| shown == line), "{line}\nis not in\n{seen}");
    }
}

#[test]
fn a_waiting_job_says_why_and_a_running_one_where() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let runs = nexus.add(LONG);
    let job = nexus.in_state(&runs, "running");
    let waits = nexus.add(LONG);
    let seen = nexus.ok(&["show", &waits]);
    assert!(
        seen.contains("\nState:       queued\nWaiting:     needs 1 GPU: 1 held by jobs\nPosition:    1\n"),
        "{seen}"
    );
    let seen = nexus.ok(&["show", "0"]);
    assert!(seen.contains(&format!("\nPID:         {}\n", job["pid"])), "{seen}");
}

#[test]
fn variables_by_name_unless_values_are_asked_for() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.add_with(&["--hold", "--env", "COLOUR=mauve"], "true");
    let told = nexus.job(&id);
    assert!(told["env_names"].as_array().unwrap().contains(&"COLOUR".into()));
    assert!(told["env"].is_null() && !told.to_string().contains("mauve"));
    let seen = nexus.ok(&["show", &id]);
    assert!(!seen.contains("mauve") && seen.contains(&format!("variables (nexus show {id} --env)")), "{seen}");
    assert!(nexus.ok(&["show", &id, "--env"]).contains("COLOUR=mauve"));
    assert_eq!(nexus.json(&["show", &id, "--env", "--json"])["env"]["COLOUR"], "mauve");
}

#[test]
fn one_job_at_a_time() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.ok(&["add", "--hold", "--tag", "t", "-x", "2", "true"]);
    let said = nexus.fails(1, &["show", "tag:t"]);
    assert!(said.starts_with("error: tag:t means 2 jobs\n") && said.ends_with("hint: name one of them\n"), "{said}");
    let said = nexus.fails(1, &["show", "zzzzzz"]);
    assert_eq!(said, "error: there is no job zzzzzz\nhint: nexus ls, nexus history\n");
}
