//! `--venv`: a virtual environment around the command, and what both kinds of environment have in common.

use std::path::Path;

use nexus_testkit::{Nexus, make_venv, until};
use serde_json::Value;

use crate::NEXUS;

const WHERE: &str = "import os, sys; print(sys.prefix, os.environ['VIRTUAL_ENV'], sys.argv[1:])";

fn printed(nexus: &Nexus, id: &str) -> String {
    let job = nexus.ended(id);
    assert_eq!(job["state"], "completed", "{job}");
    nexus.stdout_of(id)
}

/// The sentence of a job that could not be started, which every view has.
fn refused(nexus: &Nexus, options: &[&str]) -> String {
    let id = nexus.add_with(options, "echo never");
    let job = nexus.ended(&id);
    assert_eq!((&job["state"], &job["reason"]), (&"failed".into(), &"start-error".into()), "{job}");
    let sentence = job["detail"].as_str().unwrap().to_string();
    for view in ["show", "why"] {
        assert!(nexus.ok(&[view, &id]).replace("\n             ", " ").contains(&sentence), "{view}: {sentence}");
    }
    assert_eq!(nexus.stdout_of(&id), "");
    sentence
}

fn real(path: &Path) -> String {
    path.canonicalize().unwrap().display().to_string()
}

#[test]
fn python_is_that_of_the_environment_whatever_was_active() {
    let nexus = Nexus::fresh(NEXUS);
    let (mine, own) = (nexus.work().join("mine"), nexus.work().join("my env"));
    make_venv(&mine);
    make_venv(&own);
    let path = format!("{}/bin:{}", mine.display(), std::env::var("PATH").unwrap());
    let nexus = nexus.env("VIRTUAL_ENV", mine.to_str().unwrap()).env("PATH", &path).env("PYTHONHOME", "/nowhere");
    nexus.start(1);
    let odd = ["$(echo x)", "a  b", "", "it's", "ä\nö", "*", "\\"];
    let id = nexus.ok(&[&["add", "--venv", "my env", "--", "python", "-c", WHERE], &odd[..]].concat());
    let (own, words) = (real(&own), "['$(echo x)', 'a  b', '', \"it's\", 'ä\\nö', '*', '\\\\']");
    assert_eq!(printed(&nexus, &id), format!("{own} {own} {words}\n"));
    let shell = nexus.add_with(&["--venv", &own], &format!("python -c \"{WHERE}\"\n# the end\necho \"$0\" $# $PATH"));
    let seen = printed(&nexus, &shell);
    assert!(seen.starts_with(&format!("{own} {own} []\n")) && seen.contains("/bash 0 "), "{seen}");
    assert!(!seen.contains("mine/bin"), "{seen}");
    assert!(nexus.ok(&["show", &shell]).contains(&format!("\nVenv:        {own}\n")));
}

#[test]
fn exit_codes_and_signals_are_the_commands_own() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    make_venv(&nexus.work().join("env"));
    let ended = |words: &[&str]| -> Value {
        let id = nexus.ok(&[&["add", "--venv", "env"], words].concat());
        nexus.ended(&id)
    };
    assert_eq!(ended(&["exit 7"])["exit_code"], 7);
    assert_eq!(ended(&["python", "-c", "raise SystemExit(9)"])["exit_code"], 9);
    let job = ended(&["python -c 'import os; os.kill(os.getpid(), 11)'"]);
    assert_eq!((&job["reason"], &job["signal"]), (&"signal".into(), &11.into()), "{job}");
    let job = ended(&["--", "no-such-program"]);
    assert_eq!((&job["reason"], &job["exit_code"]), (&"start-error".into(), &127.into()), "{job}");
    let id = nexus.add_with(&["--venv", "env"], "python -c 'import time; print(1, flush=True); time.sleep(1000)'");
    until("it prints", || (!nexus.stdout_so_far(&id).is_empty()).then_some(()));
    nexus.ok(&["kill", &id]);
    assert_eq!(nexus.job(&id)["signal"], 15);
}

#[test]
fn a_moved_environment_and_one_without_its_script_are_used_all_the_same() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let (before, after) = (nexus.work().join("before"), nexus.work().join("after"));
    make_venv(&before);
    std::fs::rename(&before, &after).unwrap();
    let after = real(&after);
    let run = || printed(&nexus, &nexus.ok(&["add", "--venv", "after", "--", "python", "-c", WHERE]));
    assert_eq!(run(), format!("{after} {after} []\n"));
    std::fs::remove_file(Path::new(&after).join("bin/activate")).unwrap();
    assert_eq!(run(), format!("{after} {after} []\n"));
}

