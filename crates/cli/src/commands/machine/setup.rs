//! `nexus machine setup`: commands make machines ready for a class, as jobs. They go on without whoever asked for them.

mod follow;

use std::path::PathBuf;

use clap::Parser;
use nexus_api::jobs::JobSpec;
use nexus_api::machines::{NewMachine, SetUpBegun, SetUpMachines};

use crate::app::App;
use crate::commands::add;
use crate::error::{CliError, Usage, code};
use crate::process::ExitCode;
use crate::render::text;
use crate::typed::AddArgs;
use crate::{typed_file, values};

/// Have commands make machines ready for a class
///
/// On each machine they run in order, as jobs with logs; it joins the class when all have succeeded. Machines that are
/// not in the pool yet are added, without a class until then. {MACHINE} in a command is the machine's address. The
/// commands run in the home directory there, or with --driver in this folder on the service's host.
#[derive(Clone, Debug, clap::Args)]
#[command(
    override_usage = "nexus machine setup [OPTIONS] --class CLASS -m ADDRESS -- \"COMMAND\" \"COMMAND\"…",
    after_help = "\
Examples:
  nexus machine setup --class big -m gpu1 -m gpu2 -- \"git clone https://example.org/code\" \"cd code && make\"
  nexus machine setup --class big -f machines.txt --stagger 5s --timeout 30m -- \"sh install.sh\"
  nexus machine setup --class big -m gpu1 --driver -- \"ansible-playbook -i {MACHINE}, gpus.yaml\""
)]
pub struct SetUpArgs {
    /// The class they join
    #[arg(long, required = true)]
    pub class: Option<String>,
    /// A machine: [user@]host[:port], or a name of ~/.ssh/config
    #[arg(long = "machine", short, value_name = "ADDRESS", allow_hyphen_values = true)]
    pub machines: Vec<String>,
    /// A file with a machine in each line; # begins a remark
    #[arg(long, short, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Begins with each machine so much later than with the one before, as in 5s
    #[arg(long, value_name = "TIME")]
    pub stagger: Option<String>,
    /// Ends a command after this time, as in 30m
    #[arg(long, value_name = "TIME")]
    pub timeout: Option<String>,
    /// Runs the commands on the service's host, each with its machine held for it as a whole
    #[arg(long)]
    pub driver: bool,
    /// The folder there for nexus and what jobs print [default: ~/.nexus]
    #[arg(long, value_name = "DIR")]
    pub home: Option<String>,
    /// Tries it without GPUs: so many stand in for those of each machine
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub simulate_gpus: u16,
    /// How many GPUs a command needs [default: 0]
    #[arg(long, value_name = "N")]
    pub gpus: Option<String>,
    /// How often a command is tried again when it fails
    #[arg(long, value_name = "N")]
    pub retries: Option<u32>,
    /// Sets a variable for the commands
    #[arg(long, value_name = "NAME=VALUE")]
    pub env: Vec<String>,
    /// Sets the variables of a file with lines NAME=value
    #[arg(long, value_name = "FILE")]
    pub env_file: Vec<PathBuf>,
    /// Takes this whole environment along
    #[arg(long)]
    pub export_env: bool,
    /// The folder the commands run in; '~/code' counts from the home directory there
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<String>,
    /// Returns at once; nexus machine ls tells how it goes
    #[arg(long)]
    pub no_wait: bool,
    /// Prints the machines and their jobs as JSON
    #[arg(long)]
    pub json: bool,
    /// Shell commands, each in quotes
    #[arg(last = true, value_name = "COMMAND")]
    pub commands: Vec<String>,
}

const VERB: &str = "machine setup";

pub async fn run(args: SetUpArgs, app: &App) -> Result<ExitCode, CliError> {
    let wish = wish(&args, app)?;
    let client = app.started().await?;
    let begun = client.set_up_machines(&wish).await?;
    if args.no_wait {
        match args.json {
            true => app.ui.json(&begun)?,
            false => tell(&begun, app)?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    let failures = follow::until_settled(&client, &begun, app).await?;
    for failure in &failures {
        app.ui.failed(&CliError::from(failure.clone()).told(), None);
    }
    if args.json {
        let names: Vec<&String> = begun.iter().map(|begun| &begun.machine).collect();
        let mut machines = client.machines().await?;
        machines.retain(|machine| names.contains(&&machine.name));
        app.ui.json(&machines)?;
    }
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(code::CANNOT_BE_MET) })
}

