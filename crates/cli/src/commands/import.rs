//! `nexus import`: jobs from a file.

use std::collections::VecDeque;
use std::iter::Peekable;

use nexus_api::edit::LineError;
use nexus_api::history_import::TakenOver;
use nexus_api::import::{Import, ImportReport, Imported, Watch, Watching};
use nexus_api::job_file::{self, Entry, Format};
use nexus_api::jobs::{Job, Waiting};
use tokio::task::JoinHandle;

use crate::app::App;
use crate::commands::add;
use crate::error::{CliError, Usage, code};
use crate::job_file as file;
use crate::process::ExitCode;
use crate::render;
use crate::usual;

/// Of more entries than this one sees how it goes on.
const SHOWN: usize = 20_000;

/// New jobs that are looked at once more.
const LOOKED_AT: usize = 200;

/// Queue jobs from a file
///
/// The file has a command in each line, or is csv, JSON line by line, or GPUPeasy's batch text (docs/job-files.md). An
/// entry whose very command is queued, runs or has completed is not queued again; one that differs from a queued job in
/// its priority or GPUs alone changes that. Lines that mean nothing are told by their number, and the others count.
///
/// With --watch new entries are queued as they are written, through restarts too, until --stop.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(after_help = "\
Examples:
  nexus import commands.txt
  nexus import jobs.csv --dry-run
  nexus import --watch jobs.csv
  nexus import --watch /data/lab/jobs.csv --shared-with lab
  nexus import --list
  nexus import --stop jobs.csv
  nexus import old.jsonl --as-history
  grep big commands.txt | nexus import -")]
pub struct ImportArgs {
    /// The file; - for standard input
    #[arg(value_name = "FILE", required_unless_present_any = ["list", "stop"], conflicts_with_all = ["list", "stop"])]
    pub file: Option<String>,
    /// How it is written: auto, lines, csv, jsonl, esy
    #[arg(long, value_name = "FORMAT", default_value = "auto", value_parser = chosen)]
    pub format: Chosen,
    /// Shows what each entry would become, and queues nothing
    #[arg(long, conflicts_with = "watch")]
    pub dry_run: bool,
    /// Takes new entries from now on, as they are written
    #[arg(long)]
    pub watch: bool,
    /// Takes a watched file though the members of this group can write to it: whoever can write to it runs commands as you
    #[arg(long, value_name = "GROUP", requires = "watch")]
    pub shared_with: Option<String>,
    /// Queues every entry as it stands, known or not
    #[arg(long)]
    pub again: bool,
    /// Takes ended jobs of an export over as history, under their ids
    #[arg(long, conflicts_with_all = ["watch", "dry_run", "again"])]
    pub as_history: bool,
    /// Lists the files that are watched
    #[arg(long, conflicts_with = "stop")]
    pub list: bool,
    /// Ends the watch of a file; its jobs stay
    #[arg(long, value_name = "FILE")]
    pub stop: Option<String>,
    /// Prints the ids of new jobs alone
    #[arg(long, short)]
    pub quiet: bool,
    /// Prints JSON
    #[arg(long)]
    pub json: bool,
}

/// A format, or none to find it out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chosen(Option<Format>);

fn chosen(text: &str) -> Result<Chosen, String> {
    let known = Format::ALL.into_iter().find(|format| format.word() == text);
    match known {
        None if text != "auto" => Err("it is auto, lines, csv, jsonl or esy".into()),
        known => Ok(Chosen(known)),
    }
}

pub async fn run(args: ImportArgs, app: &App) -> Result<ExitCode, CliError> {
    match (&args.file, &args.stop) {
        (_, Some(file)) => stop(&args, file, app).await,
        (Some(file), None) if args.watch => watch(&args, file, app).await,
        (Some(file), None) if args.as_history => history(&args, file, app).await,
        (Some(file), None) => import(&args, file, app).await,
        (None, None) => list(&args, app).await,
    }
}

