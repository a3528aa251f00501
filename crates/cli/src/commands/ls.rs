//! `nexus ls`: everything alive.

use jiff::Zoned;
use nexus_api::jobs::JobQuery;
use nexus_node::system_file;

use crate::app::App;
use crate::error::CliError;
use crate::narrow::NarrowArgs;
use crate::process::ExitCode;
use crate::render;
use crate::render::reason::Capacity;

/// Show everything alive in squeue's columns
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nexus ls
  nexus ls tag:night")]
pub struct LsArgs {
    /// Only these jobs (nexus help selectors)
    #[arg(value_name = "SEL")]
    pub selectors: Vec<String>,
    #[command(flatten)]
    pub narrow: NarrowArgs,
    /// Prints the jobs as JSON
    #[arg(long)]
    pub json: bool,
}

pub async fn run(args: LsArgs, app: &App) -> Result<ExitCode, CliError> {
    let client = app.reader();
    let select = (!args.selectors.is_empty()).then(|| args.selectors.join("\n"));
    let jobs =
        client.jobs(&args.narrow.of(JobQuery { select, state: Some("alive".into()), ..JobQuery::default() })).await?;
    if args.json {
        app.ui.json(&jobs)?;
        return Ok(ExitCode::SUCCESS);
    }
    let capacity = Capacity::of(&client.status(false).await?);
    app.ui.data(&render::ls::ls(&jobs, &user(), capacity, &Zoned::now(), app.ui.paint()))?;
    Ok(ExitCode::SUCCESS)
}

fn user() -> String {
    let named = |name: &str| std::env::var(name).ok().filter(|user| !user.is_empty());
    let id = rustix::process::getuid().as_raw().to_string();
    named("USER").or_else(|| named("LOGNAME")).or_else(|| listed(&id)).unwrap_or(id)
}

/// The name of a user id in the local list of users.
fn listed(id: &str) -> Option<String> {
    let users = system_file::read_text("/etc/passwd").ok()?;
    let of_line = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == id).then(|| name.to_string())
    };
    users.lines().find_map(of_line)
}
