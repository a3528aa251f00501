//! `nexus config set` and `unset`: one key of the file; comments and order stay.

use std::path::Path;

use nexus_api::problem::Problem;
use nexus_daemon::config::{self, Change, ConfigFile, NotChanged};

use super::refused;
use crate::app::App;
use crate::error::CliError;

/// Set a key
///
/// The file keeps its comments and its order. A value that the service would refuse is refused here.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nexus config set jobs.grace 3s
  nexus config set gpus.use 0-2
  nexus config set gpus.ignore Xorg,alice
  nexus config set machine.box.gpus.use all")]
pub struct SetArgs {
    /// As nexus config shows it
    #[arg(value_name = "KEY")]
    pub key: String,
    /// As in the file; quotes may be left out, and lists written with commas
    #[arg(value_name = "VALUE", allow_hyphen_values = true)]
    pub value: String,
}

/// Set a key back to its default
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Example:
  nexus config unset jobs.grace")]
pub struct UnsetArgs {
    /// As nexus config shows it
    #[arg(value_name = "KEY")]
    pub key: String,
}

pub async fn set(args: SetArgs, app: &App) -> Result<(), CliError> {
    let changed = |text: &str, user_home: Option<&Path>| config::set(text, &args.key, &args.value, user_home);
    change(&args.key, "config set", changed, app).await
}

pub async fn unset(args: UnsetArgs, app: &App) -> Result<(), CliError> {
    let changed = |text: &str, user_home: Option<&Path>| config::unset(text, &args.key, user_home);
    change(&args.key, "config unset", changed, app).await
}

async fn change(
    key: &str,
    verb: &'static str,
    changed: impl FnOnce(&str, Option<&Path>) -> Result<String, NotChanged>,
    app: &App,
) -> Result<(), CliError> {
    let file = ConfigFile::of(&app.home);
    config::known(key).map_err(|error| refused(error, verb, &file))?;
    let locked = file.lock()?;
    let before = locked.text()?;
    let after = changed(&before, file.user_home.as_deref()).map_err(|error| refused(error, verb, &file))?;
    check_models(&before, &after, &file)?;
    if after != before {
        locked.replace(&after)?;
    }
    drop(locked);
    let changes = differences(&before, &after, &file, app)?;
    if changes.is_empty() {
        app.ui.say(&format!("{key} is so already"));
    }
    take(&changes, app).await
}

/// A file of models that a new text names must be right: the service would not start with it.
pub fn check_models(before: &str, after: &str, file: &ConfigFile) -> Result<(), Problem> {
    let old = file.read(before).unwrap_or_default().config.models_file;
    let new = file.read(after)?.config;
    match new.models_file != old {
        true => config::models_trouble(&new).map_or(Ok(()), Err),
        false => Ok(()),
    }
}

/// What a new text changes. An old one that was wrong said nothing.
pub fn differences(before: &str, after: &str, file: &ConfigFile, app: &App) -> Result<Vec<Change>, CliError> {
    let (old, new) = (file.read(before).unwrap_or_default(), file.read(after)?);
    Ok(config::changes(&old.config, &new.config, &app.home))
}

/// Tells what was changed, and has a service that runs take it before anybody types the next command.
pub async fn take(changes: &[Change], app: &App) -> Result<(), CliError> {
    let view = match app.reader().reload_config().await {
        Ok(view) => Some(view),
        Err(CliError::NoService { .. }) => None,
        Err(error) => return Err(error),
    };
    for change in changes {
        app.ui.say(&if view.is_some() { change.to_string() } else { change.without_service() });
    }
    for key in changes.iter().filter_map(|change| view.as_ref()?.key(&change.key)?.overridden.as_ref().map(|_| change))
    {
        app.ui.note(&format!("{} is as nexus start said until the next start", key.key));
    }
    match view.and_then(|view| view.refused) {
        // Somebody else has changed the file meanwhile.
        Some(problem) => Err(problem.into()),
        None => Ok(()),
    }
}
