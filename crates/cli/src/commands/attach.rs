//! `nexus attach`: a job's terminal.

use std::io::IsTerminal;
use std::time::Duration;

use jiff::Zoned;
use nexus_api::jobs::{Job, State};
use nexus_api::run_dir::{Cause, ExitRecord, ExitStatus, Oom, gpu_is_held};
use tokio::time::{Instant, sleep};

use crate::app::App;
use crate::attach::{self, Left};
use crate::chosen;
use crate::client::Client;
use crate::error::{CliError, Refused};
use crate::process::ExitCode;
use crate::render::outcome;
use crate::render::reason::{self, Capacity};
use crate::signals;

/// Lines of service.log that are shown at first.
const LAST_LINES: u64 = 20;

/// A run that ended is written down within this time.
const RECORD_LIMIT: Duration = Duration::from_secs(2);
const RECORD_LOOK: Duration = Duration::from_millis(20);

/// Show a running job's terminal and type into it
///
/// Ctrl+A D detaches, the job goes on. Ctrl+A A sends a Ctrl+A. Several may attach at once: they see the
/// same, all may type, and the window is as large as the smallest of theirs. The word service shows service.log.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nexus attach abc
  nexus attach 0          (the job on GPU 0)
  nexus attach service")]
pub struct AttachArgs {
    /// A job (nexus help selectors), a GPU, or service
    #[arg(value_name = "ID|GPU|service")]
    pub target: String,
    /// Only looks: what is typed goes nowhere
    #[arg(long)]
    pub read_only: bool,
}

pub async fn run(args: AttachArgs, app: &App) -> Result<ExitCode, CliError> {
    let client = app.reader();
    if args.target == "service" {
        return follow_service(&client, app).await;
    }
    let job = chosen::choose_one(&client, &args.target).await?;
    check(&job, &client).await?;
    need_terminal(app, &format!("nexus logs -f {}", job.id))?;
    let mut greetings = vec![format!("attached to {}; Ctrl+A D detaches", job.id)];
    // Only what nobody would guess: screen's own folder could not be used. An older service knows of no sessions.
    let screens = client.screens().await.unwrap_or_default();
    if let Some(own) = screens.iter().find(|one| one.job.as_ref() == Some(&job.id) && one.command.contains('=')) {
        greetings.push(format!("in GNU screen: {}", own.command));
    }
    match attach::attach(&client, &job.id, args.read_only, greetings, &app.ui).await? {
        Left::Detached | Left::Told => app.ui.say(&format!("[detached from {}; it goes on]", job.id)),
        Left::Ended(record) => app.ui.say(&format!("[{}]", how_it_ended(&client, &job, Some(&record), app).await)),
        Left::EndedUnseen => app.ui.say(&format!("[{}]", how_it_ended(&client, &job, None, app).await)),
    }
    Ok(ExitCode::SUCCESS)
}

fn need_terminal(app: &App, instead: &str) -> Result<(), CliError> {
    if app.ui.out_is_terminal() && std::io::stdin().is_terminal() {
        return Ok(());
    }
    let error = "attach needs a terminal".into();
    Err(Refused { error, why: Some("this is none".into()), hint: Some(instead.to_string()) }.into())
}

/// Jobs that have no terminal now, in their own words.
async fn check(job: &Job, client: &Client) -> Result<(), CliError> {
    let own = std::env::var("NEXUS_JOB_ID").is_ok_and(|id| id == job.id);
    let error = format!("job {} cannot be attached to", job.id);
    let refused = |why: String, hint: String| Err(Refused { error, why: Some(why), hint: Some(hint) }.into());
    match job.state {
        State::Held | State::Queued | State::Starting if job.state != State::Starting || job.waiting.is_some() => {
            let capacity = Capacity::of(&client.status(false).await?);
            let why = reason::of_job(job, capacity, &Zoned::now());
            let why = format!("it has not started: {}", if why.is_empty() { job.state.word() } else { &why });
            refused(why, format!("nexus logs -f {0} shows its output from the start, nexus wait {0} waits", job.id))
        }
        state if state.has_ended() => {
            refused(format!("it has ended: {}", outcome::state_words(job)), format!("nexus logs {}", job.id))
        }
        State::Copying => refused("its process has ended".into(), format!("nexus logs {}", job.id)),
        _ if own => {
            refused("this is its own terminal, which would show itself".into(), format!("nexus show {}", job.id))
        }
        _ => Ok(()),
    }
}

/// What the service has written down; the shim's own word where another attempt follows.
async fn how_it_ended(client: &Client, before: &Job, record: Option<&ExitRecord>, app: &App) -> String {
    let until = Instant::now() + RECORD_LIMIT;
    loop {
        match client.job(&before.id, false).await {
            Ok(now) if now.job.state.has_ended() => return outcome::ended(&now.job, app.ui.talk_paint()),
            // Neither its end nor, perhaps, its start is written down yet.
            Ok(now)
                if now.job.attempt == before.attempt
                    && matches!(now.job.state, State::Starting | State::Running)
                    && Instant::now() < until => {}
            Ok(now) => {
                let how = record.map_or_else(|| "its run ended".into(), in_short);
                return format!("{}: {how}; it is {} now", before.id, now.job.state.word());
            }
            // The service is away: the job has ended all the same.
            Err(_) => return format!("{}: {}", before.id, record.map_or_else(|| "it ended".into(), in_short)),
        }
        sleep(RECORD_LOOK).await;
    }
}

fn in_short(record: &ExitRecord) -> String {
    let how = match &record.status {
        ExitStatus::Exited { code } => format!("exit {code}"),
        ExitStatus::Signaled { signal } => signals::described(*signal),
        ExitStatus::StartError { error, .. } | ExitStatus::MachineError { error } => error.clone(),
        ExitStatus::GpuLocked { uuid, user, pid } => gpu_is_held(uuid, user.as_deref(), *pid),
        ExitStatus::NeverBegan => "it never began".into(),
    };
    match record.cause {
        Cause::Own => match record.oom {
            Some(Oom::Gpu) => format!("gpu-oom ({how})"),
            Some(Oom::Host) => format!("host-oom ({how})"),
            None => how,
        },
        Cause::Asked => format!("killed ({how})"),
        Cause::Timeout => format!("timeout ({how})"),
        Cause::SessionClosed => format!("its session was closed ({how})"),
        Cause::Preempted => format!("preempted ({how})"),
        Cause::Cancelled => format!("cancelled in the cluster ({how})"),
    }
}

async fn follow_service(client: &Client, app: &App) -> Result<ExitCode, CliError> {
    let body = client.service_log(LAST_LINES, None).await?;
    need_terminal(app, &format!("tail -f {}", app.home.service_log().display()))?;
    app.ui.say("[service.log; Ctrl+A D or Ctrl+C leaves]");
    match attach::follow(body, &app.ui).await? {
        Left::EndedUnseen => app.ui.say("[the service has ended]"),
        _ => app.ui.say("[the service goes on]"),
    }
    Ok(ExitCode::SUCCESS)
}
