//! `nexus top`: the live dashboard.

use std::io::IsTerminal;

use crate::app::App;
use crate::commands::attach::{self, AttachArgs};
use crate::error::{CliError, Refused};
use crate::process::ExitCode;
use crate::top::{Left, Top};

/// Show a live dashboard: GPUs, jobs, queue, sweeps, machines
///
/// Redraws when something happens. Arrows choose a job, Enter follows its log, K kills it, h holds it, / finds; ? shows all
/// keys, q leaves. Works on any terminal of 60 columns and 15 lines, over ssh too.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Example:
  nexus top")]
pub struct TopArgs {}

pub async fn run(_: TopArgs, app: &App) -> Result<ExitCode, CliError> {
    need_terminal(app)?;
    let mut top = Top::new(app.started().await?, app);
    loop {
        match top.show().await? {
            Left::Quit => return Ok(ExitCode::SUCCESS),
            Left::Attach(id) => {
                if let Err(error) = attach::run(AttachArgs { target: id, read_only: false }, app).await {
                    top.tell(&error);
                }
            }
        }
    }
}

fn need_terminal(app: &App) -> Result<(), CliError> {
    // One that cannot place its cursor calls itself dumb.
    let draws = std::env::var("TERM").is_ok_and(|term| !matches!(term.as_str(), "" | "dumb"));
    if draws && app.ui.out_is_terminal() && std::io::stdin().is_terminal() {
        return Ok(());
    }
    let error = "top needs a terminal that it can draw on; nexus prints the same once, nexus status -w as it changes";
    Err(Refused { error: error.into(), why: None, hint: None }.into())
}