async fn list(args: &ImportArgs, app: &App) -> Result<ExitCode, CliError> {
    let watched = app.reader().watches().await?;
    match args.json {
        true => app.ui.json(&watched)?,
        false if watched.is_empty() => app.ui.say("no file is watched; nexus import --watch FILE"),
        false => app.ui.data(&render::import::watched(&watched, app.ui.paint()))?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn stop(args: &ImportArgs, file: &str, app: &App) -> Result<ExitCode, CliError> {
    let watched = app.started().await?.end_watch(&file::path(file)?).await?;
    match args.json {
        true => app.ui.json(&watched)?,
        false => app.ui.say(&format!("{} is no longer watched; its jobs stay", watched.file)),
    }
    Ok(ExitCode::SUCCESS)
}

/// As `import --watch FILE` does it.
pub async fn watch_file(file: &str, app: &App) -> Result<ExitCode, CliError> {
    watch(&ImportArgs::default(), file, app).await
}

async fn watch(args: &ImportArgs, file: &str, app: &App) -> Result<ExitCode, CliError> {
    if file == "-" {
        return Err(Usage::new("standard input cannot be watched", "nexus import -").of("import"));
    }
    let path = file::path(file)?;
    let watch = Watch {
        file: path,
        format: args.format.0,
        usual: usual::spec()?,
        again: args.again,
        shared_with: args.shared_with.clone(),
    };
    let Watching { watched, before, imported, refused, doubtful } = app.started().await?.watch(&watch).await?;
    let report = ImportReport {
        entries: imported.entries,
        refused,
        doubtful,
        notes: imported.notes,
        stopped: imported.stopped,
        ..report(watched.file.clone(), watched.format)
    };
    tell_format(args, &report, app);
    let code = told(args, &report, app)?;
    if !args.quiet && !args.json {
        let word = if before { "was watched already, and is" } else { "is watched" };
        app.ui.say(&format!("{} {word}: new lines are queued as they come; nexus import --stop {file}", watched.file));
        if let Some(group) = &watched.shared_with {
            app.ui.say(&format!("every member of group {group} can queue commands that run as you"));
        }
        if let Some(trouble) = &watched.trouble {
            app.ui.warn(&format!("nothing is taken now: {trouble}"));
        }
    }
    Ok(code)
}

async fn import(args: &ImportArgs, typed: &str, app: &App) -> Result<ExitCode, CliError> {
    let mut source = file::open(typed, &app.ui)?;
    let bytes = source.whole()?;
    let parts = job_file::parts(&bytes, args.format.0).map_err(|wrong| file::unreadable(&source.name, &wrong))?;
    let mut report = report(source.name.clone(), Some(parts.format));
    let mut beside = Beside::default();
    let mut parts = parts.map(|part| beside.entries(part)).filter(|entries| !entries.is_empty()).peekable();
    if parts.peek().is_some() {
        tell_format(args, &report, app);
    }
    let mut looked = Looked::default();
    let sent = send(args, source.folder, &mut parts, &mut report, Some(&mut looked), app).await;
    let Beside { refused, doubtful, ended, running } = beside;
    report = ImportReport { refused, doubtful, ended, running, ..report };
    if let Err(error) = sent {
        // What was taken before is told.
        if !report.entries.is_empty() {
            told(args, &report, app)?;
        }
        return Err(error);
    }
    let code = told(args, &report, app)?;
    warn_of_hopeless(looked.jobs(&report, app).await, app).await;
    Ok(code)
}

/// What stands in a file beside its entries.
#[derive(Default)]
struct Beside {
    refused: Vec<LineError>,
    doubtful: Vec<LineError>,
    ended: u64,
    running: Vec<String>,
}

impl Beside {
    /// The entries of a part; the rest is kept.
    fn entries(&mut self, part: job_file::Read) -> Vec<Entry> {
        let job_file::Read { mut entries, mut refused, doubtful, past, .. } = part;
        refused.extend(job_file::settle_parents(&mut entries, &past));
        refused.sort_by_key(|refused| refused.line);
        self.refused.extend(refused);
        self.doubtful.extend(doubtful);
        self.ended += past.iter().filter(|past| past.ended).count() as u64;
        self.running.extend(past.into_iter().filter(|past| !past.ended).map(|past| past.id));
        entries
    }
}

/// The first new jobs, which are looked at while the rest of the file is on its way.
#[derive(Default)]
struct Looked(Option<JoinHandle<Vec<Job>>>);

impl Looked {
    /// Once there are as many as are looked at.
    fn begin(&mut self, report: &ImportReport, app: &App) {
        let enough = || render::import::new_ids(report).nth(LOOKED_AT - 1).is_some();
        if self.0.is_none() && enough() {
            self.0 = Some(tokio::spawn(first_jobs(report, app)));
        }
    }

    async fn jobs(self, report: &ImportReport, app: &App) -> Vec<Job> {
        match self.0 {
            Some(looked) => looked.await.expect("nobody ends it"),
            None => first_jobs(report, app).await,
        }
    }
}

fn first_jobs(report: &ImportReport, app: &App) -> impl Future<Output = Vec<Job>> + use<> {
    let ids: Vec<String> = render::import::new_ids(report).take(LOOKED_AT).map(String::from).collect();
    let client = app.reader();
    // They are queued, whatever becomes of the service.
    async move { client.jobs_by_id(&ids).await.unwrap_or_default() }
}

/// What this machine can never give is said, as `add` says it, of the first that asks for it.
async fn warn_of_hopeless(jobs: Vec<Job>, app: &App) {
    let is_hopeless = |job: &&Job| {
        matches!(job.waiting, Some(Waiting::NoSuchGpus(_) | Waiting::NoSuchCpus { .. } | Waiting::NoSuchRam { .. }))
    };
    if let Some(job) = jobs.iter().find(is_hopeless) {
        app.ui.say(&format!("{}: {}", job.id, job.command));
        add::warn_if_hopeless(&app.reader(), std::slice::from_ref(job), app).await;
    }
}

/// What was found out is said.
fn tell_format(args: &ImportArgs, report: &ImportReport, app: &App) {
    if let Some(format) = report.format.filter(|_| args.format.0.is_none() && !args.quiet) {
        app.ui.note(&format!("{} is read as {}", report.file, format.word()));
    }
}

/// Nothing came of it yet.
fn report(file: String, format: Option<Format>) -> ImportReport {
    let (entries, refused, doubtful, notes, running) = (vec![], vec![], vec![], vec![], vec![]);
    ImportReport { file, format, entries, refused, doubtful, notes, stopped: None, ended: 0, history: None, running }
}

/// Ended jobs go over as they stand in the file, some thousand lines at a time; those that wait are queued.
async fn history(args: &ImportArgs, typed: &str, app: &App) -> Result<ExitCode, CliError> {
    if let Some(format) = args.format.0.filter(|format| *format != Format::Jsonl) {
        let error = format!("--as-history reads exports, which are jsonl and not {}", format.word());
        return Err(Usage::new(error, "nexus export > FILE makes one").of("import"));
    }
    let source = file::open(typed, &app.ui)?;
    let client = app.started().await?;
    let (name, folder) = (source.name.clone(), source.folder.clone());
    let mut report = report(name, Some(Format::Jsonl));
    let mut total = TakenOver::default();
    let (mut entries, mut running) = (Vec::new(), Vec::new());
    let mut parts = file::Chunks::of(source).ahead();
    let mut on_their_way: VecDeque<JoinHandle<Result<TakenOver, CliError>>> = VecDeque::new();
    loop {
        let part = parts.recv().await.transpose()?;
        // While one is written the next is read.
        let answered = if part.is_some() { on_their_way.len().saturating_sub(1) } else { on_their_way.len() };
        for sent in on_their_way.drain(..answered) {
            let over = sent.await.expect("nobody ends it")?;
            total.taken += over.taken;
            total.known += over.known;
            total.refused.extend(over.refused);
        }
        if app.ui.err_is_terminal() {
            app.ui.draw_line(&format!("{} taken over", total.taken + total.known));
        }
        let Some(part) = part else { break };
        report.refused.extend(part.refused);
        report.doubtful.extend(part.doubtful);
        entries.extend(part.entries);
        running.extend(part.running);
        if let Some(lines) = part.ended {
            let client = client.clone();
            on_their_way.push_back(tokio::spawn(async move { client.take_over(part.first_line, lines).await }));
        }
    }
    if app.ui.err_is_terminal() {
        app.ui.draw_line("");
    }
    report.refused.append(&mut total.refused);
    report.history = Some(total);
    report.refused.extend(job_file::settle_parents(&mut entries, &running));
    report.refused.sort_by_key(|refused| refused.line);
    report.running = running.into_iter().map(|past| past.id).collect();
    let mut entries = std::iter::once(entries).filter(|entries| !entries.is_empty()).peekable();
    send(args, folder, &mut entries, &mut report, None, app).await?;
    told(args, &report, app)
}

/// As they stand in the file; those that are named by what it calls them all at once.
async fn send(
    args: &ImportArgs,
    folder: String,
    parts: &mut Peekable<impl Iterator<Item = Vec<Entry>>>,
    report: &mut ImportReport,
    mut looked: Option<&mut Looked>,
    app: &App,
) -> Result<(), CliError> {
    let Some(first) = parts.peek() else { return Ok(()) };
    let together = first.iter().any(|entry| entry.id.is_some());
    let client = app.started().await?;
    let import = Import {
        file: report.file.clone(),
        folder,
        usual: usual::spec()?,
        entries: vec![],
        again: args.again,
        dry_run: args.dry_run,
        together,
    };
    let shows = app.ui.err_is_terminal();
    let mut shown = false;
    let mut tell = |part: Imported| {
        report.entries.extend(part.entries);
        report.notes.extend(part.notes);
        report.stopped = part.stopped;
        if let Some(looked) = &mut looked {
            looked.begin(report, app);
        }
        if shows && report.entries.len() >= SHOWN {
            app.ui.draw_line(&format!("{} entries taken", report.entries.len()));
            shown = true;
        }
    };
    let done = client.import(&import, parts, &mut tell).await;
    if shown {
        app.ui.draw_line("");
    }
    done
}

/// The jobs that are new to stdout, all else to stderr.
fn told(args: &ImportArgs, report: &ImportReport, app: &App) -> Result<ExitCode, CliError> {
    use render::import as view;
    if args.json {
        app.ui.json(report)?;
    } else {
        for line in view::talk(report, args.quiet, args.dry_run) {
            app.ui.say(&line);
        }
        let ids_alone = args.quiet || !app.ui.out_is_terminal();
        match args.dry_run {
            true => app.ui.data(&view::plan(report, app.ui.paint()))?,
            false => app.ui.data(&view::queued(report, ids_alone, app.ui.paint()))?,
        }
    }
    match report.stopped.is_some() || view::failed(report) {
        true => Ok(ExitCode::from(code::CANNOT_BE_MET)),
        false => Ok(ExitCode::SUCCESS),
    }
}