fn tell(begun: &[SetUpBegun], app: &App) -> Result<(), CliError> {
    let ids: String = begun.iter().flat_map(|begun| &begun.jobs).map(|id| format!("{id}\n")).collect();
    let machines = text::counted(begun.len() as u64, "machine");
    app.ui.say(&format!("setting up {machines}: nexus machine ls tells how it goes, and nexus ls --tag setup"));
    app.ui.data(&ids)
}

fn wish(args: &SetUpArgs, app: &App) -> Result<SetUpMachines, CliError> {
    let addresses = addresses(args, app)?;
    if args.commands.is_empty() {
        let hint = "nexus machine setup --class big -m gpu1 -- \"sh install.sh\"";
        return Err(Usage::new("there is no command to set them up with: they stand behind --", hint).of(VERB));
    }
    let stagger = args.stagger.as_deref().map(|text| values::duration("--stagger", text)).transpose();
    let machine = |address: String| NewMachine {
        address,
        home: args.home.clone(),
        simulate_gpus: args.simulate_gpus,
        ..NewMachine::default()
    };
    Ok(SetUpMachines {
        machines: addresses.into_iter().map(machine).collect(),
        class: args.class.clone().unwrap_or_default(),
        jobs: args.commands.iter().map(|command| job(args, command, app)).collect::<Result<_, _>>()?,
        stagger_seconds: stagger.map_err(|usage| usage.of(VERB))?.unwrap_or(0),
    })
}

/// Those typed, then those of the file.
fn addresses(args: &SetUpArgs, app: &App) -> Result<Vec<String>, CliError> {
    let mut addresses = args.machines.clone();
    if let Some(path) = &args.file {
        let unreadable = format!("-f {} cannot be read", path.display());
        let text = typed_file::read_to_string(path, &app.ui).map_err(CliError::io(unreadable))?;
        let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
        addresses.extend(lines.filter(|line| !line.is_empty()).map(String::from));
    }
    if addresses.is_empty() {
        let hint = "-m gpu1 -m gpu2, or -f FILE with a machine in each line";
        return Err(Usage::new("there is no machine to set up", hint).of(VERB));
    }
    Ok(addresses)
}

/// Options of `add`, and what they mean there.
#[derive(Parser)]
struct Typed {
    #[command(flatten)]
    add: AddArgs,
}

/// A command as `nexus add` would have it. Where nothing is said it runs in the home directory of the machine.
fn job(args: &SetUpArgs, command: &str, app: &App) -> Result<JobSpec, CliError> {
    let mut words = vec!["add".to_string(), format!("--gpus={}", args.gpus.as_deref().unwrap_or("0"))];
    let mut option = |name: &str, value: Option<String>| words.extend(value.map(|value| format!("--{name}={value}")));
    option("time", args.timeout.clone());
    option("retries", args.retries.map(|retries| retries.to_string()));
    option("cwd", args.cwd.clone().or((!args.driver).then(|| "~".into())));
    // Its name is put in for each machine.
    option("machine", (!args.driver).then(|| "machine".into()));
    args.env.iter().for_each(|variable| option("env", Some(variable.clone())));
    args.env_file.iter().for_each(|file| option("env-file", Some(file.display().to_string())));
    let flags = [("driver", args.driver), ("export-env", args.export_env)];
    words.extend(flags.into_iter().filter(|(_, on)| *on).map(|(name, _)| format!("--{name}")));
    words.push(command.to_string());
    let raw: Vec<_> = words.iter().map(Into::into).collect();
    let typed = Typed::try_parse_from(&words).map_err(|error| Usage::new(error.to_string(), "see --help").of(VERB))?;
    add::spec(&typed.add, &raw, VERB, app)
}
