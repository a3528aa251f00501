//! `nexus gpus`: one line a GPU.

use std::time::Duration;

use crate::app::App;
use crate::client::Client;
use crate::commands::status::something_happened;
use crate::ends;
use crate::error::CliError;
use crate::process::ExitCode;
use crate::render;

/// Load and memory move on even when nothing happens.
const REDRAW_EVERY: Duration = Duration::from_secs(2);

/// Show GPUs: temperature, load, memory, jobs, processes
///
/// One line for each GPU: number, name, temperature, load, memory used and in all, then the ids of its jobs and its
/// processes as user:program/pid(memory).
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nexus gpus
  nexus gpus -w")]
pub struct GpusArgs {
    /// Redraws it whenever something happens, and every two seconds
    #[arg(long, short)]
    pub watch: bool,
    /// Prints the machines and their GPUs as JSON
    #[arg(long)]
    pub json: bool,
}

pub async fn run(args: GpusArgs, app: &App) -> Result<ExitCode, CliError> {
    let client = app.reader();
    // First: without a service there is nothing to watch, which is said at once.
    let machines = client.gpus().await?;
    if args.watch {
        tokio::select! {
            ended = watch(&client, app, args.json) => ended?,
            _ = tokio::signal::ctrl_c() => {}
        }
        return Ok(ExitCode::SUCCESS);
    }
    match args.json {
        true => app.ui.json(&machines)?,
        false => app.ui.data(&render::gpus::gpus(&machines, app.ui.paint()))?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn watch(client: &Client, app: &App, json: bool) -> Result<(), CliError> {
    let mut events = ends::listen(client).await?;
    let mut first = true;
    loop {
        let machines = client.gpus().await?;
        match json {
            true => app.ui.json(&machines)?,
            false => app.ui.redraw(&render::gpus::gpus(&machines, app.ui.paint()), first)?,
        }
        first = false;
        if !something_happened(&mut events, REDRAW_EVERY).await {
            events = ends::listen(client).await?;
        }
    }
}
