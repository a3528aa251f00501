//! `submit`: a job, as `nexus add` would queue it, or what would become of it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::OnceLock;

use clap::Parser;
use nexus_api::jobs::{JobSpec, Submitted, Waiting};
use rmcp::schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::answer::{Answer, bad};
use super::asked::{Amount, Texts};
use super::brief::{Brief, Words};
use crate::app::App;
use crate::client::Client;
use crate::commands::add;
use crate::error::CliError;
use crate::render::{prospect, text};
use crate::typed::AddArgs;

/// Copies of a job at once.
const MOST_COPIES: u32 = 1000;

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub struct Args {
    /// A shell command as one text (bash -c), or a program and its arguments as a list, run without a shell
    pub command: Texts,
    /// Queues nothing and says what would happen
    #[serde(default)]
    pub dry_run: bool,
    /// How many copies are queued [default: 1]
    pub copies: Option<u32>,
    /// Refuses it if an identical job is queued, runs or has completed
    #[serde(default)]
    pub unique: bool,
    /// Any text of up to 200 letters: asked again with the same key within a week nothing is queued again, and the same
    /// job is named
    pub key: Option<String>,
    #[serde(flatten)]
    pub options: Options,
}

/// What may be said of a job beside its command.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(crate = "rmcp::schemars")]
pub struct Options {
    /// The folder it runs in, best as an absolute path [default: the folder of this server]
    pub cwd: Option<String>,
    /// A name, for name:x; of a sweep: letters, digits and - _ .
    pub name: Option<String>,
    /// A project, for project:x
    pub project: Option<String>,
    /// Tags, for tag:x
    pub tags: Vec<String>,
    /// How many GPUs it needs, or the part of one: 2, 0.5; 0 for a job on the CPU [default: 1]
    pub gpus: Option<Amount>,
    /// Shares a GPU: how much of its memory it needs, as in 8G, or auto for what earlier runs reached
    pub vram: Option<String>,
    /// GPUs whose name contains this, as in A100
    pub gpu_model: Option<String>,
    /// How many CPUs it needs
    pub cpus: Option<u16>,
    /// How much memory of the machine it needs, as in 16G
    pub ram: Option<String>,
    /// Only this machine may run it; local is the service's own
    pub machine: Option<String>,
    /// Machines of this class may run it
    pub class: Option<String>,
    /// Ends it after this time, as in 90s, 30m, 4h, 2d [default: no limit]
    pub time: Option<String>,
    /// How often it is tried again when it fails
    pub retries: u32,
    /// Lower runs first, may be negative [default: 0]
    pub priority: i32,
    /// Starts it when these jobs have completed; if one does not, it fails
    pub after: Vec<String>,
    /// Starts it when these jobs have ended in any way
    pub after_any: Vec<String>,
    /// Variables for it, over those of this server
    pub env: BTreeMap<String, String>,
    /// Runs it in this conda environment, a name or a folder
    pub conda: Option<String>,
    /// Runs it in this virtual environment of Python, a folder
    pub venv: Option<String>,
    /// Copies what it leaves behind into a folder of its own in this one, once it has succeeded
    pub results: Option<String>,
    /// Values taken from its output, by name: the last match of the pattern's first group, as in {"loss": "loss: ([0-9.]+)"}
    pub extract: BTreeMap<String, String>,
    /// Keeps it from starting until somebody types nexus release
    pub hold: bool,
}

/// As if it had been typed.
#[derive(Parser)]
struct Typed {
    #[command(flatten)]
    args: AddArgs,
}

impl Options {
    /// What would be typed after `add`.
    pub fn typed(&self, command: Vec<String>) -> AddArgs {
        let Options { cwd, name, project, vram, gpu_model, ram, machine, class, time, conda, venv, results, .. } =
            self.clone();
        let pairs = |pairs: &BTreeMap<String, String>| pairs.iter().map(|(name, it)| format!("{name}={it}")).collect();
        AddArgs {
            cwd: cwd.map(Into::into),
            gpus: self.gpus.as_ref().map(Amount::to_string),
            cpus: self.cpus,
            retries: self.retries,
            priority: self.priority,
            tag: self.tags.clone(),
            after: self.after.clone(),
            after_any: self.after_any.clone(),
            env: pairs(&self.env),
            extract: pairs(&self.extract),
            hold: self.hold,
            results: results.map(Into::into),
            command,
            name,
            project,
            vram,
            gpu_model,
            ram,
            machine,
            class,
            time,
            conda,
            venv,
            ..Typed::parse_from(["add", "true"]).args
        }
    }
}

