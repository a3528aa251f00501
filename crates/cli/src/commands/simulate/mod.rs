//! `nexus simulate`: what a queue would do with a workload, in virtual time.
//!
//! The decisions are those of a living queue; nothing runs, and no service is needed but for its own history and GPUs.

mod field;
mod history;
mod machines;
mod packing;
mod rows;
mod workload;

use std::path::PathBuf;
use std::time::Duration;

use jiff::Zoned;
use nexus_core::machine::Machine;
use nexus_core::policy::Policy;
use nexus_core::replay::{self, Order};

use self::rows::File;
use self::workload::Workload;
use super::history::since;
use crate::app::App;
use crate::error::{CliError, Refused, Usage};
use crate::figures::{Figures, figures};
use crate::process::ExitCode;
use crate::render::text::counted;
use crate::{render, values};

const VERB: &str = "simulate";

/// Replay a workload in virtual time, and show how long jobs wait
///
/// Every decision is that of a living queue, on GPUs that need not exist; nothing runs. The workload is a csv with names
/// in its first line: runtime, and any of submit, gpus, vram, cpus, ram, priority, limit, model. Without a file it is
/// this installation's own history. Forms of the files: docs/simulate.md.
#[derive(Clone, Debug, clap::Args)]
#[command(
    override_usage = "nexus simulate [OPTIONS] WORKLOAD\n       nexus simulate [OPTIONS] [--history [--since TIME]]\n       \
                      nexus simulate --packing NODES PODS [ARRIVALS]",
    after_help = "\
Examples:
  nexus simulate jobs.csv --gpus 8x24G
  nexus simulate jobs.csv --machines machines.csv --policy short-first
  nexus simulate --history --since 30d --gpus 2x8x80G
  nexus simulate --packing nodes.csv pods.csv arrivals.txt"
)]
pub struct SimulateArgs {
    /// The workload; with --packing: nodes, pods, and their order if it is another than that of the files
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// The GPUs of a machine, as in 8, 8x24G for their memory, 2x8x24G for two machines [default: those that are here]
    #[arg(long, value_name = "GPUS", conflicts_with = "machines", allow_hyphen_values = true)]
    pub gpus: Option<String>,
    /// The machines, a csv: name, gpus, vram, model, cpus, ram
    #[arg(long, value_name = "FILE")]
    pub machines: Option<PathBuf>,
    /// Who goes first among jobs of one priority
    #[arg(long, value_enum, value_name = "POLICY", default_value_t = PolicyWord::Fifo)]
    pub policy: PolicyWord,
    /// How long a job waits for others of which nobody knows how long they take, before GPUs are kept for it
    #[arg(long, value_name = "TIME", default_value = "30m", allow_hyphen_values = true)]
    pub patience: String,
    /// The jobs that ended here, as they were submitted
    #[arg(long)]
    pub history: bool,
    /// Only those that ended within this time, as in 30d, or since a time, as in 2024-10-24
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// How well jobs that never end are packed: nodes and pods in the form of openb
    #[arg(long, conflicts_with_all = ["gpus", "machines", "history", "since"])]
    pub packing: bool,
    /// Prints the figures as JSON, times in seconds
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum PolicyWord {
    Fifo,
    ShortFirst,
}

impl PolicyWord {
    fn word(self) -> &'static str {
        match self {
            PolicyWord::Fifo => "fifo",
            PolicyWord::ShortFirst => "short-first",
        }
    }
}

impl From<PolicyWord> for Order {
    fn from(word: PolicyWord) -> Order {
        match word {
            PolicyWord::Fifo => Order::Fifo,
            PolicyWord::ShortFirst => Order::ShortFirst,
        }
    }
}

