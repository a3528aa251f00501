//! `nexus start`: the service.

use std::process::ExitCode;

use crate::app::App;
use crate::error::CliError;
use crate::start::{Began, StartOptions};

/// Start the service
///
/// Returns when it answers; a success too when it runs already.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nexus start
  nexus start --simulate-gpus 2     (remembered; 0 ends it)")]
pub struct StartArgs {
    /// Pretends to have this many GPUs, remembered until it is 0
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=128))]
    pub simulate_gpus: Option<u16>,
    /// Shows service.log in a session of GNU screen: screen -r nexus; closing that stops the service, jobs go on
    #[arg(long)]
    pub screen: bool,
    /// Takes over a home that was made under another host name
    #[arg(long)]
    pub adopt_home: bool,
}

pub async fn run(args: StartArgs, app: &App) -> Result<ExitCode, CliError> {
    let options = StartOptions { simulate_gpus: args.simulate_gpus, adopt_home: args.adopt_home };
    let began = app.start(options).await?;
    let client = app.reader();
    if let (Began::Before, Some(count)) = (began, args.simulate_gpus) {
        client.simulate_gpus(count).await?;
    }
    if args.screen {
        client.open_screen().await?;
    }
    let service = client.service().await?;
    let word = match began {
        Began::Now => "started",
        Began::Before => "runs already",
    };
    app.ui.say(&format!("service {word} (pid {}) in {}", service.pid, service.home));
    if let Some(screen) = &service.screen {
        app.ui.say(&format!("to see it: {}", screen.to_type()));
    }
    Ok(ExitCode::SUCCESS)
}
