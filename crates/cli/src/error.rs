//! Everything that can end a command, and how it is told: what failed, why, what to type, which exit code.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

use nexus_api::problem::Problem;
use nexus_node::lock_holder::{self, Signature};

/// Exit codes scripts may rely on.
pub mod code {
    pub const CANNOT_BE_MET: u8 = 1;
    pub const USAGE: u8 = 2;
    pub const NO_SERVICE: u8 = 3;
    pub const BUG: u8 = 70;
}

#[derive(Debug, thiserror::Error)]
pub enum CliError {
    #[error("no service runs in this home")]
    NoService { home: PathBuf },
    #[error(transparent)]
    Problem(#[from] Problem),
    #[error("{}", usage.error)]
    Usage { verb: &'static str, usage: Usage },
    /// Something in a file that means nothing; how the command is typed is not the matter.
    #[error("{}", _0.error)]
    File(Usage),
    #[error(transparent)]
    Refused(#[from] Refused),
    #[error("the home of nexus cannot be found")]
    Home { source: Box<dyn Error + Send + Sync> },
    #[error("the service does not answer {path}")]
    Connection { path: String, source: Box<dyn Error + Send + Sync> },
    #[error("the service is stopped (pid {pid})")]
    Stopped { pid: u32 },
    #[error("the service went away")]
    ServiceLeft { source: Option<Box<dyn Error + Send + Sync>> },
    #[error("the answer of the service to {path} cannot be read")]
    Answer { path: String, source: serde_json::Error },
    #[error("{doing}")]
    Io { doing: String, source: io::Error },
    /// Whoever read our output has stopped: nothing to tell.
    #[error("the output was closed")]
    OutputClosed,
}

/// Something typed that means nothing, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    pub error: String,
    pub hint: Option<String>,
}

impl Usage {
    pub fn new(error: impl Into<String>, hint: impl Into<String>) -> Usage {
        Usage { error: error.into(), hint: Some(hint.into()) }
    }

    pub fn of(self, verb: &'static str) -> CliError {
        CliError::Usage { verb, usage: self }
    }
}

/// A request that was understood and is not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{error}")]
pub struct Refused {
    pub error: String,
    pub why: Option<String>,
    pub hint: Option<String>,
}

/// The lines a user reads.
#[derive(Debug, PartialEq, Eq)]
pub struct Told {
    pub error: String,
    pub why: Option<String>,
    pub hint: Option<String>,
}

impl CliError {
    pub fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> CliError {
        move |source| CliError::Io { doing: doing.into(), source }
    }

    pub fn exit_code(&self) -> u8 {
        match self {
            CliError::NoService { .. } => code::NO_SERVICE,
            CliError::Usage { .. } | CliError::File(_) => code::USAGE,
            CliError::Problem(Problem::Internal { .. }) => code::BUG,
            CliError::OutputClosed => 0,
            _ => code::CANNOT_BE_MET,
        }
    }

    pub fn told(&self) -> Told {
        let error = self.to_string();
        match self {
            CliError::NoService { home } => no_service(error, home),
            CliError::Problem(problem) => Told { error: problem.title(), why: problem.why(), hint: problem.hint() },
            CliError::Usage { usage, .. } | CliError::File(usage) => {
                Told { error, why: None, hint: usage.hint.clone() }
            }
            CliError::Refused(refused) => Told { error, why: refused.why.clone(), hint: refused.hint.clone() },
            CliError::Home { source } => {
                Told { error, why: Some(chain(source.as_ref())), hint: hint("NEXUS_HOME=/some/folder names one") }
            }
            CliError::Connection { source, .. } => {
                Told { error, why: Some(chain(source.as_ref())), hint: hint("nexus doctor") }
            }
            CliError::Stopped { pid } => Told {
                error,
                why: Some(
                    "a signal (SIGSTOP) or a debugger has stopped its process, so it cannot answer; jobs go on".into(),
                ),
                hint: hint(&format!("kill -CONT {pid} continues it; nexus restart replaces it")),
            },
            CliError::ServiceLeft { source } => {
                Told { error, why: source.as_ref().map(|source| chain(source.as_ref())), hint: hint("nexus start") }
            }
            CliError::Answer { source, .. } => Told {
                error,
                why: Some(source.to_string()),
                hint: hint("nexus restart, if service and client are of different versions"),
            },
            CliError::Io { source, .. } => Told { error, why: Some(source.to_string()), hint: None },
            CliError::OutputClosed => Told { error, why: None, hint: None },
        }
    }
}

/// A service whose socket is gone holds the lock of the home all the same.
fn no_service(error: String, home: &Path) -> Told {
    let Some(holder) = lock_holder::holder(home) else {
        return Told { error, why: Some(format!("nobody answers in {}", home.display())), hint: hint("nexus start") };
    };
    let Signature { pid, socket } = &holder.signature;
    Told {
        error: "the service cannot be reached".into(),
        why: Some(format!("it runs (pid {pid}), and nobody answers on {}", socket.display())),
        hint: hint("nexus stop ends it, its jobs go on; then nexus start"),
    }
}

fn hint(text: &str) -> Option<String> {
    Some(text.to_string())
}

/// An error and all it came from, in one line.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let inner_text = inner.to_string();
        if !text.ends_with(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        source = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_end_has_its_code() {
        let no_service = CliError::NoService { home: "/h".into() };
        assert_eq!(no_service.exit_code(), 3);
        assert_eq!(
            no_service.told(),
            Told {
                error: "no service runs in this home".into(),
                why: Some("nobody answers in /h".into()),
                hint: Some("nexus start".into())
            }
        );
        assert_eq!(CliError::Problem(Problem::Stopping).exit_code(), 1);
        assert_eq!(CliError::Problem(Problem::Internal { error: "x".into() }).exit_code(), 70);
        assert_eq!(Usage::new("a", "b").of("add").exit_code(), 2);
        assert_eq!(CliError::File(Usage::new("a", "b")).exit_code(), 2);
        assert_eq!(CliError::OutputClosed.exit_code(), 0);
    }

    #[test]
    fn a_problem_is_told_in_its_own_words() {
        let told = CliError::Problem(Problem::NoSuchJob { id: "abc".into() }).told();
        assert_eq!(told.error, "there is no job abc");
        assert_eq!(told.hint.as_deref(), Some("nexus ls, nexus history"));
    }
}