pub async fn run(args: SimulateArgs, app: &App) -> Result<ExitCode, CliError> {
    check(&args).map_err(|usage| usage.of(VERB))?;
    if args.packing {
        let packed = packing::run(&args.files)?;
        match args.json {
            true => app.ui.json(&packed)?,
            false => app.ui.data(&render::simulate::packed(&packed, app.ui.paint()))?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    let patience = values::duration("--patience", &args.patience).map_err(|usage| usage.of(VERB))?;
    let policy = Policy { patience: Duration::from_secs(patience), ..Policy::default() };
    let since = args.since.as_deref().map(|text| since(text, &Zoned::now())).transpose();
    let since = since.map_err(|usage| usage.of(VERB))?.map(|time| time.to_string());
    // Before the jobs, which may be many: what is typed wrongly is told at once.
    let (machines, mut notes) = machines_of(&args, app).await?;
    let mut workload = workload_of(&args, since, app).await?;
    notes.append(&mut workload.notes);
    notes.extend(take_any_model(&machines, &mut workload));
    for note in &notes {
        app.ui.note(note);
    }
    let ran = replay::replay(&machines, &workload.arrivals, args.policy.into(), &policy);
    let figures = Figures {
        policy: args.policy.word(),
        patience_seconds: patience as f64,
        ..figures(&machines, &workload.arrivals, &ran)
    };
    if let Some(first) = ran.iter().position(Option::is_none) {
        let place = workload.lines.get(first).map(|line| format!(", the first in line {line}")).unwrap_or_default();
        let jobs = counted(figures.never_fit as u64, "job");
        app.ui.note(&format!("{jobs} could run on none of these machines{place}"));
    }
    match args.json {
        true => app.ui.json(&figures)?,
        false => app.ui.data(&render::simulate::figures(&figures, app.ui.paint()))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// What clap cannot say.
fn check(args: &SimulateArgs) -> Result<(), Usage> {
    let few_or_many = |error: &str, hint: &str| Err(Usage::new(error, hint));
    match (args.packing, args.files.len()) {
        (true, 0 | 1) => few_or_many("--packing needs a file of nodes and one of pods", "--packing nodes.csv pods.csv"),
        (true, 4..) => few_or_many("--packing takes three files at most", "--packing nodes.csv pods.csv arrivals.txt"),
        (false, 2..) => few_or_many(
            "a workload is one file; nothing was done",
            "--machines FILE for machines, --packing for nodes and pods",
        ),
        (false, 1) if args.history || args.since.is_some() => {
            few_or_many("a file and the history are two workloads", "leave out one of them")
        }
        _ => Ok(()),
    }
}

/// The machines, and what the reader should know of them.
async fn machines_of(args: &SimulateArgs, app: &App) -> Result<(Vec<Machine>, Vec<String>), CliError> {
    let usage = |usage: Usage| usage.of(VERB);
    const HINT: &str = "--gpus 8x24G, or --machines FILE";
    if let Some(text) = &args.gpus {
        return Ok((machines::typed(text).map_err(usage)?, vec![]));
    }
    if let Some(path) = &args.machines {
        let mut notes = Vec::new();
        return Ok((machines::read(&File::read(path)?, &mut notes).map_err(CliError::File)?, notes));
    }
    match app.reader().gpus().await {
        Ok(found) if found.iter().any(|machine| !machine.gpus.is_empty()) => Ok((machines::installed(&found), vec![])),
        Ok(_) => Err(usage(Usage::new("there are no GPUs here to simulate", HINT))),
        // History is the service's, and its absence is told as ever.
        Err(CliError::NoService { .. }) if !args.files.is_empty() => {
            Err(usage(Usage::new("nothing says which GPUs to simulate, and no service runs here to ask", HINT)))
        }
        Err(error) => Err(error),
    }
}

async fn workload_of(args: &SimulateArgs, since: Option<String>, app: &App) -> Result<Workload, CliError> {
    if let [path] = args.files.as_slice() {
        return workload::read(&File::read(path)?).map_err(CliError::File);
    }
    let on_own_gpus = args.gpus.is_none() && args.machines.is_none();
    let within = if since.is_some() { " within this time" } else { "" };
    let workload = history::read(&app.reader(), since, on_own_gpus).await?;
    match workload.arrivals.is_empty() {
        true => Err(Refused {
            error: "there is no history to replay".into(),
            why: Some(format!("no job has run and ended here{within}")),
            hint: Some("nexus simulate jobs.csv replays a file".into()),
        }
        .into()),
        false => Ok(workload),
    }
}

/// GPUs of which no model is known stand for any.
fn take_any_model(machines: &[Machine], workload: &mut Workload) -> Option<String> {
    if machines.iter().flat_map(|machine| &machine.gpus).any(|gpu| !gpu.name.is_empty()) {
        return None;
    }
    let asking = workload.arrivals.iter_mut().filter_map(|arrival| arrival.request.model.take()).count();
    let jobs = (asking > 0).then(|| counted(asking as u64, "job"))?;
    Some(format!("{jobs} asked for a model, and may have any: these GPUs have no names"))
}
