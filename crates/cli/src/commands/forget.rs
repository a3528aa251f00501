//! `nexus forget`: delete ended jobs and their logs.

use nexus_api::jobs::Action;

use crate::app::App;
use crate::chosen;
use crate::error::CliError;
use crate::process::ExitCode;
use crate::render::outcome;

/// Delete ended jobs and their logs
///
/// What they put into NEXUS_RESULTS_DIR goes too, and their checkpoints, unless a job is left that went on from them
/// (nexus rerun --resume). Copies of results stay.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nexus forget abc
  nexus forget -y tag:trial")]
pub struct ForgetArgs {
    /// Jobs (nexus help selectors)
    #[arg(value_name = "SEL", required = true)]
    pub selectors: Vec<String>,
    /// Does not ask
    #[arg(long, short)]
    pub yes: bool,
}

pub async fn run(args: ForgetArgs, app: &App) -> Result<ExitCode, CliError> {
    let client = app.started().await?;
    let jobs = chosen::choose(&client, &args.selectors, chosen::FORGET).await?;
    chosen::confirm(&app.ui, "forget", &jobs, args.yes)?;
    client.act(Action::Forget, chosen::on(&jobs, chosen::FORGET)).await?;
    for job in &jobs {
        app.ui.data(&outcome::done("forgot", job, app.ui.paint()))?;
    }
    Ok(ExitCode::SUCCESS)
}
