//! `edit`: the queue as text in an editor. Editors are scripts.

use std::path::PathBuf;

use nexus_testkit::{Nexus, Output, until};
use serde_json::Value;

use super::SCREEN;
use crate::NEXUS;

/// A home with a paused queue; its editor is `ed.sh`.
fn paused() -> Nexus {
    let nexus = Nexus::with_gpus(NEXUS, 1).env("EDITOR", "sh ed.sh");
    nexus.ok(&["pause"]);
    nexus
}

/// Edits with this script, which finds the file as `$1`.
fn edit(nexus: &Nexus, script: &str, args: &[&str]) -> Output {
    nexus.file("ed.sh", script);
    nexus.run(&[&["edit"], args].concat())
}

fn queue(nexus: &Nexus) -> Vec<Value> {
    nexus.json(&["queue", "--json"]).as_array().expect("a list").clone()
}

fn ids(nexus: &Nexus) -> Vec<String> {
    queue(nexus).iter().map(|job| job["id"].as_str().expect("an id").to_string()).collect()
}

fn commands(nexus: &Nexus) -> Vec<String> {
    queue(nexus).iter().map(|job| job["command"].as_str().expect("a command").to_string()).collect()
}

/// Texts of edits that were not carried out.
fn kept(nexus: &Nexus) -> Vec<PathBuf> {
    let files = std::fs::read_dir(nexus.home()).expect("a home").map(|entry| entry.expect("a file").path());
    files.filter(|path| path.to_string_lossy().ends_with(".jobs.txt")).collect()
}

#[test]
fn lines_are_moved_changed_deleted_and_added() {
    let nexus = paused();
    let old: Vec<String> = (0..4).map(|number| nexus.add(&format!("true {number}"))).collect();
    let argv = nexus.ok(&["add", "--name", "it's me", "prog", "a b"]);
    let script = format!(
        "cp \"$1\" before; cat > \"$1\" <<'END'\n#@ {2} priority=2 name='x y' tags=a,b hold\ntrue three\n#@ {0}\ntrue 0\n\
         new line | cat\n#@ {1}\ntrue 1\n#@ {argv} name='it'\\''s me' argv\nprog 'a b' c\n#@ gpus=0 lines=2\nfirst\nsecond\nEND",
        old[0], old[1], old[3]
    );
    let told = edit(&nexus, &script, &["-y"]).expect_code(0).stdout;
    let before = std::fs::read_to_string(nexus.work().join("before")).unwrap();
    let work = nexus.work();
    assert!(
        before.contains(&format!("#@ {argv} name='it'\\''s me' cwd={} argv\nprog 'a b'\n", work.display())),
        "{before}"
    );
    assert!(told.contains(&format!("removed {}: true 2\n", old[2])), "{told}");
    assert!(told.contains(&format!("{}: priority 0 -> 2\n", old[3])), "{told}");
    assert!(told.contains(&format!("{}: command true 3 -> true three\n", old[3])), "{told}");
    assert!(told.contains(&format!("moved {}\n", old[3])), "{told}");
    assert_eq!(told.lines().filter(|line| line.starts_with("added ")).count(), 2, "{told}");
    assert_eq!(commands(&nexus), ["true three", "true 0", "new line | cat", "true 1", "prog 'a b' c", "first\nsecond"]);
    let changed = nexus.job(&old[3]);
    assert_eq!((&changed["state"], &changed["name"], &changed["priority"]), (&"held".into(), &"x y".into(), &2.into()));
    assert_eq!(changed["tags"], serde_json::json!(["a", "b"]));
    assert_eq!(nexus.job(&argv)["argv"], serde_json::json!(["prog", "a b", "c"]));
    assert_eq!(nexus.job(&old[2])["reason"], "removed");
    // A folder that is not named stays.
    assert_eq!(nexus.job(&old[0])["cwd"].as_str(), work.to_str());
    assert_eq!(kept(&nexus).len(), 0);
    let log = nexus.service_log();
    assert!(log.contains(&format!("Job {} changed by user: priority 0 -> 2, ", old[3])), "{log}");
    assert!(log.contains("Queue put in order by user"), "{log}");
}

