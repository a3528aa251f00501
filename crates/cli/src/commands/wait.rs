//! `nexus wait`: block until jobs have ended.

use nexus_api::jobs::{Job, State};

use crate::app::App;
use crate::chosen;
use crate::ends;
use crate::error::{CliError, code};
use crate::process::ExitCode;
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

/// So many held jobs are named.
const NAMED: usize = 5;

pub async fn run(args: WaitArgs, app: &App) -> Result<ExitCode, CliError> {
    let client = app.reader();
    let jobs = match args.all {
        true => chosen::all_alive(&client).await?,
        false => chosen::current(&client, &args.selectors).await?,
    };
    held(&jobs).iter().for_each(|told| app.ui.say(told));
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

/// Said of those among the jobs that may never end.
pub fn held(jobs: &[Job]) -> Option<String> {
    let held: Vec<&str> = jobs.iter().filter(|job| job.state == State::Held).map(|job| job.id.as_str()).collect();
    match held.as_slice() {
        [] => None,
        [one] => Some(format!("{one} is held and does not start before: nexus release {one}")),
        some if some.len() <= NAMED => {
            Some(format!("{0} are held and do not start before: nexus release {0}", some.join(" ")))
        }
        many => Some(format!(
            "{} are held and do not start before they are released: nexus queue shows them",
            text::counted(many.len() as u64, "job")
        )),
    }
}

fn line(job: &Job, app: &App) -> String {
    outcome::ended(job, app.ui.paint())
}
