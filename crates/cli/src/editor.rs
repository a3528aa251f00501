//! The user's editor: `$VISUAL`, `$EDITOR`, or vi.

use std::io::{self, IsTerminal};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};

use crate::error::{CliError, Refused};

/// Opens a file and returns when the editor is left.
pub fn edit(path: &Path) -> Result<(), CliError> {
    let typed = ["VISUAL", "EDITOR"].iter().filter_map(|name| std::env::var(name).ok());
    let typed = match typed.into_iter().find(|value| !value.trim().is_empty()) {
        Some(typed) => typed,
        None if io::stdin().is_terminal() => "vi".into(),
        None => return Err(refused("there is no terminal to edit on".into(), None)),
    };
    let words = nexus_api::shell_words::split(&typed, "")
        .map_err(|error| refused(format!("the editor {typed} is no command"), Some(error.to_string())))?;
    let Some((program, arguments)) = words.split_first() else {
        return Err(refused(format!("the editor {typed} is no command"), None));
    };
    let ended = run(Command::new(program).args(arguments).arg(path));
    match ended {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(refused(format!("the editor {typed} failed"), Some(how(status)))),
        Err(error) => Err(refused(format!("the editor {typed} cannot be started"), Some(error.to_string()))),
    }
}

/// Ctrl-C is the editor's meanwhile.
fn run(command: &mut Command) -> io::Result<ExitStatus> {
    let mut child = command.spawn()?;
    // SAFETY: sets how this process takes the two signals; the child, which has begun, is not touched.
    let before = unsafe { [libc::SIGINT, libc::SIGQUIT].map(|signal| (signal, libc::signal(signal, libc::SIG_IGN))) };
    let ended = child.wait();
    for (signal, action) in before {
        // SAFETY: puts back what was there.
        unsafe { libc::signal(signal, action) };
    }
    ended
}

fn how(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("it ended with exit {code}"),
        (None, Some(signal)) => format!("it was ended by signal {signal}"),
        (None, None) => "it ended in an unknown way".into(),
    }
}

fn refused(error: String, why: Option<String>) -> CliError {
    Refused { error, why, hint: Some("EDITOR=nano names another editor".into()) }.into()
}
