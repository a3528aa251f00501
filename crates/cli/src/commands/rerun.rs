//! `nexus rerun`: new jobs with the spec of old ones.

use jiff::Zoned;
use nexus_api::jobs::{Rerun, State};

use crate::app::App;
use crate::chosen;
use crate::commands::add::tell_notes;
use crate::error::{CliError, Refused};
use crate::process::ExitCode;
use crate::render::prospect;
use crate::render::reason::Capacity;
use crate::secrets;

/// Queue jobs again
///
/// Each becomes a new job with the same command, folder, environment and needs. Values whose name looks like
/// a secret were dropped when the job ended and are taken from here: export NAME=… first. A note says which are missing.
/// Each has a folder of its own for checkpoints, empty at first, or with --resume that of the old job, which must have
/// ended.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nexus rerun abc
  nexus rerun --failed sweep:lr-grid
  nexus rerun --resume abc")]
pub struct RerunArgs {
    /// Jobs (nexus help selectors)
    #[arg(value_name = "SEL", required = true)]
    pub selectors: Vec<String>,
    /// Only those that failed
    #[arg(long)]
    pub failed: bool,
    /// They go on from the checkpoints of the old ones: with the same NEXUS_CHECKPOINT_DIR
    #[arg(long)]
    pub resume: bool,
    /// Prints the new jobs as JSON
    #[arg(long)]
    pub json: bool,
    /// Prints the ids alone
    #[arg(long, short)]
    pub quiet: bool,
}

pub async fn run(args: RerunArgs, app: &App) -> Result<ExitCode, CliError> {
    let client = app.started().await?;
    let mut jobs = chosen::choose(&client, &args.selectors, chosen::ANY).await?;
    if args.failed {
        // One that was repeated already is what became of that.
        jobs.retain(|job| job.state == State::Failed && job.replaced_by.is_none());
    }
    if jobs.is_empty() {
        let error = format!("nothing of {} has failed", args.selectors.join(" "));
        return Err(Refused { error, why: None, hint: Some("nexus rerun without --failed".into()) }.into());
    }
    let wish = Rerun { ids: chosen::ids(&jobs), secrets: secrets::of_caller(), resume: args.resume };
    let submitted = client.rerun(&wish).await?;
    if args.json {
        app.ui.json(&submitted)?;
    } else if args.quiet || !app.ui.out_is_terminal() {
        app.ui.data(&submitted.jobs.iter().map(|job| format!("{}\n", job.id)).collect::<String>())?;
    } else {
        let capacity = Capacity::of(&client.status(false).await?);
        let now = Zoned::now();
        let line = |job| format!("{}\n", prospect::line(job, capacity, &now, app.ui.paint()));
        app.ui.data(&submitted.jobs.iter().map(line).collect::<String>())?;
    }
    tell_notes(&submitted.notes, app);
    Ok(ExitCode::SUCCESS)
}
