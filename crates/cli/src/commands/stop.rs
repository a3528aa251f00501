//! `nexus stop`: the service and its jobs.

use std::time::Duration;

use nexus_node::lock_holder::{self, Ended, Signature};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::app::App;
use crate::chosen;
use crate::client::Client;
use crate::error::{CliError, Refused};
use crate::misplaced;
use crate::process::ExitCode;
use crate::render::text;

/// Stop the service and its running jobs
///
/// The queue stays. Asks when jobs run; returns when the service is gone.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nexus stop
  nexus stop --keep-jobs    (running jobs go on)")]
pub struct StopArgs {
    /// Does not ask
    #[arg(long, short)]
    pub yes: bool,
    /// Lets running jobs go on without the service
    #[arg(long)]
    pub keep_jobs: bool,
    #[arg(hide = true)]
    pub words: Vec<String>,
}

pub async fn run(args: StopArgs, app: &App) -> Result<ExitCode, CliError> {
    misplaced::refuse("stop", &args.words)?;
    let client = app.reader();
    if !client.answers().await? {
        if !end_silent(app)? {
            app.ui.say("no service runs in this home");
        }
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(trouble) = client.service().await?.trouble {
        stop(&client, true).await?;
        app.ui.say("service stopped; running jobs go on, since their ends could not be written down");
        app.ui.say(&trouble.title);
        trouble.hint.iter().for_each(|hint| app.ui.say(hint));
        return Ok(ExitCode::SUCCESS);
    }
    if !args.yes && !args.keep_jobs {
        ask(&client, app).await?;
    }
    stop(&client, args.keep_jobs).await?;
    app.ui.say("service stopped");
    Ok(ExitCode::SUCCESS)
}

/// Ends a service that holds the home and does not answer, by a signal. Returns whether there was one.
pub fn end_silent(app: &App) -> Result<bool, CliError> {
    let Some(holder) = lock_holder::holder(&app.home.dir) else { return Ok(false) };
    let Signature { pid, socket } = holder.signature.clone();
    app.ui.note(&format!("the service (pid {pid}) does not answer on {}: it is ended by a signal", socket.display()));
    // Nothing else is to be done meanwhile.
    let ended = holder.end().map_err(CliError::io(format!("process {pid} cannot be ended")))?;
    app.ui.say(match ended {
        Ended::BySignal => "service stopped; running jobs go on",
        Ended::Killed => "service killed, since it did not end when asked to; running jobs go on",
    });
    Ok(true)
}

async fn ask(client: &Client, app: &App) -> Result<(), CliError> {
    let active = client.status(false).await?.active;
    if active.is_empty() {
        return Ok(());
    }
    let running = format!("{} would be ended", text::counted(active.len() as u64, "running job"));
    if !app.ui.can_ask() {
        return Err(Refused {
            error: "the service was not stopped".into(),
            why: Some(running),
            hint: Some("nexus stop -y, or nexus stop --keep-jobs".into()),
        }
        .into());
    }
    app.ui.say(&chosen::listing(&app.ui, &active));
    match app.ui.confirm(&format!("{running}. stop?")) {
        true => Ok(()),
        false => Err(Refused { error: "nothing was done".into(), why: None, hint: None }.into()),
    }
}

/// Between two looks whether the process of the service is gone.
const END_LOOK: Duration = Duration::from_millis(5);

/// Stops the service and returns when its process is gone.
pub async fn stop(client: &Client, keep_jobs: bool) -> Result<(), CliError> {
    let pid = client.service().await?.pid;
    let process = i32::try_from(pid).ok().and_then(Pid::from_raw).map(|pid| pidfd_open(pid, PidfdFlags::empty()));
    client.stop(keep_jobs).await?;
    // A process that cannot be opened is gone already.
    let Some(Ok(process)) = process else { return Ok(()) };
    // Our connections must close meanwhile, for the service waits for that: nothing here may block.
    loop {
        match poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&Timespec::default())) {
            Ok(0) | Err(Errno::INTR) => tokio::time::sleep(END_LOOK).await,
            Ok(_) => return Ok(()),
            Err(error) => return Err(CliError::io("the end of the service could not be awaited")(error.into())),
        }
    }
}
