//! What becomes of jobs whose commands name variables.

use nexus_testkit::{Nexus, make_venv};
use serde_json::Value;

use crate::NEXUS;

fn end(nexus: &Nexus, id: &str) -> (Value, Value, Value, Value, String) {
    let job = nexus.ended(id);
    let [state, reason, code, signal] = ["state", "reason", "exit_code", "signal"].map(|field| job[field].clone());
    (state, reason, code, signal, nexus.stdout_of(id))
}

/// Each once with the value typed and once with the variable.
#[test]
fn a_command_does_what_it_would_do_with_the_value_typed() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.set_variable("V", "some value");
    for text in [
        "echo '{V}' \"{V}\" {V}x ${V:-none} {{V}} {W} $0 $# $-",
        "exit 3 # {V}",
        "nosuchprogram {V}",
        "{V}",
        "if {V}",
        "kill -9 $$ {V}",
        "python3 -c 'import os; os.kill(os.getpid(), 11)' '{V}'",
        "python3 -c 'import sys; sys.exit(int(sys.argv[1][0] == \"s\") * 7)' '{V}'",
        "sh -c 'exit 5' {V} > /dev/null",
        "false '{V}' || exit 4",
        "set -e; false; echo {V}",
        "cat <<E\nline {V}\nE",
        "printf '%s\\n' one '{V}'\necho \"$(echo $((1+1))) {V}\"\n\n",
        "read line; echo \"read: $line {V}\"",
        "trap 'echo trapped {V}' EXIT; true",
        "echo {V} | tr a-z A-Z",
        "cd / && pwd && echo {V}",
        "type -t printf {V}",
    ] {
        let typed = nexus.ok(&["add", "--no-tty", &text.replace("{V}", "some value")]);
        let named = nexus.ok(&["add", "--no-tty", text]);
        assert_eq!(nexus.job(&named)["command"], text);
        assert_eq!(end(&nexus, &named), end(&nexus, &typed), "{text}");
        assert!(!nexus.home().join(format!("logs/job_{named}/script")).exists(), "{text}");
    }
}

#[test]
fn it_is_killed_and_timed_out_as_any_other() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    nexus.set_variable("V", "1000");
    for text in ["sleep {V}", "sleep {V}; true"] {
        let limited = nexus.add_with(&["--time", "1s"], text);
        let killed = nexus.add(text);
        nexus.in_state(&killed, "running");
        let told = nexus.ok(&["kill", &killed]);
        assert!(told.contains(text), "{told}");
        assert_eq!(nexus.ended(&killed)["reason"], "user");
        assert_eq!((&nexus.ended(&limited)["reason"], &nexus.job(&limited)["signal"]), (&"timeout".into(), &15.into()));
    }
    // As where the shell is given a text: it became the program.
    let asleep = nexus.add("sleep {V}");
    let pid = nexus.in_state(&asleep, "running")["pid"].as_u64().unwrap() as u32;
    nexus_testkit::until("it sleeps", || nexus_testkit::cmdline(pid).starts_with("sleep").then_some(()));
    nexus.ok(&["kill", &asleep]);
}

#[test]
fn preludes_runners_environments_and_gpu_arguments_go_with_it() {
    let nexus = Nexus::fresh(NEXUS);
    let venv = nexus.work().join("venv");
    make_venv(&venv);
    nexus.config("[jobs]\nprelude = \"BEFORE=prelude\"\nrunner = [\"env\", \"RUNNER=yes\"]\n");
    nexus.start(2);
    nexus.set_variable("V", "a value");
    let id = nexus.add_with(
        &["--venv", &venv.display().to_string(), "--gpu-arg=--cuda", "--on", "1"],
        "sh -c 'echo \"$RUNNER $VIRTUAL_ENV $@\"' x '{V}'",
    );
    assert_eq!(nexus.ended(&id)["state"], "completed");
    assert_eq!(nexus.stdout_of(&id), format!("yes {} a value --cuda 1\n", venv.display()));
    let id = nexus.add("echo $BEFORE '{V}'");
    nexus.ended(&id);
    assert_eq!(nexus.stdout_of(&id), "prelude a value\n");
    // Alone in an environment the command line stays what it was.
    let id = nexus.add_with(&["--env", "GIVEN=<{V}>", "--env", "OTHER={W}"], "echo $GIVEN $OTHER");
    nexus.ended(&id);
    assert_eq!(nexus.stdout_of(&id), "<a value> {W}\n");
}

#[test]
fn reruns_edits_and_imports_name_variables_too() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let before = nexus.done("echo {V}")["id"].as_str().unwrap().to_string();
    assert_eq!(nexus.stdout_of(&before), "{V}\n", "not set then");
    nexus.set_variable("V", "first");
    let again = nexus.ok(&["rerun", &before]);
    nexus.ended(&again);
    assert_eq!(nexus.stdout_of(&again), "first\n");

    let edited = nexus.add_with(&["--hold"], "echo nothing");
    nexus.ok(&["edit", &edited, "--env", "GIVEN={V}", "echo \"$GIVEN {V}\""]);
    nexus.file("jobs", "echo imported {V}\n");
    let imported = nexus.ok(&["import", "jobs", "--format", "lines"]).lines().next().unwrap().to_string();
    nexus.ended(&imported);
    assert_eq!(nexus.stdout_of(&imported), "imported first\n");
    nexus.ok(&["var", "unset", "V"]);
    // It goes on to need what it needed, whatever else is changed of it.
    nexus.ok(&["edit", &edited, "--priority", "3"]);
    nexus.ok(&["release", &edited]);
    nexus.ended(&edited);
    assert_eq!(nexus.stdout_of(&edited), "first first\n");

    let told = nexus.fails(1, &["rerun", &again]);
    assert!(told.contains("it needs the variable V") && told.contains("nexus var set V"), "{told}");
    nexus.set_variable("V", "second");
    let again = nexus.ok(&["rerun", &edited]);
    nexus.ended(&again);
    assert_eq!(nexus.stdout_of(&again), "second second\n");
}
