//! `nexus sweep`: one command with many values, and what became of it.

mod asked;
mod look;
mod queue;

use std::path::PathBuf;

pub use self::look::named;
pub use self::queue::meant;
use crate::app::App;
use crate::error::CliError;
use crate::process::ExitCode;
use crate::typed::AddArgs;

/// Queue a command once for each combination of values
///
/// {NAME} in the quoted command is replaced by each value of NAME: each with each, the last one changing first. All
/// jobs are queued, or none. Values are a list (0.1,0.01), a range (1..5, 1..10:2, 0.1..0.5:0.1) or so many numbers
/// between two (lin:0..1:5, log:1e-4..1e-1:5); quotes keep a comma: 'opt="a,b",c'. Options stand anywhere.
#[derive(Clone, Debug, clap::Args)]
#[command(
    override_usage = "nexus sweep [OPTIONS] \"COMMAND\" NAME=VALUES…\n       nexus sweep ls|show|csv",
    disable_help_subcommand = true,
    args_conflicts_with_subcommands = true,
    subcommand_value_name = "NOUN",
    subcommand_help_heading = "What became of sweeps",
    after_help = "\
Examples:
  nexus sweep \"train --lr {lr} --seed {seed}\" lr=0.1,0.01 seed=1..5
  nexus sweep \"train --lr {lr}\" lr=log:1e-4..1e-1 --random 20 --extract 'loss=final loss: ([0-9.]+)'
  nexus sweep \"train --lr {lr} --wd {wd}\" lr=0.1,0.01 wd=0,0.1 --where \"lr*wd < 0.01\" --dry-run
  nexus sweep \"eval {model} {data}\" --from points.csv --max-running 4
  nexus sweep csv > results.csv",
    mut_arg("command", |words| words
        .required(false)
        .trailing_var_arg(false)
        .value_name("COMMAND NAME=VALUES")
        .help("The command in quotes, and the values of each {NAME} in it")),
    mut_arg("name", |name| name.help("The sweep's name, for sweep:x [default: made up]")),
    mut_arg("copies", |copies| copies.help("Queues each combination so many times; drawn ones are drawn anew")),
    mut_arg("dry_run", |dry_run| dry_run.help("Shows each command, and queues nothing")),
    mut_arg("json", |json| json.help("Prints the sweep as JSON")),
    mut_arg("quiet", |quiet| quiet.help("Prints the ids alone"))
)]
pub struct SweepArgs {
    /// Only combinations for which this holds, as in "lr*seed < 3 and opt == 'adam'"
    #[arg(long = "where", value_name = "CONDITION")]
    pub only: Option<String>,
    /// Combinations of a file: a csv with names in its first line, or JSON; NAME=VALUES go with each of them
    #[arg(long, value_name = "FILE")]
    pub from: Option<PathBuf>,
    /// The first values of all, then the second, instead of each with each
    #[arg(long)]
    pub zip: bool,
    /// So many combinations by chance; values may be spans to draw from, as in log:1e-4..1e-1
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub random: Option<u32>,
    /// Repeats a draw of --random
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,
    /// So many of its jobs at once, at most
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_running: Option<u32>,
    /// Holds the rest when the first so many all fail alike and at once; 0 for never [default: 3]
    #[arg(long, value_name = "N")]
    pub stop_after: Option<u32>,
    #[command(flatten)]
    pub add: AddArgs,
    #[command(subcommand)]
    pub noun: Option<Noun>,
}

#[derive(Clone, Debug, clap::Subcommand)]
pub enum Noun {
    Ls(LsArgs),
    Show(ShowArgs),
    Csv(CsvArgs),
}

/// Show all sweeps, newest last
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Example:
  nexus sweep ls")]
pub struct LsArgs {
    /// Prints the sweeps as JSON
    #[arg(long)]
    pub json: bool,
}

/// Show all that is known about a sweep
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nexus sweep show
  nexus sweep show lr-grid --json")]
pub struct ShowArgs {
    /// Its name [default: the newest]
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// Prints the sweep as JSON
    #[arg(long)]
    pub json: bool,
}

/// Print a sweep as a table: parameters, state, runtime, results, values
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nexus sweep csv > results.csv
  nexus sweep csv lr-grid | column -s, -t")]
pub struct CsvArgs {
    /// Its name [default: the newest]
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
}

pub async fn run(args: SweepArgs, app: &App) -> Result<ExitCode, CliError> {
    match args.noun {
        Some(Noun::Ls(args)) => look::ls(args, app).await?,
        Some(Noun::Show(args)) => look::show(args, app).await?,
        Some(Noun::Csv(args)) => look::csv(args, app).await?,
        None => queue::run(args, app).await?,
    }
    Ok(ExitCode::SUCCESS)
}
