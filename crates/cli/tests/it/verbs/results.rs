//! `nexus results`, `--results`, `--extract`, `NEXUS_RESULTS_DIR`.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nexus_testkit::{Nexus, until};
use serde_json::{Value, json};

use super::LONG;
use crate::NEXUS;

/// What a results folder has, as paths below it with a slash behind folders, in order.
fn listed(folder: &Path) -> Vec<String> {
    fn walk(folder: &Path, root: &Path, list: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap()) {
            let path = entry.path();
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_string();
            if entry.file_type().unwrap().is_dir() {
                list.push(format!("{name}/"));
                walk(&path, root, list);
            } else {
                list.push(name);
            }
        }
    }
    let mut list = Vec::new();
    walk(folder, folder, &mut list);
    list.sort();
    list
}

#[test]
fn all_that_a_job_left_is_copied_once_it_has_succeeded() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.add_with(
        &["--results", "kept"],
        "mkdir -p out/deep; echo one > out/deep/a; chmod 640 out/deep/a; touch -d 2020-02-02T02:02:02 out/deep/a; \
         ln -s deep/a out/newest; chmod 555 out/deep; echo 1 > run-1; mkdir run-2; echo 2 > run-2/x; \
         echo mine > $NEXUS_RESULTS_DIR/mine; printf 'RESULTS: out\\r\\n 50%%\\rRESULTS: ./run-\\nRESULTS: out\\n'; \
         echo 'RESULTS: nowhere' >&2; printf 'RESULTS: run-1'",
    );
    let job = nexus.ended(&id);
    let folder = nexus.work().join("kept").join(&id);
    assert_eq!((&job["state"], &job["results_state"]), (&json!("completed"), &json!("copied")), "{job}");
    assert_eq!(job["results"], json!(folder), "{job}");
    assert_eq!(job["results_named"], json!(["out", "./run-", "run-1"]), "{job}");
    assert_eq!(job["extracted"], Value::Null, "{job}");
    let expected = ["mine", "out/", "out/deep/", "out/deep/a", "out/newest", "run-1", "run-2/", "run-2/x"];
    assert_eq!(listed(&folder), expected);
    let about = std::fs::metadata(folder.join("out/deep/a")).unwrap();
    let original = std::fs::metadata(nexus.work().join("out/deep/a")).unwrap();
    assert_eq!((about.mode() & 0o777, about.mtime()), (0o640, original.mtime()));
    assert_eq!(std::fs::read_link(folder.join("out/newest")).unwrap(), Path::new("deep/a"));
    assert_eq!(std::fs::metadata(folder.join("out/deep")).unwrap().mode() & 0o777, 0o555);
    // Its own folder has been copied, and is not needed any more.
    until("its own folder is gone", || (!nexus.home().join("results").join(&id).exists()).then_some(()));
    let log = nexus.service_log();
    assert!(log.contains(&format!("Copied results of job {id} to {}", folder.display())), "{log}");
    let shown = nexus.ok(&["results", &id]);
    assert!(shown.starts_with(&format!("{id}: copied to {}\n  Named:    out\n", folder.display())), "{shown}");
    assert!(nexus.ok(&["show", &id]).contains(&format!("Results:     {} (copied)\n", folder.display())));
}

#[test]
fn r31_what_cannot_be_copied_is_told_by_its_path_and_can_be_mended() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    let work = nexus.work();
    let outside = nexus.home().parent().unwrap().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("secret"), "s").unwrap();
    let cases = [
        ("echo RESULTS: gone", "/gone does not exist, and nothing there has a name that begins so"),
        ("echo RESULTS: gone/", "/gone does not exist"),
        ("echo RESULTS: ../outside", "../outside leads out of the job's folder"),
        ("mkdir -p a; echo RESULTS: a/../../outside/secret", "leads out of the job's folder"),
        ("ln -sfn ../outside way; echo RESULTS: way/secret", "/way/secret leads out of the job's folder"),
        ("ln -sfn ../outside/secret file; echo RESULTS: file", "/file leads out of the job's folder"),
        ("mkdir -p in; ln -sfn ../../outside in/way; echo RESULTS: in", "/in/way is a symbolic link that leads out of"),
        ("mkdir -p lost; ln -sfn nothing lost/way; echo RESULTS: lost", "is a symbolic link that leads nowhere"),
        ("mkdir -p pipes; [ -e pipes/p ] || mkfifo pipes/p; echo RESULTS: pipes", "/pipes/p is a named pipe"),
        ("echo 1 > same; echo 2 > $NEXUS_RESULTS_DIR/same; echo RESULTS: same", "would both become same"),
        ("mkdir -p all; echo RESULTS: all; echo RESULTS: $PWD/kept", "contains the folder that it is to be copied to"),
        ("echo RESULTS: /", "/ does not exist"),
    ];
    for (command, reason) in cases {
        let id = nexus.add_with(&["--results", "kept"], command);
        let job = nexus.ended(&id);
        assert_eq!((&job["state"], &job["results_state"]), (&json!("completed"), &json!("failed")), "{command}: {job}");
        let error = job["results_error"].as_str().unwrap_or_default();
        assert!(error.contains(reason), "{command}: {error}");
        assert_eq!(listed(&work.join("kept").join(&id)), Vec::<String>::new(), "{command}");
        let again = nexus.run(&["results", &id]).expect_code(1);
        assert!(again.stdout.contains(reason), "{command}: {again}");
        assert!(nexus.service_log().contains(&format!("Results of job {id} not copied: ")), "{command}");
    }
    let id = nexus.add_with(&["--results", "kept"], "echo RESULTS: late");
    assert_eq!(nexus.ended(&id)["results_state"], "failed");
    let why = nexus.ok(&["why", &id]);
    assert!(why.contains("  Results:  not copied: ") && why.contains(&format!("nexus results {id} ")), "{why}");
    assert!(nexus.ok(&["history"]).contains("completed (results not copied)"));
    nexus.file("late", "better");
    nexus.ok(&["results", &id]);
    let job = nexus.job(&id);
    assert_eq!((&job["results_state"], &job["results_error"]), (&json!("copied"), &Value::Null), "{job}");
    assert_eq!(std::fs::read_to_string(work.join("kept").join(&id).join("late")).unwrap(), "better");
}

