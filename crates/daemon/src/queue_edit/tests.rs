//! Texts, and what they mean: changed, moved, deleted, added, with others at work meanwhile.

use nexus_api::command::Command;
use nexus_api::queue_text::{Header, write};

use super::*;

const HOME: &str = "/home/ann";

fn usual() -> JobSpec {
    JobSpec::new(Command::Shell("true".into()), HOME.into())
}

/// Jobs by id and priority; each runs its own id.
fn queue(jobs: &[(&str, i32)]) -> Vec<Waiting> {
    let job = |(id, priority): &(&str, i32)| Waiting {
        id: id.parse().unwrap(),
        spec: JobSpec { command: Command::Shell(format!("run {id}")), priority: *priority, ..usual() },
        secret_names: vec![],
    };
    jobs.iter().map(job).collect()
}

fn text_of(jobs: &[Waiting]) -> String {
    write(Header::Editor, &[], jobs.iter().map(|job| (job.id.as_str(), &job.spec)), HOME)
}

/// What an edit of `base` to `text` means for this queue.
fn planned(base: &[(&str, i32)], text: &str, now: &[(&str, i32)]) -> Plan {
    let (base, usual) = (text_of(&queue(base)), usual());
    let around = Around { usual: &usual, home: HOME, check: &|_| Ok(()), compare: &|_, _| Ok(()) };
    plan(&read(base.as_bytes()), &read(text.as_bytes()), queue(now), &around)
}

fn ids(plan: &[JobId]) -> Vec<&str> {
    plan.iter().map(JobId::as_str).collect()
}

fn order(plan: &Plan) -> Vec<String> {
    let word = |slot: &Slot| match slot {
        Slot::Known(id) => id.to_string(),
        Slot::New(number) => format!("new {number}"),
    };
    plan.order.iter().map(word).collect()
}

const THREE: &[(&str, i32)] = &[("abc", 0), ("bcd", 0), ("cde", 0)];

#[test]
fn nothing_changed_is_nothing() {
    let plan = planned(THREE, &text_of(&queue(THREE)), THREE);
    assert!(plan.is_empty() && plan.errors.is_empty() && plan.left.is_empty());
}

#[test]
fn lines_are_changed_deleted_added_and_moved() {
    let plan = planned(THREE, "#@ cde\nrun cde\n#@ abc priority=2 hold\nrun it\nnew one\n", THREE);
    assert_eq!(ids(&plan.remove), ["bcd"]);
    assert_eq!((plan.add.len(), &plan.add[0].command), (1, &Command::Shell("new one".into())));
    let told: Vec<String> =
        plan.changed[0].changes().iter().map(|c| format!("{} {}>{}", c.what, c.from, c.to)).collect();
    assert_eq!(told, ["priority 0>2", "hold no>yes", "command run abc>run it"]);
    assert_eq!(ids(&plan.moved), ["cde"]);
}

#[test]
fn the_order_is_the_one_of_the_page() {
    let plan = planned(THREE, "#@ cde\nrun cde\n#@ abc\nrun abc\n#@ bcd\nrun bcd\n", THREE);
    assert_eq!((order(&plan), ids(&plan.moved)), (vec!["cde".into(), "abc".into(), "bcd".into()], vec!["cde"]));
    // A new line between others has that place; at the end it goes where its priority takes it.
    let between = planned(THREE, "x\n#@ abc\nrun abc\n#@ bcd\nrun bcd\n#@ cde\nrun cde\n", THREE);
    assert_eq!(order(&between), ["new 0", "abc", "bcd", "cde"]);
    let after = planned(THREE, "#@ abc\nrun abc\n#@ bcd\nrun bcd\n#@ cde\nrun cde\nx\n", THREE);
    assert_eq!(order(&after).len(), 0);
    // Another priority moves a line that was not moved by hand.
    let priority = planned(THREE, "#@ abc priority=9\nrun abc\n#@ cde\nrun cde\n#@ bcd\nrun bcd\n", THREE);
    assert_eq!(order(&priority), ["cde", "bcd"]);
}

#[test]
fn what_happened_meanwhile_is_left_alone() {
    // abc has started, def came.
    let now = &[("bcd", 0), ("cde", 0), ("def", 0)];
    let plan = planned(THREE, "#@ abc priority=1\nrun abc\n#@ bcd\nrun bcd\n#@ cde\nrun cde\n", now);
    assert!(plan.is_empty(), "{:?}", order(&plan));
    assert_eq!(plan.left, ["abc"]);
    let deleted = planned(THREE, "#@ bcd\nrun bcd\n#@ cde\nrun cde\n", now);
    assert!(deleted.is_empty() && deleted.left == ["abc"]);
}

#[test]
fn a_job_that_two_have_changed_is_a_conflict_unless_they_agree() {
    let now = &[("abc", 5), ("bcd", 0), ("cde", 0)];
    let rest = "#@ bcd\nrun bcd\n#@ cde hold\nrun cde\n";
    let plan = planned(THREE, &format!("#@ abc\nrun other\n{rest}"), now);
    assert_eq!((ids(&plan.conflicts), plan.changed.len()), (vec!["abc"], 1));
    let deleted = planned(THREE, rest, now);
    assert_eq!((ids(&deleted.conflicts), deleted.remove.len()), (vec!["abc"], 0));
    let agreed = planned(THREE, &format!("#@ abc priority=5\nrun abc\n{rest}"), now);
    assert!(agreed.conflicts.is_empty() && agreed.changed.len() == 1);
    let untouched = planned(THREE, &format!("#@ abc\nrun abc\n{rest}"), now);
    assert!(untouched.conflicts.is_empty() && untouched.changed.len() == 1);
}

#[test]
fn wrong_lines_are_told_by_number() {
    let plan = planned(THREE, "#@ xyz\nrun xyz\n#@ abc gpus=many\nrun abc\n\n#@ retries=x\ny\n#@ odd=1\nz\n", THREE);
    let told: Vec<String> = plan.errors.iter().map(|error| format!("{} {}", error.line, error.error)).collect();
    assert_eq!(told.len(), 4, "{told:?}");
    assert!(told[0].starts_with("1 no job xyz was there to edit"), "{told:?}");
    assert_eq!(told[1], "3 gpus: many is not a number of GPUs, or a part of one, as in 2 or 0.5");
    assert_eq!(told[2], "6 retries: x is no number that fits here");
    assert!(told[3].starts_with("8 there is no option odd"), "{told:?}");
}
