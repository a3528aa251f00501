//! `nexus run`: queue a job and stay with it.

use std::ffi::OsString;
use std::io::IsTerminal;

use nexus_api::jobs::{Action, Job, OnJobs};

use crate::app::App;
use crate::attach::{self, Left};
use crate::client::Client;
use crate::commands::add;
use crate::dispatch::{self, Asked, DispatchArgs, Settings};
use crate::error::{CliError, Refused, Usage};
use crate::exit;
use crate::process::ExitCode;
use crate::render::outcome;
use crate::stay::{self, Stayed, Until};
use crate::typed::AddArgs;
use crate::typed_file;

/// Queue a job, stay with it, and exit with its exit code
///
/// What it prints comes as it is printed, standard output and standard error apart. Ctrl-C asks whether the job is
/// killed or goes on without you. Off a terminal TERM and INT kill it, and HUP leaves it running. The command is read
/// as add reads it; without one you get your shell on the GPU.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "\
Examples:
  nexus run \"python train.py --model gpt2\"
  nexus run --gpus 2 python eval.py > scores.txt
  nexus run             (your shell, on a GPU)
  nexus run --commands-file commands.txt --min-free-mem-mb 8000
  nexus run --status

Exit code: the job's own; 128 + N for signal N, 124 for its time limit, 127 where it could not be started,
1 when it was killed, removed or lost. With a file of commands: 0 if all completed, else 1.",
    mut_arg("command", |command| command.required(false)),
    mut_arg("json", |json| json.hide(true)),
    mut_arg("copies", |copies| copies.hide(true))
)]
pub struct RunArgs {
    #[command(flatten)]
    pub add: AddArgs,
    #[command(flatten)]
    pub dispatch: DispatchArgs,
}

pub async fn run(args: RunArgs, raw: &[OsString], app: &App) -> Result<ExitCode, CliError> {
    match args.dispatch.asked().map_err(|usage| usage.of("run"))? {
        Asked::Nothing => {}
        asked => return many(args, asked, raw, app).await,
    }
    let mut typed = args.add;
    refuse(&typed).map_err(|usage| usage.of("run"))?;
    let is_shell = typed.command.is_empty();
    if is_shell {
        typed.command = shell(&typed)?;
    }
    if typed.dry_run {
        return add::run(typed, raw, app).await;
    }
    let mut spec = add::spec(&typed, raw, "run", app)?;
    if is_shell {
        spec.command = nexus_api::command::Command::Argv(typed.command.clone());
        spec.tty = Some(true);
        spec.one_terminal = true;
    }
    let client = app.started().await?;
    add::name_parents(&client, &mut spec).await?;
    // From here on a signal means the job, were it not even queued.
    let signals = stay::Signals::listen()?;
    let submitted = client.submit(&spec, 1, false, false).await?;
    if !typed.quiet {
        add::tell_notes(&submitted.notes, app);
        add::warn_if_hopeless(&client, &submitted.jobs, app).await;
    }
    let Some(job) = submitted.jobs.first() else {
        return Err(Refused { error: "the service queued nothing".into(), why: None, hint: None }.into());
    };
    let until = if is_shell { Until::Start } else { Until::End };
    let stayed = stay::stay(app, &client, job, until, typed.quiet, signals).await?;
    match stayed {
        Stayed::Started => in_the_shell(app, &client, &job.id, typed.quiet).await,
        Stayed::Detached => Ok(ExitCode::SUCCESS),
        Stayed::Ended { job, signal } => Ok(ended(&job, signal, typed.quiet, app)),
    }
}

/// Many commands: each line of a file, or a look at what became of them.
async fn many(args: RunArgs, asked: Asked, raw: &[OsString], app: &App) -> Result<ExitCode, CliError> {
    let RunArgs { add: mut typed, dispatch: wanted } = args;
    let cwd = std::env::current_dir().map_err(CliError::io("the folder this was typed in cannot be found"))?;
    if !typed.command.is_empty() {
        let error = "the commands stand in a file, and here is one more";
        return Err(Usage::new(error, "one of the two: nexus run COMMAND, or --commands-file FILE").of("run"));
    }
    if asked == Asked::Status {
        return dispatch::status(app, &Settings::jobs_file(&wanted, &cwd)?, typed.json).await;
    }
    refuse_with_many(&typed, &wanted).map_err(|usage| usage.of("run"))?;
    if let Some(config) = &wanted.config {
        typed_file::warn_of_strangers(config, &app.ui);
    }
    let settings = Settings::of(&wanted, &cwd)?;
    // Each line takes its place.
    typed.command = vec!["true".into()];
    let mut base = add::spec(&typed, raw, "run", app)?;
    let Some(plan) = dispatch::plan(settings, &base, app)? else { return Ok(ExitCode::SUCCESS) };
    add::name_parents(&app.started().await?, &mut base).await?;
    dispatch::run(app, plan, base, typed.quiet).await
}

