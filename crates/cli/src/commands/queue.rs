//! `nexus queue`: what waits, and why.

use jiff::Zoned;
use nexus_api::jobs::JobQuery;

use crate::app::App;
use crate::error::CliError;
use crate::narrow::NarrowArgs;
use crate::process::ExitCode;
use crate::render;
use crate::render::reason::Capacity;

/// Show pending jobs: position, id, reason, whole command
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nexus queue
  nexus queue --expand")]
pub struct QueueArgs {
    /// Shows each job of a sweep; on a terminal one with more than 5 that wait is a single row
    #[arg(long)]
    pub expand: bool,
    #[command(flatten)]
    pub narrow: NarrowArgs,
    /// Prints the jobs as JSON
    #[arg(long)]
    pub json: bool,
}

pub async fn run(args: QueueArgs, app: &App) -> Result<ExitCode, CliError> {
    let client = app.reader();
    let narrowed = !args.narrow.is_none();
    let query = |state: &str| JobQuery { state: Some(state.into()), expected: true, ..JobQuery::default() };
    let mut jobs = client.jobs(&args.narrow.clone().of(query("pending"))).await?;
    // What waits in the queue of a cluster waits all the same.
    let starting = client.jobs(&args.narrow.of(query("starting"))).await?;
    jobs.extend(starting.into_iter().filter(|job| job.waiting.is_some()));
    if args.json {
        app.ui.json(&jobs)?;
    } else if jobs.is_empty() {
        app.ui.say(if narrowed { "no such jobs pending" } else { "no jobs pending" });
    } else {
        let capacity = Capacity::of(&client.status(false).await?);
        let heads = app.ui.out_is_terminal();
        let rows = match heads && !args.expand && render::queue::can_collapse(&jobs) {
            true => render::queue::collapsed(&jobs, &client.sweeps().await?, capacity, &Zoned::now()),
            false => render::queue::rows(&jobs, capacity, &Zoned::now()),
        };
        app.ui.data(&render::queue::queue(&rows, heads, app.ui.paint()))?;
    }
    Ok(ExitCode::SUCCESS)
}
