//! A text in the user's editor: a private file, and what became of it. What was typed is never lost: the file stays
//! until it is known to be of no more use.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use nexus_api::shell_words;

use crate::error::{CliError, Refused};

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
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
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
        let editor = Editor::of_the_user()?;
        let status = editor.run(&self.path)?;
        let text = self.text()?;
        if !status.success() {
            let how = match status.code() {
                Some(code) => format!("{} ended with exit {code}", editor.name()),
                None => format!("{} was ended by a signal", editor.name()),
            };
            let changed = text != self.base;
            let hint = if changed { self.kept() } else { "EDITOR=nano nexus edit uses another editor".into() };
            if !changed {
                self.remove();
            }
            return Err(Refused { error: "nothing was done".into(), why: Some(how), hint: Some(hint) }.into());
        }
        Ok((text != self.base).then_some(text))
    }

    fn text(&self) -> Result<String, CliError> {
        std::fs::read_to_string(&self.path)
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

struct Editor {
    words: Vec<String>,
}

impl Editor {
    /// `$VISUAL`, `$EDITOR`, `vi`; with arguments, if it has any.
    fn of_the_user() -> Result<Editor, CliError> {
        let named = ["VISUAL", "EDITOR"].into_iter().find_map(|name| {
            let value = std::env::var(name).ok()?;
            (!value.trim().is_empty()).then_some((name, value))
        });
        let Some((name, value)) = named else { return Ok(Editor { words: vec!["vi".into()] }) };
        match shell_words::split(&value, "") {
            Ok(words) if !words.is_empty() => Ok(Editor { words }),
            Ok(_) => Ok(Editor { words: vec!["vi".into()] }),
            Err(error) => Err(Refused {
                error: format!("{name} names no editor: {value}"),
                why: Some(error.to_string()),
                hint: Some("EDITOR=nano nexus edit".into()),
            }
            .into()),
        }
    }

    fn name(&self) -> &str {
        &self.words[0]
    }

    fn run(&self, path: &Path) -> Result<ExitStatus, CliError> {
        let mut command = Command::new(self.name());
        command.args(&self.words[1..]).arg(path);
        // SAFETY: signal(2) is async-signal-safe and touches no memory of ours.
        unsafe {
            command.pre_exec(|| {
                for signal in [libc::SIGINT, libc::SIGQUIT] {
                    libc::signal(signal, libc::SIG_DFL);
                }
                Ok(())
            });
        }
        // Ctrl-C in the editor is the editor's.
        // SAFETY: as above; this process has no other use for these signals while it waits.
        let set = |to| [libc::SIGINT, libc::SIGQUIT].map(|signal| unsafe { libc::signal(signal, to) });
        set(libc::SIG_IGN);
        let status = command.status();
        set(libc::SIG_DFL);
        status.map_err(|source| {
            let error = format!("the editor {} cannot be started", self.name());
            let hint = Some("EDITOR=nano nexus edit uses another".into());
            Refused { error, why: Some(source.to_string()), hint }.into()
        })
    }
}
