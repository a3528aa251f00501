//! What clap could not read: the error, the usage line, the nearest verb.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::args::{self, Verb};
use crate::commands::help;
use crate::commands::status::StatusArgs;
use crate::error::{CliError, Told, Usage, code};
use crate::process::ExitCode;
use crate::ui::{ColorWhen, Ui};

/// Prints help and version where they were asked for, and errors in our form.
pub fn told(error: clap::Error, raw: &[OsString]) -> ExitCode {
    let ui = Ui::new(color(raw));
    match error.kind() {
        ErrorKind::DisplayHelp if is_top_level(raw) => printed(&ui, &help::short()),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => printed(&ui, &error.render().to_string()),
        ErrorKind::InvalidSubcommand if typed_verb(raw).is_some() => {
            below_a_verb(&error, &typed_verb(raw).unwrap_or_default(), &ui)
        }
        ErrorKind::InvalidSubcommand => {
            let typed = context(&error, ContextKind::InvalidSubcommand);
            let told = Told {
                error: format!("there is no verb {typed}"),
                why: None,
                hint: Some(help::suggestion(&args::command(), &typed)),
            };
            ui.failed(&told, Some("usage: nexus [VERB] [OPTIONS]"));
            ExitCode::from(code::USAGE)
        }
        _ => {
            let verb = typed_verb(raw);
            let mut told = match (&verb, error.kind()) {
                (Some(verb), ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand) => {
                    plain(format!("nexus {verb} needs a verb of its own: {}", verbs_below(verb)))
                }
                _ => in_our_form(&error),
            };
            let usage = help::usage_line(args::command(), verb.as_deref().unwrap_or_default());
            if verb.as_deref() == Some("sweep") && error.kind() == ErrorKind::UnknownArgument {
                told.why = Some("the command of a sweep is one argument: its own options stand in its quotes".into());
            }
            told.hint.get_or_insert_with(|| match verb {
                Some(verb) if verb.contains(' ') => format!("nexus {verb} --help"),
                Some(verb) => format!("nexus help {verb}"),
                None => "nexus help".to_string(),
            });
            ui.failed(&told, Some(&usage));
            ExitCode::from(code::USAGE)
        }
    }
}

fn printed(ui: &Ui, text: &str) -> ExitCode {
    match ui.data(text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => ExitCode::from(error.exit_code()),
    }
}

/// What clap found wrong, in words of ours.
fn in_our_form(error: &clap::Error) -> Told {
    let argument = context(error, ContextKind::InvalidArg);
    let option = argument.split([' ', '=']).next().unwrap_or_default();
    let value = context(error, ContextKind::InvalidValue);
    match error.kind() {
        ErrorKind::MissingRequiredArgument => plain(format!("{} is missing", bare(&argument))),
        ErrorKind::UnknownArgument if !argument.starts_with('-') => {
            plain(format!("{argument} is one word too many; nothing was done"))
        }
        ErrorKind::UnknownArgument => Told {
            hint: Some(context(error, ContextKind::SuggestedArg)).filter(|near| !near.is_empty()),
            ..plain(format!("there is no option {argument}"))
        },
        ErrorKind::ArgumentConflict => {
            let other = context(error, ContextKind::PriorArg);
            // An option before a subcommand that takes none: clap names the subcommand elsewhere.
            let argument = if argument.is_empty() { context(error, ContextKind::InvalidSubcommand) } else { argument };
            plain(format!("{} and {} exclude each other", bare(&argument), bare(&other)))
        }
        ErrorKind::InvalidValue if value.is_empty() => plain(format!("{option} needs a value: {argument}")),
        ErrorKind::InvalidValue => {
            let possible = context(error, ContextKind::ValidValue).replace(' ', ", ");
            Told { why: Some(format!("it can be {possible}")), ..plain(format!("{option} cannot be {value}")) }
        }
        ErrorKind::ValueValidation => {
            let why = std::error::Error::source(error).map(|source| number_words(&source.to_string()));
            Told { why, ..plain(format!("{option} cannot be {value}")) }
        }
        ErrorKind::TooManyValues => plain(format!("{option} takes no value")),
        ErrorKind::InvalidUtf8 => plain("an argument is not valid UTF-8".into()),
        _ => {
            let text = error.render().to_string();
            plain(text.lines().next().unwrap_or_default().trim_start_matches("error:").trim().to_string())
        }
    }
}

fn plain(error: String) -> Told {
    Told { error, why: None, hint: None }
}

/// `SEL` of `<SEL>...`, `--stdout` of `--stdout`.
fn bare(argument: &str) -> &str {
    let name = argument.trim_start_matches(['<', '[']);
    let name = if name.starts_with('-') { name.split([' ', '=']).next().unwrap_or(name) } else { name };
    name.trim_end_matches(['.', '>', ']'])
}

/// What is wrong with a number.
fn number_words(said: &str) -> String {
    match said.split_once(" is not in ").and_then(|(_, range)| range.split_once("..=")) {
        Some((least, most)) => format!("it can be {least} to {most}"),
        None if said.contains("too large") || said.contains("too small") => "that is beyond all measure".into(),
        None if said.contains("digit") || said.contains("empty") => "a whole number is wanted".into(),
        None => said.to_string(),
    }
}

