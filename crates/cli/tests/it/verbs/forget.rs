//! `forget`: ended jobs and their logs.

use nexus_testkit::Nexus;

use super::{LONG, SCREEN};
use crate::NEXUS;

#[test]
fn record_and_logs_are_gone() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let job = nexus.done("echo secret");
    let id = job["id"].as_str().unwrap();
    let dir = std::path::PathBuf::from(job["log_dir"].as_str().unwrap());
    assert!(dir.exists());
    assert_eq!(
        nexus.fails(1, &["forget", id]),
        format!("error: forget 1 job? nobody can be asked here\n{id}\nhint: nexus forget -y {id}\n")
    );
    nexus.on_terminal(SCREEN, "n\n", &["forget", id]).expect_code(1);
    assert!(dir.exists());
    let asked = nexus.on_terminal(SCREEN, "yes\n", &["--color", "never", "forget", id]).expect_code(0).stdout;
    assert!(asked.contains("forget 1 job? [y/N]") && asked.contains(&format!("forgot {id}: echo secret")), "{asked}");
    assert!(!dir.exists());
    assert_eq!(nexus.fails(1, &["show", id]), format!("error: there is no job {id}\nhint: nexus ls, nexus history\n"));
    assert_eq!(nexus.json(&["history", "--json"]), serde_json::json!([]));
    assert!(nexus.service_log().contains(&format!("Job {id} forgotten by user\n")));
}

#[test]
fn only_what_has_ended() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let runs = nexus.add(LONG);
    nexus.in_state(&runs, "running");
    let held = nexus.add_with(&["--hold"], "true");
    let said = nexus.fails(1, &["forget", "-y", &runs]);
    assert_eq!(
        said,
        format!("error: job {runs} cannot be forgotten\nit is running on GPU 0\nhint: nexus kill {runs}\n")
    );
    let said = nexus.fails(1, &["forget", "-y", &held]);
    assert!(said.ends_with(&format!("hint: nexus remove {held}\n")), "{said}");
}

/// What the service remembers of environments and options goes with the last job that had them: the next job has its
/// own, not those of the one that was forgotten.
#[test]
fn the_next_job_has_nothing_of_it() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    for value in ["one", "two", "three"] {
        let env = format!("OF={value}");
        let id = nexus.add_with(&["--env", &env, "--name", value], "echo $OF");
        nexus.ok(&["wait", &id]);
        assert_eq!(nexus.ok(&["logs", &id]).trim(), value);
        assert_eq!(nexus.json(&["show", "--json", &id])["name"], value);
        nexus.ok(&["forget", "-y", &id]);
    }
}
