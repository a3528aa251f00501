//! The dispatcher and what cannot be: wrong settings, wrong lines, options that do not fit.

use nexus_testkit::Nexus;
use serde_json::json;

use crate::NEXUS;

#[test]
fn wrong_settings_are_told_before_anything_is_made() {
    let nexus = Nexus::fresh(NEXUS);
    nexus.file("c", "true\n");
    nexus.file("bad.yaml", "log_dir: x\ngpu_id: [0]\n");
    nexus.file("type.yaml", "commands_file: c\nmin_free_mem_mb: 8G\n");
    nexus.file("no.yaml", "gpu_ids: [0, 1\n");
    nexus.file("empty.yaml", "log_dir: x\n");
    for (code, words, said) in [
        (1, &["--config", "bad.yaml"][..], "error: bad.yaml, line 2: there is no key gpu_id; did you mean gpu_ids?\n"),
        (
            1,
            &["--config", "type.yaml"],
            "error: type.yaml, line 2: min_free_mem_mb is a whole number of MiB above 0, not \"8G\"\n",
        ),
        (1, &["--config", "no.yaml"], "error: no.yaml, line 2: this is no YAML: "),
        (1, &["--config", "none.yaml"], "error: --config none.yaml cannot be read\n"),
        (
            2,
            &["--config", "empty.yaml"],
            "error: empty.yaml does not say commands_file, and no --commands-file was typed\n",
        ),
        (1, &["--commands-file", "none"], "cannot be read\n"),
        (2, &["--commands-file", "c", "echo", "x"], "error: the commands stand in a file, and here is one more\n"),
        (2, &["--gpu-ids", "0"], "error: --gpu-ids is for a file of commands\n"),
        (2, &["--commands-file", "c", "--gpu-ids", "x"], "error: --gpu-ids x is no list of GPUs\n"),
        (
            2,
            &["--commands-file", "c", "--min-free-mem-mb", "8G"],
            "error: --min-free-mem-mb 8G is no number of MiB above 0\n",
        ),
        (2, &["--commands-file", "c", "--poll-interval", "-1"], "error: --poll-interval"),
        (
            2,
            &["--commands-file", "c", "--vram", "1G", "--min-free-mem-mb", "1"],
            "error: --vram does not go with a file of commands\n",
        ),
        (
            2,
            &["--commands-file", "c", "--on", "0", "--gpu-ids", "1"],
            "error: --on does not go with a file of commands\n",
        ),
        (2, &["--commands-file", "c", "--out", "x"], "error: --out does not go with a file of commands\n"),
        (2, &["--commands-file", "c", "-x", "2"], "error: -x does not go with a file of commands\n"),
        (
            2,
            &["--commands-file", "c", "--status"],
            "error: --status shows what is there, and --commands-file says nothing about that\n",
        ),
        (1, &["--status"], "error: there is no file of jobs "),
        (1, &["--commands-file", "c", "--jobs-file", "c"], "c is both the commands file and the jobs file\n"),
        (1, &["--commands-file", "c", "--jobs-file", "bad.yaml"], "bad.yaml is no file of jobs\n"),
    ] {
        let heard = nexus.fails(code, &[&["run"], words].concat());
        assert!(heard.contains(said), "{words:?}: {heard}");
    }
    assert!(!nexus.home().exists(), "no service was started");
    assert_eq!(std::fs::read_to_string(nexus.work().join("c")).unwrap(), "true\n");
    assert!(nexus.fails(1, &["run", "--status"]).contains("hint: nexus run --commands-file FILE"));
}

#[test]
fn a_file_without_commands_is_no_failure() {
    let nexus = Nexus::fresh(NEXUS);
    nexus.file("c", "# nothing yet\n\n");
    let done = nexus.run(&["run", "--commands-file", "c"]).expect_code(0);
    assert!(done.stderr.ends_with("/c has no commands\n"), "{done}");
    assert!(!nexus.home().exists() && !nexus.work().join("jobs.jsonl").exists());
}

#[test]
fn wrong_lines_are_told_by_number_and_the_rest_counts() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let mut bytes = b"echo one >> ledger\n#@ nonsense=1\necho two >> ledger\n".to_vec();
    bytes.extend(
        b"#@ hold\necho three >> ledger\nbad \xff\n#@ cwd=/nonexistent\necho four >> ledger\necho five >> ledger",
    );
    std::fs::write(nexus.work().join("c"), bytes).unwrap();
    let done = nexus.run_limited(&["run", "--commands-file", "c"]).expect_code(1);
    for said in [
        "/c, line 2: ",
        "/c, line 4: hold is not for commands of a dispatcher (left out)\n",
        "/c, line 6: ",
        "/c, line 7: ",
        "2 jobs: all completed\n",
    ] {
        assert!(done.stderr.contains(said), "{said}: {done}");
    }
    let ledger = std::fs::read_to_string(nexus.work().join("ledger")).unwrap();
    assert_eq!(ledger, "one\nfive\n", "the last line needs no newline");
    // What is refused stays refused; what was done is not done again.
    nexus.run_limited(&["run", "--commands-file", "c"]).expect_code(1);
    assert_eq!(std::fs::read_to_string(nexus.work().join("ledger")).unwrap(), ledger);
}

#[test]
fn a_command_that_fails_fails_the_whole() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.file("c", "exit 3\ntrue\n");
    let done = nexus.run_limited(&["run", "--commands-file", "c"]).expect_code(1);
    assert!(done.stderr.contains("failed (exit 3) "), "{done}");
    assert!(done.stderr.contains("2 jobs: 1 completed, 1 failed; nexus run --status --jobs-file "), "{done}");
    // It stays failed, and is not run again by itself.
    let done = nexus.run_limited(&["run", "--commands-file", "c"]).expect_code(1);
    assert!(done.stderr.contains("no new commands\n"), "{done}");
    assert_eq!(nexus.json(&["history", "--all", "--json"]).as_array().unwrap().len(), 2);
}

#[test]
fn what_can_never_start_is_told_at_once() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.file("c", "true\n");
    let run = nexus.piped(&["run", "--commands-file", "c", "--gpu-ids", "5"]);
    let id = nexus_testkit::until("it is queued", || {
        let queued = nexus.json(&["queue", "--json"]);
        (queued[0]["state"] == "queued").then(|| queued[0]["id"].as_str().unwrap().to_string())
    });
    assert_eq!(nexus.job(&id)["waiting"]["kind"], json!("no-such-gpus"));
    nexus.ok(&["remove", &id]);
    let done = run.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(said.contains(&format!("warning: {id} cannot start here: it ")), "{said}");
    assert_eq!(done.status.code(), Some(1));
}

#[test]
fn what_never_ends_is_not_read() {
    let nexus = Nexus::fresh(NEXUS);
    nexus.file("c", "true\n");
    let pipe = nexus.work().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for endless in ["/dev/zero", "pipe"] {
        for words in [
            &["--commands-file", endless][..],
            &["--config", endless],
            &["--commands-file", "c", "--jobs-file", endless],
            &["--status", "--jobs-file", endless],
        ] {
            let said = nexus.fails(1, &[&["run"], words].concat());
            assert!(said.ends_with(&format!("{endless} cannot be read\nit is not a file\n")), "{words:?}: {said}");
        }
    }
}
