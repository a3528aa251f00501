//! The binary `nexus`: client, service, node and launcher in one.
//!
//! Shows what the service says and asks it for what the user wants; opens neither database nor GPUs itself.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests make and read what they like"))]
#![cfg_attr(all(target_env = "gnu", not(test)), no_main)]

mod app;
mod args;
mod attach;
mod chosen;
mod client;
mod collapse;
mod commands;
mod complete;
mod dispatch;
mod draft;
mod editor;
mod ends;
mod error;
mod exit;
mod figures;
mod job_file;
mod misplaced;
mod narrow;
mod on_gpus;
mod process;
mod read;
mod render;
mod resolve;
mod secrets;
mod signals;
mod snapshot;
mod start;
mod stay;
mod top;
mod typed;
mod typed_file;
mod ui;
mod unit;
mod usage;
mod usual;
mod values;
mod whole_file;

use std::ffi::OsString;
use std::pin::Pin;

use args::Verb;

use crate::app::App;
use crate::commands::{
    add, cancel, completions, config, demo, doctor, edit, first, forget, gc, gpus, help, history, hold, import, kill,
    logs, ls, machine, pause, queue, release, remove, report, rerun, restart, results, resume, service, show, simulate,
    status, stop, sweep, tag, var, wait, why,
};
use crate::error::{CliError, code};
use crate::process::ExitCode;
use crate::ui::Ui;

/// Where the process begins.
#[cfg(all(target_env = "gnu", not(test)))]
#[unsafe(no_mangle)]
extern "C" fn main() -> libc::c_int {
    process::live(nexus)
}

#[cfg(any(not(target_env = "gnu"), test))]
fn main() {
    process::live(nexus)
}

fn nexus() -> ExitCode {
    let raw: Vec<OsString> = std::env::args_os().collect();
    if raw.get(1).is_some_and(|word| word == "__launcher") {
        nexus_node::launcher::main();
    }
    if let [_, verb, name] = raw.as_slice()
        && verb == "__viewer"
    {
        nexus_node::viewer::main(&name.to_string_lossy());
    }
    if let [_, verb, batch] = raw.as_slice()
        && verb == "__slurm"
    {
        nexus_node::slurm::on_compute_node(batch.as_ref());
    }
    if let [_, verb, name] = raw.as_slice()
        && verb == "__terminal"
    {
        nexus_node::slurm::on_terminal(&name.to_string_lossy());
    }
    if raw.get(1).is_some_and(|word| word == "__complete") {
        return complete::run(raw[2..].to_vec(), &Ui::new(ui::ColorWhen::Never));
    }
    if let [_, verb, folder] = raw.as_slice()
        && verb == "__man"
    {
        let ui = Ui::new(ui::ColorWhen::Auto);
        let nexus = complete::visible(args::command());
        return commands::man::run(&nexus, folder.as_ref()).unwrap_or_else(|error| report(&error, &ui));
    }
    let cli = match read::read(&raw) {
        Ok(cli) => cli,
        Err(error) => return usage::told(error, &raw),
    };
    let ui = Ui::new(cli.color);
    let ended = match cli.verb {
        Some(Verb::BecomeService(args)) => return become_service(args),
        Some(Verb::Node(args)) => return commands::node::run(args, &ui),
        verb => {
            std::panic::set_hook(Box::new(bug));
            usage::misplaced_options(&cli.status, verb.as_ref(), &raw)
                .and_then(|()| in_runtime(run(verb, cli.status, &raw, ui))?)
        }
    };
    match ended {
        Ok(code) => code,
        Err(error) => report(&error, &Ui::new(cli.color)),
    }
}

fn become_service(args: service::ServiceArgs) -> ExitCode {
    match nexus_node::home::find_home() {
        Ok(home) => service::run(args, home),
        Err(_) => ExitCode::from(code::CANNOT_BE_MET),
    }
}

/// On this very thread. An error where there is no descriptor left for the runtime (`ulimit -n`).
#[expect(clippy::disallowed_methods, reason = "the one runtime of a command, which makes no threads")]
fn in_runtime<T>(work: impl Future<Output = T>) -> Result<T, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(CliError::io("nexus could not begin"))?;
    let done = runtime.block_on(work);
    // It goes with the process, which has nothing else to do: to take it apart would only take time.
    std::mem::forget(runtime);
    Ok(done)
}

async fn run(verb: Option<Verb>, bare: status::StatusArgs, raw: &[OsString], ui: Ui) -> Result<ExitCode, CliError> {
    let verb = match verb {
        Some(Verb::Help(args)) => return help::run(args, args::command(), &ui),
        Some(Verb::Demo(args)) => return Box::pin(demo::run(args, &ui)).await,
        Some(Verb::Completions(args)) => return completions::run(args, &ui),
        verb => verb,
    };
    let home = nexus_node::home::find_home().map_err(|error| CliError::Home { source: Box::new(error) })?;
    let client = client::Client::new(&home);
    let app = App { ui, home, client };
    match verb {
        None => Box::pin(status::run(bare, &app, app.started().await?)).await,
        Some(verb) => work_of(verb, raw, &app).await,
    }
}

