//! Commands with the values of their variables. That of a shell command lies in a file of the run directory which the
//! shell reads; no argv of ours or of the shell has the value. The program of an exact argv is given it as an argument.

use std::path::Path;

use nexus_api::command::{Command, quote};
use nexus_api::run_dir::SCRIPT;
use nexus_api::template;
use nexus_api::variables::Hidden;

use crate::gpu_arg::commands;

/// The text with the values of variables in it.
pub fn fill(text: &str, hidden: &[Hidden]) -> String {
    template::fill(text, |name| hidden.iter().find(|one| one.name == name).map(|one| one.value.as_str()))
}

/// The command as it runs, and the file that it reads, if there is one. `alone`: nothing comes before it in its shell.
pub fn filled(command: Command, hidden: &[Hidden], dir: &Path, alone: bool) -> (Command, Option<String>) {
    match command {
        Command::Argv(words) => (Command::Argv(words.iter().map(|word| fill(word, hidden)).collect()), None),
        Command::Shell(text) => {
            let whole = fill(&text, hidden);
            if whole == text {
                return (Command::Shell(text), None);
            }
            let read = format!(". {}", quote(&dir.join(SCRIPT).to_string_lossy()));
            (Command::Shell(read), Some(if alone { as_one_process(whole) } else { whole }))
        }
    }
}

/// A shell that is given one simple command as an argument becomes its program. One that reads a file does not, unless
/// it is told to: then signals, exit codes and the pid are the program's here too. What only the shell itself can do
/// (functions, builtins) has no path, and stays with it.
fn as_one_process(text: String) -> String {
    match program(&text) {
        Some(program) => format!("case $(command -v {program}) in */*) exec {text};; esac; {text}"),
        None => text,
    }
}

/// The program of a text that is one simple command on one line and nothing else.
fn program(text: &str) -> Option<&str> {
    let found = commands(text)?;
    let [only] = found.as_slice() else { return None };
    let first = only.words.first()?.clone();
    let nothing_else = text[..first.start].trim().is_empty() && text[only.end..].trim().is_empty();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_./+-".contains(&byte);
    let program = &text[first];
    let one_line = !text.contains(['\n', '#']) && !text.ends_with('\\');
    (nothing_else && one_line && program.bytes().all(plain) && !program.starts_with('-')).then_some(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_simple_command_is_told_from_all_else() {
        for (text, expected) in [
            ("python train.py --token x", Some("python")),
            (" ./run.sh 'a b' > log 2>&1 ", Some("./run.sh")),
            ("A=1 python x", None),
            ("a; b", None),
            ("a && b", None),
            ("a | b", None),
            ("a &", None),
            ("(a)", None),
            ("! a", None),
            ("{ a; }", None),
            ("a # b", None),
            ("a\nb", None),
            ("a \\", None),
            ("cat <<E\nx\nE", None),
            ("$PROGRAM x", None),
            ("'a b' x", None),
            ("if a; then b; fi", None),
            ("f() { a; }", None),
            ("", None),
            ("a 'b", None),
        ] {
            assert_eq!(program(text), expected, "{text}");
        }
    }

    #[test]
    fn values_go_into_a_file_or_into_the_argv_of_the_program() {
        let hidden = [Hidden { name: "T".into(), value: "s3cret".into() }];
        let dir = Path::new("/logs/it's");
        let shell = |text: &str| filled(Command::Shell(text.into()), &hidden, dir, false);
        assert_eq!(shell("a {U} ${T}"), (Command::Shell("a {U} ${T}".into()), None));
        let (command, script) = shell("a {T}; b");
        assert_eq!((command.text().contains("s3cret"), script.as_deref()), (false, Some("a s3cret; b")));
        assert_eq!(command.text(), format!(". {}", quote("/logs/it's/script")));
        let argv = Command::Argv(vec!["a".into(), "-{T}".into()]);
        assert_eq!(filled(argv, &hidden, dir, true), (Command::Argv(vec!["a".into(), "-s3cret".into()]), None));
    }
}
