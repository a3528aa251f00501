//! `nexus mcp`: what nexus can do, as tools of the Model Context Protocol over stdin and stdout.
//!
//! [`server`] takes a [`call`], [`tools`] says what there is to call, [`asked`] reads arguments, [`way`] reaches the service
//! through its restarts, [`answer`] and [`brief`] put into words and facts what came of it. The others are a tool each, or
//! a few that look alike.

mod answer;
mod asked;
mod brief;
mod call;
mod kill;
mod list;
mod logs;
mod look;
mod server;
mod submit;
mod sweep;
mod sweep_results;
mod tools;
mod wait;
mod way;

use std::io::IsTerminal;

use self::way::Way;
use crate::app::App;
use crate::error::CliError;
use crate::process::ExitCode;
use crate::ui::{ColorWhen, Ui};

/// Serve tools to AI assistants: submit, list, why, logs, wait, kill, sweeps
///
/// Speaks the Model Context Protocol on its standard input and output, and ends when the input does; jobs go on. It is
/// started by a client of that protocol, not typed. Whoever may call submit runs commands as you: --read-only leaves
/// out all tools that change something.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples (as a client is told to start it):
  nexus mcp
  nexus mcp --read-only
  ssh box nexus mcp")]
pub struct McpArgs {
    /// Only tools that change nothing; no service is started
    #[arg(long)]
    pub read_only: bool,
}

pub async fn run(args: McpArgs, app: &App) -> Result<ExitCode, CliError> {
    if std::io::stdin().is_terminal() {
        app.ui.say("a client of the Model Context Protocol is expected on standard input; Ctrl-D ends this");
    }
    // Nothing is painted: whatever it says is read by a program.
    let own = App { ui: Ui::new(ColorWhen::Never), home: app.home.clone(), client: app.client.clone() };
    server::serve(Way::new(own, args.read_only)).await?;
    Ok(ExitCode::SUCCESS)
}
