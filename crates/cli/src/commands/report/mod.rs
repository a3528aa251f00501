//! `nexus report`: a table of jobs for scripts, or sums over them.

mod column;
mod map;
mod print;

use jiff::Zoned;
use nexus_api::export::Exported;
use nexus_api::jobs::JobQuery;
use nexus_api::report::By;
use serde_json::Value;

use self::column::Column;
use self::map::Map;
use self::print::Printer;
use super::export::states;
use super::history::since;
use crate::app::App;
use crate::error::{CliError, Usage};
use crate::narrow::NarrowArgs;
use crate::process::ExitCode;

/// Columns where none are asked for.
const USUAL: &str = "id,state,exit,machine,gpus,runtime,ended,command";

/// Print a table of jobs with chosen columns, or sums
///
/// A column is a field of show --json, or param.X (a parameter of a sweep), value.X (a value from the output), gpu_hours,
/// runtime (in words), runtime_seconds, ended (on the clock), exit (code or signal). Rows stand in the order of submission.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nexus report --columns id,state,runtime,param.lr --format csv tag:night
  nexus report --by project --since 30d
  nexus report --columns id,cwd --map cwd='xargs -n1 basename'")]
pub struct ReportArgs {
    /// Only these jobs (nexus help selectors) [default: all]
    #[arg(value_name = "SEL")]
    pub selectors: Vec<String>,
    /// Which columns, with commas between them
    #[arg(long, value_name = "LIST", default_value = USUAL)]
    pub columns: Vec<String>,
    /// How it is printed
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Format::Text)]
    pub format: Format,
    /// Sums instead of jobs: how many, how they ended, GPU-hours
    #[arg(long, value_enum, value_name = "WHAT")]
    pub by: Option<ByWord>,
    /// Pipes a column through a program, once: a line for each job in, a line for each out
    #[arg(long, value_name = "COLUMN=PROGRAM")]
    pub map: Vec<String>,
    /// Only jobs in this state: queued, running, failed, …, ended or alive
    #[arg(long, value_name = "STATE")]
    pub state: Vec<String>,
    /// Only jobs that ended, or wait or run and were submitted, within this time, as in 2d, or since 2024-10-24
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    #[command(flatten)]
    pub narrow: NarrowArgs,
    /// The same as --format json
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    Text,
    Csv,
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ByWord {
    Sweep,
    Tag,
    Machine,
    Project,
    Day,
    Name,
}

impl From<ByWord> for By {
    fn from(word: ByWord) -> By {
        match word {
            ByWord::Sweep => By::Sweep,
            ByWord::Tag => By::Tag,
            ByWord::Machine => By::Machine,
            ByWord::Project => By::Project,
            ByWord::Day => By::Day,
            ByWord::Name => By::Name,
        }
    }
}

pub async fn run(args: ReportArgs, app: &App) -> Result<ExitCode, CliError> {
    let usage = |usage: Usage| usage.of("report");
    let now = Zoned::now();
    let state = states(&args.state).map_err(usage)?;
    let since = args.since.as_deref().map(|text| since(text, &now)).transpose().map_err(usage)?;
    let since = since.map(|time| time.to_string());
    let select = (!args.selectors.is_empty()).then(|| args.selectors.join("\n"));
    let query = args.narrow.of(JobQuery { select, state, since, ..JobQuery::default() });
    let format = if args.json { Format::Json } else { args.format };
    if let Some(by) = args.by {
        if args.columns != [USUAL] || !args.map.is_empty() {
            return Err(usage(Usage::new("--by has columns of its own", "nexus report --by project")));
        }
        let sums = app.reader().sums(by.into(), &query).await?;
        print::sums(By::from(by), &sums, format, &app.ui)?;
        return Ok(ExitCode::SUCCESS);
    }
    let columns = column::read(&args.columns).map_err(usage)?;
    let maps = args.map.iter().map(|text| Map::read(text, &columns)).collect::<Result<Vec<_>, _>>().map_err(usage)?;
    table(&columns, &maps, format, &query, &now, app).await?;
    Ok(ExitCode::SUCCESS)
}

async fn table(
    columns: &[Column],
    maps: &[Map],
    format: Format,
    query: &JobQuery,
    now: &Zoned,
    app: &App,
) -> Result<(), CliError> {
    let mut body = app.reader().export("jsonl", query).await?;
    let mut printer = Printer::new(columns, format, maps.is_empty(), &app.ui);
    let mut rest: Vec<u8> = Vec::new();
    while let Some(bytes) = body.next().await? {
        rest.extend(&bytes);
        let whole = rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        for line in rest[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let unreadable = |source| CliError::Answer { path: "/v1/export".into(), source };
            let text = std::str::from_utf8(line).unwrap_or_default();
            let exported = Exported::read(text).map_err(unreadable)?;
            let cells: Vec<Value> = column::cells(columns, &exported, now);
            printer.row(cells)?;
        }
        rest.drain(..whole);
    }
    for map in maps {
        map.apply(&mut printer.rows)?;
    }
    printer.finish()
}
