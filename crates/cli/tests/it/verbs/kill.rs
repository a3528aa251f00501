//! `kill`: running jobs, and the question before many of them.

use nexus_testkit::Nexus;

use super::{LONG, SCREEN};
use crate::NEXUS;

fn running(nexus: &Nexus, options: &[&str]) -> String {
    let id = nexus.add_with(options, LONG);
    nexus.in_state(&id, "running");
    id
}

#[test]
fn a_killed_job_is_named_when_it_is_gone() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    let (first, second) = (running(&nexus, &[]), running(&nexus, &[]));
    let said = nexus.ok(&["kill", &first]);
    assert!(said.starts_with(&format!("killed {first} on GPU 0 after ")) && said.ends_with("s: sleep 1000"), "{said}");
    let job = nexus.job(&first);
    assert_eq!((&job["state"], &job["reason"]), (&"killed".into(), &"user".into()));
    let said = nexus.ok(&["kill", "1"]);
    assert!(said.starts_with(&format!("killed {second} on GPU 1 ")), "{said}");
    let third = running(&nexus, &[]);
    assert_eq!(nexus.ok(&["kill", "--no-wait", &third]), format!("asked to end on GPU 0 {third}: sleep 1000"));
    nexus.in_state(&third, "killed");
}

#[test]
fn a_job_in_another_state_is_sent_to_its_verb() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let held = nexus.add_with(&["--hold"], "true");
    assert_eq!(
        nexus.fails(1, &["kill", &held]),
        format!("error: job {held} cannot be killed\nit has not started: it is held\nhint: nexus remove {held}\n")
    );
    let done = nexus.done("true")["id"].as_str().unwrap().to_string();
    assert_eq!(
        nexus.fails(1, &["kill", &done]),
        format!(
            "error: job {done} cannot be killed\nit has ended: completed\nhint: nexus rerun {done} runs it again\n"
        )
    );
    // All or none.
    let runs = running(&nexus, &[]);
    nexus.fails(1, &["kill", "-y", &runs, &held]);
    assert_eq!(nexus.job(&runs)["state"], "running");
}

#[test]
fn many_at_once_need_a_yes() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    let ids = [running(&nexus, &["--tag", "t"]), running(&nexus, &["--tag", "t"])];
    let said = nexus.fails(1, &["kill", "tag:t"]);
    let both = ids.join(" ");
    assert_eq!(said, format!("error: kill 2 jobs? nobody can be asked here\n{both}\nhint: nexus kill -y {both}\n"));
    for answer in ["n\n", "\n", "what\n"] {
        let asked = nexus.on_terminal(SCREEN, answer, &["--color", "never", "kill", "tag:t"]).expect_code(1).stdout;
        assert!(asked.contains(&format!("  {}  running  sleep 1000", ids[0])), "{asked}");
        assert!(asked.contains("kill 2 jobs? [y/N]") && asked.contains("error: nothing was done"), "{asked}");
    }
    assert_eq!(nexus.json(&["ls", "--json"]).as_array().unwrap().len(), 2);
    let asked = nexus.on_terminal(SCREEN, "y\n", &["--color", "never", "kill", "tag:t"]).expect_code(0).stdout;
    assert!(ids.iter().all(|id| asked.contains(&format!("killed {id} on GPU "))), "{asked}");
}

#[test]
fn yes_is_said_in_advance_and_one_job_needs_none() {
    let nexus = Nexus::with_gpus(NEXUS, 3);
    let ids = [running(&nexus, &["--tag", "t"]), running(&nexus, &["--tag", "t"])];
    // Of a group only what runs is meant: the held one stays.
    let held = nexus.add_with(&["--hold", "--tag", "t"], "true");
    let said = nexus.ok(&["kill", "-y", "tag:t"]);
    assert!(ids.iter().all(|id| said.contains(id.as_str())) && !said.contains(&held), "{said}");
    assert_eq!(nexus.job(&held)["state"], "held");
    let last = running(&nexus, &[]);
    nexus.on_terminal(SCREEN, "", &["kill", &last]).expect_code(0);
}
