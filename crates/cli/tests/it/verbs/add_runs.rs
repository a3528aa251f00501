//! What is typed after `add`, as the running job sees it.

use nexus_testkit::{Nexus, until};
use serde_json::json;

use super::LONG;
use crate::NEXUS;

/// What a job printed.
fn printed(nexus: &Nexus, options: &[&str], command: &str) -> String {
    let id = nexus.add_with(options, command);
    let job = nexus.ended(&id);
    assert_eq!(job["state"], "completed", "{job}");
    nexus.stdout_of(&id)
}

#[test]
fn folder_and_variables_reach_the_job() {
    let nexus = Nexus::with_gpus(NEXUS, 2).env("CALLER", "mine").env("CUDA_VISIBLE_DEVICES", "9");
    nexus.file("vars", "# a comment\nFILE=one two\nexport BOTH=file\n");
    std::fs::create_dir(nexus.work().join("sub")).unwrap();
    let options = ["--cwd", "sub", "--env-file", "vars", "--env", "BOTH=typed", "--env", "EMPTY="];
    let seen = printed(
        &nexus,
        &options,
        "pwd; echo $CALLER/$FILE/$BOTH/${EMPTY-unset}/$PAGER; echo $CUDA_VISIBLE_DEVICES $CUDA_DEVICE_ORDER $NEXUS_GPU_ID $NEXUS_ATTEMPT",
    );
    let sub = nexus.work().join("sub").canonicalize().unwrap();
    assert_eq!(seen, format!("{}\nmine/one two/typed//cat\n0 PCI_BUS_ID 0 1\n", sub.display()));
}

#[test]
fn a_job_gets_as_many_gpus_as_it_asks_for() {
    let nexus = Nexus::with_gpus(NEXUS, 4);
    let seen = |options: &[&str]| printed(&nexus, options, "echo \"<$CUDA_VISIBLE_DEVICES>\"");
    assert_eq!(seen(&["--gpus", "0"]), "<>\n");
    assert_eq!(seen(&["--gpus", "2"]), "<0,1>\n");
    assert_eq!(seen(&["--on", "3"]), "<3>\n");
    assert_eq!(seen(&["--on", "1-3", "--gpus", "2"]), "<1,2>\n");
}

#[test]
fn an_argv_is_run_without_a_shell() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.ok(&["add", "printf", "%s|", "$HOME", "a  b", "--lr", "3"]);
    assert_eq!(nexus.ended(&id)["state"], "completed");
    assert_eq!(nexus.stdout_of(&id), "$HOME|a  b|--lr|3|");
}

#[test]
fn the_terminal_is_left_out_on_request() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let ask = "test -t 0 && echo in; test -t 1 && echo out; test -t 2 && echo err; true";
    assert_eq!(printed(&nexus, &[], ask), "in\nout\nerr\n");
    assert_eq!(printed(&nexus, &["--no-tty"], &format!("{ask}; wc -c")), "0\n");
}

#[test]
fn out_is_a_further_copy_appended_to() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let copy = nexus.file("copy.log", "before\n");
    printed(&nexus, &["--out", "copy.log"], "echo one; echo two >&2");
    let text = std::fs::read_to_string(&copy).unwrap();
    assert!(text.starts_with("before\n") && text.contains("one\n") && text.contains("two\n"), "{text}");
}

#[test]
fn lower_priority_runs_first_and_a_held_job_not_at_all() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.ok(&["pause"]);
    let held = nexus.add_with(&["--hold"], "echo held >> order");
    for priority in ["5", "0", "-5"] {
        nexus.add_with(&["--priority", priority], &format!("echo {priority} >> order"));
    }
    nexus.ok(&["resume"]);
    let order = until("all but the held one ran", || {
        let text = std::fs::read_to_string(nexus.work().join("order")).unwrap_or_default();
        (text.lines().count() == 3).then_some(text)
    });
    assert_eq!(order, "-5\n0\n5\n");
    assert_eq!(nexus.job(&held)["state"], "held");
}

#[test]
fn retries_are_attempts_of_one_job() {
    let nexus = Nexus::fresh(NEXUS);
    nexus.config("[jobs]\nretry_wait = \"0s\"\n");
    nexus.start(1);
    let id = nexus.add_with(&["--retries", "2"], "echo $NEXUS_ATTEMPT >> tries; test $NEXUS_ATTEMPT = 2");
    let job = nexus.ended(&id);
    assert_eq!((&job["state"], &job["attempt"]), (&json!("completed"), &json!(2)));
    let words: Vec<_> = job["runs"].as_array().unwrap().iter().map(|run| &run["outcome"]["word"]).collect();
    assert_eq!(words, ["exit", "completed"]);
    assert_eq!(std::fs::read_to_string(nexus.work().join("tries")).unwrap(), "1\n2\n");
    let shown = nexus.ok(&["show", &id]);
    assert!(shown.contains("Attempt 1:") && shown.contains("Attempt 2:"), "{shown}");
}

#[test]
fn a_time_limit_ends_the_job_and_its_signal_comes_before() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.add_with(
        &["--time", "2s", "--signal", "USR1@1s", "--grace", "0s"],
        "trap 'echo warned' USR1; while :; do sleep 0.05; done",
    );
    let job = nexus.ended(&id);
    assert_eq!((&job["state"], &job["reason"]), (&json!("failed"), &json!("timeout")));
    assert_eq!(nexus.stdout_of(&id), "warned\n");
}

#[test]
fn grace_is_the_time_between_term_and_kill() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.add_with(&["--grace", "0s"], &format!("trap '' TERM; touch ready; {LONG} & wait; {LONG}"));
    until("it runs", || nexus.work().join("ready").exists().then_some(()));
    nexus.ok(&["kill", &id]);
    assert_eq!(nexus.job(&id)["reason"], "user");
}
