//! `nexus results`: what jobs left behind, and copies of it.

use std::path::PathBuf;
use std::time::Duration;

use nexus_api::jobs::State;
use nexus_api::left::{CopyResults, Results};
use nexus_api::results::ResultsState;

use crate::app::App;
use crate::chosen;
use crate::client::Client;
use crate::error::{CliError, Usage, code};
use crate::process::ExitCode;
use crate::render;

/// How often a copy is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(150);

/// Show what jobs left behind, and copy it
///
/// A job leaves what it names in lines `RESULTS: path` of its output, relative to its folder (a path that does not exist
/// stands for all whose names begin so), and what it puts into the folder $NEXUS_RESULTS_DIR. A job that was added with
/// --results DIR and succeeded has all of it copied to DIR/ID; where that failed, this verb tries again. With --to it is
/// copied to DIR/ID of any job that has ended. Waits for the copy; exit code 1 if one failed.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nexus results abc
  nexus results abc --to ~/results
  nexus results tag:night --to /data/night")]
pub struct ResultsArgs {
    /// Jobs (nexus help selectors)
    #[arg(value_name = "SEL", required = true)]
    pub selectors: Vec<String>,
    /// Copies to a folder named by the job in this one
    #[arg(long, value_name = "DIR")]
    pub to: Option<PathBuf>,
    /// Prints it as JSON
    #[arg(long)]
    pub json: bool,
}

pub async fn run(args: ResultsArgs, app: &App) -> Result<ExitCode, CliError> {
    let to = args.to.as_deref().map(absolute).transpose()?;
    let client = app.reader();
    let jobs = chosen::choose(&client, &args.selectors, chosen::ANY).await?;
    let mut all = Vec::with_capacity(jobs.len());
    // All are begun before one is waited for; what cannot be begun stops none of the others.
    for job in &jobs {
        all.push(begun(&client, &job.id, to.as_deref()).await);
    }
    let (mut told, mut failed) = (Vec::new(), false);
    for results in all {
        let results = match results {
            Ok(results) => followed(&client, results, app).await?,
            Err(error) if jobs.len() > 1 && matches!(error, CliError::Problem(_)) => {
                app.ui.failed(&error.told(), None);
                failed = true;
                continue;
            }
            Err(error) => return Err(error),
        };
        failed |= has_failed(&results, to.is_some());
        // What became of a copy that somebody else asked for is in the record, if it counts.
        let copy = results.copy.clone().filter(|_| to.is_some());
        told.push(Results { copy, ..results });
    }
    match (args.json, told.as_slice()) {
        (true, [one]) if jobs.len() == 1 => app.ui.json(one)?,
        (true, all) => app.ui.json(&all)?,
        (false, all) => {
            let texts: Vec<String> = all.iter().map(|one| render::results::results(one, app.ui.paint())).collect();
            app.ui.data(&texts.join("\n"))?;
        }
    }
    Ok(if failed { ExitCode::from(code::CANNOT_BE_MET) } else { ExitCode::SUCCESS })
}

fn absolute(path: &std::path::Path) -> Result<String, CliError> {
    let bad = |what: String| Usage::new(format!("--to: {what}"), "--to DIR").of("results");
    if path.as_os_str().is_empty() {
        return Err(bad("no folder is named".into()));
    }
    let whole = std::path::absolute(path).map_err(CliError::io("the folder this was typed in cannot be found"))?;
    whole.into_os_string().into_string().map_err(|path| bad(format!("the path {path:?} is not valid UTF-8")))
}

/// Copied where that is to be done: with --to, or when the copy that the job asked for failed.
async fn begun(client: &Client, id: &str, to: Option<&str>) -> Result<Results, CliError> {
    if to.is_none() {
        let known = client.results(id).await?;
        if known.results_state != ResultsState::Failed.word() || known.state == State::Copying {
            return Ok(known);
        }
    }
    client.copy_results(id, &CopyResults { to: to.map(String::from) }).await
}

/// Until its copy is over.
async fn followed(client: &Client, mut results: Results, app: &App) -> Result<Results, CliError> {
    let mut drawn = false;
    while results.copy.as_ref().is_some_and(|copy| !copy.ended) || results.state == State::Copying {
        if app.ui.err_is_terminal() {
            app.ui.draw_line(&render::results::progress(&results));
            drawn = true;
        }
        tokio::time::sleep(LOOK_AGAIN).await;
        results = client.results(&results.id).await?;
    }
    if drawn {
        app.ui.draw_line("");
    }
    Ok(results)
}

/// `asked`: a copy was asked for, whatever the record of an earlier one says.
fn has_failed(results: &Results, asked: bool) -> bool {
    match &results.copy {
        Some(copy) if asked => copy.error.is_some(),
        _ => results.results_state == ResultsState::Failed.word(),
    }
}
