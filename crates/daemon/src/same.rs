//! Which jobs have the same command, so that what was learned of one holds for the others: the same name, or the same
//! words but for their numbers, in the same folder.

use std::borrow::Cow;
use std::iter::once;

use nexus_api::command::Command;
use nexus_api::jobs::JobSpec;
use nexus_core::request::Same;

use crate::digest;

/// Stands for every number.
const NUMBER: &str = "#";

pub fn same(spec: &JobSpec) -> Same {
    Same(digest::of(parts(spec, &spec.command)))
}

/// Of many jobs that are as the spec says, but for their commands.
#[derive(Default)]
pub struct OneByOne(digest::OneByOne);

impl OneByOne {
    pub fn same(&mut self, spec: &JobSpec, command: &Command) -> Same {
        Same(self.0.of(parts(spec, command)))
    }
}

fn parts<'a>(spec: &'a JobSpec, command: &'a Command) -> Vec<Cow<'a, str>> {
    let cwd = once(Cow::from(&spec.cwd));
    match (&spec.name, command) {
        (Some(name), _) => vec!["name".into(), name.into()],
        (None, Command::Shell(text)) => cwd.chain(text.split_whitespace().map(without_numbers)).collect(),
        (None, Command::Argv(words)) => cwd.chain(words.iter().map(|word| without_numbers(word))).collect(),
    }
}

/// `--lr=1e-4` is `--lr=#`, `run12/v3` is `run#/v#`.
fn without_numbers(word: &str) -> Cow<'_, str> {
    if !word.contains(|letter: char| letter.is_ascii_digit()) {
        return word.into();
    }
    let mut marked = String::with_capacity(word.len());
    let mut rest = word;
    while let Some(start) = rest.find(|letter: char| letter.is_ascii_digit()) {
        marked.push_str(rest[..start].strip_suffix('-').filter(|before| is_sign(before)).unwrap_or(&rest[..start]));
        marked.push_str(NUMBER);
        rest = &rest[start + number_length(&rest[start..])..];
    }
    (marked + rest).into()
}

/// Whether a dash after this is a sign: at the beginning of a value, not inside a name.
fn is_sign(before: &str) -> bool {
    before.is_empty() || before.ends_with(['=', ',', ':', '[', '('])
}

/// Of the number that the text begins with: `12`, `0.5`, `1e-4`, `2.5E+3`.
fn number_length(text: &str) -> usize {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let mut length = digits(text);
    if text[length..].starts_with('.') {
        length += 1 + digits(&text[length + 1..]);
    }
    let exponent = &text[length..];
    if exponent.starts_with(['e', 'E']) {
        let signed = 1 + usize::from(exponent[1..].starts_with(['+', '-']));
        match digits(&exponent[signed..]) {
            0 => {}
            count => length += signed + count,
        }
    }
    length
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_marked_however_they_are_written() {
        for (word, marked) in [
            ("train.py", "train.py"),
            ("12", "#"),
            ("0.001", "#"),
            ("1e-4", "#"),
            ("-3", "#"),
            ("--lr=1e-4", "--lr=#"),
            ("--lr=-2.5E+3", "--lr=#"),
            ("run12/v3.log", "run#/v#log"),
            ("resnet-50", "resnet-#"),
            ("1,2,-3", "#,#,#"),
            ("5epochs", "#epochs"),
            ("é9日", "é#日"),
            ("1.", "#"),
        ] {
            assert_eq!(without_numbers(word), marked, "{word}");
        }
    }

    #[test]
    fn the_same_is_the_same_command_in_the_same_folder_or_the_same_name() {
        let spec = |text: &str, cwd: &str| JobSpec::new(Command::Shell(text.into()), cwd.into());
        let one = same(&spec("python train.py --lr 0.1 --seed 1", "/work"));
        assert_eq!(one, same(&spec("python  train.py --lr 3e-4 --seed 22", "/work")));
        assert_ne!(one, same(&spec("python train.py --lr 0.1 --seed 1", "/other")));
        assert_ne!(one, same(&spec("python eval.py --lr 0.1 --seed 1", "/work")));
        let words = "python train.py --lr 7 --seed 8".split(' ').map(String::from).collect();
        assert_eq!(one, same(&JobSpec::new(Command::Argv(words), "/work".into())));
        let named = |text: &str| same(&JobSpec { name: Some("big".into()), ..spec(text, "/work") });
        assert_eq!(named("a"), named("b"));
        assert_ne!(named("a"), same(&spec("a", "/work")));
    }
}
