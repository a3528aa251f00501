//! Jobs that cannot be attached to, and places where nobody can attach.

use nexus_testkit::Nexus;

use super::{LONG, SCREEN};
use crate::NEXUS;

fn refused(nexus: &Nexus, args: &[&str]) -> String {
    let said = nexus.on_terminal(SCREEN, "", &[&["--color", "never", "attach"], args].concat());
    assert_eq!(said.code, 1, "{said}");
    said.stdout.replace("\r\n", "\n")
}

#[test]
fn a_job_that_does_not_run_says_why_and_what_to_type() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let ended = nexus.add("exit 3");
    nexus.ended(&ended);
    assert_eq!(
        refused(&nexus, &[&ended]),
        format!("error: job {ended} cannot be attached to\nit has ended: failed (exit 3)\nhint: nexus logs {ended}\n")
    );
    nexus.add(LONG);
    let queued = nexus.add("true");
    let said = refused(&nexus, &[&queued]);
    assert!(said.contains("it has not started: needs 1 GPU: 1 held by jobs\n"), "{said}");
    assert!(said.contains(&format!("hint: nexus logs -f {queued} ")), "{said}");
    let held = nexus.add_with(&["--hold"], "true");
    assert!(refused(&nexus, &[&held]).contains(&format!("it has not started: held: nexus release {held}\n")));
    assert!(refused(&nexus, &["zzzz"]).contains("zzzz"));
    assert!(refused(&nexus, &["7"]).starts_with("error: no job is on GPU 7\n"));
}

#[test]
fn without_a_terminal_logs_are_named() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.add(LONG);
    nexus.in_state(&id, "running");
    let said = nexus.fails(1, &["attach", &id]);
    assert_eq!(said, format!("error: attach needs a terminal\nthis is none\nhint: nexus logs -f {id}\n"));
    let said = nexus.fails(1, &["attach", "service"]);
    assert!(said.contains("hint: tail -f "), "{said}");
    nexus.ok(&["stop", "-y"]);
    assert!(nexus.fails(3, &["attach", &id]).contains("nexus start"));
}

#[test]
fn a_job_without_a_terminal_is_looked_at_and_reads_nothing() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.add_with(&["--no-tty"], "echo out; echo err >&2; until [ -e go ]; do sleep 0.02; done; echo more");
    let mut ann = nexus.at_terminal(SCREEN, &["attach", &id]);
    ann.sees("out\r\n").sees("err\r\n").types("x").sees("[this job has no terminal and reads nothing]");
    nexus.file("go", "");
    ann.sees("more\r\n").sees("[completed");
    ann.ends().expect_code(0);
}

#[test]
fn a_job_does_not_look_at_itself() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.add(&format!("{NEXUS} attach $NEXUS_JOB_ID"));
    let job = nexus.ended(&id);
    assert_eq!(job["exit_code"], 1);
    let said = nexus.ok(&["logs", &id]);
    assert!(said.contains("this is its own terminal"), "{said}");
}