#[test]
fn a_machine_with_sh_alone_will_do() {
    let nexus = Nexus::fresh(NEXUS);
    let programs = nexus.work().join("programs");
    std::fs::create_dir(&programs).unwrap();
    std::os::unix::fs::symlink("/bin/sh", programs.join("sh")).unwrap();
    make_venv(&nexus.work().join("env"));
    let nexus = nexus.env("PATH", programs.to_str().unwrap());
    nexus.start(1);
    let id = nexus.add_with(&["--venv", "env"], "python -c 'import sys; print(sys.prefix)'; echo $0");
    let expected = format!("{}\n{}/sh\n", real(&nexus.work().join("env")), programs.display());
    assert_eq!(printed(&nexus, &id), expected);
}

#[test]
fn what_is_missing_is_told_with_what_to_type() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let none = nexus.work().join("none");
    let sentence = format!("there is no virtual environment {0}: python3 -m venv {0} makes one", none.display());
    assert_eq!(refused(&nexus, &["--venv", "none"]), sentence);
    std::fs::create_dir(&none).unwrap();
    let sentence = refused(&nexus, &["--venv", "none"]);
    assert!(sentence.contains("is no virtual environment, it has neither bin/activate nor bin/python"), "{sentence}");
    // It can be mended, and the same job run again.
    let id = nexus.ok(&["ls", "--json"]);
    assert_eq!(id, "[]");
    make_venv(&none);
    let last = nexus.json(&["history", "--json"])[1]["id"].as_str().unwrap().to_string();
    assert_eq!(printed(&nexus, &nexus.ok(&["rerun", &last])), "never\n");
}

#[test]
fn without_any_conda_the_places_are_named() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let known = ["/opt/conda", "/opt/miniconda3", "/opt/miniforge3", "/opt/anaconda3"];
    if known.iter().any(|place| Path::new(place).exists()) || nexus.ok(&["doctor"]).contains("/conda") {
        eprintln!("skipped: this machine has a conda");
        return;
    }
    assert!(nexus.ok(&["doctor"]).contains("none found; only jobs with --conda need one"));
    let sentence = refused(&nexus, &["--conda", "torch"]);
    for part in
        ["no conda, mamba or micromamba is here for the environment torch", "PATH and ~/miniconda3 ~/miniforge3"]
    {
        assert!(sentence.contains(part), "{sentence}");
    }
    assert!(sentence.ends_with("--env CONDA_EXE=/path/to/conda"), "{sentence}");
}

#[test]
fn the_prelude_comes_before_it_and_the_runner_after() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let env = nexus.work().join("env");
    make_venv(&env);
    let runner = env.join("bin/own-runner");
    std::fs::write(&runner, "#!/bin/sh\nRAN=\"$BEFORE $VIRTUAL_ENV\" exec \"$@\"\n").unwrap();
    std::fs::set_permissions(&runner, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    nexus.ok(&["config", "set", "jobs.prelude", "export BEFORE=\"prelude ${VIRTUAL_ENV-outside}\"; set -eu"]);
    nexus.ok(&["config", "set", "jobs.runner", "own-runner"]);
    let expected = format!("prelude outside {}\n", env.display());
    assert_eq!(printed(&nexus, &nexus.add_with(&["--venv", "env"], "echo $RAN")), expected);
    let argv = nexus.ok(&["add", "--venv", "env", "--", "sh", "-c", "echo $RAN"]);
    assert_eq!(printed(&nexus, &argv), expected);
}

#[test]
fn a_job_has_one_environment() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.add_with(&["--hold", "--conda", "torch"], "true");
    let said = nexus.fails(1, &["edit", &id, "--venv", ".venv"]);
    assert!(
        said.starts_with("error: venv cannot be .venv\na job runs in one environment, and conda says torch"),
        "{said}"
    );
    let told = nexus.ok(&["edit", &id, "--conda", "", "--venv", ".venv"]);
    assert_eq!(told, format!("{id}: conda torch -> none\n{id}: venv none -> .venv"));
    let shown = || std::fs::read_to_string(nexus.home().join("jobs.txt")).unwrap_or_default();
    until("jobs.txt shows it", || shown().contains(" venv=.venv hold\n").then_some(()));
    let said = nexus.fails(2, &["edit", &id, "--conda", "a", "--venv", "b"]);
    assert!(said.starts_with("error: --conda and --venv both name an environment"), "{said}");
}
