//! `nexus logs`: what a job printed.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use nexus_api::jobs::Job;
use nexus_api::problem::Problem;

use crate::app::App;
use crate::chosen;
use crate::client::{Body, Client, LogQuery};
use crate::collapse::Collapse;
use crate::error::CliError;
use crate::process::ExitCode;

/// Show what a job printed
///
/// Both streams in the order of their arrival. On a terminal progress bars are shown as they ended; piped,
/// every byte comes as it was written.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nexus logs            (the newest job)
  nexus logs abc -f
  nexus logs abc --stderr -n 20")]
pub struct LogsArgs {
    /// A job (nexus help selectors) [default: the newest]
    #[arg(value_name = "SEL", default_value = "last", hide_default_value = true)]
    pub selector: String,
    /// Goes on until the job ends
    #[arg(long, short)]
    pub follow: bool,
    /// Only the last lines
    #[arg(long, short = 'n', value_name = "N", allow_negative_numbers = true)]
    pub lines: Option<u64>,
    /// Only standard output
    #[arg(long, conflicts_with = "stderr")]
    pub stdout: bool,
    /// Only standard error
    #[arg(long)]
    pub stderr: bool,
    /// Of an earlier attempt
    #[arg(long, value_name = "K")]
    pub attempt: Option<u32>,
    /// Prints where the logs lie: standard output, then standard error
    #[arg(long)]
    pub path: bool,
    /// Shows it in $PAGER, or less
    #[arg(long, conflicts_with = "follow")]
    pub pager: bool,
}

pub async fn run(args: LogsArgs, app: &App) -> Result<ExitCode, CliError> {
    let client = app.reader();
    let job = chosen::choose_one(&client, &args.selector).await?;
    if args.path {
        app.ui.data(&paths(&client, &job, args.attempt).await?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let stream = match (args.stdout, args.stderr) {
        (true, _) => Some("stdout"),
        (_, true) => Some("stderr"),
        _ => None,
    };
    let query = LogQuery { stream, attempt: args.attempt, tail: args.lines, follow: args.follow };
    let body = client.log(&job.id, &query).await?;
    match args.pager && app.ui.out_is_terminal() {
        true => page(body).await?,
        false => print(body, &args, app).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn print(mut body: Body, args: &LogsArgs, app: &App) -> Result<(), CliError> {
    // A terminal that follows draws progress bars by itself, as they move.
    if !app.ui.out_is_terminal() || args.follow {
        while let Some(bytes) = body.next().await? {
            app.ui.bytes(&bytes)?;
        }
        return Ok(());
    }
    let mut collapse = Collapse::default();
    while let Some(bytes) = body.next().await? {
        app.ui.bytes(&collapse.push(&bytes))?;
    }
    app.ui.data(&String::from_utf8_lossy(&collapse.finish()))
}

/// The pager gets the bytes; when it is closed early that is no error.
async fn page(mut body: Body) -> Result<(), CliError> {
    let named = std::env::var("PAGER").ok().filter(|pager| !pager.trim().is_empty());
    let pager = named.unwrap_or_else(|| "less -R".into());
    let doing = format!("the pager {pager} could not be started");
    let mut child =
        Command::new("sh").arg("-c").arg(&pager).stdin(Stdio::piped()).spawn().map_err(CliError::io(doing))?;
    let mut input = child.stdin.take().expect("its input is piped");
    let mut collapse = Collapse::default();
    let mut open = true;
    while open && let Some(bytes) = body.next().await? {
        open = input.write_all(&collapse.push(&bytes)).is_ok();
    }
    if open {
        let _ = input.write_all(&collapse.finish());
    }
    drop(input);
    child.wait().map_err(CliError::io("the pager could not be waited for"))?;
    Ok(())
}

async fn paths(client: &Client, job: &Job, attempt: Option<u32>) -> Result<String, CliError> {
    let Some(attempt) = attempt else {
        return Ok(format!("{}\n{}\n", job.stdout_path, job.stderr_path));
    };
    let detail = client.job(&job.id, false).await?;
    let run = detail.runs.iter().find(|run| run.attempt == attempt);
    let run = run.ok_or_else(|| Problem::NoLog { id: job.id.clone(), attempt: Some(attempt) })?;
    let dir = Path::new(&run.log_dir);
    Ok(format!("{}\n{}\n", dir.join("stdout.log").display(), dir.join("stderr.log").display()))
}
