//! `nexus show`: all that is known about a job.

use jiff::Zoned;
use nexus_api::jobs::State;

use crate::app::App;
use crate::chosen;
use crate::error::CliError;
use crate::process::ExitCode;
use crate::render;
use crate::render::reason::Capacity;

/// Show all that is known about a job
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nexus show abc
  nexus show last --env")]
pub struct ShowArgs {
    /// A job (nexus help selectors)
    #[arg(value_name = "SEL")]
    pub selector: String,
    /// Shows the values of its environment too
    #[arg(long)]
    pub env: bool,
    /// Prints it as JSON
    #[arg(long)]
    pub json: bool,
}

pub async fn run(args: ShowArgs, app: &App) -> Result<ExitCode, CliError> {
    let client = app.reader();
    let job = chosen::choose_one(&client, &args.selector).await?;
    let detail = client.job(&job.id, args.env).await?;
    if args.json {
        app.ui.json(&detail)?;
        return Ok(ExitCode::SUCCESS);
    }
    let capacity = Capacity::of(&client.status(false).await?);
    let screen = match detail.job.state {
        State::Starting | State::Running => {
            client.screens().await?.into_iter().find(|screen| screen.job.as_ref() == Some(&job.id))
        }
        _ => None,
    };
    app.ui.data(&render::show::show(&detail, screen.as_ref(), capacity, &Zoned::now(), app.ui.paint()))?;
    Ok(ExitCode::SUCCESS)
}
