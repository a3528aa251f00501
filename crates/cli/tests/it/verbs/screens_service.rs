//! `start --screen`: the service in a session of GNU screen.

use nexus_testkit::{Typist, alive, until};

use super::LONG;
use super::screens::{screen, sessions, with_screen};

#[test]
fn its_log_is_shown_and_closing_it_stops_the_service_alone() {
    let nexus = with_screen(1);
    let id = nexus.add(LONG);
    nexus.in_state(&id, "running");
    let said = nexus.run(&["start", "--screen"]).expect_code(0).stderr;
    assert!(said.contains("runs already") && said.contains("to see it: screen -r nexus\n"), "{said}");
    let all = nexus.json(&["screens", "--json"]);
    assert_eq!(
        (all[0]["name"].as_str(), all[0]["job"].is_null(), all.as_array().unwrap().len()),
        (Some("nexus"), true, 1)
    );
    let mut ann = Typist::sit_down(screen(&nexus, &["-r", "nexus"]), (100, 30));
    ann.sees("Service started");
    nexus.ok(&["pause"]);
    ann.sees("Queue paused by user").types("\x03");
    nexus.ok(&["resume"]);
    ann.sees("Queue resumed by user");
    // A new service has a session as the old one had.
    nexus.ok(&["restart"]);
    until("there is one session", || (sessions(&nexus).len() == 1).then_some(()));
    let service = nexus.service_pid();
    assert!(screen(&nexus, &["-S", &sessions(&nexus)[0], "-X", "quit"]).status().unwrap().success());
    until("the service is gone", || (!alive(service)).then_some(()));
    nexus.ok(&["start"]);
    nexus.in_state(&id, "running");
    assert!(sessions(&nexus).is_empty());
}

#[test]
fn the_session_ends_with_the_service() {
    let nexus = with_screen(0);
    nexus.ok(&["stop", "-y"]);
    nexus.ok(&["start", "--screen"]);
    assert_eq!(sessions(&nexus).len(), 1);
    nexus.ok(&["stop", "-y"]);
    until("the session is gone", || sessions(&nexus).is_empty().then_some(()));
}

#[test]
fn without_screen_the_service_runs_and_says_so() {
    let nexus = with_screen(0).env("PATH", "/nonexistent");
    nexus.ok(&["restart"]);
    let said = nexus.fails(1, &["start", "--screen"]);
    assert!(said.contains("GNU screen is not installed") && said.contains("hint: nexus attach service"), "{said}");
    nexus.ok(&["queue"]);
}
