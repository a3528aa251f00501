//! `completions`: scripts that the shells themselves run.

use std::process::Command;

use nexus_testkit::Nexus;

use super::SCREEN;
use crate::NEXUS;

/// What bash offers for these words, the last of them unfinished.
fn bash_offers(script: &str, words: &[&str]) -> Vec<String> {
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
    let done = Command::new("bash").args(["--norc", "-c", &ask]).output().expect("there is a bash");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap().lines().map(String::from).collect()
}

#[test]
fn bash_completes_verbs_and_options() {
    let nexus = Nexus::fresh(NEXUS);
    let script = nexus.run(&["completions", "bash"]).expect_code(0);
    assert_eq!(script.stderr, "", "in a pipe it says nothing");
    assert_eq!(bash_offers(&script.stdout, &["nexus", "hi"]), ["history"]);
    assert_eq!(bash_offers(&script.stdout, &["nexus", "wh"]), ["why"]);
    assert_eq!(bash_offers(&script.stdout, &["nexus", "__"]), [""], "what is hidden stays hidden");
    assert_eq!(bash_offers(&script.stdout, &["nexus", "run", "--retri"]), ["--retries"]);
    assert_eq!(bash_offers(&script.stdout, &["nexus", "completions", "f"]), ["fish"]);
    assert!(!nexus.home().exists());
}

#[test]
fn the_other_shells_understand_theirs() {
    let nexus = Nexus::fresh(NEXUS);
    for shell in ["bash", "zsh", "fish"] {
        let script = nexus.ok(&["completions", shell]);
        assert!(script.contains("history") && !script.contains("__service"), "{shell}");
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
