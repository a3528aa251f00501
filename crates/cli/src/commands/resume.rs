//! `nexus resume`: queued jobs start again, everywhere or on some GPUs.

use crate::app::App;
use crate::error::CliError;
use crate::on_gpus;
use crate::process::ExitCode;
use crate::render::gpus::resumed;

/// Resume the queue, or some GPUs
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nexus resume
  nexus resume 0,2-3")]
pub struct ResumeArgs {
    /// GPUs, as in 0, 0,2-3 or local:1
    #[arg(value_name = "GPU")]
    pub gpus: Vec<String>,
}

pub async fn run(args: ResumeArgs, app: &App) -> Result<ExitCode, CliError> {
    let named = on_gpus::read("resume", &args.gpus)?;
    let client = app.started().await?;
    if named.is_empty() {
        client.pause_queue(false).await?;
        app.ui.say("queue resumed");
    }
    for on in &named {
        let gpus = client.pause_gpus(on, false).await?;
        app.ui.say(&resumed(&gpus, &on.machine));
    }
    Ok(ExitCode::SUCCESS)
}
