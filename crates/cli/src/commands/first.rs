//! `nexus first`: move queued jobs to the head of the queue.

use nexus_api::jobs::Action;

use crate::app::App;
use crate::chosen;
use crate::error::CliError;
use crate::process::ExitCode;
use crate::render::outcome;

/// Move queued jobs to the head of the queue
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Example:
  nexus first abc")]
pub struct FirstArgs {
    /// Jobs (nexus help selectors)
    #[arg(value_name = "SEL", required = true)]
    pub selectors: Vec<String>,
}

pub async fn run(args: FirstArgs, app: &App) -> Result<ExitCode, CliError> {
    let client = app.started().await?;
    let jobs = chosen::choose(&client, &args.selectors, chosen::FIRST).await?;
    for job in client.act(Action::First, chosen::on(&jobs, chosen::FIRST)).await? {
        app.ui.data(&outcome::done("put first", &job, app.ui.paint()))?;
    }
    Ok(ExitCode::SUCCESS)
}
