//! `nexus wait`: block until jobs have ended.

use std::process::ExitCode;

use nexus_api::jobs::{Job, State};

use crate::app::App;
use crate::chosen;
use crate::ends;
use crate::error::{CliError, code};
use crate::render::{outcome, text};

/// Wait until jobs have ended
///
/// Exit code 0 if all of them completed, else 1.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nexus wait abc && echo done
  nexus wait --all")]
pub struct WaitArgs {
    /// Jobs (nexus help selectors)
    #[arg(value_name = "SEL", required_unless_present = "all", conflicts_with = "all")]
    pub selectors: Vec<String>,
    /// Everything that is alive now
    #[arg(long)]
    pub all: bool,
    /// Prints the ended jobs as JSON
    #[arg(long)]
    pub json: bool,
}

pub async fn run(args: WaitArgs, app: &App) -> Result<ExitCode, CliError> {
    let client = app.reader();
    let jobs = match args.all {
        true => chosen::all_alive(&client).await?,
        false => chosen::choose(&client, &args.selectors, chosen::ANY).await?,
    };
    for job in jobs.iter().filter(|job| job.state == State::Held) {
        app.ui.say(&format!("{} is held and does not start before: nexus release {}", job.id, job.id));
    }
    if app.ui.out_is_terminal() && !jobs.is_empty() {
        app.ui.say(&format!("waiting for {}", text::counted(jobs.len() as u64, "job")));
    }
    let ended = ends::wait(&client, &chosen::ids(&jobs), |job| match args.json {
        true => Ok(()),
        false => app.ui.data(&line(job, app)),
    })
    .await?;
    if args.json {
        app.ui.json(&ended)?;
    }
    let all_completed = ended.len() == jobs.len() && ended.iter().all(|job| job.state == State::Completed);
    Ok(if all_completed { ExitCode::SUCCESS } else { ExitCode::from(code::CANNOT_BE_MET) })
}

fn line(job: &Job, app: &App) -> String {
    outcome::ended(job, app.ui.paint())
}
