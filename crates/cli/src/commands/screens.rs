//! `nexus screens`: the sessions of GNU screen.

use crate::app::App;
use crate::error::CliError;
use crate::process::ExitCode;
use crate::render;

/// Show the GNU screen sessions of jobs and service
///
/// Jobs added with --screen, and the service after start --screen, can be seen in a session of GNU screen.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Example:
  nexus screens")]
pub struct ScreensArgs {
    /// Prints them as JSON
    #[arg(long)]
    pub json: bool,
}

pub async fn run(args: ScreensArgs, app: &App) -> Result<ExitCode, CliError> {
    let screens = app.reader().screens().await?;
    if args.json {
        app.ui.json(&screens)?;
    } else if screens.is_empty() {
        app.ui.say("no sessions of GNU screen: nexus add --screen makes one");
    } else {
        app.ui.data(&render::screens::screens(&screens, app.ui.paint()))?;
    }
    Ok(ExitCode::SUCCESS)
}
