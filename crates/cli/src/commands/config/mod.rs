//! `nexus config`: what is set, and how it is changed.

mod change;
mod edit;

use nexus_api::config::{ConfigKey, ConfigView, typed};
use nexus_daemon::config::{self, ConfigFile, NotChanged, Overrides};

use crate::app::App;
use crate::error::{CliError, Usage};
use crate::process::ExitCode;
use crate::render;

/// Show the configuration in force, or change it
///
/// Every key with its value and where that comes from. Changes of config.toml count at once, however they are made;
/// keys that wait for a restart say so.
#[derive(Clone, Debug, clap::Args)]
#[command(
    disable_help_subcommand = true,
    args_conflicts_with_subcommands = true,
    subcommand_value_name = "COMMAND",
    after_help = "\
Examples:
  nexus config
  nexus config get jobs.grace
  nexus config set jobs.grace 3s
  nexus config edit"
)]
pub struct ConfigArgs {
    /// Prints the keys as JSON
    #[arg(long)]
    pub json: bool,
    #[command(subcommand)]
    pub verb: Option<ConfigVerb>,
}

#[derive(Clone, Debug, clap::Subcommand)]
pub enum ConfigVerb {
    Get(GetArgs),
    Set(change::SetArgs),
    Unset(change::UnsetArgs),
    Edit(edit::EditArgs),
    Path(PathArgs),
}

/// Print the value of a key
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Example:
  nexus config get jobs.grace")]
pub struct GetArgs {
    /// As nexus config shows it
    #[arg(value_name = "KEY")]
    pub key: String,
    /// Prints the key as JSON
    #[arg(long)]
    pub json: bool,
}

/// Print where the file is
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Example:
  cp config.toml \"$(nexus config path)\"")]
pub struct PathArgs {}

pub async fn run(args: ConfigArgs, app: &App) -> Result<ExitCode, CliError> {
    match args.verb {
        None => show(args.json, app).await?,
        Some(ConfigVerb::Get(args)) => get(args, app).await?,
        Some(ConfigVerb::Set(args)) => change::set(args, app).await?,
        Some(ConfigVerb::Unset(args)) => change::unset(args, app).await?,
        Some(ConfigVerb::Edit(_)) => edit::run(app).await?,
        Some(ConfigVerb::Path(_)) => app.ui.data(&app.home.config().display().to_string())?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn show(json: bool, app: &App) -> Result<(), CliError> {
    let view = in_force(app).await?;
    match json {
        true => app.ui.json(&view),
        false => app.ui.data(&render::config::config(&view, app.ui.paint())),
    }
}

async fn get(args: GetArgs, app: &App) -> Result<(), CliError> {
    config::known(&args.key).map_err(|error| refused(error, "config get", &ConfigFile::of(&app.home)))?;
    let view = in_force(app).await?;
    let key = found(&view, &args.key);
    match (key, args.json) {
        (Some(key), true) => app.ui.json(key),
        (Some(key), false) => app.ui.data(&format!("{}\n", typed(&key.value))),
        (None, _) => {
            Err(Usage::new(format!("the service does not know {}", args.key), "nexus restart").of("config get"))
        }
    }
}

/// A machine that says nothing of its own has what all have.
fn found<'a>(view: &'a ConfigView, name: &str) -> Option<&'a ConfigKey> {
    let usual = || view.key(&format!("gpus.{}", name.strip_prefix("machine.")?.rsplit('.').next()?));
    view.key(name).or_else(usual)
}

/// What the service goes by; without one, what it would go by.
pub async fn in_force(app: &App) -> Result<ConfigView, CliError> {
    match app.reader().config().await {
        Err(CliError::NoService { .. }) => {
            let settings = ConfigFile::of(&app.home).settings()?;
            let view = config::view(&app.home, &settings.config, &settings, &Overrides::default(), None);
            let models_refused = config::models_trouble(&settings.config);
            Ok(ConfigView { models_refused, ..view })
        }
        answered => answered,
    }
}

/// Why a change was not made, in the form of the command line.
fn refused(error: NotChanged, verb: &'static str, file: &ConfigFile) -> CliError {
    match error {
        NotChanged::NoKey(why) => Usage::new(why, "nexus config shows the keys").of(verb),
        NotChanged::BadValue { ref want, .. } => Usage::new(error.to_string(), format!("it is {want}")).of(verb),
        NotChanged::BadFile(fault) => file.bad(fault).into(),
        NotChanged::TooClever(_) => Usage::new(error.to_string(), "nexus config edit").of(verb),
    }
}