#[test]
fn a_line_moved_past_another_priority_stays_there() {
    let nexus = paused();
    let high = nexus.add_with(&["--priority", "-5"], "true high");
    let low = nexus.add_with(&["--priority", "5"], "true low");
    let between = nexus.add("true between");
    assert_eq!(ids(&nexus), [high.clone(), between.clone(), low.clone()]);
    let script = format!(
        "printf '#@ {low} priority=5\\ntrue low\\n#@ {high} priority=-5\\ntrue high\\n#@ {between}\\ntrue between\\n' > \"$1\""
    );
    edit(&nexus, &script, &[]).expect_code(0);
    assert_eq!(ids(&nexus), [low.clone(), high.clone(), between.clone()]);
    let next = nexus.add_with(&["--priority", "-1"], "true next");
    nexus.kill_service();
    nexus.ok(&["pause"]);
    assert_eq!(ids(&nexus), [low, high, next, between]);
}

#[test]
fn new_lines_have_the_environment_and_the_folder_of_the_editor() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.file("ed.sh", "echo 'echo $MARK $PWD' >> \"$1\"");
    let mut command = nexus.command(&["edit"]);
    let done = command.env("EDITOR", "sh ed.sh").env("MARK", "here").output().unwrap();
    Output::new("nexus edit".into(), done).expect_code(0);
    let id = nexus.json(&["show", "last", "--json"])["id"].as_str().unwrap().to_string();
    assert_eq!(nexus.ended(&id)["state"], "completed");
    assert_eq!(nexus.stdout_of(&id).trim(), format!("here {}", nexus.work().display()));
}

#[test]
fn removing_is_asked_about() {
    let nexus = paused();
    let count = nexus.ok(&["add", "-x", "3", "true"]).lines().count();
    nexus.file("ed.sh", "grep -v . \"$1\" > x; cat x > \"$1\"");
    let refused = nexus.fails(1, &["edit"]);
    assert!(refused.contains("error: Remove 3 jobs? nobody can be asked here\n"), "{refused}");
    assert!(refused.contains("hint: nexus edit -y"), "{refused}");
    let said = nexus.on_terminal(SCREEN, "n\n", &["edit"]).expect_code(1).stdout;
    assert!(said.contains("Remove 3 jobs? [y/N]"), "{said}");
    assert_eq!(queue(&nexus).len(), count);
    assert_eq!(kept(&nexus).len(), 2, "what was written is kept");
    nexus.on_terminal(SCREEN, "y\n", &["edit"]).expect_code(0);
    assert_eq!(queue(&nexus).len(), 0);
}

#[test]
fn no_change_and_failing_editors_do_nothing() {
    let nexus = paused();
    nexus.add("true");
    let before = queue(&nexus);
    assert_eq!(edit(&nexus, "true", &[]).expect_code(0).stderr, "nothing changed\n");
    let failed = edit(&nexus, "exit 3", &[]).expect_code(1).stderr;
    assert!(failed.contains("nothing was done\nthe editor sh ed.sh failed: it ended with exit 3\n"), "{failed}");
    assert_eq!(kept(&nexus).len(), 0, "there is nothing to keep");
    let killed = edit(&nexus, "echo 'mine' >> \"$1\"; kill -9 $$", &[]).expect_code(1).stderr;
    assert!(killed.contains("it was ended by signal 9") && killed.contains("what you wrote is in "), "{killed}");
    let [path] = kept(&nexus).try_into().unwrap();
    assert!(killed.contains(path.to_str().unwrap()), "{killed}");
    assert!(std::fs::read_to_string(path).unwrap().ends_with("mine\n"));
    let mut command = nexus.command(&["edit"]);
    let missing = command.env("EDITOR", "/no/such/editor --wait").output().unwrap();
    let missing = Output::new("nexus edit".into(), missing).expect_code(1).stderr;
    assert!(
        missing.starts_with("error: nothing was done\nthe editor /no/such/editor --wait cannot be started: "),
        "{missing}"
    );
    assert_eq!(queue(&nexus), before);
}

#[test]
fn a_wrong_line_refuses_all_and_the_text_is_kept() {
    let nexus = paused();
    let id = nexus.add("true");
    let wrong = format!("printf '#@ {id} gpus=many\\ntrue\\nnew one\\n#@ xyz\\ntrue\\n' > \"$1\"");
    let said = edit(&nexus, &wrong, &[]).expect_code(1).stderr;
    assert!(said.contains("line 1: gpus: many is not a number of GPUs, or a part of one, as in 2 or 0.5\n"), "{said}");
    assert!(said.contains("line 4: no job xyz was there to edit"), "{said}");
    let [path] = kept(&nexus).try_into().unwrap();
    assert!(std::fs::read_to_string(path).unwrap().contains("new one"));
    assert_eq!(ids(&nexus), [id.as_str()]);
    // On a terminal one may write on; the second look finds it right.
    nexus.file(
        "ed.sh",
        &format!(
            "if [ -e again ]; then sed -i s/many/2/ \"$1\"; else {}; touch again; fi",
            "sed -i 's/#@ [a-z]*/& gpus=many/' \"$1\""
        ),
    );
    let said = nexus.on_terminal(SCREEN, "y\n", &["edit"]).expect_code(0).stdout;
    assert!(said.contains("Edit again? [y/N]") && said.contains(": gpus 1 -> 2"), "{said}");
}

