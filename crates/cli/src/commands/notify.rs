//! `nexus notify`: tries out who is told what became of jobs.

use crate::app::App;
use crate::error::CliError;
use crate::process::ExitCode;
use crate::render;

/// Tell somebody what became of jobs: try it out
///
/// [notify] of the configuration says who is told, and of what. Webhooks take the forms of Slack, Discord and ntfy, or
/// JSON; a command gets NEXUS_EVENT, NEXUS_JOB_ID, NEXUS_TEXT and more in its environment. Failures and the ends of sweeps
/// are told where nothing else is said; add --notify tells of one job's end, however it ends.
#[derive(Clone, Debug, clap::Args)]
#[command(
    disable_help_subcommand = true,
    subcommand_value_name = "COMMAND",
    after_help = "\
Examples:
  nexus config set notify.webhooks slack:https://hooks.slack.com/services/T0/B0/XXXX
  nexus config set notify.webhooks ntfy:https://ntfy.sh/my-own-topic
  nexus config set notify.command 'notify-send nexus \"$NEXUS_TEXT\"'
  nexus config set notify.on failure,end,queue-empty
  nexus notify test
  nexus add --notify \"python train.py\""
)]
pub struct NotifyArgs {
    #[command(subcommand)]
    pub verb: NotifyVerb,
}

#[derive(Clone, Debug, clap::Subcommand)]
pub enum NotifyVerb {
    Test(TestArgs),
}

/// Send everybody who is told a test, and show what they answer
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Example:
  nexus notify test")]
pub struct TestArgs {
    /// Prints the answers as JSON
    #[arg(long)]
    pub json: bool,
}

pub async fn run(args: NotifyArgs, app: &App) -> Result<ExitCode, CliError> {
    let NotifyVerb::Test(args) = args.verb;
    let tried = app.started().await?.notify_test().await?;
    match args.json {
        true => app.ui.json(&tried)?,
        false => app.ui.data(&render::notify::tried(&tried, app.ui.paint()))?,
    }
    let all_told = tried.iter().all(|tried| tried.error.is_none());
    Ok(if all_told { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
