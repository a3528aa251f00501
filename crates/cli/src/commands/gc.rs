//! `nexus gc`: delete what nobody needs any more. It says what that is, and asks.

use nexus_api::gc::{Collect, Collected, Share};
use nexus_api::values;

use crate::app::App;
use crate::error::{CliError, Refused, Usage};
use crate::process::ExitCode;
use crate::render::text;

/// Delete what nobody needs any more
///
/// That is: folders of logs, results and checkpoints whose jobs are not in the history, copies of folders (add --sync) that
/// no job names, backups of the database behind the newest (retention.backups), databases that another took the place of over
/// 30 days ago, and with --older-than, or where retention.jobs of the configuration says so, jobs that ended longer ago, with
/// all that is theirs. Shows what would go and asks. What is on other machines stays.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nexus gc --dry-run
  nexus gc --older-than 90d
  nexus config set retention.jobs 90d    (from then on it is done by itself)")]
pub struct GcArgs {
    /// Forgets jobs that ended longer ago: 30d, 12h
    #[arg(long, value_name = "AGE")]
    pub older_than: Option<String>,
    /// Shows what would be deleted, and deletes nothing
    #[arg(long, short = 'n')]
    pub dry_run: bool,
    /// Does not ask
    #[arg(long, short)]
    pub yes: bool,
    /// Prints it as JSON
    #[arg(long)]
    pub json: bool,
}

pub async fn run(args: GcArgs, app: &App) -> Result<ExitCode, CliError> {
    let age = args.older_than.as_deref().map(values::duration).transpose();
    let older_than_seconds = age.map_err(|error| Usage::new(error, "--older-than 30d").of("gc"))?;
    let client = app.started().await?;
    let would = client.collect(&Collect { older_than_seconds, dry_run: true }).await?;
    if !args.json {
        app.ui.say(&shown(&would));
    }
    if args.dry_run || would.is_nothing() {
        if args.json {
            app.ui.json(&would)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    ask(&args, app)?;
    // The same jobs: what ended meanwhile is not among them.
    let older_than_seconds = would.older_than_seconds;
    let done = client.collect(&Collect { older_than_seconds, dry_run: false }).await?;
    match args.json {
        true => app.ui.json(&done)?,
        false => app.ui.say(&format!("deleted: {} are free again", text::size(bytes(&done)))),
    }
    Ok(ExitCode::SUCCESS)
}

fn ask(args: &GcArgs, app: &App) -> Result<(), CliError> {
    if args.yes {
        return Ok(());
    }
    if !app.ui.can_ask() {
        let age = args.older_than.as_ref().map(|age| format!(" --older-than {age}")).unwrap_or_default();
        return Err(Refused {
            error: "nothing was deleted: nobody can be asked here".into(),
            why: None,
            hint: Some(format!("nexus gc -y{age}")),
        }
        .into());
    }
    match app.ui.confirm("delete them?") {
        true => Ok(()),
        false => Err(Refused { error: "nothing was done".into(), why: None, hint: None }.into()),
    }
}

fn bytes(collected: &Collected) -> u64 {
    collected.shares().iter().map(|share| share.bytes).sum()
}

/// A line for each kind of thing that there is.
fn shown(collected: &Collected) -> String {
    let age = collected.older_than_seconds.map(values::limit).unwrap_or_default();
    let jobs = format!("that ended over {age} ago, with logs, results and checkpoints");
    let lines: Vec<String> = [
        (collected.jobs, "job", jobs.as_str()),
        (collected.folders, "folder", "of jobs that are not in the history"),
        (collected.copies, "copy", "of a folder (--sync) that no job names"),
        (collected.backups, "old backup", "(retention.backups)"),
        (collected.databases, "old database", "that another took the place of over 30 days ago"),
    ]
    .into_iter()
    .filter(|(share, ..)| share.count > 0)
    .map(|(share, thing, what)| line(share, thing, what))
    .collect();
    match lines.is_empty() {
        true if age.is_empty() => "nothing to delete; nexus gc --older-than 90d forgets old jobs".into(),
        true => format!("nothing to delete: no job ended over {age} ago"),
        false => lines.join("\n"),
    }
}

fn line(share: Share, thing: &str, what: &str) -> String {
    let counted = match (thing, share.count) {
        ("copy", 2..) => format!("{} copies", share.count),
        _ => text::counted(share.count, thing),
    };
    format!("{counted} {what}: {}", text::size(share.bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_there_is_is_told() {
        let some = |count, bytes| Share { count, bytes };
        let nothing = Collected::default();
        assert_eq!(shown(&nothing), "nothing to delete; nexus gc --older-than 90d forgets old jobs");
        let old = Collected { older_than_seconds: Some(30 * 86_400), ..nothing };
        assert_eq!(shown(&old), "nothing to delete: no job ended over 30d ago");
        let all = Collected { jobs: some(12, 3 << 30), folders: some(1, 5000), copies: some(2, 7 << 20), ..old };
        assert_eq!(
            shown(&all),
            "12 jobs that ended over 30d ago, with logs, results and checkpoints: 3G\n\
             1 folder of jobs that are not in the history: 4K\n\
             2 copies of a folder (--sync) that no job names: 7M"
        );
        let old = Collected { backups: some(1, 1 << 20), databases: some(2, 2 << 20), ..Collected::default() };
        assert_eq!(
            shown(&old),
            "1 old backup (retention.backups): 1M\n2 old databases that another took the place of over 30 days ago: 2M"
        );
    }
}
