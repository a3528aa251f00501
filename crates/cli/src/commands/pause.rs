//! `nexus pause`: nothing new starts until resume.

use std::process::ExitCode;

use crate::app::App;
use crate::error::CliError;
use crate::misplaced;

/// Pause the queue
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Example:
  nexus pause")]
pub struct PauseArgs {
    #[arg(hide = true)]
    pub words: Vec<String>,
}

pub async fn run(args: PauseArgs, app: &App) -> Result<ExitCode, CliError> {
    misplaced::refuse("pause", &args.words)?;
    app.started().await?.pause_queue(true).await?;
    app.ui.say("queue paused: running jobs go on, nothing new starts");
    Ok(ExitCode::SUCCESS)
}
