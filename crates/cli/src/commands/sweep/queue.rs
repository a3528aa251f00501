//! A sweep on its way into the queue. All of it is looked at here before anything is sent.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher};
use std::path::Path;

use nexus_api::jobs::JobSpec;
use nexus_api::problem::Problem;
use nexus_api::sweeps::{NewSweep, Points, STOP_AFTER, SweepQueued, Table};
use serde::Serialize;

use super::{SweepArgs, asked};
use crate::app::App;
use crate::client::Client;
use crate::commands::add;
use crate::error::{CliError, Usage};
use crate::render::sweep as shown;
use crate::render::text;
use crate::typed_file;

/// Commands that a dry run shows on a terminal.
const SHOWN: usize = 20;

pub async fn run(args: SweepArgs, app: &App) -> Result<(), CliError> {
    let (mut sweep, points) = meant(&args, app)?;
    if args.add.dry_run {
        return would_queue(&args, &sweep, &points, app);
    }
    let client = app.started().await?;
    add::name_parents(&client, &mut sweep.spec).await?;
    let queued = client.new_sweep(&sweep).await?;
    add::tell_notes(&queued.notes, app);
    warn_if_hopeless(&client, &queued, app).await;
    if args.add.json {
        return app.ui.json(&queued);
    }
    if args.add.quiet || !app.ui.out_is_terminal() {
        return app.ui.data(&(queued.ids.join("\n") + "\n"));
    }
    app.ui.data(&shown::queued(&queued, app.ui.paint()))?;
    app.ui.say(&shown::next(&queued.sweep.name));
    Ok(())
}

/// What was typed, as it is meant, and the points it comes to.
pub fn meant(args: &SweepArgs, app: &App) -> Result<(NewSweep, Points), CliError> {
    let usage = |usage: Usage| usage.of("sweep");
    let from = args.from.as_deref();
    let words = asked::words(&args.add.command).map_err(usage)?;
    let table = from.map(|file| table(file, app)).transpose()?;
    let plan = asked::plan(args, words.axes, table, new_seed()).map_err(usage)?;
    let points = plan.points(args.add.copies).map_err(|bad| usage(asked::bad(bad, from)))?;
    let mut typed = args.add.clone();
    let name = asked::name(typed.name.take().as_deref()).map_err(usage)?;
    typed.command = vec![words.command];
    let spec = add::spec(&typed, &[], "sweep", app)?;
    asked::check_extracts(&spec.extract, &points.names).map_err(usage)?;
    points.check_used(&spec).map_err(|bad| usage(asked::bad(bad, from)))?;
    check_commands(&spec, &points)?;
    let stop_after = args.stop_after.unwrap_or(STOP_AFTER);
    Ok((NewSweep { name, spec, plan, copies: args.add.copies, max_running: args.max_running, stop_after }, points))
}

fn table(file: &Path, app: &App) -> Result<Table, CliError> {
    let shown = file.display();
    let text =
        typed_file::read_to_string(file, &app.ui).map_err(CliError::io(format!("--from {shown} cannot be read")))?;
    let is_json = match file.extension().and_then(|extension| extension.to_str()) {
        Some("json") => true,
        Some("csv") => false,
        _ => text.trim_start_matches('\u{feff}').trim_start().starts_with(['[', '{']),
    };
    let table = if is_json { Table::from_json(&text) } else { Table::from_csv(&text) };
    table.map_err(|bad| asked::bad(bad, Some(file)).of("sweep"))
}

/// One bad command queues no job at all.
fn check_commands(spec: &JobSpec, points: &Points) -> Result<(), CliError> {
    for row in &points.rows {
        let command = points.command(&spec.command, row);
        command.check().map_err(|bad| Problem::BadCommand { bad })?;
    }
    Ok(())
}

/// Short enough to be typed again.
fn new_seed() -> u64 {
    std::collections::hash_map::RandomState::new().build_hasher().finish() >> 32
}

/// A job as it would be queued.
#[derive(Serialize)]
struct Would {
    command: String,
    params: BTreeMap<String, String>,
}

fn would_queue(args: &SweepArgs, sweep: &NewSweep, points: &Points, app: &App) -> Result<(), CliError> {
    let command = |row: &[String]| points.command(&sweep.spec.command, row).text();
    if args.add.json {
        let params = |row: &[String]| points.names.iter().cloned().zip(row.iter().cloned()).collect();
        let would = points.rows.iter().map(|row| Would { command: command(row), params: params(row) });
        return app.ui.json(&would.collect::<Vec<_>>());
    }
    if !args.add.quiet {
        let jobs = text::counted(points.rows.len() as u64, "job");
        app.ui.say(&format!("{jobs} would be queued{}", shown::drawn(&sweep.plan)));
    }
    if !app.ui.out_is_terminal() {
        let lines: String = points.rows.iter().map(|row| format!("{}\n", command(row))).collect();
        return app.ui.data(&lines);
    }
    let line = |row: &Vec<String>| format!("{}\n", app.ui.paint().command(&text::printable(&command(row))));
    let mut lines: String = points.rows.iter().take(SHOWN).map(line).collect();
    if points.rows.len() > SHOWN {
        lines.push_str(&format!("… and {} more\n", points.rows.len() - SHOWN));
    }
    app.ui.data(&lines)
}

/// Its jobs need the same: what holds for the first holds for all.
async fn warn_if_hopeless(client: &Client, queued: &SweepQueued, app: &App) {
    let Some(first) = queued.ids.first() else { return };
    // One that is gone meanwhile needs no warning.
    if let Ok(jobs) = client.selected(std::slice::from_ref(first), None).await {
        add::warn_if_hopeless(client, &jobs, app).await;
    }
}
