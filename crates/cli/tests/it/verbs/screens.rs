//! `add --screen`: jobs in sessions of GNU screen, the real one, in a folder of the test's own.

use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::process::Command;

use nexus_testkit::{Nexus, Typist, kill, signal, until};
use serde_json::Value;

use super::{LONG, SCREEN};
use crate::NEXUS;

/// A home whose screen sessions are beside it.
pub fn with_screen(gpus: u16) -> Nexus {
    let nexus = Nexus::fresh(NEXUS);
    let dir = screen_dir(&nexus);
    std::fs::DirBuilder::new().mode(0o700).create(&dir).unwrap();
    let nexus = nexus.env("SCREENDIR", dir.to_str().unwrap()).env("SCREENRC", "/dev/null");
    nexus.start(gpus);
    nexus
}

fn screen_dir(nexus: &Nexus) -> PathBuf {
    nexus.work().parent().unwrap().join("s")
}

pub fn screen(nexus: &Nexus, args: &[&str]) -> Command {
    let mut command = Command::new("screen");
    command.args(args).env("SCREENDIR", screen_dir(nexus)).env("SCREENRC", "/dev/null").env_remove("STY");
    command.env("TERM", "xterm");
    command
}

/// Whole names of the sessions that screen knows, `1234.name`.
pub fn sessions(nexus: &Nexus) -> Vec<String> {
    let said = screen(nexus, &["-ls"]).output().expect("screen is there");
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    text.lines().filter_map(|line| line.strip_prefix('\t')?.split('\t').next().map(String::from)).collect()
}

/// The session of a job that runs, as nexus tells it.
#[track_caller]
fn session_of(nexus: &Nexus, id: &str) -> Value {
    until(&format!("{id} has a session"), || {
        let all = nexus.json(&["screens", "--json"]);
        all.as_array().unwrap().iter().find(|one| one["job"] == *id && one["state"] != "unknown").cloned()
    })
}

fn full_name(session: &Value) -> String {
    format!("{}.{}", session["pid"], session["name"].as_str().unwrap())
}

#[track_caller]
fn gone(nexus: &Nexus, name: &str) {
    until(&format!("{name} is gone"), || (!sessions(nexus).iter().any(|one| one == name)).then_some(()));
}

#[test]
fn a_job_is_seen_and_typed_to_by_its_name() {
    let nexus = with_screen(1);
    let id = nexus.add_with(&["--screen"], "echo begun; read -r x; echo \"<$x>\"; read -r y; exit 3");
    let session = session_of(&nexus, &id);
    assert_eq!(
        (session["name"].as_str(), session["state"].as_str()),
        (Some(&*format!("nexus_job_{id}")), Some("detached"))
    );
    assert_eq!(session["command"], format!("screen -r nexus_job_{id}"));
    let mut ann = Typist::sit_down(screen(&nexus, &["-r", &format!("nexus_job_{id}")]), (80, 24));
    ann.sees("begun").types("ann\r").sees("<ann>");
    assert_eq!(session_of(&nexus, &id)["state"], "attached");
    assert!(nexus.ok(&["screens"]).contains(&format!("screen -r nexus_job_{id}")));
    assert!(nexus.ok(&["show", &id]).contains(&format!("Screen:      screen -r nexus_job_{id}\n")));
    // nexus attach shows the same at the same time.
    let mut ben = nexus.at_terminal(SCREEN, &["attach", &id]);
    ben.sees("begun").sees("<ann>");
    ann.types("\x01d").sees("[detached");
    nexus.in_state(&id, "running");
    // Windows of the user's own do not keep the session.
    let window = ["-S", &full_name(&session), "-X", "screen", "sleep", "1000"];
    assert!(screen(&nexus, &window).status().unwrap().success());
    ben.types("\r").sees("[failed (exit 3)");
    gone(&nexus, &full_name(&session));
    assert_eq!(nexus.job(&id)["reason"], "exit");
    assert_eq!(nexus.ok(&["screens"]), "");
}

