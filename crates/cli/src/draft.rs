//! A text in the user's editor: a private file, and what became of it. What was typed is never lost: the file stays
//! until it is known to be of no more use.

use std::io::Write;
use std::path::{Path, PathBuf};

use nexus_node::{own_file, run_file};

use crate::editor;
use crate::error::{CliError, Refused};

/// No queue that somebody edits is longer.
const MAX_TEXT_BYTES: u64 = 256 << 20;

pub struct Draft {
    path: PathBuf,
    /// As it was given to the editor first.
    base: String,
}

impl Draft {
    /// Puts the text into a file of its own that only its owner can read.
    pub fn new(folder: &Path, base: String) -> Result<Draft, CliError> {
        let doing = || format!("no file to edit could be made in {}", folder.display());
        for number in 0u32.. {
            let path = folder.join(format!("edit-{}-{number}.jobs.txt", std::process::id()));
            match run_file::create_new(&path) {
                Ok(mut file) => {
                    file.write_all(base.as_bytes()).map_err(CliError::io(doing()))?;
                    return Ok(Draft { path, base });
                }
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(CliError::io(doing())(error)),
            }
        }
        unreachable!("some number is free")
    }

    pub fn base(&self) -> &str {
        &self.base
    }

    /// Waits for the editor; the text as it was left, none if it was not changed.
    pub fn edit(&self) -> Result<Option<String>, CliError> {
        let edited = editor::edit(&self.path);
        let text = self.text()?;
        let changed = text != self.base;
        let Err(error) = edited else { return Ok(changed.then_some(text)) };
        if !changed {
            self.remove();
        }
        let told = error.told();
        let why = match told.why {
            Some(why) => format!("{}: {why}", told.error),
            None => told.error,
        };
        let hint = if changed { Some(self.kept()) } else { told.hint };
        Err(Refused { error: "nothing was done".into(), why: Some(why), hint }.into())
    }

    fn text(&self) -> Result<String, CliError> {
        own_file::read_text(&self.path, MAX_TEXT_BYTES)
            .map_err(CliError::io(format!("what you wrote cannot be read: {}", self.path.display())))
    }

    /// Where the text lies.
    pub fn kept(&self) -> String {
        format!("what you wrote is in {}", self.path.display())
    }

    pub fn remove(&self) {
        // One that cannot be removed is in nobody's way.
        let _ = std::fs::remove_file(&self.path);
    }
}
