//! What became of sweeps: all of them, one of them, and its jobs as a table.

use jiff::Zoned;
use nexus_api::sweeps::Sweep;

use super::{CsvArgs, LsArgs, ShowArgs};
use crate::app::App;
use crate::client::Client;
use crate::error::{CliError, Refused};
use crate::render::{sweep, sweep_csv};

pub async fn ls(args: LsArgs, app: &App) -> Result<(), CliError> {
    let sweeps = app.reader().sweeps().await?;
    if args.json {
        return app.ui.json(&sweeps);
    }
    if sweeps.is_empty() {
        app.ui.say("there are no sweeps");
        return Ok(());
    }
    app.ui.data(&sweep::ls(&sweeps, &Zoned::now(), app.ui.out_is_terminal(), app.ui.paint()))
}

pub async fn show(args: ShowArgs, app: &App) -> Result<(), CliError> {
    let found = named(args.name.as_deref(), &app.reader()).await?;
    match args.json {
        true => app.ui.json(&found),
        false => app.ui.data(&sweep::show(&found, &Zoned::now(), app.ui.paint())),
    }
}

pub async fn csv(args: CsvArgs, app: &App) -> Result<(), CliError> {
    let client = app.reader();
    let found = named(args.name.as_deref(), &client).await?;
    let jobs = client.sweep_jobs(&found.name).await?;
    app.ui.colourless(&sweep_csv::csv(&found, &jobs))
}

/// That of a name, or the newest.
pub async fn named(name: Option<&str>, client: &Client) -> Result<Sweep, CliError> {
    if let Some(name) = name {
        return client.sweep(name.strip_prefix("sweep:").unwrap_or(name)).await;
    }
    let sweeps = client.sweeps().await?;
    // Of those of one moment the last is the newest.
    sweeps.into_iter().max_by(|one, other| one.submitted_at.cmp(&other.submitted_at)).ok_or_else(|| {
        let hint = "nexus sweep \"train --lr {lr}\" lr=0.1,0.01".to_string();
        Refused { error: "there are no sweeps".into(), why: None, hint: Some(hint) }.into()
    })
}
