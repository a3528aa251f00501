//! `nexus edit`: the queue as text in an editor, or one job.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use nexus_api::edit::{JobEdit, QueueEdit, QueueEdited};
use nexus_api::env::Env;
use nexus_api::jobs::JobSpec;
use nexus_api::results::Extract;

use crate::app::App;
use crate::chosen;
use crate::client::Client;
use crate::commands::add::tell_notes;
use crate::draft::Draft;
use crate::error::{CliError, Refused, Usage, code};
use crate::process::ExitCode;
use crate::render::text::counted;
use crate::render::{self, paint::Paint};
use crate::typed::is_escaped;
use crate::{resolve, typed_file, usual, values};

/// Jobs listed before a question; the rest is counted.
const LISTED: usize = 20;

/// Edit the queue as text, or one job
///
/// Without a job the whole queue opens in $VISUAL, $EDITOR or vi: a command a line, above it `#@ id options`. Change
/// commands and options, move lines to change the order, delete lines to remove jobs, add lines to queue more; they
/// get the environment and the folder of this moment. Jobs that start meanwhile are left alone.
///
/// With a job and options these are changed, others stay; an empty value ("") takes one back to its default. With a
/// job alone its entry opens in the editor. Once a job has started, --time, --priority and --tag are all that can
/// change; its time limit counts from its start, and one that has passed already ends it.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nexus edit
  nexus edit abc --priority 2 --time 4h
  nexus edit abc --time \"\"
  nexus edit abc -- python train.py --lr 3
  EDITOR=nano nexus edit abc")]
