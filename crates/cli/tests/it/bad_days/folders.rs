//! Working folders that are not there.

use nexus_testkit::Nexus;
use serde_json::json;

use super::lives;
use crate::NEXUS;

#[test]
fn a_folder_removed_before_the_start_is_a_start_error() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let dir = nexus.work().join("gone");
    std::fs::create_dir(&dir).unwrap();
    let id = nexus.add_with(&["--hold", "--cwd", dir.to_str().unwrap()], "true");
    std::fs::remove_dir(&dir).unwrap();
    nexus.ok(&["release", &id]);
    let job = nexus.ended(&id);
    assert_eq!((&job["state"], &job["reason"]), (&json!("failed"), &json!("start-error")));
    assert!(job["detail"].as_str().unwrap().contains(dir.to_str().unwrap()), "{}", job["detail"]);
    assert_eq!(job["attempt"], 1, "trying again would not help");
    lives(&nexus);
}

#[test]
fn a_program_that_does_not_exist_is_a_start_error() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.ok(&["add", "no-such-program", "--now"]);
    let job = nexus.ended(&id);
    assert_eq!((&job["state"], &job["reason"]), (&json!("failed"), &json!("start-error")));
    assert!(job["detail"].as_str().unwrap().contains("no-such-program"), "{}", job["detail"]);
    let job = nexus.done("no-such-program --now");
    assert_eq!((&job["state"], &job["exit_code"]), (&json!("failed"), &json!(127)), "so the shell says it");
}

#[test]
fn a_rerun_where_the_folder_is_gone_is_refused() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let dir = nexus.work().join("gone");
    std::fs::create_dir(&dir).unwrap();
    let id = nexus.add_with(&["--cwd", dir.to_str().unwrap()], "true");
    nexus.ended(&id);
    std::fs::remove_dir(&dir).unwrap();
    let said = nexus.fails(1, &["rerun", &id]);
    assert!(said.starts_with(&format!("error: the working folder {} cannot be used\n", dir.display())), "{said}");
    lives(&nexus);
}

#[test]
fn typed_in_a_folder_that_is_gone() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let dir = nexus.work().join("gone");
    std::fs::create_dir(&dir).unwrap();
    let script = format!("cd '{}' && rmdir '{}' && '{}' add true", dir.display(), dir.display(), NEXUS);
    let done = std::process::Command::new("sh").arg("-c").arg(script).env("NEXUS_HOME", nexus.home()).output().unwrap();
    assert_eq!(done.status.code(), Some(1));
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(said.starts_with("error: the folder this was typed in cannot be found\n"), "{said}");
    lives(&nexus);
}
