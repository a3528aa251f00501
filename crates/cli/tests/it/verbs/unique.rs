//! `--unique`: one job of its kind, unless it failed or was taken out.

use std::io::Write;

use nexus_testkit::{Nexus, until};

use crate::NEXUS;

const GATE: &str = "until [ -e go ]; do sleep 0.02; done";

/// Is refused, and names the job and what it does.
#[track_caller]
fn refused(nexus: &Nexus, args: &[&str], why: &str) {
    let said = nexus.fails(1, args);
    let id = why.split(' ').nth(1).unwrap();
    assert_eq!(
        said,
        format!(
            "error: an identical job is there already\n{why}\nhint: nexus show {id}; without --unique it is queued \
             all the same\n"
        )
    );
}

#[test]
fn an_identical_job_that_waits_runs_or_has_completed_stands_in_the_way() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let args = ["add", "--unique", GATE];
    let first = nexus.add_with(&["--hold"], GATE);
    refused(&nexus, &args, &format!("job {first} of the same command and folder waits"));
    refused(&nexus, &["run", "--unique", GATE], &format!("job {first} of the same command and folder waits"));
    let dry = ["add", "--unique", "--dry-run", GATE];
    refused(&nexus, &dry, &format!("job {first} of the same command and folder waits"));
    nexus.ok(&["release", &first]);
    nexus.in_state(&first, "running");
    refused(&nexus, &args, &format!("job {first} of the same command and folder runs"));
    nexus.file("go", "");
    nexus.ended(&first);
    refused(&nexus, &args, &format!("job {first} of the same command and folder has completed"));
    nexus.ok(&["restart"]);
    refused(&nexus, &args, &format!("job {first} of the same command and folder has completed"));
    // Whoever asks for it again means it; and one that does not ask to be the only one is queued.
    let again = nexus.ok(&["rerun", &first]);
    assert_eq!(nexus.ended(&again)["state"], "completed");
    nexus.add(GATE);
    nexus.ok(&["forget", "-y", &first, &again]);
    let other = ["add", "--unique", "--cwd", "/", "true"];
    let id = nexus.ok(&other);
    assert_eq!(nexus.ended(&id)["state"], "completed");
    refused(&nexus, &other, &format!("job {id} of the same command and folder has completed"));
    nexus.ok(&["add", "--unique", "true"]);
}

#[test]
fn what_failed_was_killed_or_removed_does_not_count() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    for command in ["exit 3", "kill -9 $$"] {
        let id = nexus.add_with(&["--unique"], command);
        assert_eq!(nexus.ended(&id)["state"], "failed");
        nexus.ended(&nexus.add_with(&["--unique"], command));
    }
    let id = nexus.add_with(&["--unique", "--hold"], "removed");
    nexus.ok(&["remove", &id]);
    nexus.add_with(&["--unique", "--hold"], "removed");
    let id = nexus.add_with(&["--unique"], "sleep 1000");
    nexus.in_state(&id, "running");
    nexus.ok(&["kill", &id]);
    nexus.add_with(&["--unique", "--hold"], "sleep 1000");
}

#[test]
fn needs_and_priority_do_not_count_but_a_changed_command_does() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    let id = nexus.add_with(&["--unique", "--hold"], "python t.py --lr 3");
    let why = format!("job {id} of the same command and folder waits");
    refused(&nexus, &["add", "--unique", "--gpus", "2", "--priority", "9", "python", "t.py", "--lr", "3"], &why);
    nexus.ok(&["edit", &id, "python t.py --lr 4"]);
    let free = nexus.add_with(&["--unique", "--hold"], "python t.py --lr 3");
    refused(&nexus, &["add", "--unique", "python t.py --lr 4"], &why);
    refused(&nexus, &["add", "--unique", "python t.py --lr 3"], &why.replace(&id, &free));
}

#[test]
fn copies_of_a_unique_job_are_a_usage_error() {
    let nexus = Nexus::fresh(NEXUS);
    let said = nexus.fails(2, &["add", "-x", "3", "--unique", "true"]);
    assert!(said.starts_with("error: --unique queues one job, and -x 3 asks for copies of it\n"), "{said}");
    assert!(said.ends_with("hint: leave out one of them\n"), "{said}");
}

#[test]
fn of_many_at_once_one_is_taken() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    for round in 0..5 {
        let command = format!("echo {round}");
        let args = ["add", "--unique", "--hold", command.as_str()];
        let children: Vec<_> = (0..6).map(|_| nexus.command(&args).spawn().unwrap()).collect();
        let codes: Vec<_> = children.into_iter().map(|mut child| child.wait().unwrap().code()).collect();
        assert_eq!(codes.iter().filter(|code| **code == Some(0)).count(), 1, "{codes:?}");
        let jobs = nexus.json(&["ls", "--json"]);
        let alike = jobs.as_array().unwrap().iter().filter(|job| job["command"] == command).count();
        assert_eq!(alike, 1, "round {round}");
    }
}

#[test]
fn a_line_of_the_jobs_file_that_is_refused_keeps_no_other_out() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.ok(&["pause"]);
    // A line runs in the user's home.
    let home = nexus.work().parent().unwrap().display().to_string();
    let id = nexus.add_with(&["--cwd", &home], "echo one");
    let jobs_txt = nexus.home().join("jobs.txt");
    let mut file = until("jobs.txt is made", || std::fs::File::options().append(true).open(&jobs_txt).ok());
    file.write_all(b"#@ unique\necho one\n#@ unique\necho two\n").unwrap();
    until("the other line is taken", || {
        let jobs = nexus.json(&["ls", "--json"]);
        jobs.as_array()?.iter().any(|job| job["command"] == "echo two").then_some(())
    });
    let why = format!("is not taken: an identical job is there already: job {id} of the same command and folder waits");
    until("service.log says why", || nexus.service_log().contains(&why).then_some(()));
    let ones = nexus.json(&["ls", "--json"]);
    assert_eq!(ones.as_array().unwrap().iter().filter(|job| job["command"] == "echo one").count(), 1);
}
