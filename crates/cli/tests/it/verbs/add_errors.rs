//! What `add` refuses, and what it says.

use nexus_testkit::Nexus;

use crate::NEXUS;

const USUAL: &str = "hint: --gpus 1, --gpus 0.5 for a part of one, or --gpus 0 for the CPU";

/// Words typed after `add`, and lines that must be said.
const WRONG: &[(&[&str], &str, &str)] = &[
    (
        &["--", "a b"],
        "error: after -- stand a program and its arguments, and there is no program called \"a b\"",
        "hint: leave out -- for a shell command in quotes",
    ),
    (
        &["--gpus", "0,1", "x"],
        "error: --gpus 0,1 is a list, and --gpus takes a number of GPUs",
        "hint: --gpus 2 --on 0,1",
    ),
    (&["--gpus", "1.5", "x"], "error: --gpus 1.5 is not a whole number of GPUs", "hint: --gpus 2"),
    (&["--gpus", "-1", "x"], "error: --gpus -1 is no number of GPUs", USUAL),
    (&["--gpus", "many", "x"], "error: --gpus many is no number of GPUs", USUAL),
    (&["--on", "0-x", "x"], "error: --on 0-x is no list of GPUs", "hint: --on 0-3,5"),
    (
        &["--gpus", "0", "--on", "1", "x"],
        "error: --on is about GPUs and --gpus 0 asks for none",
        "hint: leave out one of them",
    ),
    (&["--time", "4", "x"], "error: --time 4 has no unit", "hint: 4s, 4m, 4h or 4d"),
    (&["--time", "soon", "x"], "error: --time soon is no duration", "hint: 90s, 30m, 4h or 1h30m"),
    (&["--signal", "USR1@1s", "x"], "error: --signal comes before a time limit, and there is none", "hint: --time 4h"),
    (
        &["--signal", "USR9@1s", "--time", "1h", "x"],
        "error: --signal USR9@1s: there is no signal USR9",
        "hint: --signal USR1@120s",
    ),
    (
        &["--conda", "a", "--venv", "b", "x"],
        "error: --conda and --venv both name an environment, and a job runs in one",
        "hint: leave out one of them",
    ),
    (&["--conda", "", "x"], "error: --conda cannot be \"\"", "hint: --conda torch, or --conda ./env"),
    (&["--venv=-x", "x"], "error: --venv cannot be \"-x\"", "hint: --venv .venv"),
    (
        &["--gpu-arg", "cuda", "x"],
        "error: --gpu-arg takes the name of an option of your program, and \"cuda\" is none",
        "hint: --gpu-arg=--cuda",
    ),
    (
        &["--gpu-arg=", "x"],
        "error: --gpu-arg takes the name of an option of your program, and \"\" is none",
        "hint: --gpu-arg=--cuda",
    ),
    (&["--env", "X", "x"], "error: --env X is no variable", "hint: --env NAME=value"),
    (
        &["--env", "CUDA_VISIBLE_DEVICES=1", "x"],
        "error: --env: CUDA_VISIBLE_DEVICES is set by nexus itself",
        "hint: --gpus N",
    ),
    (&["--tag", "a b", "x"], "error: --tag \"a b\" is more than one word", "hint: --tag one --tag two"),
    (&["--name", "", "x"], "error: --name cannot be \"\"", "hint: one line of 1 to 200 characters"),
    (&["--priority", "high", "x"], "error: --priority cannot be high", "a whole number is wanted"),
    (&["--retries", "-1", "x"], "error: --retries cannot be -1", "it can be 0 to"),
    (&["-x", "0", "x"], "error: -x cannot be 0", "it can be 1 to 100000"),
    (&["--nmae", "x", "x"], "error: there is no option --nmae", "hint: --name"),
    (&["--name"], "error: --name needs a value", "hint: nexus help add"),
    (&[], "error: COMMAND is missing", "hint: nexus help add"),
];

#[test]
fn a_usage_error_says_what_is_wrong_and_what_would_be_right() {
    let nexus = Nexus::fresh(NEXUS);
    for (words, error, hint) in WRONG {
        let said = nexus.fails(2, &[&["add"], *words].concat());
        assert!(said.starts_with(error), "{words:?}: {said}");
        assert!(said.lines().any(|line| line.starts_with(hint)), "{words:?}: {said}");
        assert!(said.contains("\nusage: nexus add [OPTIONS] <COMMAND>...\n"), "{words:?}: {said}");
    }
    // Nothing of this was worth a service.
    assert!(!nexus.home().exists());
}

#[test]
fn what_cannot_be_met_is_refused_before_a_service_is_started() {
    let nexus = Nexus::fresh(NEXUS);
    let file = nexus.file("file", "");
    let refused = |words: &[&str]| nexus.fails(1, &[&["add"], words].concat());
    assert_eq!(refused(&[""]), "error: this command cannot run\nit is empty\nhint: nexus add \"python train.py\"\n");
    assert_eq!(
        refused(&["--cwd", "/no/such", "x"]),
        "error: the working folder /no/such cannot be used\nit does not exist\nhint: --cwd DIR names another\n"
    );
    let said = refused(&["--cwd", file.to_str().unwrap(), "x"]);
    assert!(said.contains("\nit is not a folder\n"), "{said}");
    let said = refused(&["--env-file", "/no/such", "x"]);
    assert!(said.starts_with("error: --env-file /no/such cannot be read\n"), "{said}");
    let vars = nexus.file("vars", "A=1\nnonsense\n");
    let said = nexus.fails(2, &["add", "--env-file", vars.to_str().unwrap(), "x"]);
    assert!(said.contains("vars, line 2"), "{said}");
    assert!(!nexus.home().exists());
}

#[test]
fn the_longest_command_that_can_be_typed_runs() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let longest = format!("true {}", "x".repeat(128 * 1024 - 6));
    assert_eq!(nexus.done(&longest)["state"], "completed");
}

#[test]
fn a_job_that_needs_no_gpu_needs_a_cpu() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let said = nexus.fails(1, &["add", "--gpus", "0", "--cpus", "0", "x"]);
    assert!(said.starts_with("error: cpus cannot be 0\na job without a GPU takes at least 1 CPU\n"), "{said}");
}