#[test]
fn a_job_to_come_after_that_is_not_there_is_an_error_of_its_line() {
    let nexus = paused();
    let id = nexus.add("true");
    let wrong = format!("printf '#@ {id} after=nope\\ntrue\\nnew one\\n#@ after-any=zzzzzz\\nnew two\\n' > \"$1\"");
    let said = edit(&nexus, &wrong, &[]).expect_code(1).stderr;
    assert!(said.contains("line 1: there is no job nope\n"), "{said}");
    assert!(said.contains("line 4: there is no job zzzzzz\n"), "{said}");
    assert_eq!(ids(&nexus), [id.as_str()], "all or none");
}

#[test]
fn a_parent_that_was_forgotten_is_no_parent_any_more() {
    let nexus = Nexus::with_gpus(NEXUS, 1).env("EDITOR", "sh ed.sh");
    let parent = nexus.add("true");
    let [one, two] = ["a", "b"].map(|word| nexus.add_with(&["--hold", "--after", &parent], &format!("true {word}")));
    nexus.ended(&parent);
    nexus.ok(&["forget", "-y", &parent]);
    let told = nexus.ok(&["edit", &one, "--priority", "3"]);
    assert_eq!(told, format!("{one}: priority 0 -> 3"));
    let said = nexus.fails(1, &["edit", &one, "--after", "zzzzzz"]);
    assert!(said.contains("there is no job zzzzzz"), "{said}");
    let told = edit(&nexus, "sed -i 's/true b/true c/' \"$1\"", &[]).expect_code(0).stdout;
    assert_eq!(told, format!("{two}: command true b -> true c\n"));
    nexus.ok(&["release", &one, &two]);
    for id in [&one, &two] {
        assert_eq!(nexus.ended(id)["state"], "completed");
    }
}

#[test]
fn two_edits_at_once_are_merged_and_one_job_changed_twice_is_told() {
    let nexus = paused();
    let [both, mine, theirs] = ["a", "b", "c"].map(|word| nexus.add(&format!("true {word}")));
    // The first has its text, and waits for the second to be done.
    nexus.file(
        "first.sh",
        "touch opened; until [ -e go ]; do sleep 0.01; done; sed -i -e 's/true a/mine a/' -e 's/true b/mine b/' \"$1\"",
    );
    let mut first = nexus.command(&["edit"]);
    first.env("EDITOR", "sh first.sh").stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let first = first.spawn().unwrap();
    until("the first editor has its text", || nexus.work().join("opened").exists().then_some(()));
    edit(&nexus, "sed -i -e 's/true a/theirs a/' -e 's/true c/theirs c/' \"$1\"", &[]).expect_code(0);
    let late = nexus.add("true late");
    nexus.file("go", "");
    let first = Output::new("the first edit".into(), first.wait_with_output().unwrap()).expect_code(1);
    assert!(first.stdout.contains(&format!("{mine}: command true b -> mine b\n")), "{first}");
    assert!(first.stderr.contains(&format!("{both} was changed by somebody else meanwhile")), "{first}");
    assert!(first.stderr.contains("what you wrote is in "), "{first}");
    assert_eq!(ids(&nexus), [both, mine, theirs, late]);
    assert_eq!(commands(&nexus), ["theirs a", "mine b", "theirs c", "true late"]);
}

#[test]
fn a_job_that_starts_meanwhile_is_left_alone() {
    let nexus = paused();
    let started = nexus.add("sleep 1000");
    let stays = nexus.add("true stays");
    let script = format!(
        "{} resume > /dev/null 2>&1; until {} show {started} --json | grep -q '\"running\"'; do sleep 0.01; done; \
         sed -i -e 's/sleep 1000/sleep 2000/' -e 's/true stays/true changed/' \"$1\"",
        NEXUS, NEXUS
    );
    let done = edit(&nexus, &script, &[]).expect_code(0);
    assert_eq!(done.stderr, format!("warning: {started} is running by now and was left alone\n"));
    assert_eq!(nexus.job(&started)["command"], "sleep 1000");
    assert_eq!(nexus.job(&stays)["command"], "true changed");
    nexus.in_state(&started, "running");
}
