//! `nexus why`: why a job waits or failed, and what to type.

use jiff::Zoned;

use crate::app::App;
use crate::chosen;
use crate::error::CliError;
use crate::process::ExitCode;
use crate::render;

/// Say why a job waits or failed, and what to type
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nexus why abc
  nexus why last")]
pub struct WhyArgs {
    /// A job (nexus help selectors)
    #[arg(value_name = "SEL")]
    pub selector: String,
    /// Prints the facts as JSON
    #[arg(long)]
    pub json: bool,
}

pub async fn run(args: WhyArgs, app: &App) -> Result<ExitCode, CliError> {
    let client = app.reader();
    let job = chosen::choose_one(&client, &args.selector).await?;
    let why = client.why(&job.id).await?;
    match args.json {
        true => app.ui.json(&why)?,
        false => app.ui.data(&render::why::why(&why, &Zoned::now(), app.ui.paint()))?,
    }
    Ok(ExitCode::SUCCESS)
}
