//! `nexus service`: has the machine start the service by itself, by systemd or without it. Jobs never notice.

mod crontab;

use std::path::{Path, PathBuf};

use crate::app::App;
use crate::commands::stop;
use crate::error::{CliError, Refused};
use crate::process::ExitCode;
use crate::start::StartOptions;
use crate::unit::{self, Found, UNIT, Unit};
use crate::whole_file::WholeFile;

/// Have the machine start the service by itself
#[derive(Clone, Debug, clap::Args)]
#[command(
    disable_help_subcommand = true,
    subcommand_value_name = "COMMAND",
    after_help = "\
Examples:
  nexus service install
  nexus service install --crontab    (where there is no systemd)
  nexus service uninstall"
)]
pub struct UnitArgs {
    #[command(subcommand)]
    pub verb: UnitVerb,
}

#[derive(Clone, Debug, clap::Subcommand)]
pub enum UnitVerb {
    Install(InstallArgs),
    Uninstall(UninstallArgs),
}

/// Install a systemd user unit for this home, and start it
///
/// systemd starts the service when you log in, or with the machine where lingering is on (loginctl enable-linger), and
/// again when it crashes. A service that runs already is replaced; running jobs go on. Without systemd, --crontab starts it
/// with the machine.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nexus service install
  nexus service install --print | less
  nexus service install --crontab")]
pub struct InstallArgs {
    /// Adds a line to your crontab instead
    #[arg(long)]
    pub crontab: bool,
    /// Prints the unit, or the line, and does nothing
    #[arg(long)]
    pub print: bool,
}

/// Take it back; the service stops, running jobs go on
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Example:
  nexus service uninstall")]
pub struct UninstallArgs {}

pub async fn run(args: UnitArgs, app: &App) -> Result<ExitCode, CliError> {
    match args.verb {
        UnitVerb::Install(args) if args.crontab => in_crontab(&args, app).await,
        UnitVerb::Install(args) => install(&args, app).await,
        UnitVerb::Uninstall(_) => uninstall(app).await,
    }
}

async fn install(args: &InstallArgs, app: &App) -> Result<ExitCode, CliError> {
    let unit = Unit { program: program()?, home: app.home.dir.clone(), path: std::env::var("PATH").ok() };
    if args.print {
        app.ui.data(&unit.text())?;
        return Ok(ExitCode::SUCCESS);
    }
    let place = unit::place().ok_or_else(|| not_installed("HOME is not set", "set it, or XDG_CONFIG_HOME"))?;
    let found =
        unit::found(&place, &app.home.dir).map_err(CliError::io(format!("{} cannot be read", place.display())))?;
    if let Some(error) = in_the_way(found, &place) {
        return Err(error);
    }
    // Before anything is written: a unit that nobody starts would only confuse.
    by_systemd(&["show-environment"])?;
    nexus_daemon::check_config(&app.home)?;
    write(&place, &unit.text()).map_err(CliError::io(format!("{} cannot be written", place.display())))?;
    let enabled = by_systemd(&["daemon-reload"]).and_then(|()| by_systemd(&["enable", UNIT]));
    if found == Found::None && enabled.is_err() {
        // One that cannot be removed is found, and taken for ours, the next time.
        let _ = std::fs::remove_file(&place);
    }
    enabled?;
    let client = app.reader();
    if client.answers().await? {
        stop::stop(&client, true).await?;
    }
    if !unit::start(&client).await {
        return Err(not_started());
    }
    app.ui.say(&format!("{} installed; service started (pid {})", place.display(), client.service().await?.pid));
    if !unit::lingers() {
        app.ui.say(
            "it starts when you log in and ends when you log out (jobs go on); to keep it: loginctl enable-linger",
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn in_the_way(found: Found, place: &Path) -> Option<CliError> {
    let shown = place.display();
    match found {
        Found::None | Found::Own => None,
        Found::OtherHome => Some(not_installed(
            format!("{shown} starts the service of another home"),
            "nexus service uninstall, with NEXUS_HOME as it was then",
        )),
        Found::Foreign => {
            Some(not_installed(format!("{shown} was not made by nexus"), format!("mv {shown} {shown}.old")))
        }
    }
}

async fn uninstall(app: &App) -> Result<ExitCode, CliError> {
    let place = unit::place().filter(|place| matches!(unit::found(place, &app.home.dir), Ok(Found::Own)));
    let mut was_there = false;
    if let Some(place) = place {
        was_there = true;
        // A systemd that is gone by now has nothing to forget.
        if let Err(error) = by_systemd(&["disable", "--now", UNIT]) {
            app.ui.warn(&error.told().why.unwrap_or_else(|| error.to_string()));
        }
        std::fs::remove_file(&place).map_err(CliError::io(format!("{} cannot be removed", place.display())))?;
        let _ = by_systemd(&["daemon-reload"]);
        app.ui.say(&format!("{} removed; jobs go on, nexus start starts a service for them", place.display()));
    }
    if crontab::uninstall(&app.home.dir)? {
        was_there = true;
        app.ui.say("the line of your crontab is removed; the service goes on");
    }
    if !was_there {
        app.ui.say("nothing is installed for this home");
    }
    Ok(ExitCode::SUCCESS)
}

async fn in_crontab(args: &InstallArgs, app: &App) -> Result<ExitCode, CliError> {
    let program = program()?;
    if args.print {
        app.ui.data(&format!("{}\n", crontab::line(&program, &app.home.dir)))?;
        return Ok(ExitCode::SUCCESS);
    }
    crontab::install(&program, &app.home.dir)?;
    app.start(StartOptions::default()).await?;
    app.ui.say("your crontab starts the service with the machine from now on");
    Ok(ExitCode::SUCCESS)
}

/// This program, by a name that stays when it is replaced by a newer one.
fn program() -> Result<PathBuf, CliError> {
    std::env::current_exe().map_err(CliError::io("the path of this program cannot be found"))
}

fn not_started() -> CliError {
    let hint = format!("systemctl --user status {UNIT}; service.log may tell more");
    let why = "systemd was asked to start it".into();
    Refused { error: "the service does not answer".into(), why: Some(why), hint: Some(hint) }.into()
}

fn by_systemd(words: &[&str]) -> Result<(), CliError> {
    let hint = "nexus service install --crontab starts it without systemd";
    unit::systemctl(words).map_err(|why| not_installed(why, hint))
}

fn not_installed(why: impl Into<String>, hint: impl Into<String>) -> CliError {
    let error = "the service was not installed".into();
    Refused { error, why: Some(why.into()), hint: Some(hint.into()) }.into()
}

/// Whole or not at all.
fn write(place: &Path, text: &str) -> std::io::Result<()> {
    // What stands there is a command: nobody else may put another file in its place, whatever the umask is.
    let mut private = std::fs::DirBuilder::new();
    std::os::unix::fs::DirBuilderExt::mode(&mut private, 0o700);
    place.parent().map_or(Ok(()), |folder| private.recursive(true).create(folder))?;
    let mut file = WholeFile::create(place)?;
    file.write(text.as_bytes())?;
    file.finish()
}