/// What a verb does, in memory of its own: together they are as large as the largest of them, and every command would pay
/// for that before it begins.
type Work<'a> = Pin<Box<dyn Future<Output = Result<ExitCode, CliError>> + 'a>>;

fn work_of<'a>(verb: Verb, raw: &'a [OsString], app: &'a App) -> Work<'a> {
    match verb {
        Verb::Status(args) => Box::pin(status::run(args, app, app.reader())),
        Verb::Add(args) => Box::pin(add::run(*args, raw, app)),
        Verb::Run(args) => Box::pin(commands::run::run(*args, raw, app)),
        Verb::Sweep(args) => Box::pin(sweep::run(*args, app)),
        Verb::Queue(args) => Box::pin(queue::run(args, app)),
        Verb::History(args) => Box::pin(history::run(args, app)),
        Verb::Ls(args) => Box::pin(ls::run(args, app)),
        Verb::Show(args) => Box::pin(show::run(args, app)),
        Verb::Why(args) => Box::pin(why::run(args, app)),
        Verb::Logs(args) => Box::pin(logs::run(args, app)),
        Verb::Attach(args) => Box::pin(commands::attach::run(args, app)),
        Verb::Kill(args) => Box::pin(kill::run(args, app)),
        Verb::Remove(args) => Box::pin(remove::run(args, app)),
        Verb::Cancel(args) => Box::pin(cancel::run(args, app)),
        Verb::First(args) => Box::pin(first::run(args, app)),
        Verb::Edit(args) => Box::pin(edit::run(*args, raw, app)),
        Verb::Hold(args) => Box::pin(hold::run(args, app)),
        Verb::Release(args) => Box::pin(release::run(args, app)),
        Verb::Rerun(args) => Box::pin(rerun::run(args, app)),
        Verb::Import(args) => Box::pin(import::run(args, app)),
        Verb::Wait(args) => Box::pin(wait::run(args, app)),
        Verb::Results(args) => Box::pin(results::run(args, app)),
        Verb::Export(args) => Box::pin(commands::export::run(args, app)),
        Verb::Report(args) => Box::pin(report::run(*args, app)),
        Verb::Simulate(args) => Box::pin(simulate::run(args, app)),
        Verb::Tag(args) => Box::pin(tag::run(args, app)),
        Verb::Forget(args) => Box::pin(forget::run(args, app)),
        Verb::Gc(args) => Box::pin(gc::run(args, app)),
        Verb::Backup(args) => Box::pin(commands::backup::run(args, app)),
        Verb::Gpus(args) => Box::pin(gpus::run(args, app)),
        Verb::Pause(args) => Box::pin(pause::run(args, app)),
        Verb::Resume(args) => Box::pin(resume::run(args, app)),
        Verb::Screens(args) => Box::pin(commands::screens::run(args, app)),
        Verb::Top(args) => Box::pin(commands::top::run(args, app)),
        Verb::Web(args) => Box::pin(commands::web::run(args, app)),
        Verb::ServiceView => Box::pin(commands::service_view::run(app)),
        Verb::Start(args) => Box::pin(commands::start::run(args, app)),
        Verb::Stop(args) => Box::pin(stop::run(args, app)),
        Verb::Restart(args) => Box::pin(restart::run(args, app)),
        Verb::Service(args) => Box::pin(commands::unit::run(args, app)),
        Verb::Var(args) => Box::pin(var::run(args, app)),
        Verb::Machine(args) => Box::pin(machine::run(args, app)),
        Verb::Config(args) => Box::pin(config::run(args, app)),
        Verb::Notify(args) => Box::pin(commands::notify::run(args, app)),
        Verb::Mcp(args) => Box::pin(commands::mcp::run(args, app)),
        Verb::Doctor(args) => Box::pin(doctor::run(args, app)),
        Verb::Demo(_) | Verb::Completions(_) | Verb::Help(_) | Verb::BecomeService(_) | Verb::Node(_) => {
            unreachable!("they need no home of the user's")
        }
    }
}

fn report(error: &CliError, ui: &Ui) -> ExitCode {
    let usage = match error {
        CliError::Usage { verb, .. } => Some(help::usage_line(args::command(), verb)),
        _ => None,
    };
    if !matches!(error, CliError::OutputClosed) {
        ui.failed(&error.told(), usage.as_deref());
    }
    ExitCode::from(error.exit_code())
}

/// A panic is a bug and says so with its own exit code.
fn bug(panic: &std::panic::PanicHookInfo<'_>) {
    top::restore();
    attach::restore();
    let told = error::Told {
        error: "nexus failed; this is a bug".into(),
        why: Some(panic.to_string()),
        hint: Some("please report it with the command line".into()),
    };
    Ui::new(ui::ColorWhen::Auto).failed(&told, None);
    std::process::exit(code::BUG.into());
}
