//! `nexus add`: queue a job.

use std::ffi::OsString;

use jiff::Zoned;
use nexus_api::env::Env;
use nexus_api::jobs::{Job, JobSpec, Note, State, Waiting};
use nexus_api::problem::Problem;

use crate::app::App;
use crate::chosen;
use crate::client::Client;
use crate::error::CliError;
use crate::process::ExitCode;
use crate::render::prospect;
use crate::render::reason::{self, Capacity};
use crate::render::text;
use crate::resolve::{Surroundings, resolve};
use crate::typed::{AddArgs, is_escaped};
use crate::{snapshot, typed_file, ui};

pub async fn run(args: AddArgs, raw: &[OsString], app: &App) -> Result<ExitCode, CliError> {
    let mut spec = spec(&args, raw, "add", app)?;
    let has_parents = !(spec.after.is_empty() && spec.after_any.is_empty());
    let client = if has_parents { app.started().await? } else { app.reached().await? };
    name_parents(&client, &mut spec).await?;
    let copies = args.copies as usize;
    let shown = args.json || !args.quiet && app.ui.out_is_terminal();
    let submitted = match client.submit(&spec, copies, args.dry_run, shown).await {
        Err(CliError::NoService { .. }) => app.started().await?.submit(&spec, copies, args.dry_run, shown).await?,
        submitted => submitted?,
    };
    tell_notes(&submitted.notes, app);
    warn_if_hopeless(&client, &submitted.jobs, app).await;
    if args.json {
        app.ui.json(&submitted)?;
    } else if args.quiet || (!app.ui.out_is_terminal() && !args.dry_run) {
        let ids: String = submitted.jobs.iter().map(|job| format!("{}\n", job.id)).collect();
        app.ui.data(&ids)?;
    } else {
        tell(&client, &submitted.jobs, args.dry_run, app).await?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The jobs that it comes after, by their ids.
pub async fn name_parents(client: &Client, spec: &mut JobSpec) -> Result<(), CliError> {
    spec.after = chosen::meant(client, &spec.after).await?;
    spec.after_any = chosen::meant(client, &spec.after_any).await?;
    Ok(())
}

/// What was typed after a verb that takes the options of `add`, as it is meant.
pub fn spec(args: &AddArgs, raw: &[OsString], verb: &'static str, app: &App) -> Result<JobSpec, CliError> {
    let surroundings = look_around(args, raw, app)?;
    let mut spec = resolve(args, surroundings).map_err(|usage| usage.of(verb))?;
    check(&spec)?;
    // What is only tried out needs no copy.
    if let Some(folder) = args.sync.as_ref().filter(|_| !args.dry_run) {
        let code = snapshot::take(folder, &app.home)?;
        // By its true path, so that it is known to be inside of the folder.
        if let Ok(Ok(cwd)) = std::fs::canonicalize(&spec.cwd).map(|path| path.into_os_string().into_string()) {
            spec.cwd = cwd;
        }
        spec.code = Some(code);
    }
    Ok(spec)
}

fn look_around(args: &AddArgs, raw: &[OsString], app: &App) -> Result<Surroundings, CliError> {
    let mut env = Env::new();
    for (name, value) in std::env::vars_os() {
        match (name.into_string(), value.into_string()) {
            (Ok(name), Ok(value)) => {
                env.insert(name, value);
            }
            (Ok(name), Err(_)) => app.ui.warn(&format!("{name} is not valid UTF-8 and is left out")),
            (Err(name), _) => app.ui.warn(&format!("the variable {name:?} is not valid UTF-8 and is left out")),
        }
    }
    let mut env_files = Vec::new();
    for path in &args.env_file {
        let shown = path.display().to_string();
        let text = typed_file::read_to_string(path, &app.ui)
            .map_err(CliError::io(format!("--env-file {shown} cannot be read")))?;
        env_files.push((shown, text));
    }
    let cwd = std::env::current_dir().map_err(CliError::io("the folder this was typed in cannot be found"))?;
    Ok(Surroundings { env, cwd, window: ui::window(), env_files, escaped: is_escaped(raw, args.command.len()) })
}

/// What is cheap to see here, before a service is started for it.
fn check(spec: &JobSpec) -> Result<(), CliError> {
    spec.command.check().map_err(|bad| Problem::BadCommand { bad })?;
    if spec.request.runs_elsewhere() {
        return Ok(());
    }
    let problem = |error: String| Problem::NoSuchFolder { path: spec.cwd.clone(), error };
    match std::fs::metadata(&spec.cwd) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(problem("it is not a folder".into()).into()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(problem("it does not exist".into()).into()),
        Err(error) => Err(problem(error.to_string()).into()),
    }
}

/// What was taken otherwise than one may think, piped too.
pub fn tell_notes(notes: &[Note], app: &App) {
    for note in notes {
        app.ui.note(&note.to_string());
    }
}

/// What this machine can never give is said at once, piped too: the copies are alike.
pub async fn warn_if_hopeless(client: &Client, jobs: &[Job], app: &App) {
    for warning in hopeless(client, jobs).await {
        app.ui.warn(&warning);
    }
}

/// What is in the way of a job for good, in words.
pub async fn hopeless(client: &Client, jobs: &[Job]) -> Vec<String> {
    let mut found = Vec::new();
    let Some(job) = jobs.first() else { return found };
    if let Some(detail) = job.detail.as_ref().filter(|_| job.state == State::Failed) {
        found.push(format!("{} failed at once: {detail}", job.id));
    }
    match &job.waiting {
        Some(Waiting::NoSuchGpus(missing)) if reason::there_is_none(missing) => {
            // A service that is gone meanwhile is the next request's to tell.
            let machines = client.gpus().await.unwrap_or_default();
            let here = match machines.iter().find_map(|machine| machine.error.as_ref()) {
                Some(error) => format!("GPUs cannot be read: {}", text::first_line(error)),
                None => "there is no GPU here".to_string(),
            };
            found.push(format!("{here}: the job waits for one; --gpus 0 runs it on the CPU"));
        }
        Some(Waiting::NoSuchGpus(_) | Waiting::NoSuchCpus { .. } | Waiting::NoSuchRam { .. }) => {
            let why = reason::of_job(job, Capacity { gpus: 0, cpus: 0 }, &Zoned::now());
            found.push(format!("the job cannot start here: it {why}"));
        }
        _ => {}
    }
    found
}

async fn tell(client: &Client, jobs: &[Job], dry_run: bool, app: &App) -> Result<(), CliError> {
    let capacity = Capacity::of(&client.status(false).await?);
    let now = Zoned::now();
    let lines: String = jobs
        .iter()
        .map(|job| match dry_run {
            true if job.waiting == Some(Waiting::Next) => format!("would {}\n", prospect::now_on(job, "start")),
            true => format!("would be queued: {}\n", prospect::of_job(job, capacity, &now)),
            false => format!("{}\n", prospect::line(job, capacity, &now, app.ui.paint())),
        })
        .collect();
    app.ui.data(&lines)
}
