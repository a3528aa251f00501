//! From `run` to the terminal of its job.

use crate::app::App;
use crate::error::{CliError, Refused};

/// How one leaves a job's terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code)] // Made by attach, which comes with the terminals of jobs.
pub enum Left {
    Detached,
    Ended,
}

/// Attaches this terminal to a running job's, until it ends or the user detaches.
pub async fn attach_to(_: &App, id: &str) -> Result<Left, CliError> {
    Err(Refused {
        error: format!("job {id} cannot be attached to"),
        why: Some("terminals of jobs come in a later version; the job is ended".into()),
        hint: Some("nexus run COMMAND".into()),
    }
    .into())
}