/// `nexus config grt`: the nearest of the verbs below `config`.
fn below_a_verb(error: &clap::Error, verb: &str, ui: &Ui) -> ExitCode {
    let typed = context(error, ContextKind::InvalidSubcommand);
    let command = args::command();
    let near = command.find_subcommand(verb).and_then(|verb| help::nearest_verb(verb, &typed));
    let hint = match near {
        Some(near) => format!("nexus {verb} {near}"),
        None if verb == "config" && typed.contains('.') => format!("nexus config get {typed}"),
        None => format!("nexus help {verb}"),
    };
    let told = Told { error: format!("there is no nexus {verb} {typed}"), why: None, hint: Some(hint) };
    ui.failed(&told, Some(&help::usage_line(command, verb)));
    ExitCode::from(code::USAGE)
}

/// `add, ls, show or rm`
fn verbs_below(verb: &str) -> String {
    let command = args::command();
    let below = command.find_subcommand(verb).into_iter().flat_map(|verb| verb.get_subcommands());
    let names: Vec<&str> = below.filter(|verb| !verb.is_hide_set()).map(|verb| verb.get_name()).collect();
    match names.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => names.concat(),
    }
}

/// The verb that was typed, if it is one, with the verb below it, if it has one: `config set`.
fn typed_verb(raw: &[OsString]) -> Option<String> {
    let command = args::command();
    let mut words = raw.iter().skip(1).filter_map(|word| word.to_str());
    let verb = words.find_map(|word| command.find_subcommand(word))?;
    let below = words.find_map(|word| verb.find_subcommand(word));
    Some([Some(verb), below].into_iter().flatten().map(clap::Command::get_name).collect::<Vec<_>>().join(" "))
}

fn context(error: &clap::Error, kind: ContextKind) -> String {
    match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        Some(ContextValue::Strings(texts)) => texts.join(" "),
        _ => String::new(),
    }
}

fn is_top_level(raw: &[OsString]) -> bool {
    matches!(raw.get(1).and_then(|word| word.to_str()), Some("-h" | "--help"))
}

/// What `--color` says, where the rest could not be read.
fn color(raw: &[OsString]) -> ColorWhen {
    let words: Vec<&str> = raw.iter().filter_map(|word| word.to_str()).collect();
    let spaced = words.windows(2).find(|pair| pair[0] == "--color").map(|pair| pair[1]);
    match spaced.or_else(|| words.iter().find_map(|word| word.strip_prefix("--color="))) {
        Some("always") => ColorWhen::Always,
        Some("never") => ColorWhen::Never,
        _ => ColorWhen::Auto,
    }
}

/// Options of the bare status stand before a verb only by mistake.
pub fn misplaced_options(bare: &StatusArgs, verb: Option<&Verb>, raw: &[OsString]) -> Result<(), CliError> {
    if verb.is_none() || bare == &StatusArgs::default() {
        return Ok(());
    }
    let option = if bare.json { "--json" } else { "-w" };
    let verb = typed_verb(raw).unwrap_or_else(|| "status".into());
    Err(Usage::new(format!("{option} stands before the verb"), format!("nexus {verb} … {option}")).of("status"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::Cli;

    fn heard(words: &[&str]) -> Told {
        in_our_form(&Cli::try_parse_from([&["nexus"], words].concat()).unwrap_err())
    }

    #[test]
    fn errors_are_told_in_our_words() {
        for (words, error, why) in [
            (&["kill"][..], "SEL is missing", None),
            (&["add"], "COMMAND is missing", None),
            (&["kill", "--nonsense", "abc"], "there is no option --nonsense", None),
            (&["show", "abc", "def"], "def is one word too many; nothing was done", None),
            (&["logs", "--stdout", "--stderr"], "--stdout and --stderr exclude each other", None),
            (&["web", "--off", "browsers"], "browsers and --off exclude each other", None),
            (&["add", "--name"], "--name needs a value: --name <NAME>", None),
            (&["add", "--priority", "x", "true"], "--priority cannot be x", Some("a whole number is wanted")),
            (&["add", "--retries", "-1", "true"], "--retries cannot be -1", Some("it can be 0 to 4294967295")),
            (&["add", "-x", "0", "true"], "-x cannot be 0", Some("it can be 1 to 100000")),
            (&["kill", "abc", "--no-wait=3"], "--no-wait takes no value", None),
            (&["--color", "odd"], "--color cannot be odd", Some("it can be auto, always, never")),
        ] {
            let told = heard(words);
            assert_eq!((told.error.as_str(), told.why.as_deref()), (error, why), "{words:?}");
        }
        assert_eq!(heard(&["kill", "--yess", "abc"]).hint.as_deref(), Some("--yes"));
    }

    #[test]
    fn the_verb_is_found_behind_options() {
        let verb = |words: &[&str]| typed_verb(&words.iter().map(OsString::from).collect::<Vec<_>>());
        assert_eq!(verb(&["nexus", "--color", "never", "add", "-x", "0", "kill"]).as_deref(), Some("add"));
        assert_eq!(verb(&["nexus", "--nonsense"]), None);
    }

    #[test]
    fn options_of_the_status_belong_behind_the_verb() {
        let cli = Cli::try_parse_from(["nexus", "--json", "queue"]).unwrap();
        assert_eq!(misplaced_options(&cli.status, cli.verb.as_ref(), &[]).unwrap_err().exit_code(), 2);
        let cli = Cli::try_parse_from(["nexus", "--color", "never", "queue", "--json"]).unwrap();
        assert!(misplaced_options(&cli.status, cli.verb.as_ref(), &[]).is_ok());
    }
}