pub struct EditArgs {
    /// A job that is queued or runs (nexus help selectors)
    #[arg(value_name = "ID")]
    pub selector: Option<String>,
    /// Removes jobs whose lines were deleted without asking
    #[arg(long, short)]
    pub yes: bool,
    /// A name, for name:x
    #[arg(long)]
    pub name: Option<String>,
    /// A project, for project:x
    #[arg(long)]
    pub project: Option<String>,
    /// How many GPUs it needs, or the part of one, as in 2, 0.5; 0 for a job on the CPU
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub gpus: Option<String>,
    /// Shares a GPU: how much of its memory it needs, as in 8G, or auto for what earlier runs reached
    #[arg(long, value_name = "SIZE|auto")]
    pub vram: Option<String>,
    /// How many CPUs it needs
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub cpus: Option<String>,
    /// How much memory of the machine it needs, as in 16G
    #[arg(long, value_name = "SIZE")]
    pub ram: Option<String>,
    /// GPUs whose name contains this, as in A100
    #[arg(long, value_name = "NAME")]
    pub gpu_model: Option<String>,
    /// GPUs it may use, as in 0-3,5
    #[arg(long, value_name = "GPUS")]
    pub on: Vec<String>,
    /// Lower runs first, may be negative
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub priority: Option<String>,
    /// Ends it after this time, as in 90s, 30m, 4h, 2d
    #[arg(long, value_name = "TIME")]
    pub time: Option<String>,
    /// Sends a signal before the time limit, as in USR1@120s
    #[arg(long, value_name = "SIGNAL@TIME")]
    pub signal: Option<String>,
    /// Time between TERM and KILL when it is ended
    #[arg(long, value_name = "TIME")]
    pub grace: Option<String>,
    /// How often it is tried again when it fails
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub retries: Option<String>,
    /// Tries it again after this failure too: timeout
    #[arg(long, value_name = "FAILURE")]
    pub retry_on: Vec<String>,
    /// Starts it when these jobs have completed; if one does not, it fails
    #[arg(long, value_name = "ID")]
    pub after: Vec<String>,
    /// Starts it when these jobs have ended in any way
    #[arg(long, value_name = "ID")]
    pub after_any: Vec<String>,
    /// Refuses it if an identical job is queued, runs or has completed
    #[arg(long)]
    pub unique: bool,
    /// Sets a variable for it; the others stay
    #[arg(long, value_name = "NAME=VALUE")]
    pub env: Vec<String>,
    /// Sets the variables of a file with lines NAME=value
    #[arg(long, value_name = "FILE")]
    pub env_file: Vec<PathBuf>,
    /// Runs it in this conda environment, a name or a folder
    #[arg(long, value_name = "ENV")]
    pub conda: Option<String>,
    /// Runs it in this virtual environment of Python
    #[arg(long, value_name = "DIR")]
    pub venv: Option<String>,
    /// The folder it runs in
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// A further copy of its output, appended to this file
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Copies what it leaves behind into a folder of its own in this one, once it has succeeded (nexus help results)
    #[arg(long, value_name = "DIR")]
    pub results: Option<String>,
    /// Takes a value from its output: the last match of the pattern's first group, as in 'loss=loss: ([0-9.]+)'
    #[arg(long, value_name = "NAME=REGEX")]
    pub extract: Vec<String>,
    /// Its tags, in place of those it has
    #[arg(long)]
    pub tag: Vec<String>,
    /// Keeps it from starting until nexus release
    #[arg(long)]
    pub hold: bool,
    /// Tells of its end, however it ends, by what [notify] of the configuration names
    #[arg(long)]
    pub notify: bool,
    /// Gives it pipes instead of a terminal
    #[arg(long)]
    pub no_tty: bool,
    /// Shows it in a session of GNU screen too
    #[arg(long)]
    pub screen: bool,
    /// Machines of this class may run it; "" for default
    #[arg(long, value_name = "CLASS")]
    pub class: Option<String>,
    /// Only this machine may run it; "" for any of its class
    #[arg(long, value_name = "NAME")]
    pub machine: Option<String>,
    /// Runs it on the service's host, with a machine held for it
    #[arg(long)]
    pub driver: bool,
    /// Takes the whole environment along to other machines
    #[arg(long)]
    pub export_env: bool,
    /// Lets it have paused GPUs too
    #[arg(long)]
    pub force: bool,
    /// Tells the command its GPUs by number in this argument of its own, as in --gpu-arg=--cuda
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    pub gpu_arg: Option<String>,
    /// Prints what changed as JSON
    #[arg(long)]
    pub json: bool,
    /// Another command: in quotes, or a program and its arguments after --
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

pub async fn run(args: EditArgs, raw: &[OsString], app: &App) -> Result<ExitCode, CliError> {
    let mut edit = wanted(&args, raw, app)?;
    let Some(selector) = &args.selector else {
        if edit != JobEdit::default() {
            return Err(Usage::new("these options are for one job, and none is named", "nexus edit abc …").of("edit"));
        }
        return edit_text(None, &args, app).await;
    };
    let client = app.started().await?;
    let job = chosen::choose_one(&client, selector).await?;
    if edit == JobEdit::default() {
        return edit_text(Some(&job.id), &args, app).await;
    }
    for name in ["after", "after-any"] {
        if let Some(list) = edit.options.get_mut(name).filter(|list| !list.is_empty()) {
            *list = chosen::meant(&client, std::slice::from_ref(list)).await?.join(",");
        }
    }
    let edited = client.edit_job(&job.id, &edit).await?;
    match args.json {
        true => app.ui.json(&edited)?,
        false => app.ui.data(&render::edit::changes(&edited, app.ui.paint()))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// What is to be changed of one job; nothing, where no option was given.
fn wanted(args: &EditArgs, raw: &[OsString], app: &App) -> Result<JobEdit, CliError> {
    let usage = |usage: Usage| usage.of("edit");
    sensible(args).map_err(usage)?;
    let here = std::env::current_dir().map_err(CliError::io("the folder this was typed in cannot be found"))?;
    let path = |path: &Option<PathBuf>| path.as_ref().map(|path| absolute(path, &here)).transpose();
    let list = |list: &[String]| (!list.is_empty()).then(|| list.join(","));
    let set = |on: bool| on.then(|| "yes".to_string());
    let given = [
        ("name", args.name.clone()),
        ("project", args.project.clone()),
        ("gpus", args.gpus.clone()),
        ("vram", args.vram.clone()),
        ("cpus", args.cpus.clone()),
        ("ram", args.ram.clone()),
        ("gpu-model", args.gpu_model.clone()),
        ("on", list(&args.on)),
        ("priority", args.priority.clone()),
        ("time", args.time.clone()),
        ("signal", args.signal.clone()),
        ("grace", args.grace.clone()),
        ("retries", args.retries.clone()),
        ("retry-on", list(&args.retry_on)),
        ("after", list(&args.after)),
        ("after-any", list(&args.after_any)),
        ("unique", set(args.unique)),
        ("cwd", path(&args.cwd)?),
        ("out", path(&args.out)?),
        ("results", args.results.as_ref().map(|dir| absolute(Path::new(dir), &here)).transpose()?),
        ("extract", extract(&args.extract).map_err(usage)?),
        ("tags", list(&args.tag)),
        ("hold", set(args.hold)),
        ("notify", set(args.notify)),
        ("no-tty", set(args.no_tty)),
        ("screen", set(args.screen)),
        ("class", args.class.clone()),
        ("machine", args.machine.clone()),
        ("driver", set(args.driver)),
        ("export-env", set(args.export_env)),
        ("force", set(args.force)),
        ("conda", args.conda.clone()),
        ("venv", args.venv.clone()),
        ("gpu-arg", args.gpu_arg.clone()),
    ];
    let options: BTreeMap<String, String> =
        given.into_iter().filter_map(|(name, value)| Some((name.to_string(), value?))).collect();
    let command = match args.command.is_empty() {
        true => None,
        false => Some(resolve::command(&args.command, is_escaped(raw, args.command.len())).map_err(usage)?),
    };
    let mut env = Env::new();
    for path in &args.env_file {
        let shown = path.display().to_string();
        let text = typed_file::read_to_string(path, &app.ui)
            .map_err(CliError::io(format!("--env-file {shown} cannot be read")))?;
        env.extend(values::env_file(&shown, &text).map_err(usage)?);
    }
    for text in &args.env {
        env.extend([values::variable("--env", text).map_err(usage)?]);
    }
    Ok(JobEdit { options, command, env })
}

/// What add would refuse is refused here, in the same words.
fn sensible(args: &EditArgs) -> Result<(), Usage> {
    fn given(value: &Option<String>) -> Option<&str> {
        value.as_deref().filter(|text| !text.is_empty())
    }
    given(&args.gpus).map(values::gpus).transpose()?;
    given(&args.vram).map(values::vram).transpose()?;
    given(&args.ram).map(values::ram).transpose()?;
    for list in args.retry_on.iter().filter(|list| !list.is_empty()) {
        values::retry_on(list)?;
    }
    given(&args.time).map(|text| values::duration("--time", text)).transpose()?;
    given(&args.grace).map(|text| values::duration("--grace", text)).transpose()?;
    given(&args.signal).map(values::signal_before).transpose()?;
    values::environments(given(&args.conda), given(&args.venv))?;
    given(&args.gpu_arg).map(values::gpu_arg).transpose()?;
    for list in args.on.iter().filter(|list| !list.is_empty()) {
        values::gpu_list("--on", list)?;
    }
    Ok(())
}

/// None where nothing was said; an empty one takes all away.
fn extract(typed: &[String]) -> Result<Option<String>, Usage> {
    match typed {
        [] => Ok(None),
        [one] if one.is_empty() => Ok(Some(String::new())),
        several => Ok(Extract::list_text(&values::extract(several)?)),
    }
}

/// An empty one stays empty: back to the default.
fn absolute(path: &Path, here: &Path) -> Result<String, CliError> {
    if path.as_os_str().is_empty() {
        return Ok(String::new());
    }
    let joined = here.join(path);
    let whole = std::path::absolute(&joined).unwrap_or(joined);
    let bad = |path: OsString| Usage::new(format!("the path {path:?} is not valid UTF-8"), "another path").of("edit");
    whole.into_os_string().into_string().map_err(bad)
}

/// The text goes to the editor, and what came of it to the service, until it is right or given up.
async fn edit_text(id: Option<&str>, args: &EditArgs, app: &App) -> Result<ExitCode, CliError> {
    let client = app.started().await?;
    let draft = Draft::new(&app.home.dir, client.queue_text(id).await?.text)?;
    loop {
        let Some(text) = draft.edit()? else {
            draft.remove();
            app.ui.say("nothing changed");
            return Ok(ExitCode::SUCCESS);
        };
        match take(&client, &draft, text, args, app).await {
            Ok(Some(edited)) => return told(&edited, &draft, args, app),
            Ok(None) => {}
            // Whatever stood in its way: what was typed is there.
            Err(error) => {
                app.ui.say(&draft.kept());
                return Err(error);
            }
        }
    }
}

/// What was done; nothing where the user wants to write on.
async fn take(
    client: &Client,
    draft: &Draft,
    text: String,
    args: &EditArgs,
    app: &App,
) -> Result<Option<QueueEdited>, CliError> {
    let mut edit = queue_edit(draft.base(), text, args.yes)?;
    let edited = client.edit_queue(&edit).await?;
    if edited.done {
        return Ok(Some(edited));
    }
    if !edited.errors.is_empty() {
        let lines: Vec<String> =
            edited.errors.iter().map(|error| format!("line {}: {}", error.line, error.error)).collect();
        let lines = lines.join("\n");
        if app.ui.can_ask() {
            app.ui.say(&lines);
            if app.ui.confirm("Edit again?") {
                return Ok(None);
            }
        }
        let error = "nothing was done: the text cannot be read".into();
        return Err(Refused { error, why: Some(lines), hint: None }.into());
    }
    let what = format!("Remove {}?", counted(edited.removed.len() as u64, "job"));
    let paint = app.ui.talk_paint();
    let mut lines: Vec<String> = listing(&edited, paint);
    if !app.ui.can_ask() {
        let error = format!("{what} nobody can be asked here");
        return Err(Refused { error, why: Some(lines.join("\n")), hint: Some("nexus edit -y".into()) }.into());
    }
    lines.push(String::new());
    app.ui.say(lines.join("\n").trim_end());
    if !app.ui.confirm(&what) {
        return Err(Refused { error: "nothing was done".into(), why: None, hint: None }.into());
    }
    edit.remove = true;
    Ok(Some(client.edit_queue(&edit).await?))
}

fn listing(edited: &QueueEdited, paint: Paint) -> Vec<String> {
    let mut lines: Vec<String> =
        edited.removed.iter().take(LISTED).map(|job| format!("  {}", render::edit::named(job, paint))).collect();
    if edited.removed.len() > LISTED {
        lines.push(format!("  and {} more", edited.removed.len() - LISTED));
    }
    lines
}

fn queue_edit(base: &str, text: String, remove: bool) -> Result<QueueEdit, CliError> {
    let JobSpec { env, cwd, window, .. } = usual::spec()?;
    Ok(QueueEdit { base: base.to_string(), text, env, cwd, window, remove })
}

fn told(edited: &QueueEdited, draft: &Draft, args: &EditArgs, app: &App) -> Result<ExitCode, CliError> {
    if edited.conflicts.is_empty() {
        draft.remove();
    }
    match args.json {
        true => app.ui.json(edited)?,
        false => app.ui.data(&render::edit::done(edited, app.ui.paint()))?,
    }
    tell_notes(&edited.notes, app);
    for line in render::edit::left(edited, app.ui.talk_paint()) {
        app.ui.warn(&line);
    }
    if edited.conflicts.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    for job in &edited.conflicts {
        let id = app.ui.talk_paint().id(&job.id);
        app.ui.warn(&format!("{id} was changed by somebody else meanwhile and was left alone: nexus edit {id}"));
    }
    app.ui.say(&draft.kept());
    Ok(ExitCode::from(code::CANNOT_BE_MET))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use crate::args::Cli;

    /// Options of `add` that are about adding, not about the job.
    const OF_ADD_ALONE: &[&str] = &["copies", "dry_run", "quiet", "sync"];

    #[test]
    fn every_option_of_add_can_be_edited() {
        let cli = Cli::command();
        let ids = |verb: &str| -> Vec<String> {
            let verb = cli.find_subcommand(verb).expect("a verb");
            verb.get_arguments().map(|argument| argument.get_id().to_string()).collect()
        };
        let edit = ids("edit");
        let missing: Vec<String> =
            ids("add").into_iter().filter(|id| !edit.contains(id) && !OF_ADD_ALONE.contains(&id.as_str())).collect();
        assert_eq!(missing, Vec::<String>::new());
    }
}
