//! `nexus cancel`: take queued jobs out and end running ones, in one step.

use nexus_api::jobs::{Action, Job};

use crate::app::App;
use crate::chosen;
use crate::commands::kill;
use crate::error::CliError;
use crate::process::ExitCode;
use crate::render::outcome;

/// End jobs, queued or running
///
/// In one step: nothing of the selection starts meanwhile.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nexus cancel abc
  nexus cancel -y tag:night")]
pub struct CancelArgs {
    /// Jobs (nexus help selectors)
    #[arg(value_name = "SEL", required = true)]
    pub selectors: Vec<String>,
    /// Does not wait for running ones to end
    #[arg(long)]
    pub no_wait: bool,
    /// Does not ask
    #[arg(long, short)]
    pub yes: bool,
}

pub async fn run(args: CancelArgs, app: &App) -> Result<ExitCode, CliError> {
    let client = app.started().await?;
    let jobs = chosen::choose(&client, &args.selectors, chosen::CANCEL).await?;
    chosen::confirm_many(&app.ui, "cancel", &jobs, args.yes)?;
    let after = client.act(Action::Cancel, chosen::on(&jobs, chosen::CANCEL)).await?;
    let (removed, ending): (Vec<Job>, Vec<Job>) = after.into_iter().partition(|job| job.attempt == 0);
    for job in &removed {
        app.ui.data(&outcome::done("removed", job, app.ui.paint()))?;
    }
    kill::tell_ends(&client, &ending, args.no_wait, app).await?;
    Ok(ExitCode::SUCCESS)
}
