//! `nexus machine add`: calls a machine, and stays until it is there or cannot be.

use nexus_api::events::What;
use nexus_api::machines::{InPool, MachineAction, MachineState, NewMachine, NewSlurm, OnMachines};
use nexus_api::service::Machine;

use crate::app::App;
use crate::client::Client;
use crate::error::{CliError, Refused, Usage};
use crate::process::ExitCode;
use crate::render;

/// Add a machine to the pool, over ssh, or a cluster with Slurm
///
/// It needs an account that ssh gets into without a password, and a home directory; nothing is installed there but a
/// copy of nexus itself. The host, user, port and key may stand in ~/.ssh/config; jump hosts too.
///
/// A cluster is used from its login node, which may be this host, and by a folder that its compute nodes see too. It has
/// the jobs that no other machine of its class has room for.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nexus machine add ann@gpu1.lab
  nexus machine add gpu2 --class big --name two
  nexus machine add gpu3:2222 --home /data/ann/nexus
  nexus machine add gpu4 --simulate-gpus 2
  nexus machine add --slurm hpc --ssh ann@login.hpc --partition gpu --account lab
  nexus machine add --slurm hpc --class hpc --sbatch-arg=--constraint=a100 --max-submitted 200")]
pub struct AddMachineArgs {
    /// [user@]host[:port], or a name of ~/.ssh/config
    #[arg(value_name = "ADDRESS", allow_hyphen_values = true, required_unless_present = "slurm")]
    pub address: Option<String>,
    /// What it is called here [default: the host]
    #[arg(long, conflicts_with = "slurm")]
    pub name: Option<String>,
    /// Adds a cluster under this name: nexus submits, Slurm places
    #[arg(long, value_name = "NAME", conflicts_with_all = ["address", "simulate_gpus"])]
    pub slurm: Option<String>,
    #[command(flatten)]
    pub submit: SubmitArgs,
    /// The class it joins [default: default]
    #[arg(long)]
    pub class: Option<String>,
    /// The folder there for nexus and what jobs print [default: ~/.nexus]
    #[arg(long, value_name = "DIR")]
    pub home: Option<String>,
    /// Tries it without GPUs: so many stand in for its own
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub simulate_gpus: u16,
    /// Returns at once; nexus machine ls tells how it went
    #[arg(long)]
    pub no_wait: bool,
    /// Prints it as JSON
    #[arg(long)]
    pub json: bool,
}

/// How jobs are submitted to a cluster.
#[derive(Clone, Debug, clap::Args)]
pub struct SubmitArgs {
    /// Its login node [default: this host]
    #[arg(long, value_name = "ADDRESS")]
    pub ssh: Option<String>,
    /// The partition for jobs [default: as Slurm has it]
    #[arg(long, value_name = "NAME")]
    pub partition: Option<String>,
    /// The account that is charged
    #[arg(long, value_name = "NAME")]
    pub account: Option<String>,
    /// The quality of service
    #[arg(long, value_name = "NAME")]
    pub qos: Option<String>,
    /// A further argument of sbatch, as in --sbatch-arg=--constraint=a100; may be given again
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    pub sbatch_arg: Vec<String>,
    /// How many jobs Slurm has at most [default: 1000]
    #[arg(long, value_name = "N")]
    pub max_submitted: Option<u32>,
}

impl SubmitArgs {
    fn is_given(&self) -> bool {
        let SubmitArgs { ssh, partition, account, qos, sbatch_arg, max_submitted } = self;
        let named = [ssh, partition, account, qos].into_iter().any(Option::is_some);
        named || !sbatch_arg.is_empty() || max_submitted.is_some()
    }
}

const VERB: &str = "machine add";

impl AddMachineArgs {
    fn wish(self) -> NewMachine {
        let AddMachineArgs { address, name, slurm, submit, class, home, simulate_gpus, .. } = self;
        let SubmitArgs { ssh, partition, account, qos, sbatch_arg: sbatch_args, max_submitted } = submit;
        let new_slurm = slurm.is_some().then_some(NewSlurm { partition, account, qos, sbatch_args, max_submitted });
        let address = address.or(ssh).unwrap_or_default();
        NewMachine { address, name: slurm.or(name), class, home, simulate_gpus, slurm: new_slurm }
    }
}

pub async fn run(args: AddMachineArgs, app: &App) -> Result<ExitCode, CliError> {
    if args.slurm.is_none() && args.submit.is_given() {
        let hint = "nexus machine add --slurm hpc --ssh ann@login.hpc --partition gpu";
        return Err(Usage::new("these options are for a cluster: --slurm NAME gives it a name", hint).of(VERB));
    }
    let (no_wait, json) = (args.no_wait, args.json);
    let client = app.started().await?;
    let added = client.add_machine(&args.wish()).await?;
    let machine = match no_wait {
        true => added,
        false => reached(&client, &added.name, app).await?,
    };
    match json {
        true => app.ui.json(&machine)?,
        false if no_wait => app.ui.say(&format!("{} is being called: nexus machine ls", machine.name)),
        false => app.ui.say(&render::machines::added(&machine)),
    }
    Ok(ExitCode::SUCCESS)
}

/// Waits until it is there. One that cannot be reached at the first call does not stay in the pool.
async fn reached(client: &Client, name: &str, app: &App) -> Result<Machine, CliError> {
    let draw = |text: &str| {
        if app.ui.err_is_terminal() {
            app.ui.draw_line(text);
        }
    };
    // First listen, then look: what happens in between is heard.
    let mut events = client.events().await?;
    loop {
        let machine = client.machine(name).await?;
        let pool = machine.pool.clone().unwrap_or_default();
        match pool.state {
            MachineState::Connecting => draw(&format!("{name}: {}", pool.detail.as_deref().unwrap_or("connecting"))),
            MachineState::Unreachable => {
                draw("");
                let on = OnMachines { machines: vec![name.to_string()], ..OnMachines::default() };
                client.on_machines(MachineAction::Rm, &on).await?;
                return Err(refused(name, &pool).into());
            }
            _ => {
                draw("");
                return Ok(machine);
            }
        }
        let is_about_it = |what: &What| *what == What::Missed || *what == What::Machine { name: name.to_string() };
        while let Some(event) = events.next().await {
            if is_about_it(&event.what) {
                break;
            }
        }
    }
}

fn refused(name: &str, pool: &InPool) -> Refused {
    Refused {
        error: format!("{name} was not added: it cannot be used"),
        why: pool.detail.clone(),
        hint: pool.hint.clone(),
    }
}
