//! Which jobs have the same command, so that what was learned of one holds for the others: the same name, or the same
//! words but for their numbers, in the same folder.

use nexus_api::command::Command;
use nexus_api::jobs::JobSpec;
use nexus_core::request::Same;

use crate::digest::{self, List};

/// Stands for every number.
const NUMBER: &[u8] = b"#";

pub fn same(spec: &JobSpec) -> Same {
    let mut list = List::default();
    write(&mut list, spec, &spec.command);
    Same(list.number())
}

/// Of many jobs that are as the spec says, but for their commands.
#[derive(Default)]
pub struct OneByOne(digest::OneByOne);

impl OneByOne {
    pub fn same(&mut self, spec: &JobSpec, command: &Command) -> Same {
        Same(self.0.of(|list| write(list, spec, command)))
    }
}

fn write(list: &mut List, spec: &JobSpec, command: &Command) {
    if let Some(name) = &spec.name {
        list.add("name");
        return list.add(name);
    }
    list.add(&spec.cwd);
    let mut add = |word: &str| list.add_pieces(|pieces| without_numbers(word, pieces));
    match command {
        Command::Shell(text) => text.split_whitespace().for_each(add),
        Command::Argv(words) => words.iter().for_each(|word| add(word)),
    }
}

/// `--lr=1e-4` is `--lr=#`, `run12/v3` is `run#/v#`.
fn without_numbers(word: &str, marked: &mut Vec<u8>) {
    let mut rest = word;
    while let Some(start) = rest.find(|letter: char| letter.is_ascii_digit()) {
        let before = &rest[..start];
        marked.extend(before.strip_suffix('-').filter(|before| is_sign(before)).unwrap_or(before).as_bytes());
        marked.extend(NUMBER);
        rest = &rest[start + number_length(&rest[start..])..];
    }
    marked.extend(rest.as_bytes());
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
            let mut written = Vec::new();
            without_numbers(word, &mut written);
            assert_eq!(str::from_utf8(&written), Ok(marked), "{word}");
        }
    }

    #[test]
    fn the_same_is_the_same_command_in_the_same_folder_or_the_same_name() {
        let spec = |text: &str, cwd: &str| JobSpec::new(Command::Shell(text.into()), cwd.into());
        let one = same(&spec("python train.py --lr 0.1 --seed 1", "/work"));
        // Databases hold it.
        assert_eq!(one, Same(1_181_973_992_595_865_152));
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
