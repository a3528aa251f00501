//! `nexus hold`: keep queued jobs from starting.

use nexus_api::jobs::Action;

use crate::app::App;
use crate::chosen;
use crate::error::CliError;
use crate::process::ExitCode;
use crate::render::outcome;

/// Keep queued jobs from starting
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Example:
  nexus hold abc")]
pub struct HoldArgs {
    /// Jobs (nexus help selectors)
    #[arg(value_name = "SEL", required = true)]
    pub selectors: Vec<String>,
}

pub async fn run(args: HoldArgs, app: &App) -> Result<ExitCode, CliError> {
    let client = app.started().await?;
    let jobs = chosen::choose(&client, &args.selectors, chosen::HOLD).await?;
    for job in client.act(Action::Hold, chosen::on(&jobs, chosen::HOLD)).await? {
        app.ui.data(&outcome::done("held", &job, app.ui.paint()))?;
    }
    Ok(ExitCode::SUCCESS)
}
