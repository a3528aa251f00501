//! What a job runs: a shell command or an exact argv.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Goes unchanged to `bash -c`.
    Shell(String),
    /// Executed as it is, without a shell.
    Argv(Vec<String>),
}

/// The kernel refuses one argument longer than this (`MAX_ARG_STRLEN`, the final NUL included).
pub const MAX_ARGUMENT_BYTES: usize = 128 * 1024 - 1;

/// Why a command can never run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum BadCommand {
    Empty,
    Nul,
    TooLong { bytes: u64, most: u64 },
}

impl Command {
    pub fn check(&self) -> Result<(), BadCommand> {
        let (words, empty): (&[String], bool) = match self {
            Command::Shell(text) => (std::slice::from_ref(text), text.trim().is_empty()),
            Command::Argv(words) => (words, words.first().is_none_or(|program| program.is_empty())),
        };
        if empty {
            return Err(BadCommand::Empty);
        }
        for word in words {
            if word.contains('\0') {
                return Err(BadCommand::Nul);
            }
            if word.len() > MAX_ARGUMENT_BYTES {
                return Err(BadCommand::TooLong { bytes: word.len() as u64, most: MAX_ARGUMENT_BYTES as u64 });
            }
        }
        Ok(())
    }

    /// The command as one would type it.
    pub fn text(&self) -> String {
        let mut text = String::new();
        self.write_text(&mut text);
        text
    }

    pub fn write_text(&self, to: &mut String) {
        match self {
            Command::Shell(text) => to.push_str(text),
            Command::Argv(words) => {
                for (at, word) in words.iter().enumerate() {
                    to.push_str(if at == 0 { "" } else { " " });
                    write_quoted(word, to);
                }
            }
        }
    }

    pub fn argv(&self) -> Option<&[String]> {
        match self {
            Command::Shell(_) => None,
            Command::Argv(words) => Some(words),
        }
    }
}

/// `word` as a shell reads it back.
pub fn quote(word: &str) -> String {
    let mut text = String::new();
    write_quoted(word, &mut text);
    text
}

fn write_quoted(word: &str, to: &mut String) {
    let plain = |c: char| c.is_alphanumeric() || "_-+=/.,:@%^".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return to.push_str(word);
    }
    to.push('\'');
    for (at, part) in word.split('\'').enumerate() {
        to.push_str(if at == 0 { "" } else { r"'\''" });
        to.push_str(part);
    }
    to.push('\'');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_commands_are_named() {
        let shell = |text: &str| Command::Shell(text.into()).check();
        assert_eq!(shell("true"), Ok(()));
        assert_eq!(shell("  \n"), Err(BadCommand::Empty));
        assert_eq!(shell("a\0b"), Err(BadCommand::Nul));
        assert!(matches!(shell(&"x".repeat(1 << 20)), Err(BadCommand::TooLong { bytes: 1048576, .. })));
        assert_eq!(Command::Argv(vec![]).check(), Err(BadCommand::Empty));
        assert_eq!(Command::Argv(vec!["a".into(), "".into()]).check(), Ok(()));
    }

    #[test]
    fn argv_is_shown_as_typed() {
        let argv = ["python", "train.py", "--name", "it's", "a b", ""];
        let command = Command::Argv(argv.map(String::from).to_vec());
        assert_eq!(command.text(), r"python train.py --name 'it'\''s' 'a b' ''");
    }
}
