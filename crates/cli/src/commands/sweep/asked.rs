//! From what was typed after `sweep` to what is meant by it. Reads nothing but its arguments.

use nexus_api::command::quote;
use nexus_api::results::Extract;
use nexus_api::sweeps::{Axis, BadPlan, Plan, Random, Table, is_sweep_name};
use nexus_api::template::{self, is_name};

use super::SweepArgs;
use crate::error::Usage;

const QUOTED: &str = "nexus sweep \"train --lr {lr}\" lr=0.1,0.01";

/// Words of a sweep, each what it is.
#[derive(Debug, PartialEq, Eq)]
pub struct Words {
    pub command: String,
    pub axes: Vec<Axis>,
}

/// The command is the one word that is no NAME=VALUES.
pub fn words(typed: &[String]) -> Result<Words, Usage> {
    let (axes, others): (Vec<&String>, Vec<&String>) = typed.iter().partition(|word| axis(word).is_some());
    let (command, axes) = match others.as_slice() {
        [one] => (*one, axes),
        // `LR={lr} ./train`: a command that begins as values do.
        [] => {
            let has_names = |word: &&&String| template::names(word).next().is_some();
            let Some(command) = axes.iter().find(has_names).copied() else {
                return Err(Usage::new("there is no command", QUOTED));
            };
            (command, axes.into_iter().filter(|word| !std::ptr::eq(*word, command)).collect())
        }
        [_, rest @ ..] => return Err(many_words(&others, rest, &axes)),
    };
    if matches!(command.as_str(), "ls" | "show" | "csv") {
        let error = format!("{command} stands first: what is behind it is its own");
        return Err(Usage::new(error, format!("nexus sweep {command} …")));
    }
    let axes = axes.into_iter().filter_map(|word| axis(word)).collect();
    Ok(Words { command: command.clone(), axes })
}

fn axis(word: &str) -> Option<Axis> {
    let (name, values) = word.split_once('=').filter(|(name, _)| is_name(name))?;
    Some(Axis { name: name.into(), values: values.into() })
}

fn many_words(all: &[&String], rest: &[&String], axes: &[&String]) -> Usage {
    if let Some(broken) = axes.iter().find(|word| word.ends_with(',')) {
        let error = format!("{broken} ends with a comma, and {} follows it", rest[0]);
        return Usage::new(error, format!("no blank behind a comma: {broken}{}", rest[0]));
    }

    let meant = |word: &str| {
        word.split_once('=').filter(|(name, _)| !name.contains(char::is_whitespace)).map(|(a, _)| a.to_string())
    };
    if let Some(name) = rest.iter().find_map(|word| meant(word)) {
        let bad = BadPlan::NoName { name };
        return Usage::new(bad.error(), bad.hint());
    }
    let words: Vec<&str> = all.iter().map(|word| word.as_str()).collect();
    let command = crate::render::text::cut(&words.join(" "), 60);
    let values: Vec<String> = axes.iter().map(|word| quote(&crate::render::text::cut(word, 40))).collect();
    let values = if values.is_empty() { "lr=0.1,0.01".into() } else { values.join(" ") };
    Usage::new("the command of a sweep is one argument, in quotes", format!("nexus sweep \"{command}\" {values}"))
}

/// What its parameters go through; `from` is what `--from` names, `seed` a new one.
pub fn plan(args: &SweepArgs, axes: Vec<Axis>, from: Option<Table>, seed: u64) -> Result<Plan, Usage> {
    let random = match (args.random, args.seed) {
        (Some(count), given) => Some(Random { count, seed: given.unwrap_or(seed) }),
        (None, None) => None,
        (None, Some(_)) => {
            return Err(Usage::new(
                "--seed repeats a draw of --random, and there is none",
                "--random 20, or seed=1..5 for a parameter",
            ));
        }
    };
    Ok(Plan { axes, from, zip: args.zip, only: args.only.clone(), random })
}

pub fn name(typed: Option<&str>) -> Result<Option<String>, Usage> {
    match typed {
        Some(name) if !is_sweep_name(name) => {
            let shown = crate::render::text::cut(name, 40);
            let error = format!("--name cannot be {shown:?}");
            Err(Usage::new(error, "letters, digits and - _ . as in lr-grid, 100 at most"))
        }
        name => Ok(name.map(String::from)),
    }
}

/// A column has one meaning: values that are taken are not called as parameters are.
pub fn check_extracts(extracts: &[Extract], params: &[String]) -> Result<(), Usage> {
    match extracts.iter().find(|extract| params.contains(&extract.name)) {
        Some(Extract { name, .. }) => Err(Usage::new(format!("--extract {name} is a parameter too"), "another name")),
        None => Ok(()),
    }
}

/// What is wrong with a plan, as what was typed.
pub fn bad(bad: BadPlan, from: Option<&std::path::Path>) -> Usage {
    match (&bad, from) {
        (BadPlan::Table { error, hint }, Some(file)) => Usage::new(format!("--from {}: {error}", file.display()), hint),
        (BadPlan::Where { .. } | BadPlan::WhereAt { .. } | BadPlan::NothingLeft { .. }, _) => {
            Usage::new(format!("--{}", bad.error()), bad.hint())
        }
        (BadPlan::Lengths { .. }, _) => Usage::new(format!("--{}", bad.error()), bad.hint()),
        _ => Usage::new(bad.error(), bad.hint()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(typed: &[&str]) -> Result<(String, String), Usage> {
        let typed: Vec<String> = typed.iter().map(|word| word.to_string()).collect();
        let words = words(&typed)?;
        let axes: Vec<String> = words.axes.iter().map(|axis| format!("{}={}", axis.name, axis.values)).collect();
        Ok((words.command, axes.join(" ")))
    }

    #[test]
    fn the_command_is_the_word_that_has_no_values() {
        for (typed, command, axes) in [
            (&["train {lr}", "lr=1,2", "seed=1..5"][..], "train {lr}", "lr=1,2 seed=1..5"),
            (&["lr=1", "train {lr}"], "train {lr}", "lr=1"),
            (&["LR={lr} ./train", "lr=a=b"], "LR={lr} ./train", "lr=a=b"),
            (&["x {a}", "a={b}"], "x {a}", "a={b}"),
            (&["train"], "train", ""),
        ] {
            assert_eq!(read(typed), Ok((command.into(), axes.into())), "{typed:?}");
        }
    }

    #[test]
    fn other_words_are_told() {
        for (typed, error, hint) in [
            (&["python", "train.py", "lr=1"][..], "one argument, in quotes", "\"python train.py\" lr=1"),
            (&["train {lr}", "lr=0.1,", "0.01"], "lr=0.1, ends with a comma", "lr=0.1,0.01"),
            (&["train {lr}", "l-r=1"], "\"l-r\" cannot be the name", "letters"),
            (&["train {lr}", "=1"], "\"\" cannot be the name", "letters"),
            (&["lr=1"], "there is no command", "\"train"),
            (&[], "there is no command", "\"train"),
            (&["ls", "a=1"], "ls stands first", "nexus sweep ls"),
        ] {
            let usage = read(typed).unwrap_err();
            let told = usage.hint.unwrap();
            assert!(usage.error.contains(error) && told.contains(hint), "{typed:?}: {} / {told}", usage.error);
        }
    }
}
