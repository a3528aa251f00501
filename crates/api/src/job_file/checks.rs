//! What an entry says is tried on a spec that nobody keeps: a wrong value is told by its line.

use std::collections::BTreeMap;

use crate::command::{BadCommand, Command};
use crate::jobs::JobSpec;
use crate::queue_text::set;

pub fn options(options: &BTreeMap<String, String>) -> Result<(), String> {
    let mut scratch = JobSpec::new(Command::Argv(vec![]), String::new());
    for (name, value) in options {
        // The file may count from a folder that only the service knows.
        let tried = match matches!(name.as_str(), "out" | "results") && !value.is_empty() {
            true if value.contains(char::is_control) => Err("a path stands in one line".to_string()),
            true => Ok(()),
            false => set(&mut scratch, name, value),
        };
        tried.map_err(|error| format!("{name}: {error}"))?;
    }
    Ok(())
}

pub fn command(command: &Command) -> Result<(), String> {
    command.check().map_err(|bad| match bad {
        BadCommand::Empty => "its command is empty".into(),
        BadCommand::Nul => "it has a NUL byte".into(),
        BadCommand::TooLong { bytes, most } => {
            format!("{bytes} bytes in one argument, and the system allows {most}")
        }
    })
}

/// The last letters of a text, for a message.
pub fn tail(text: &str) -> String {
    const SHOWN: usize = 60;
    match text.char_indices().rev().nth(SHOWN) {
        Some((at, letter)) => format!("…{}", &text[at + letter.len_utf8()..]),
        None => text.to_string(),
    }
}

/// The first letters of a text, for a message.
pub fn head(text: &str) -> String {
    const SHOWN: usize = 60;
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_string(),
    }
}