/// Options of `add` that the dispatcher says itself, or that say nothing about jobs that are stayed with.
fn refuse_with_many(typed: &AddArgs, wanted: &DispatchArgs) -> Result<(), Usage> {
    let no_gpu = typed.gpus.as_deref() == Some("0");
    for (given, option, instead) in [
        (typed.json, "--json", "nexus run --status --json shows what became of each"),
        (typed.copies != 1, "-x", "a command is run as often as its line stands in the file"),
        (typed.hold, "--hold", "nexus pause keeps all jobs from starting"),
        (typed.unique, "--unique", "no line is run twice as long as the jobs file is the same"),
        (typed.dry_run, "--dry-run", "nexus add --dry-run says where one command would start"),
        (typed.out.is_some(), "--out", "--log-dir DIR gets a log of each run"),
        (typed.vram.is_some() && wanted.min_free_mem_mb.is_some(), "--vram", "--min-free-mem-mb says the same"),
        (!typed.on.is_empty() && wanted.gpu_ids.is_some(), "--on", "--gpu-ids says the same"),
        (no_gpu && wanted.min_free_mem_mb.is_some(), "--gpus 0", "--min-free-mem-mb is memory of a GPU"),
        (no_gpu && wanted.gpu_ids.is_some(), "--gpus 0", "--gpu-ids names GPUs"),
    ] {
        if given {
            return Err(Usage::new(format!("{option} does not go with a file of commands"), instead));
        }
    }
    Ok(())
}

/// Options of `add` that say nothing about one job that is stayed with.
fn refuse(typed: &AddArgs) -> Result<(), Usage> {
    if typed.json {
        return Err(Usage::new(
            "run prints what the job prints, and no JSON",
            "nexus add --json, or nexus show --json",
        ));
    }
    if typed.command.is_empty() && typed.gpu_arg.is_some() {
        return Err(Usage::new("--gpu-arg is for a command, and there is none", "nexus run --gpu-arg=--cuda COMMAND"));
    }
    if typed.copies != 1 {
        return Err(Usage::new("run stays with one job", format!("nexus add -x {} … queues copies", typed.copies)));
    }
    Ok(())
}

/// The caller's own shell, for somebody who sits in front of it.
fn shell(typed: &AddArgs) -> Result<Vec<String>, CliError> {
    if typed.no_tty {
        return Err(Usage::new("a shell needs a terminal, and --no-tty gives it none", "nexus run COMMAND").of("run"));
    }
    if !(std::io::stdin().is_terminal() && std::io::stdout().is_terminal()) {
        return Err(Usage::new("there is no command, and no terminal for a shell", "nexus run COMMAND").of("run"));
    }
    let named = std::env::var("SHELL").ok().filter(|shell| !shell.is_empty());
    Ok(vec![named.unwrap_or_else(|| "sh".into())])
}

async fn in_the_shell(app: &App, client: &Client, id: &str, quiet: bool) -> Result<ExitCode, CliError> {
    let greeting = (!quiet).then(|| format!("a shell as job {id}; Ctrl+A D detaches"));
    match attach::attach(client, id, false, greeting.into_iter().collect(), &app.ui).await {
        Ok(Left::Detached | Left::Told) => {
            if !quiet {
                stay::tell_detached(&app.ui, id, true);
            }
            Ok(ExitCode::SUCCESS)
        }
        Ok(Left::Ended(_) | Left::EndedUnseen) => {
            let job = crate::ends::wait(client, &[id.to_string()], |_| Ok(())).await?.pop();
            Ok(job.map_or(ExitCode::SUCCESS, |job| ended(&job, None, quiet, app)))
        }
        Err(error) => {
            // A shell that nobody is in would hold its GPU for ever.
            client.act(Action::Cancel, OnJobs { ids: vec![id.to_string()], skip_unfit: true }).await?;
            Err(error)
        }
    }
}

/// The code it leaves with. An exit of its own explains itself; all else is said.
fn ended(job: &Job, signal: Option<i32>, quiet: bool, app: &App) -> ExitCode {
    let end = exit::of_job(job, signal);
    if !quiet && end.needs_words {
        app.ui.say(&outcome::end_and_detail(job, app.ui.talk_paint()));
    }
    ExitCode::from(end.code)
}
