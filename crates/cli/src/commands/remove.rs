//! `nexus remove`: take queued jobs out.

use nexus_api::jobs::Action;

use crate::app::App;
use crate::chosen;
use crate::error::CliError;
use crate::process::ExitCode;
use crate::render::outcome;

/// Take queued jobs out of the queue
///
/// They stay in the history as killed (removed).
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nexus remove abc
  nexus remove -y /train.*gpt2/")]
pub struct RemoveArgs {
    /// Jobs (nexus help selectors)
    #[arg(value_name = "SEL", required = true)]
    pub selectors: Vec<String>,
    /// Does not ask
    #[arg(long, short)]
    pub yes: bool,
}

pub async fn run(args: RemoveArgs, app: &App) -> Result<ExitCode, CliError> {
    let client = app.started().await?;
    let jobs = chosen::choose(&client, &args.selectors, chosen::REMOVE).await?;
    chosen::confirm_many(&app.ui, "remove", &jobs, args.yes)?;
    for job in client.act(Action::Remove, chosen::on(&jobs, chosen::REMOVE)).await? {
        app.ui.data(&outcome::done("removed", &job, app.ui.paint()))?;
    }
    Ok(ExitCode::SUCCESS)
}
