//! `nexus pause`: nothing new starts, anywhere or on some GPUs, until resume.

use crate::app::App;
use crate::error::CliError;
use crate::on_gpus;
use crate::process::ExitCode;
use crate::render::gpus::paused;

/// Pause the queue, or some GPUs
///
/// Without GPUs nothing new starts at all. With GPUs those take no new job; the others go on. What runs already
/// goes on either way. A pause is remembered until nexus resume.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nexus pause
  nexus pause 0,2-3")]
pub struct PauseArgs {
    /// GPUs, as in 0, 0,2-3 or local:1
    #[arg(value_name = "GPU")]
    pub gpus: Vec<String>,
}

pub async fn run(args: PauseArgs, app: &App) -> Result<ExitCode, CliError> {
    let named = on_gpus::read("pause", &args.gpus)?;
    let client = app.started().await?;
    if named.is_empty() {
        client.pause_queue(true).await?;
        app.ui.say("queue paused: running jobs go on, nothing new starts");
    }
    for on in &named {
        let gpus = client.pause_gpus(on, true).await?;
        app.ui.say(&paused(&gpus, &on.machine));
    }
    Ok(ExitCode::SUCCESS)
}