/// One call, through restarts of the service the same.
pub struct Call {
    args: Args,
    copies: u32,
    key: String,
    /// As it is meant, but for the jobs that it comes after.
    spec: JobSpec,
    whole: OnceLock<JobSpec>,
}

impl Call {
    pub fn new(args: Args, app: &App) -> Result<Call, CliError> {
        let copies = args.copies.unwrap_or(1);
        if !(1..=MOST_COPIES).contains(&copies) {
            return Err(bad(format!("copies cannot be {copies}"), format!("copies: 1 to {MOST_COPIES}")));
        }
        let (words, is_argv) = match &args.command {
            Texts::One(shell) => (vec![shell.clone()], false),
            Texts::Many(argv) => (argv.clone(), true),
        };
        // A program and its arguments are what stands behind `--`.
        let before: &[&str] = if is_argv { &["--"] } else { &[] };
        let raw: Vec<OsString> = before.iter().map(OsString::from).chain(words.iter().map(OsString::from)).collect();
        let typed = AddArgs { copies, unique: args.unique, dry_run: args.dry_run, ..args.options.typed(words) };
        let spec = add::spec(&typed, &raw, "mcp", app)?;
        let key = args.key.clone().unwrap_or_else(new_key);
        Ok(Call { args, copies, key, spec, whole: OnceLock::new() })
    }

    /// The jobs that it comes after are looked up once: `last` is another one when it was queued.
    async fn spec(&self, client: &Client) -> Result<&JobSpec, CliError> {
        if self.whole.get().is_none() {
            let mut spec = self.spec.clone();
            add::name_parents(client, &mut spec).await?;
            let _ = self.whole.set(spec);
        }
        Ok(self.whole.get().expect("it was set"))
    }
}

/// Nobody else has it.
pub fn new_key() -> String {
    let part = || RandomState::new().build_hasher().finish();
    format!("mcp-{:016x}{:016x}", part(), part())
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub struct Queued {
    /// Whether nothing was queued
    pub dry_run: bool,
    /// The jobs; of a dry run as they would be, without an id that lasts
    pub jobs: Vec<Brief>,
    /// Of a dry run: its place in the queue would be this one or a better one
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position_at_most: Option<u64>,
    /// The folder they run in
    pub cwd: String,
    /// What is in the way, or was taken otherwise than one may think
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

pub async fn run(call: &Call, client: &Client) -> Result<Answer, CliError> {
    let (dry_run, copies) = (call.args.dry_run, call.copies as usize);
    let spec = call.spec(client).await?;
    let submitted = match dry_run {
        true => client.submit(spec, copies, true, true).await?,
        false => client.submit_once(spec, copies, &call.key).await?,
    };
    answer(&submitted, dry_run, spec.cwd.clone(), client).await
}

async fn answer(submitted: &Submitted, dry_run: bool, cwd: String, client: &Client) -> Result<Answer, CliError> {
    let Submitted { jobs, notes } = submitted;
    let mut warnings: Vec<String> = notes.iter().map(|note| note.to_string()).collect();
    warnings.extend(add::hopeless(client, jobs).await);
    let words = Words::for_jobs(client, jobs).await?;
    let waits = dry_run && jobs.iter().any(|job| job.waiting.as_ref().is_some_and(|waits| *waits != Waiting::Next));
    // A new job stands behind all that are as urgent.
    let position_at_most = if waits { Some(client.status(false).await?.pending + 1) } else { None };
    let queued = Queued { dry_run, jobs: words.briefs(jobs), position_at_most, cwd, warnings };
    let mut said: String = match dry_run {
        true => jobs.iter().map(|job| format!("{}\n", would(job, &words))).collect(),
        false => words.lines(jobs),
    };
    said.extend(queued.position_at_most.map(|place| format!("its place in the queue would be {place} at most\n")));
    said.extend(queued.warnings.iter().map(|warning| format!("warning: {warning}\n")));
    said.push_str(&match (dry_run, jobs.first()) {
        (true, _) => format!("nothing was queued (dry run); it would run in {}\n", queued.cwd),
        (false, Some(job)) => format!(
            "{} queued, in {}; wait for it with wait, read its output with logs, e.g. id {}\n",
            text::counted(jobs.len() as u64, "job"),
            queued.cwd,
            job.id
        ),
        (false, None) => String::new(),
    });
    Ok(Answer::new(said, &queued))
}

/// What a dry run says of a job.
pub fn would(job: &nexus_api::jobs::Job, words: &Words) -> String {
    match job.waiting {
        Some(Waiting::Next) => format!("would {}", prospect::now_on(job, "start")),
        _ => format!("would be queued: {}", words.prospect(job)),
    }
}
