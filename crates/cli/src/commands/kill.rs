//! `nexus kill`: end running jobs.

use nexus_api::jobs::{Action, Job, State};
use nexus_api::machines::MachineState;
use nexus_api::service::Machine;

use crate::app::App;
use crate::chosen;
use crate::client::Client;
use crate::ends;
use crate::error::CliError;
use crate::process::ExitCode;
use crate::render::{outcome, place, text};

/// End running jobs
///
/// TERM to the whole process tree, after the grace KILL; returns when they are gone. What waits of a sweep is held, so that
/// it does not start instead.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nexus kill abc
  nexus kill 0          (the job on GPU 0)
  nexus kill -y tag:night")]
pub struct KillArgs {
    /// Jobs (nexus help selectors)
    #[arg(value_name = "SEL", required = true)]
    pub selectors: Vec<String>,
    /// Returns at once
    #[arg(long)]
    pub no_wait: bool,
    /// Does not ask
    #[arg(long, short)]
    pub yes: bool,
}

pub async fn run(args: KillArgs, app: &App) -> Result<ExitCode, CliError> {
    let client = app.started().await?;
    let mut jobs = chosen::choose(&client, &args.selectors, chosen::KILL).await?;
    chosen::confirm_many(&app.ui, "kill", &jobs, args.yes)?;
    if hold_rest(&client, &args.selectors, app).await? {
        // One may have started meanwhile.
        jobs = chosen::choose(&client, &args.selectors, chosen::KILL).await?;
    }
    let asked = client.act(Action::Kill, chosen::on(&jobs, chosen::KILL)).await?;
    tell_ends(&client, &asked, args.no_wait, app).await?;
    Ok(ExitCode::SUCCESS)
}

/// Who kills a sweep does not want its next jobs to start instead: they are held. Whether there were any.
async fn hold_rest(client: &Client, selectors: &[String], app: &App) -> Result<bool, CliError> {
    let mut any = false;
    for sweep in selectors.iter().filter(|selector| selector.starts_with("sweep:")) {
        let waiting = chosen::fitting(client, sweep, chosen::HOLD).await?;
        let waiting: Vec<Job> = waiting.into_iter().filter(|job| job.state == State::Queued).collect();
        if waiting.is_empty() {
            continue;
        }
        let held = client.act(Action::Hold, chosen::on(&waiting, chosen::HOLD)).await?;
        let (count, are) = (text::counted(held.len() as u64, "job"), if held.len() == 1 { "is" } else { "are" });
        app.ui.say(&format!("{count} of it waited and {are} held: nexus release {sweep}, or nexus remove {sweep}"));
        any = true;
    }
    Ok(any)
}

/// Those on machines whose line is lost, and the others.
async fn apart(client: &Client, jobs: &[Job]) -> Result<(Vec<Job>, Vec<Job>), CliError> {
    if jobs.iter().all(|job| job.machine.as_deref().is_none_or(|name| name == "local")) {
        return Ok((vec![], jobs.to_vec()));
    }
    let is_lost = |machine: &Machine| machine.pool.as_ref().is_some_and(|pool| pool.state == MachineState::Unreachable);
    let lost: Vec<String> = client.machines().await?.into_iter().filter(is_lost).map(|machine| machine.name).collect();
    Ok(jobs.iter().cloned().partition(|job| job.machine.as_ref().is_some_and(|name| lost.contains(name))))
}

/// Names each job when it has ended, or what it was asked when nobody waits for that.
pub async fn tell_ends(client: &Client, asked: &[Job], no_wait: bool, app: &App) -> Result<(), CliError> {
    let paint = app.ui.paint();
    if no_wait {
        for job in asked {
            app.ui.data(&outcome::done(&format!("asked to end{}", place::on_place(job)), job, paint))?;
        }
        return Ok(());
    }
    let (away, here) = apart(client, asked).await?;
    for job in &away {
        let machine = job.machine.as_deref().unwrap_or_default();
        app.ui.say(&format!(
            "{} goes on until {machine}, which cannot be reached, is there again; then it is ended",
            job.id
        ));
    }
    ends::wait(client, &chosen::ids(&here), |job| app.ui.data(&outcome::ended(job, paint))).await?;
    Ok(())
}