#[test]
fn whoever_closes_the_session_ends_the_job() {
    let nexus = with_screen(2);
    // Screen itself only hangs up, which this job does not mind.
    let stubborn = "trap '' HUP; (trap '' HUP; sleep 1000) & sleep 1000";
    let closed = nexus.add_with(&["--screen", "--retries", "2"], stubborn);
    let shot = nexus.add_with(&["--screen"], LONG);
    let session = session_of(&nexus, &closed);
    assert!(screen(&nexus, &["-S", &full_name(&session), "-X", "quit"]).status().unwrap().success());
    let job = nexus.ended(&closed);
    assert_eq!((job["state"].as_str(), job["reason"].as_str()), (Some("failed"), Some("session-closed")), "{job}");
    assert_eq!(job["attempt"], 1, "it is not tried again");
    assert!(nexus.ok(&["show", &closed]).contains("the screen session that it ran in was closed"));
    let pid = session_of(&nexus, &shot)["pid"].as_u64().unwrap();
    kill(u32::try_from(pid).unwrap(), signal::SIGKILL);
    assert_eq!(nexus.ended(&shot)["reason"], "session-closed");
    assert!(
        nexus.service_log().contains(&format!("Job {shot} failed on GPU 1: session-closed")),
        "{}",
        nexus.service_log()
    );
    until("all processes are gone", || nexus.job_processes().is_empty().then_some(()));
}

#[test]
fn kill_ends_the_session_too_and_a_retry_has_it_again() {
    let nexus = with_screen(1);
    nexus.config("[jobs]\nretry_wait = \"0s\"\n");
    nexus.ok(&["restart"]);
    let id = nexus.add_with(&["--screen", "--retries", "1"], "[ $NEXUS_ATTEMPT = 2 ] || exit 1; sleep 1000");
    until("it is tried again", || (nexus.job(&id)["attempt"] == 2).then_some(()));
    let session = session_of(&nexus, &id);
    assert_eq!(sessions(&nexus), [full_name(&session)]);
    nexus.ok(&["kill", &id]);
    assert_eq!(nexus.job(&id)["reason"], "user");
    gone(&nexus, &full_name(&session));
}

#[test]
fn a_restart_of_the_service_changes_nothing() {
    let nexus = with_screen(1);
    let id = nexus.add_with(&["--screen"], LONG);
    let session = session_of(&nexus, &id);
    nexus.kill_service();
    nexus.ok(&["start"]);
    assert_eq!(session_of(&nexus, &id), session);
    assert!(screen(&nexus, &["-S", &full_name(&session), "-X", "quit"]).status().unwrap().success());
    assert_eq!(nexus.ended(&id)["reason"], "session-closed");
}

#[test]
fn without_screen_the_job_says_so() {
    let nexus = with_screen(1);
    let id = nexus.add_with(&["--screen", "--env", "PATH=/nonexistent"], "true");
    let job = nexus.ended(&id);
    assert_eq!((job["state"].as_str(), job["reason"].as_str()), (Some("failed"), Some("start-error")));
    assert!(job["detail"].as_str().unwrap().starts_with("GNU screen is not installed"), "{job}");
}

#[test]
fn where_screens_folder_cannot_be_used_there_is_another() {
    let nexus = with_screen(1);
    let id =
        nexus.add_with(&["--screen", "--env", "SCREENDIR=/nonexistent/folder"], "read -r x; echo \"<$x>\"; read -r y");
    let session = session_of(&nexus, &id);
    let command = session["command"].as_str().unwrap();
    assert!(command.starts_with("SCREENDIR=/") && command.ends_with(&format!("screen -r nexus_job_{id}")), "{command}");
    assert!(nexus.ok(&["show", &id]).contains(command));
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).env("SCREENRC", "/dev/null").env("TERM", "xterm").env_remove("STY");
    let mut ann = Typist::sit_down(shell, (80, 24));
    ann.types("ann\r").sees("<ann>");
    let mut ben = nexus.at_terminal(SCREEN, &["attach", &id]);
    ben.sees(&format!("[in GNU screen: {command}]")).types("\r").sees("[completed");
}

#[test]
fn the_configuration_makes_it_the_rule() {
    let nexus = with_screen(1);
    nexus.config("[jobs]\nsession = \"screen\"\n");
    nexus.ok(&["restart"]);
    let id = nexus.add(LONG);
    session_of(&nexus, &id);
    until("the service has one, too", || sessions(&nexus).iter().any(|name| name.ends_with(".nexus")).then_some(()));
    nexus.ok(&["kill", &id]);
    nexus.config("[jobs]\nsession = \"tmux\"\n");
    assert!(nexus.fails(1, &["restart"]).contains("line 2"));
}