#[test]
fn a_folder_that_becomes_a_file_fails_the_copy_and_nothing_else() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.add_with(&["--results", "kept"], "echo x > x; echo RESULTS: x; touch kept");
    let job = nexus.ended(&id);
    assert_eq!(job["state"], "completed", "{job}");
    let error = job["results_error"].as_str().unwrap_or_default();
    assert!(error.contains(&format!("kept/{id} cannot be written")), "{job}");
    let said = nexus.fails(1, &["add", "--results", "kept/deeper", "true"]);
    assert!(said.contains("kept is a file"), "{said}");
}

#[test]
fn a_copy_to_elsewhere_is_for_any_job_that_has_ended_and_changes_nothing_else() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let done = nexus.add("echo d > d; echo RESULTS: d; echo own > $NEXUS_RESULTS_DIR/own");
    let failed = nexus.add("echo f > f; echo RESULTS: f; exit 3");
    let before: Vec<Value> = [&done, &failed].map(|id| nexus.ended(id)).to_vec();
    assert!(nexus.ok(&["results", &done]).starts_with(&format!("{done}: not copied\n  Named:    d\n  Folder: ")));
    let said = nexus.fails(2, &["results", &done, "--to", ""]);
    assert!(said.contains("--to"), "{said}");
    nexus.ok(&["results", "last:2", "--to", "there"]);
    let there = nexus.work().join("there");
    assert_eq!(listed(&there.join(&done)), ["d", "own"]);
    assert_eq!(listed(&there.join(&failed)), ["f"]);
    for (id, before) in [&done, &failed].into_iter().zip(before) {
        let mut after = nexus.job(id);
        assert_eq!((&after["results_state"], &after["results"]), (&json!("copied"), &json!(there.join(id))), "{after}");
        for key in ["results", "results_state"] {
            after[key] = before[key].clone();
        }
        assert_eq!(after, before, "an ended job does not change");
    }
    // What is safe there is enough for the next.
    std::fs::remove_file(nexus.work().join("d")).unwrap();
    let told = nexus.json(&["results", &done, "--to", "further", "--json"]);
    assert_eq!((&told["results_state"], &told["copy"]["error"]), (&json!("copied"), &Value::Null), "{told}");
    assert_eq!(listed(&nexus.work().join("further").join(&done)), ["d", "own"]);
    // A further copy that fails takes nothing away.
    nexus.file("file", "");
    let again = nexus.run(&["results", &done, "--to", "file"]).expect_code(1);
    assert!(again.stdout.contains("cannot be written"), "{again}");
    assert_eq!(nexus.job(&done)["results_state"], "copied");
    let runs = nexus.add(LONG);
    nexus.in_state(&runs, "running");
    let said = nexus.fails(1, &["results", &runs, "--to", "there"]);
    assert!(said.starts_with(&format!("error: results of job {runs} cannot be copied\n")), "{said}");
    nexus.ok(&["kill", &runs]);
}

