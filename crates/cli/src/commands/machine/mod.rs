//! `nexus machine`: the machines that jobs run on.

mod add;
mod setup;

use jiff::Zoned;
use nexus_api::machines::{MachineAction, MachineState, OnMachines};
use nexus_api::service::Machine;

use crate::app::App;
use crate::error::CliError;
use crate::process::ExitCode;
use crate::render;

pub use add::AddMachineArgs;
pub use setup::SetUpArgs;

/// Keep a pool of machines that jobs run on
///
/// The service's own host is the machine local. Others need an ssh account and nothing else: nexus copies itself there.
/// A job runs on a machine of the class that it names, on the machine that it names, or else on any of the class default.
#[derive(Clone, Debug, clap::Args)]
#[command(
    disable_help_subcommand = true,
    subcommand_value_name = "COMMAND",
    after_help = "\
Examples:
  nexus machine add ann@gpu1.lab --class big
  nexus machine setup --class big -m gpu2 -m gpu3 -- \"sh install.sh\"
  nexus machine ls
  nexus add --class big \"python train.py\"
  nexus machine pause gpu1.lab
  nexus machine mv default gpu1.lab
  nexus machine rm gpu1.lab --drain"
)]
pub struct MachineArgs {
    #[command(subcommand)]
    pub verb: MachineVerb,
}

#[derive(Clone, Debug, clap::Subcommand)]
pub enum MachineVerb {
    Ls(LsArgs),
    Show(ShowArgs),
    Add(Box<AddMachineArgs>),
    #[command(name = "setup")]
    SetUp(Box<SetUpArgs>),
    Pause(PauseArgs),
    Resume(ResumeArgs),
    Mv(MvArgs),
    Rm(RmArgs),
}

/// Show the machines: their state, class, GPUs and jobs
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Example:
  nexus machine ls")]
pub struct LsArgs {
    /// Prints them as JSON
    #[arg(long)]
    pub json: bool,
}

/// Show all that is known of a machine
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Example:
  nexus machine show gpu1.lab")]
pub struct ShowArgs {
    /// As nexus machine ls shows it
    #[arg(value_name = "MACHINE")]
    pub name: String,
    /// Prints it as JSON
    #[arg(long)]
    pub json: bool,
}

/// Keep new jobs off machines; what runs there goes on
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Example:
  nexus machine pause gpu1.lab gpu2.lab")]
pub struct PauseArgs {
    #[arg(value_name = "MACHINE", required = true)]
    pub names: Vec<String>,
}

/// Let machines take jobs again: after a pause, a quarantine, a lost line
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Example:
  nexus machine resume gpu1.lab")]
pub struct ResumeArgs {
    #[arg(value_name = "MACHINE", required = true)]
    pub names: Vec<String>,
}

/// Move machines to a class; what runs there goes on
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Example:
  nexus machine mv big gpu1.lab gpu2.lab")]
pub struct MvArgs {
    #[arg(value_name = "CLASS")]
    pub class: String,
    #[arg(value_name = "MACHINE", required = true)]
    pub names: Vec<String>,
}

/// Take machines out of the pool; one with jobs on it stays, unless one says what becomes of them
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nexus machine rm gpu1.lab
  nexus machine rm gpu1.lab --drain")]
pub struct RmArgs {
    #[arg(value_name = "MACHINE", required = true)]
    pub names: Vec<String>,
    /// Takes it out when the jobs on it have ended, and gives it no new ones
    #[arg(long, conflicts_with = "kill")]
    pub drain: bool,
    /// Ends the jobs on it
    #[arg(long)]
    pub kill: bool,
}

pub async fn run(args: MachineArgs, app: &App) -> Result<ExitCode, CliError> {
    match args.verb {
        MachineVerb::Ls(args) => list(args, app).await?,
        MachineVerb::Show(args) => show(args, app).await?,
        MachineVerb::Add(args) => return add::run(*args, app).await,
        MachineVerb::SetUp(args) => return setup::run(*args, app).await,
        MachineVerb::Pause(args) => change(MachineAction::Pause, args.names, None, app).await?,
        MachineVerb::Resume(args) => change(MachineAction::Resume, args.names, None, app).await?,
        MachineVerb::Mv(args) => change(MachineAction::Mv, args.names, Some(args.class), app).await?,
        MachineVerb::Rm(args) => remove(args, app).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(args: LsArgs, app: &App) -> Result<(), CliError> {
    let machines = app.reader().machines().await?;
    if args.json {
        return app.ui.json(&machines);
    }
    app.ui.data(&render::machines::list(&machines, app.ui.out_is_terminal(), app.ui.paint()))?;
    if machines.len() == 1 {
        app.ui.say("more join by nexus machine add [user@]host");
    }
    Ok(())
}

async fn show(args: ShowArgs, app: &App) -> Result<(), CliError> {
    let machine = app.reader().machine(&args.name).await?;
    if args.json {
        return app.ui.json(&machine);
    }
    app.ui.data(&render::machines::show(&machine, &Zoned::now(), app.ui.paint()))
}

async fn change(
    action: MachineAction,
    machines: Vec<String>,
    class: Option<String>,
    app: &App,
) -> Result<(), CliError> {
    let on = OnMachines { machines, class, ..OnMachines::default() };
    for machine in app.started().await?.on_machines(action, &on).await? {
        app.ui.say(&render::machines::changed(action, &machine));
    }
    Ok(())
}

async fn remove(args: RmArgs, app: &App) -> Result<(), CliError> {
    let RmArgs { names: machines, drain, kill } = args;
    let on = OnMachines { machines, drain, kill, ..OnMachines::default() };
    for machine in app.started().await?.on_machines(MachineAction::Rm, &on).await? {
        app.ui.say(&match (state(&machine), jobs(&machine)) {
            (MachineState::Leaving, 1) => format!("{} goes when the job on it has ended", machine.name),
            (MachineState::Leaving, jobs) => format!("{} goes when the {jobs} jobs on it have ended", machine.name),
            _ => format!("{} is not in the pool any more", machine.name),
        });
    }
    Ok(())
}

fn state(machine: &Machine) -> MachineState {
    machine.pool.as_ref().map(|pool| pool.state).unwrap_or_default()
}

fn jobs(machine: &Machine) -> usize {
    machine.pool.as_ref().map_or(0, |pool| pool.jobs.len())
}
