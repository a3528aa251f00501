//! `nexus resume`: queued jobs start again.

use std::process::ExitCode;

use crate::app::App;
use crate::error::CliError;
use crate::misplaced;

/// Resume the queue
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Example:
  nexus resume")]
pub struct ResumeArgs {
    #[arg(hide = true)]
    pub words: Vec<String>,
}

pub async fn run(args: ResumeArgs, app: &App) -> Result<ExitCode, CliError> {
    misplaced::refuse("resume", &args.words)?;
    app.started().await?.pause_queue(false).await?;
    app.ui.say("queue resumed");
    Ok(ExitCode::SUCCESS)
}
