//! `nexus`, `nexus status`: the snapshot.

use std::time::Duration;

use jiff::Zoned;
use nexus_api::service::Status;
use tokio::time::{Instant, sleep, timeout_at};

use crate::app::App;
use crate::client::{Client, Events};
use crate::ends;
use crate::error::CliError;
use crate::process::ExitCode;
use crate::render;
use crate::ui::Ui;

/// Runtimes move on even when nothing happens.
const REDRAW_EVERY: Duration = Duration::from_secs(30);

/// Events that come together are one picture.
const GATHER: Duration = Duration::from_millis(100);

/// Show queue, history, GPUs and running jobs
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
#[command(after_help = "\
Examples:
  nexus
  nexus status -w")]
pub struct StatusArgs {
    /// Redraws it whenever something happens
    #[arg(long, short)]
    pub watch: bool,
    /// Prints it as JSON
    #[arg(long)]
    pub json: bool,
}

pub async fn run(args: StatusArgs, app: &App, client: Client) -> Result<ExitCode, CliError> {
    if args.watch {
        tokio::select! {
            ended = watch(&client, &app.ui, args.json, |_| false) => ended?,
            _ = tokio::signal::ctrl_c() => {}
        }
        client.status(true).await?;
        return Ok(ExitCode::SUCCESS);
    }
    // A program that reads JSON has not shown the failures to anybody.
    let status = client.status(!args.json).await?;
    match args.json {
        true => app.ui.json(&status)?,
        false => app.ui.data(&render::status::status(&status, &Zoned::now(), app.ui.paint()))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Draws the status on every event until `enough`.
pub async fn watch(client: &Client, ui: &Ui, json: bool, enough: impl Fn(&Status) -> bool) -> Result<(), CliError> {
    let mut events = ends::listen(client).await?;
    let mut first = true;
    loop {
        let status = client.status(false).await?;
        match json {
            true => ui.json(&status)?,
            false => ui.redraw(&render::status::status(&status, &Zoned::now(), ui.paint()), first)?,
        }
        first = false;
        if enough(&status) {
            return Ok(());
        }
        if !something_happened(&mut events, REDRAW_EVERY).await {
            events = ends::listen(client).await?;
        }
    }
}

/// Waits for an event or the next regular picture; false when the service is gone.
pub async fn something_happened(events: &mut Events, redraw_every: Duration) -> bool {
    match timeout_at(Instant::now() + redraw_every, events.next()).await {
        Ok(None) => return false,
        Ok(Some(_)) => {}
        Err(_) => return true,
    }
    let gathered = sleep(GATHER);
    tokio::pin!(gathered);
    loop {
        tokio::select! {
            () = &mut gathered => return true,
            event = events.next() => if event.is_none() { return false },
        }
    }
}
