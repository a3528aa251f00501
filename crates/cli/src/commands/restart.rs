//! `nexus restart`: a new service for the same home; jobs go on.

use crate::app::App;
use crate::commands::stop;
use crate::error::CliError;
use crate::misplaced;
use crate::process::ExitCode;
use crate::start::StartOptions;
use crate::unit;

/// Restart the service; running jobs go on
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Example:
  nexus restart")]
pub struct RestartArgs {
    #[arg(hide = true)]
    pub words: Vec<String>,
}

pub async fn run(args: RestartArgs, app: &App) -> Result<ExitCode, CliError> {
    misplaced::refuse("restart", &args.words)?;
    let client = app.reader();
    let mut had_screen = false;
    if client.answers().await? {
        nexus_daemon::check_config(&app.home)?;
        let service = client.service().await?;
        had_screen = service.screen.is_some();
        if !unit::restart(&client, &app.home, service.pid).await && client.answers().await? {
            stop::stop(&client, true).await?;
        }
    } else {
        // A service that holds the home and does not answer would keep the new one out.
        stop::end_silent(app)?;
    }
    app.start(StartOptions::default()).await?;
    if had_screen {
        client.open_screen().await?;
    }
    let service = client.service().await?;
    app.ui.say(&format!("service started (pid {}) in {}", service.pid, service.home));
    Ok(ExitCode::SUCCESS)
}
