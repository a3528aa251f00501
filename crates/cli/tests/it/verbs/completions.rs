//! `completions`: scripts that the shells themselves run.

use std::path::Path;
use std::process::Command;

use nexus_testkit::Nexus;

use super::{LONG, SCREEN};
use crate::NEXUS;

/// What bash offers for these words, the last of them unfinished.
fn bash_offers(nexus: &Nexus, words: &[&str]) -> Vec<String> {
    let script = nexus.ok(&["completions", "bash"]);
    let typed: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let (last, before) = (words.len() - 1, words[words.len() - 2]);
    let ask = format!(
        "{script}\n\
         f=$(complete -p nexus) || exit 9\n\
         f=${{f#*-F }}; f=${{f%% *}}\n\
         COMP_WORDS=({}); COMP_CWORD={last}\n\
         $f nexus '{}' '{before}'\n\
         printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        typed.join(" "),
        words[last]
    );
    asked_by("bash", &["--norc", "-c", &ask], nexus)
}

/// What a shell prints that finds nexus by its name.
fn asked_by(shell: &str, args: &[&str], nexus: &Nexus) -> Vec<String> {
    let bin = Path::new(NEXUS).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new(shell);
    command.args(args).env("PATH", path).env("NEXUS_HOME", nexus.home()).current_dir(nexus.work());
    let done = command.output().expect("there is such a shell");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap().lines().map(String::from).collect()
}

#[test]
fn bash_completes_verbs_and_options() {
    let nexus = Nexus::fresh(NEXUS);
    assert_eq!(nexus.run(&["completions", "bash"]).expect_code(0).stderr, "", "in a pipe it says nothing");
    let offers = |words: &[&str]| bash_offers(&nexus, words);
    assert_eq!(offers(&["nexus", "hi"]), ["history"]);
    assert_eq!(offers(&["nexus", "wh"]), ["why"]);
    assert_eq!(offers(&["nexus", "__"]), [""], "what is hidden stays hidden");
    assert_eq!(offers(&["nexus", "run", "--retri"]), ["--retries"]);
    assert_eq!(offers(&["nexus", "completions", "f"]), ["fish"]);
    assert_eq!(offers(&["nexus", "kill", ""])[0], "--color", "without a service there are options alone");
    assert!(!nexus.home().exists(), "a Tab starts nothing");
}

#[test]
fn what_the_service_knows_is_completed_as_the_verb_needs_it() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    let runs = nexus.add_with(&["--tag", "trial", "--name", "big run"], LONG);
    nexus.in_state(&runs, "running");
    let held = nexus.add_with(&["--hold", "--project", "thesis"], "true");
    let ended = nexus.done("true")["id"].as_str().unwrap().to_string();
    nexus.ok(&["sweep", "--hold", "--name", "lr", "echo {x}", "x=1,2"]);
    nexus.set_variable("TOKEN", "secret");
    let offers = |words: &[&str]| bash_offers(&nexus, words);
    let ids = |verb: &str| {
        let all = offers(&["nexus", verb, ""]);
        [&runs, &held, &ended].map(|id| all.contains(id))
    };
    assert_eq!(ids("kill"), [true, false, false]);
    assert_eq!(ids("release"), [false, true, false]);
    assert_eq!(ids("rerun"), [false, false, true]);
    assert_eq!(ids("show"), [true, true, true]);
    assert_eq!(offers(&["nexus", "kill", &runs[..2]]), [runs.as_str()]);
    assert_eq!(offers(&["nexus", "attach", "1"]), ["1"], "a GPU");
    assert_eq!(offers(&["nexus", "show", "sw"]), ["sweep:"]);
    // As bash parts it.
    assert_eq!(offers(&["nexus", "kill", "tag", ":"]), ["trial"]);
    assert_eq!(offers(&["nexus", "kill", "tag", ":", "tr"]), ["trial"]);
    assert_eq!(offers(&["nexus", "sweep", "show", ""])[0], "lr");
    assert_eq!(offers(&["nexus", "history", "--project", ""]), ["thesis"]);
    assert_eq!(offers(&["nexus", "add", "--machine", "l"]), ["local"]);
    assert_eq!(offers(&["nexus", "var", "unset", "T"]), ["TOKEN"]);
    assert_eq!(offers(&["nexus", "config", "set", "retention."]), ["retention.jobs", "retention.backups"]);
    let told = nexus.ok(&["__complete", "nexus", "kill", &runs]);
    assert_eq!(told, format!("{runs}\trunning  big run"), "other shells show what it is");
}

#[test]
fn the_other_shells_understand_theirs() {
    let nexus = Nexus::fresh(NEXUS);
    for shell in ["bash", "zsh", "fish"] {
        let script = nexus.ok(&["completions", shell]);
        let file = nexus.file(shell, &script);
        // Where a shell is not installed its syntax cannot be asked about.
        if let Ok(done) = Command::new(shell).arg("-n").arg(&file).output() {
            assert!(done.status.success(), "{shell}: {}", String::from_utf8_lossy(&done.stderr));
        }
    }
    let said = nexus.fails(2, &["completions", "csh"]);
    assert!(said.contains("cannot be csh\nit can be bash, zsh, fish\n"), "{said}");
}

#[test]
fn on_a_terminal_it_says_where_it_goes() {
    let nexus = Nexus::fresh(NEXUS);
    let shown = nexus.on_terminal(SCREEN, "", &["completions", "fish"]).expect_code(0).stdout;
    assert!(shown.ends_with("nexus completions fish > ~/.config/fish/completions/nexus.fish\r\n"), "{shown}");
}
