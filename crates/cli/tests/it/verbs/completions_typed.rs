//! Completions in real shells: somebody types a Tab. What a shell inserts is quoted, so that a name of a project or a job is
//! never run.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use nexus_testkit::{Nexus, Typist, until};

use crate::NEXUS;

/// Names that a shell would run, take apart or expand, and how somebody begins to type each.
const NAMES: [(&str, &[&str]); 4] = [
    ("$(touch evil)", &["project:p\\$", "'project:p$", "\"project:p\\$"]),
    ("`touch evil`", &["project:p\\`", "'project:p`"]),
    ("it's a \"b\"; touch evil", &["project:pit", "'project:pit", "\"project:pit"]),
    ("~ $HOME *", &["project:p~", "\"project:p~"]),
];

/// A shell in which nexus is a script: it completes as nexus does, and writes down the word that it was given otherwise.
struct Shell {
    nexus: Nexus,
    typist: Typist,
}

impl Shell {
    /// None, and a word, where the shell is not installed.
    fn begin(program: &str, args: &[&str], first: &str) -> Option<Shell> {
        if Command::new(program).arg("--version").output().is_err() {
            eprintln!("skipped: there is no {program}");
            return None;
        }
        let nexus = Nexus::with_gpus(NEXUS, 1);
        for (name, _) in NAMES {
            nexus.add_with(&["--hold", "--project", &format!("p{name}")], "true");
        }
        nexus.file("completions", &nexus.ok(&["completions", program]));
        let stand_in = format!(
            "#!/bin/sh\ncase $1 in\n__complete) {NEXUS} \"$@\"; touch asked;;\n*) printf %s \"$2\" > part; mv part given;;\nesac\n"
        );
        std::fs::create_dir_all(nexus.work().join("bin")).unwrap();
        let script = nexus.file("bin/nexus", &stand_in);
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:{}", Path::new(&script).parent().unwrap().display(), std::env::var("PATH").unwrap());
        let mut command = Command::new(program);
        command.args(args).env("PATH", path).env("NEXUS_HOME", nexus.home()).env("HOME", nexus.work());
        command.env("TERM", "dumb").env("LC_ALL", "C.UTF-8").current_dir(nexus.work());
        let mut typist = Typist::sit_down(command, (120, 40));
        // What is typed is echoed with the quotes in it.
        typist.types(&format!("{first}; echo re''ady\r")).sees("ready\r\n");
        Some(Shell { nexus, typist })
    }

    /// The word that a command is given when its begin, a Tab and Enter are typed. `inserted`: letters that only the Tab brings.
    fn tab(&mut self, begin: &str, inserted: &str) -> String {
        let [asked, given] = ["asked", "given"].map(|name| self.nexus.work().join(name));
        let [_, _] = [&asked, &given].map(|file| std::fs::remove_file(file).is_ok());
        self.typist.types(&format!("nexus ls {begin}\t"));
        until("the shell asks nexus", || asked.exists().then_some(()));
        // fish drops a completion during which another key comes.
        self.typist.sees(inserted).types("\r");
        let word = until("the command is run", || std::fs::read_to_string(&given).ok());
        // What is shown from here on belongs to the next line.
        self.typist.types("echo do''ne\r").sees("done\r\n");
        assert!(!self.nexus.work().join("evil").exists(), "{begin}: a name was run\n{}", self.typist.shown());
        word
    }

    fn inserts_names_as_they_are(&mut self) {
        for (name, begins) in NAMES {
            for begin in begins {
                let inserted = if name.contains("evil") { "evil" } else { "HOME" };
                assert_eq!(self.tab(begin, inserted), format!("project:p{name}"), "{begin}\n{}", self.typist.shown());
            }
        }
    }
}

#[test]
fn bash_quotes_what_it_inserts() {
    let mut bash =
        Shell::begin("bash", &["--norc", "--noprofile", "-i"], "source completions").expect("bash is needed");
    bash.inserts_names_as_they_are();
}

#[test]
fn zsh_quotes_what_it_inserts() {
    let first = "autoload -Uz compinit; compinit -u -D; source completions; unsetopt beep";
    let Some(mut zsh) = Shell::begin("zsh", &["-f", "-i"], first) else { return };
    zsh.inserts_names_as_they_are();
}

#[test]
fn fish_quotes_what_it_inserts() {
    // A suggestion asks nexus too, before the Tab.
    let first = "set -g fish_autosuggestion_enabled 0; source completions";
    let Some(mut fish) = Shell::begin("fish", &["--no-config", "-i"], first) else { return };
    fish.inserts_names_as_they_are();
}
