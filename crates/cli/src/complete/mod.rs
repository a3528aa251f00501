//! `nexus __complete WORDS…`, which the scripts of `nexus completions` ask at every Tab: what may stand for the last word. A
//! line each, with a tab and what it means.
//!
//! Verbs and options are known here; ids, tags, sweeps, GPUs and machines are the service's. Where none runs, or it does not
//! answer at once, there are none: nobody waits for a Tab, and none starts a service.

mod offer;

use std::ffi::{OsStr, OsString};

use clap::Command;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, complete};
use nexus_api::shown::is_hidden;

use self::offer::Kind;
use crate::process::ExitCode;
use crate::render::text;
use crate::ui::Ui;

/// A description that is longer would only fill the screen.
const MOST_ABOUT: usize = 60;

/// `words` are those of the line so far, from `nexus` to the unfinished one.
pub fn run(words: Vec<OsString>, ui: &Ui) -> ExitCode {
    let last = words.len().saturating_sub(1);
    let wants_option = words.last().is_some_and(|word| word.as_encoded_bytes().starts_with(b"-"));
    let mut nexus = with_offers(visible(crate::args::command()), &[]);
    let here = std::env::current_dir().ok();
    // What cannot be completed is completed by nothing: a Tab is no place for a message.
    let mut offers = complete(&mut nexus, words, last, here.as_deref()).unwrap_or_default();
    offers.retain(|offer| !offer.is_hide_set());
    // A name that hides something from whoever looks at the line, or ends it, is not put there.
    offers.retain(|offer| !offer.get_value().to_string_lossy().contains(is_hidden));
    // Options are in the way where something else can stand, until a dash asks for them.
    if !wants_option && offers.iter().any(|offer| !is_option(offer)) {
        offers.retain(|offer| !is_option(offer));
    }
    let lines: String = offers.iter().map(line).collect();
    match ui.bytes(lines.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn is_option(offer: &CompletionCandidate) -> bool {
    offer.get_value().as_encoded_bytes().starts_with(b"-")
}

fn line(offer: &CompletionCandidate) -> String {
    let value = offer.get_value().to_string_lossy();
    match offer.get_help() {
        Some(help) => format!("{value}\t{}\n", text::cut(&text::first_line(&help.to_string()), MOST_ABOUT)),
        None => format!("{value}\n"),
    }
}

/// What is not shown is not completed either.
pub fn visible(nexus: Command) -> Command {
    let verbs = nexus.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned();
    Command::new("nexus")
        .version(env!("CARGO_PKG_VERSION"))
        .about(nexus.get_about().cloned().unwrap_or_default())
        .disable_help_subcommand(true)
        .args(nexus.get_arguments().filter(|arg| !["help", "version"].contains(&arg.get_id().as_str())).cloned())
        .subcommands(verbs)
}

/// Each argument that names something of the service's is told how to ask for it. `verbs` are those before this one.
fn with_offers(mut command: Command, verbs: &[&str]) -> Command {
    let arguments: Vec<(String, Kind)> = command
        .get_arguments()
        .filter_map(|argument| {
            let named = argument.get_value_names().and_then(|names| names.first()).map_or("", |name| name.as_str());
            let id = argument.get_id().as_str();
            Some((id.to_owned(), Kind::of(verbs, id, named)?))
        })
        .collect();
    for (id, kind) in arguments {
        let asked = move |typed: &OsStr| kind.offers(&typed.to_string_lossy());
        command = command.mut_arg(id, |argument| argument.add(ArgValueCompleter::new(asked)));
    }
    let names: Vec<String> = command.get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
    for name in names {
        let verbs = [verbs, &[name.as_str()]].concat();
        command = command.mut_subcommand(&name, |verb| with_offers(verb, &verbs));
    }
    command
}
