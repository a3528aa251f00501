//! The binary `nexus`: client, service, node and launcher in one.
//!
//! Shows what the service says and asks it for what the user wants; opens neither database nor GPUs itself.

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
mod render;
mod resolve;
mod secrets;
mod signals;
mod snapshot;
mod start;
mod stay;
mod top;
mod typed;
mod ui;
mod unit;
mod usage;
mod usual;
mod values;
mod whole_file;

use std::ffi::OsString;
use std::process::ExitCode;

use args::{Cli, Verb};
use clap::Parser;

use crate::app::App;
use crate::commands::{
    add, cancel, completions, config, demo, doctor, edit, first, forget, gc, gpus, help, history, hold, import, kill,
    logs, ls, machine, pause, queue, release, remove, report, rerun, restart, results, resume, service, show, simulate,
    status, stop, sweep, tag, var, wait, why,
};
use crate::error::{CliError, code};
use crate::ui::Ui;

fn main() -> ExitCode {
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
    let cli = match Cli::try_parse_from(&raw) {
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
                .and_then(|()| in_runtime(run(verb, cli.status, &raw, ui)))
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

fn in_runtime<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime without threads can be made");
    let done = runtime.block_on(work);
    // It goes with the process, which has nothing else to do: to take it apart would only take time.
    std::mem::forget(runtime);
    done
}

async fn run(verb: Option<Verb>, bare: status::StatusArgs, raw: &[OsString], ui: Ui) -> Result<ExitCode, CliError> {
    let verb = match verb {
        Some(Verb::Help(args)) => return help::run(args, args::command(), &ui),
        Some(Verb::Demo(args)) => return demo::run(args, &ui).await,
        Some(Verb::Completions(args)) => return completions::run(args, &ui),
        verb => verb,
    };
    let home = nexus_node::home::find_home().map_err(|error| CliError::Home { source: Box::new(error) })?;
    let client = client::Client::new(&home);
    let app = App { ui, home, client };
    match verb {
        None => status::run(bare, &app, app.started().await?).await,
        Some(verb) => run_verb(verb, raw, &app).await,
    }
}

async fn run_verb(verb: Verb, raw: &[OsString], app: &App) -> Result<ExitCode, CliError> {
    match verb {
        Verb::Status(args) => status::run(args, app, app.reader()).await,
        Verb::Add(args) => add::run(*args, raw, app).await,
        Verb::Run(args) => commands::run::run(*args, raw, app).await,
        Verb::Sweep(args) => sweep::run(*args, app).await,
        Verb::Queue(args) => queue::run(args, app).await,
        Verb::History(args) => history::run(args, app).await,
        Verb::Ls(args) => ls::run(args, app).await,
        Verb::Show(args) => show::run(args, app).await,
        Verb::Why(args) => why::run(args, app).await,
        Verb::Logs(args) => logs::run(args, app).await,
        Verb::Attach(args) => commands::attach::run(args, app).await,
        Verb::Kill(args) => kill::run(args, app).await,
        Verb::Remove(args) => remove::run(args, app).await,
        Verb::Cancel(args) => cancel::run(args, app).await,
        Verb::First(args) => first::run(args, app).await,
        Verb::Edit(args) => edit::run(*args, raw, app).await,
        Verb::Hold(args) => hold::run(args, app).await,
        Verb::Release(args) => release::run(args, app).await,
        Verb::Rerun(args) => rerun::run(args, app).await,
        Verb::Import(args) => import::run(args, app).await,
        Verb::Wait(args) => wait::run(args, app).await,
        Verb::Results(args) => results::run(args, app).await,
        Verb::Export(args) => commands::export::run(args, app).await,
        Verb::Report(args) => report::run(*args, app).await,
        Verb::Simulate(args) => simulate::run(args, app).await,
        Verb::Tag(args) => tag::run(args, app).await,
        Verb::Forget(args) => forget::run(args, app).await,
        Verb::Gc(args) => gc::run(args, app).await,
        Verb::Gpus(args) => gpus::run(args, app).await,
        Verb::Pause(args) => pause::run(args, app).await,
        Verb::Resume(args) => resume::run(args, app).await,
        Verb::Screens(args) => commands::screens::run(args, app).await,
        Verb::Top(args) => commands::top::run(args, app).await,
        Verb::Web(args) => commands::web::run(args, app).await,
        Verb::ServiceView => commands::service_view::run(app).await,
        Verb::Start(args) => commands::start::run(args, app).await,
        Verb::Stop(args) => stop::run(args, app).await,
        Verb::Restart(args) => restart::run(args, app).await,
        Verb::Service(args) => commands::unit::run(args, app).await,
        Verb::Var(args) => var::run(args, app).await,
        Verb::Machine(args) => machine::run(args, app).await,
        Verb::Config(args) => config::run(args, app).await,
        Verb::Notify(args) => commands::notify::run(args, app).await,
        Verb::Mcp(args) => commands::mcp::run(args, app).await,
        Verb::Doctor(args) => doctor::run(args, app).await,
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