#[test]
fn the_folder_of_its_own_is_the_jobs_alone() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let command = "[ -d \"$NEXUS_RESULTS_DIR\" ] && echo ${NEXUS_RESULTS_DIR##*/results/}";
    let mut typed = nexus.command(&["add", command]);
    let output = typed.env("NEXUS_RESULTS_DIR", "/nowhere").output().unwrap();
    let id = String::from_utf8(output.stdout).unwrap().trim().to_string();
    nexus.ended(&id);
    assert_eq!(nexus.stdout_of(&id).trim(), id);
    assert!(nexus.fails(2, &["add", "--env", "NEXUS_RESULTS_DIR=/x", "true"]).contains("is set by nexus itself"));
    assert!(!nexus.home().join("results").join(&id).exists(), "nothing was in it");
    let keeps = nexus.add("echo x > $NEXUS_RESULTS_DIR/x");
    nexus.ended(&keeps);
    let folder = nexus.home().join("results").join(&keeps);
    assert_eq!(listed(&folder), ["x"]);
    assert!(nexus.ok(&["show", &keeps]).contains(&format!("Own results: {}\n", folder.display())));
    nexus.ok(&["forget", "-y", &keeps]);
    assert!(!folder.exists());
}

#[test]
fn values_are_taken_from_the_last_match_of_the_attempt_that_counts() {
    let nexus = Nexus::fresh(NEXUS);
    nexus.config("[jobs]\nretry_wait = \"0s\"\n");
    nexus.start(1);
    let id = nexus.add_with(
        &["--retries", "1", "--extract", "loss=loss: ([0-9.]+)", "--extract", "acc=^acc=(.*)$", "--extract", "no=x(y)"],
        "if [ $NEXUS_ATTEMPT = 1 ]; then echo 'loss: 9'; echo RESULTS: first; exit 1; fi; \
         printf 'loss: 3\\rloss: 2.5\\r'; echo acc=0.75 >&2; printf 'loss: 1.25'",
    );
    let job = nexus.ended(&id);
    assert_eq!(job["extracted"], json!({"loss": "1.25", "acc": "0.75"}), "{job}");
    assert_eq!((&job["results_named"], &job["results_state"]), (&json!([]), &json!("none")), "{job}");
    let shown = nexus.ok(&["show", &id]);
    assert!(shown.contains("Value:       loss = 1.25\n"), "{shown}");
    for (typed, words) in [("a=b", "has no group"), ("a=(", "cannot be read"), ("b(c)", "no value to take")] {
        let said = nexus.run(&["add", "--extract", typed, "true"]);
        assert!(said.code != 0 && said.stderr.contains(words), "{typed}: {said}");
    }
    let said = nexus.fails(2, &["add", "--extract", "a=(b)", "--extract", "a=(c)", "true"]);
    assert!(said.contains("a is said twice"), "{said}");
}

#[test]
fn a_large_copy_keeps_nobody_waiting_but_those_that_come_after() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let command = "head -c 300000000 /dev/zero > big; echo RESULTS: big";
    let copies = nexus.add_with(&["--results", "kept"], command);
    let next = nexus.add("true");
    let after = nexus.add_with(&["--after", &copies], "ls kept/*/big");
    for id in [&copies, &next, &after] {
        assert_eq!(nexus.ended(id)["state"], "completed");
    }
    let log = nexus.service_log();
    let at = |line: String| log.find(&line).unwrap_or_else(|| panic!("{line}: {log}"));
    let copied = at(format!("Copied results of job {copies} to "));
    assert!(at(format!("Started job {next} on GPU 0")) < copied, "{log}");
    assert!(at(format!("Copying results of job {copies}\n")) < at(format!("Started job {next} on GPU 0")), "{log}");
    assert!(at(format!("Job {copies} completed successfully on GPU 0")) < at(format!("Started job {after} on GPU 0")));
    let size = std::fs::metadata(nexus.work().join("kept").join(&copies).join("big")).unwrap().len();
    assert_eq!(size, 300_000_000);
}

#[test]
fn the_folder_can_be_said_in_files_and_changed() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.ok(&["pause"]);
    nexus.file("jobs.txt", "#@ results=kept\necho x > x; echo RESULTS: x\n");
    nexus.ok(&["import", "jobs.txt", "--format", "lines"]);
    let jobs = nexus.json(&["queue", "--json"]);
    let id = jobs[0]["id"].as_str().unwrap().to_string();
    assert_eq!(jobs[0]["results"], json!(nexus.work().join("kept").join(&id)), "{jobs}");
    nexus.ok(&["edit", &id, "--results", "", "--extract", "v=(.)"]);
    assert_eq!(nexus.job(&id)["results"], Value::Null);
    let said = nexus.ok(&["edit", &id, "--results", "other"]);
    assert!(said.contains("results not copied -> "), "{said}");
    let exported = nexus.ok(&["export", "--format", "jsonl"]);
    nexus.file("export.jsonl", &exported);
    nexus.ok(&["remove", &id]);
    nexus.ok(&["import", "export.jsonl"]);
    let again = nexus.json(&["queue", "--json"])[0]["id"].as_str().unwrap().to_string();
    nexus.ok(&["resume"]);
    let job = nexus.ended(&again);
    assert_eq!(job["results"], json!(nexus.work().join("other").join(&again)), "{job}");
    assert_eq!((&job["results_state"], &job["extracted"]), (&json!("copied"), &json!({"v": "R"})), "{job}");
}
