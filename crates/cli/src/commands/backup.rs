//! `nexus backup`: copies of the database, and the way back to one.

use std::path::{Path, PathBuf};

use nexus_api::backup::{Backup, MakeBackup};
use nexus_api::problem::Problem;
use nexus_daemon::Restored;

use crate::app::App;
use crate::error::{CliError, Usage};
use crate::process::ExitCode;
use crate::render::text;
use crate::typed_file;

/// Copy the database while nexus runs, and put a copy back
///
/// The database holds the queue, the history and the variables. A copy holds what the database holds, secrets of jobs and
/// variables included: keep it as you keep them. Copies go into backups/ of nexus's folder, and the newest of them are kept
/// (retention.backups, 5). Logs, results and checkpoints are not in it.
#[derive(Clone, Debug, clap::Args)]
#[command(
    disable_help_subcommand = true,
    subcommand_value_name = "COMMAND",
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  nexus backup
  nexus backup --to /mnt/safe/nexus.db
  nexus backup ls
  nexus stop --keep-jobs && nexus backup restore && nexus start"
)]
pub struct BackupArgs {
    #[command(subcommand)]
    pub verb: Option<BackupVerb>,
    /// Writes the copy to this new file; it is kept until you delete it
    #[arg(long, value_name = "FILE")]
    pub to: Option<PathBuf>,
    /// Prints JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Debug, clap::Subcommand)]
pub enum BackupVerb {
    Ls(LsArgs),
    Restore(RestoreArgs),
}

/// Show the copies of the database, the newest first
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Example:
  nexus backup ls")]
pub struct LsArgs {
    /// Prints them as JSON
    #[arg(long)]
    pub json: bool,
}

/// Put a copy in the place of the database
///
/// The service must not run; jobs may. The database before is kept, never deleted. Jobs that were added after the copy was
/// made are not in it; jobs that began or ended since are found again where their folders tell, and are called lost where
/// nothing tells.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nexus backup restore
  nexus backup restore /mnt/safe/nexus.db")]
pub struct RestoreArgs {
    /// The copy [default: the newest that nexus backup ls shows]
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Prints JSON
    #[arg(long)]
    pub json: bool,
}

pub async fn run(args: BackupArgs, app: &App) -> Result<ExitCode, CliError> {
    match args.verb {
        None => make(args.to, args.json, app).await,
        Some(BackupVerb::Ls(args)) => list(args, app),
        Some(BackupVerb::Restore(args)) => restore(args, app).await,
    }
}

async fn make(to: Option<PathBuf>, json: bool, app: &App) -> Result<ExitCode, CliError> {
    let to = to.as_deref().map(whole).transpose()?;
    let made = app.started().await?.backup(&MakeBackup { to }).await?;
    match json {
        true => app.ui.json(&made)?,
        false => app.ui.say(&format!("copied the database to {}, {}", made.path, text::size(made.bytes))),
    }
    Ok(ExitCode::SUCCESS)
}

/// Read from the folder itself: copies are looked for when no service starts.
fn list(args: LsArgs, app: &App) -> Result<ExitCode, CliError> {
    let copies = nexus_daemon::backups_of(&app.home);
    if args.json {
        app.ui.json(&copies)?;
        return Ok(ExitCode::SUCCESS);
    }
    if copies.is_empty() {
        app.ui.say("there is no backup; nexus backup makes one");
    }
    let line = |copy: &Backup| format!("{}  {:>6}  {}\n", copy.made_at, text::size(copy.bytes), copy.path);
    app.ui.data(&copies.iter().map(line).collect::<String>())?;
    Ok(ExitCode::SUCCESS)
}

async fn restore(args: RestoreArgs, app: &App) -> Result<ExitCode, CliError> {
    let home = app.home.clone();
    if app.reader().answers().await? {
        return Err(Problem::ServiceRuns { home: home.dir.display().to_string() }.into());
    }
    let file = args.file.as_deref().map(whole).transpose()?.map(PathBuf::from);
    if let Some(file) = &file {
        typed_file::warn_of_strangers(file, &app.ui);
    }
    // Nothing else goes on meanwhile: no thread of its own is needed.
    let restored = nexus_daemon::restore(&home, file.as_deref())?;
    match args.json {
        true => app.ui.json(&restored)?,
        false => app.ui.say(&told(&restored)),
    }
    Ok(ExitCode::SUCCESS)
}

/// Ids that are listed; the rest is counted.
const IDS_SHOWN: usize = 10;

fn told(restored: &Restored) -> String {
    let mut lines = vec![format!("the database is {} again", restored.from)];
    lines.extend(restored.aside.iter().map(|aside| format!("the database before is kept: {aside}")));
    if !restored.begun_since.is_empty() {
        let jobs = listed(&restored.begun_since);
        lines.push(format!("begun since the copy was made, to be looked up by the service: {jobs}"));
    }
    if !restored.unknown.is_empty() {
        let jobs = listed(&restored.unknown);
        lines.push(format!("not in the copy, with logs in {}: {jobs}", restored.logs));
    }
    lines.push("nexus start".into());
    lines.join("\n")
}

fn listed(ids: &[String]) -> String {
    let shown = ids.iter().take(IDS_SHOWN).map(String::as_str).collect::<Vec<_>>().join(" ");
    match ids.len().saturating_sub(IDS_SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn whole(file: &Path) -> Result<String, CliError> {
    let path = std::path::absolute(file).map_err(CliError::io(format!("{} is no path", file.display())))?;
    let bad = |path| Usage::new(format!("the path {path:?} is not valid UTF-8"), "another path").of("backup");
    path.into_os_string().into_string().map_err(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_copy_does_not_know_is_told() {
        let ids = |count: usize| (0..count).map(|number| format!("j{number}")).collect();
        let restored = Restored {
            from: "/h/backups/1.db".into(),
            aside: Some("/h/backups/aside_2.db".into()),
            begun_since: ids(1),
            unknown: ids(12),
            logs: "/h/logs".into(),
        };
        assert_eq!(
            told(&restored),
            "the database is /h/backups/1.db again\n\
             the database before is kept: /h/backups/aside_2.db\n\
             begun since the copy was made, to be looked up by the service: j0\n\
             not in the copy, with logs in /h/logs: j0 j1 j2 j3 j4 j5 j6 j7 j8 j9 and 2 more\n\
             nexus start"
        );
        let nothing = Restored { begun_since: vec![], unknown: vec![], aside: None, ..restored };
        assert_eq!(told(&nothing), "the database is /h/backups/1.db again\nnexus start");
    }
}
