//! Reads what was typed. Verbs that are typed all day are read by themselves: to describe all fifty of them takes longer than
//! to submit a job. Whatever cannot be read so is read with all of them, which know best what is wrong with it.

use std::ffi::OsString;
use std::mem::ManuallyDrop;

use clap::{Args, CommandFactory, FromArgMatches, Parser};

use crate::args::{Cli, Verb};
use crate::commands::status::StatusArgs;
use crate::ui::ColorWhen;

/// One verb with what goes with all of them, set as in [`Cli`].
#[derive(Parser)]
#[command(args_override_self = true)]
struct Alone<T: Args> {
    #[arg(long, value_enum, default_value_t = ColorWhen::Auto)]
    color: ColorWhen,
    #[command(flatten)]
    args: T,
}

pub fn read(raw: &[OsString]) -> Result<Cli, clap::Error> {
    match read_alone(raw) {
        Some(cli) => Ok(cli),
        None => read_as(raw.iter()),
    }
}

/// None where it is another verb, or something is wrong with it.
fn read_alone(raw: &[OsString]) -> Option<Cli> {
    let typed = raw.get(1).and_then(|word| word.to_str()).filter(|word| !word.starts_with('-'));
    let Some(typed) = typed else {
        let Alone { color, args: status } = read_as(raw.iter()).ok()?;
        return Some(Cli { color, status, verb: None });
    };
    let (color, verb) = match typed {
        "status" => below(raw, Verb::Status),
        "add" => below(raw, |args| Verb::Add(Box::new(args))),
        "run" => below(raw, |args| Verb::Run(Box::new(args))),
        "queue" => below(raw, Verb::Queue),
        "history" => below(raw, Verb::History),
        "ls" => below(raw, Verb::Ls),
        "show" => below(raw, Verb::Show),
        "why" => below(raw, Verb::Why),
        "logs" => below(raw, Verb::Logs),
        "wait" => below(raw, Verb::Wait),
        _ => None,
    }?;
    Some(Cli { color, status: StatusArgs::default(), verb: Some(verb) })
}

/// What follows the verb.
fn below<T: Args>(raw: &[OsString], verb: impl FnOnce(T) -> Verb) -> Option<(ColorWhen, Verb)> {
    let Alone { color, args } = read_as(raw.iter().take(1).chain(raw.iter().skip(2))).ok()?;
    Some((color, verb(args)))
}

/// As the parser does it, but what could be typed is not taken apart again: the process ends soon, and with it all of that.
fn read_as<'a, T: CommandFactory + FromArgMatches>(
    words: impl Iterator<Item = &'a OsString>,
) -> Result<T, clap::Error> {
    let mut all = ManuallyDrop::new(T::command());
    let mut typed = all.try_get_matches_from_mut(words)?;
    T::from_arg_matches_mut(&mut typed).map_err(|error| error.format(&mut all))
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Reads it both ways: what is found wrong, which has to be the same.
    pub fn read_both_ways(words: &[&str]) -> Result<Cli, String> {
        let raw: Vec<OsString> = words.iter().map(OsString::from).collect();
        let whole = Cli::try_parse_from(&raw).map_err(|error| error.to_string());
        let alone = read_alone(&raw);
        if let Some(alone) = &alone {
            assert_eq!(Some(format!("{alone:?}")), whole.as_ref().ok().map(|cli| format!("{cli:?}")), "{words:?}");
        }
        let read = read(&raw).map_err(|error| error.to_string());
        assert_eq!(format!("{read:?}"), format!("{whole:?}"), "{words:?}");
        whole
    }

    #[test]
    fn what_is_typed_all_day_is_read_alone() {
        for typed in [
            "nexus",
            "nexus --watch",
            "nexus --color always --json",
            "nexus status -w",
            "nexus add true",
            "nexus add --gpus 2 --color never -- train --color always",
            "nexus run -- true",
            "nexus queue",
            "nexus history --color=always",
            "nexus ls",
            "nexus show abc",
            "nexus why abc",
            "nexus logs abc",
            "nexus wait --all",
        ] {
            let words: Vec<&str> = typed.split(' ').collect();
            assert!(read_alone(&words.iter().map(OsString::from).collect::<Vec<_>>()).is_some(), "{typed}");
            read_both_ways(&words).expect(typed);
        }
    }

    #[test]
    fn what_is_odd_is_read_as_all_verbs_read_it() {
        for (typed, is_read) in [
            ("nexus --color never add true", true),
            ("nexus --color never --color always", true),
            ("nexus --watch queue", true),
            ("nexus add --priority 1 --priority 2 true", true),
            ("nexus add -- --help", true),
            ("nexus add -- -- true", true),
            ("nexus add true --help", true),
            ("nexus add --color never", false),
            ("nexus add --help", false),
            ("nexus add --gpu 2 true", false),
            ("nexus add --priority x true", false),
            ("nexus add", false),
            ("nexus queue --colour", false),
            ("nexus queue queue queue", false),
            ("nexus status status", false),
            ("nexus --version", false),
            ("nexus --help", false),
            ("nexus -x", false),
            ("nexus ad true", false),
            ("nexus show --color", false),
            ("nexus show --color pink abc", false),
            ("nexus report --color always", true),
        ] {
            let read = read_both_ways(&typed.split(' ').collect::<Vec<_>>());
            assert_eq!(read.is_ok(), is_read, "{typed}: {read:?}");
        }
    }
}
