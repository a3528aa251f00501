//! Which jobs are identical, so that one need not be queued twice: the same command with its arguments in order, the
//! same conda or Python environment, the same folder. What it needs, its priority and its name do not count.

use nexus_api::command::Command;
use nexus_api::jobs::JobSpec;
use nexus_api::shell_words::{self, SPECIAL};

use crate::digest::List;

/// Identical jobs have the same. Others hardly ever do: [`are_identical`] has the last word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity(pub i64);

pub fn identity(spec: &JobSpec) -> Identity {
    identity_with(spec, &spec.command)
}

/// Of a job that is as the spec says, but for its command.
pub fn identity_with(spec: &JobSpec, command: &Command) -> Identity {
    Identity(list(spec, command).number())
}

pub fn are_identical(one: &JobSpec, other: &JobSpec) -> bool {
    list(one, &one.command) == list(other, &other.command)
}

/// Everything that counts.
fn list(spec: &JobSpec, command: &Command) -> List {
    let mut list = List::default();
    list.add(&spec.cwd);
    for part in [&spec.conda, &spec.venv] {
        list.add(part.as_deref().unwrap_or_default());
    }
    // Added only where it is said: what was queued before this was known is found as ever.
    spec.code.iter().for_each(|code| list.add(&code.content));
    // A text in which a shell sees nothing but words is those words: quotes and arguments apart mean the same. Any other
    // is what it is, letter by letter.
    match command {
        Command::Argv(words) => add_words(&mut list, words),
        // A newline parts commands, where words are parted by blanks.
        Command::Shell(text) if text.contains('\n') => add_text(&mut list, text),
        Command::Shell(text) => match shell_words::split(text, SPECIAL) {
            Ok(words) => add_words(&mut list, &words),
            Err(_) => add_text(&mut list, text),
        },
    }
    list
}

fn add_words(list: &mut List, words: &[String]) {
    list.add("words");
    words.iter().for_each(|word| list.add(word));
}

fn add_text(list: &mut List, text: &str) {
    list.add("text");
    list.add(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(text: &str) -> JobSpec {
        JobSpec::new(Command::Shell(text.into()), "/work".into())
    }

    fn argv(words: &[&str]) -> JobSpec {
        JobSpec::new(Command::Argv(words.iter().map(|word| word.to_string()).collect()), "/work".into())
    }

    #[test]
    fn the_command_in_order_and_the_folder_count() {
        let one = shell("python t.py --a 1 --b 2");
        let same = [
            shell("python  t.py --a 1 '--b' \"2\""),
            argv(&["python", "t.py", "--a", "1", "--b", "2"]),
            JobSpec { priority: 3, name: Some("x".into()), unique: true, hold: true, ..one.clone() },
            JobSpec { request: nexus_api::jobs::JobRequest { force: true, ..Default::default() }, ..one.clone() },
        ];
        for same in same {
            assert_eq!(identity(&one), identity(&same), "{same:?}");
            assert!(are_identical(&one, &same), "{same:?}");
        }
        let others = [
            shell("python t.py --a 2 --b 1"),
            shell("python t.py --b 2 --a 1"),
            shell("python t.py --a 1 --b $X"),
            shell("python t.py --a\n1 --b 2"),
            shell("python t.py '--a 1' --b 2"),
            argv(&["python", "t.py", "--a", "1", "--b 2"]),
            argv(&["python", "t.py", "--a", "1", "--b", "2", ""]),
            JobSpec { cwd: "/other".into(), ..one.clone() },
            JobSpec { conda: Some("torch".into()), ..one.clone() },
            JobSpec { venv: Some("torch".into()), ..one.clone() },
        ];
        for other in others {
            assert_ne!(identity(&one), identity(&other), "{other:?}");
            assert!(!are_identical(&one, &other), "{other:?}");
        }
        // What the shell would replace is not what it says.
        assert!(!are_identical(&shell("echo $X"), &argv(&["echo", "$X"])));
        assert!(!are_identical(&shell("echo it's"), &argv(&["echo", "it's"])));
        assert!(!are_identical(&argv(&["a", "b c"]), &argv(&["a", "b", "c"])));
    }

    #[test]
    fn it_never_changes() {
        // Databases hold it.
        assert_eq!(identity(&shell("python t.py")), Identity(6_918_328_215_939_394_253));
    }
}
