//! `nexus queue`: what waits, and why.

use std::process::ExitCode;

use jiff::Zoned;
use nexus_api::jobs::JobQuery;

use crate::app::App;
use crate::error::CliError;
use crate::narrow::NarrowArgs;
use crate::render;
use crate::render::reason::Capacity;

/// Show pending jobs: position, id, reason, whole command
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Example:
  nexus queue")]
pub struct QueueArgs {
    #[command(flatten)]
    pub narrow: NarrowArgs,
    /// Prints the jobs as JSON
    #[arg(long)]
    pub json: bool,
}

pub async fn run(args: QueueArgs, app: &App) -> Result<ExitCode, CliError> {
    let client = app.reader();
    let narrowed = !args.narrow.is_none();
    let jobs = client.jobs(&args.narrow.of(JobQuery { state: Some("pending".into()), ..JobQuery::default() })).await?;
    if args.json {
        app.ui.json(&jobs)?;
    } else if jobs.is_empty() {
        app.ui.say(if narrowed { "no such jobs pending" } else { "no jobs pending" });
    } else {
        let capacity = Capacity::of(&client.status(false).await?);
        let heads = app.ui.out_is_terminal();
        app.ui.data(&render::queue::queue(&jobs, capacity, &Zoned::now(), heads, app.ui.paint()))?;
    }
    Ok(ExitCode::SUCCESS)
}
