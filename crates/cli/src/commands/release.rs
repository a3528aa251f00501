//! `nexus release`: let held jobs start.

use nexus_api::jobs::Action;

use crate::app::App;
use crate::chosen;
use crate::error::CliError;
use crate::process::ExitCode;
use crate::render::outcome;

/// Let held jobs start
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Example:
  nexus release abc")]
pub struct ReleaseArgs {
    /// Jobs (nexus help selectors)
    #[arg(value_name = "SEL", required = true)]
    pub selectors: Vec<String>,
}

pub async fn run(args: ReleaseArgs, app: &App) -> Result<ExitCode, CliError> {
    let client = app.started().await?;
    let jobs = chosen::choose(&client, &args.selectors, chosen::RELEASE).await?;
    for job in client.act(Action::Release, chosen::on(&jobs, chosen::RELEASE)).await? {
        app.ui.data(&outcome::done("released", &job, app.ui.paint()))?;
    }
    Ok(ExitCode::SUCCESS)
}
