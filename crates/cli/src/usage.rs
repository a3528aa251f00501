//! What clap could not read: the error, the usage line, the nearest verb.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::args::{Cli, Verb};
use crate::commands::help;
use crate::commands::status::StatusArgs;
use crate::error::{CliError, Told, Usage, code};
use crate::ui::{ColorWhen, Ui};

/// Prints help and version where they were asked for, and errors in our form.
pub fn told(error: clap::Error, raw: &[OsString]) -> ExitCode {
    let ui = Ui::new(color(raw));
    match error.kind() {
        ErrorKind::DisplayHelp if is_top_level(raw) => printed(&ui, help::SHORT),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => printed(&ui, &error.render().to_string()),
        ErrorKind::InvalidSubcommand => {
            let typed = context(&error, ContextKind::InvalidSubcommand);
            let told = Told {
                error: format!("there is no verb {typed}"),
                why: None,
                hint: Some(help::suggestion(&Cli::command(), &typed)),
            };
            ui.failed(&told, Some("usage: nexus [VERB] [OPTIONS]"));
            ExitCode::from(code::USAGE)
        }
        _ => {
            let (mut told, usage) = in_our_form(&error);
            let verb = typed_verb(raw);
            let usage = usage.unwrap_or_else(|| help::usage_line(Cli::command(), verb.as_deref().unwrap_or_default()));
            told.hint.get_or_insert_with(|| match verb {
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

/// clap's own text, taken apart: what is wrong, its tips, the usage line.
fn in_our_form(error: &clap::Error) -> (Told, Option<String>) {
    let text = error.render().to_string();
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let first = lines.next().unwrap_or_default();
    let mut told = Told { error: first.trim_start_matches("error:").trim().to_string(), why: None, hint: None };
    let (mut why, mut usage) = (Vec::new(), None);
    for line in lines.map(str::trim) {
        if let Some(tip) = line.strip_prefix("tip:").map(str::trim) {
            // How to pass an option's name as a value helps nobody who mistyped it.
            if !tip.starts_with("to pass") {
                told.hint.get_or_insert(tip.to_string());
            }
        } else if let Some(line) = line.strip_prefix("Usage:") {
            usage = Some(format!("usage:{line}"));
        } else if !line.starts_with("For more information") {
            why.push(line.to_string());
        }
    }
    told.why = (!why.is_empty()).then(|| why.join("\n"));
    (told, usage)
}

/// The verb that was typed, if it is one.
fn typed_verb(raw: &[OsString]) -> Option<String> {
    let command = Cli::command();
    let words = raw.iter().skip(1).filter_map(|word| word.to_str());
    words.filter_map(|word| command.find_subcommand(word)).map(|verb| verb.get_name().to_string()).next()
}

fn context(error: &clap::Error, kind: ContextKind) -> String {
    match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
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
pub fn misplaced_options(bare: &StatusArgs, verb: Option<&Verb>) -> Result<(), CliError> {
    if verb.is_none() || bare == &StatusArgs::default() {
        return Ok(());
    }
    let option = if bare.json { "--json" } else { "-w" };
    Err(Usage::new(format!("{option} stands before the verb"), format!("nexus VERB {option}")).of("status"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn errors_keep_their_usage_and_tip() {
        let error = Cli::try_parse_from(["nexus", "kill", "--yess", "abc"]).unwrap_err();
        let (told, usage) = in_our_form(&error);
        assert!(told.error.contains("--yess"), "{told:?}");
        assert!(told.hint.as_ref().unwrap().contains("'--yes'"), "{told:?}");
        assert!(usage.unwrap().starts_with("usage: nexus kill"));
        let error = Cli::try_parse_from(["nexus", "kill"]).unwrap_err();
        let (told, usage) = in_our_form(&error);
        assert!(told.why.is_some() && usage.is_some());
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
        assert_eq!(misplaced_options(&cli.status, cli.verb.as_ref()).unwrap_err().exit_code(), 2);
        let cli = Cli::try_parse_from(["nexus", "--color", "never", "queue", "--json"]).unwrap();
        assert!(misplaced_options(&cli.status, cli.verb.as_ref()).is_ok());
    }
}
