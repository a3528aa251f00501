//! `nexus machine add`: calls a machine, and stays until it is there or cannot be.

use std::process::ExitCode;

use nexus_api::events::What;
use nexus_api::machines::{InPool, MachineAction, MachineState, NewMachine, OnMachines};
use nexus_api::service::Machine;

use crate::app::App;
use crate::client::Client;
use crate::error::{CliError, Refused};
use crate::render;

/// Add a machine to the pool, over ssh
///
/// It needs an account that ssh gets into without a password, and a home directory; nothing is installed there but a
/// copy of nexus itself. The host, user, port and key may stand in ~/.ssh/config; jump hosts too.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nexus machine add ann@gpu1.lab
  nexus machine add gpu2 --class big --name two
  nexus machine add gpu3:2222 --home /data/ann/nexus
  nexus machine add gpu4 --simulate-gpus 2")]
pub struct AddMachineArgs {
    /// [user@]host[:port], or a name of ~/.ssh/config
    #[arg(value_name = "ADDRESS", allow_hyphen_values = true)]
    pub address: String,
    /// What it is called here [default: the host]
    #[arg(long)]
    pub name: Option<String>,
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

pub async fn run(args: AddMachineArgs, app: &App) -> Result<ExitCode, CliError> {
    let AddMachineArgs { address, name, class, home, simulate_gpus, no_wait, json } = args;
    let client = app.started().await?;
    let added = client.add_machine(&NewMachine { address, name, class, home, simulate_gpus }).await?;
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
