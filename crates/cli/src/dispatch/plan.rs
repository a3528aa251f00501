//! What is known before a service is asked: the lines of the commands file that can be jobs, and what became of those of
//! before.

use std::fmt::Display;
use std::path::Path;

use nexus_api::command::Command;
use nexus_api::edit::LineError;
use nexus_api::job_file::{self, Entry, Format, Said};
use nexus_api::jobs::JobSpec;
use nexus_api::problem::Problem;
use nexus_api::queue_text;

use super::jobs_file::{JobsFile, Past};
use super::settings::Settings;
use crate::app::App;
use crate::error::{CliError, Refused};
use crate::job_file as file;
use crate::typed_file;

/// More lines of one kind than this are counted, not told.
const MOST_TOLD: usize = 20;

/// Options of a line that say what the dispatcher says itself.
const NOT_HERE: [&str; 4] = ["hold", "out", "out-dir", "unique"];

pub struct Plan {
    pub settings: Settings,
    pub entries: Vec<Entry>,
    /// Lines that cannot be jobs; they were told.
    pub refused: usize,
    pub file: JobsFile,
    pub past: Past,
    /// Of all jobs of this file of jobs.
    pub tag: String,
}

/// None where nothing is to be done, which was said. `base`: what every job has.
pub fn plan(settings: Settings, base: &JobSpec, app: &App) -> Result<Option<Plan>, CliError> {
    let shown = settings.commands_file.display().to_string();
    file::is_plain(&settings.commands_file, "the commands file")?;
    let bytes = typed_file::read(&settings.commands_file, &app.ui)
        .map_err(CliError::io(format!("the commands file {shown} cannot be read")))?;
    let read = job_file::read(&bytes, Some(Format::Lines)).map_err(|wrong| Refused {
        error: at_line(&shown, &wrong),
        why: None,
        hint: None,
    })?;
    let (mut entries, mut refused) = (Vec::new(), read.refused);
    for entry in read.entries {
        match spec(base.clone(), &entry) {
            Ok(_) => entries.push(entry),
            Err(error) => refused.push(LineError { line: entry.line, error }),
        }
    }
    refused.sort_by_key(|wrong| wrong.line);
    tell(app, refused.iter().map(|wrong| format!("{} (left out)", at_line(&shown, wrong))));
    tell(app, read.doubtful.iter().map(|doubt| at_line(&shown, doubt)));
    if entries.is_empty() && refused.is_empty() && !settings.jobs_file.exists() {
        app.ui.say(&format!("{shown} has no commands"));
        return Ok(None);
    }
    apart(&settings)?;
    typed_file::warn_of_strangers(&settings.jobs_file, &app.ui);
    let (file, past) = JobsFile::open(&settings.jobs_file)?;
    if past.torn {
        app.ui.warn(&format!("the last line of {} was cut short and is left out", file.path.display()));
    }
    let told = |(line, error): &(usize, String)| format!("{}, line {line}: {error} (left out)", file.path.display());
    tell(app, past.wrong.iter().map(told));
    if entries.is_empty() && refused.is_empty() && past.records.is_empty() {
        app.ui.say(&format!("{shown} has no commands"));
        return Ok(None);
    }
    std::fs::create_dir_all(&settings.log_dir)
        .map_err(CliError::io(format!("the folder of logs {} cannot be made", settings.log_dir.display())))?;
    let tag = tag(&file.path);
    Ok(Some(Plan { settings, entries, refused: refused.len(), file, past, tag }))
}

/// A line as a job: what every job has, and what stands above the line.
pub fn spec(base: JobSpec, entry: &Entry) -> Result<JobSpec, String> {
    let Said::Command(command) = &entry.command else { return Err("a command is wanted here".into()) };
    command.check().map_err(|bad| Problem::BadCommand { bad }.title())?;
    let mut spec = JobSpec { command: command.clone(), ..base };
    for (name, value) in &entry.options {
        if NOT_HERE.contains(&name.as_str()) {
            return Err(format!("{name} is not for commands of a dispatcher"));
        }
        queue_text::set(&mut spec, name, value).map_err(|error| format!("{name}: {error}"))?;
    }
    Ok(spec)
}

/// As it stands in the file of jobs.
pub fn text(entry: &Entry) -> String {
    match &entry.command {
        Said::Command(command) => Command::text(command),
        Said::Script { script, .. } => script.clone(),
    }
}

pub fn at_line(file: &str, wrong: &LineError) -> String {
    format!("{file}, line {}: {}", wrong.line, wrong.error)
}

/// Records appended to the commands would be run by the next who reads them.
fn apart(settings: &Settings) -> Result<(), CliError> {
    let place = |path: &Path| std::fs::canonicalize(path).ok();
    match place(&settings.jobs_file).is_some_and(|file| Some(file) == place(&settings.commands_file)) {
        false => Ok(()),
        true => Err(Refused {
            error: format!("{} is both the commands file and the jobs file", settings.jobs_file.display()),
            why: None,
            hint: Some("--jobs-file jobs.jsonl".into()),
        }
        .into()),
    }
}

fn tell<T: Display>(app: &App, lines: impl ExactSizeIterator<Item = T>) {
    let more = lines.len().saturating_sub(MOST_TOLD);
    lines.take(MOST_TOLD).for_each(|line| app.ui.warn(&line.to_string()));
    if more > 0 {
        app.ui.warn(&format!("and {more} more lines"));
    }
}

/// Jobs of one file of jobs are found by it, by later releases too: it never changes. FNV-1a, folded.
fn tag(jobs_file: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    let hash = jobs_file
        .as_os_str()
        .as_bytes()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    format!("dispatch-{:08x}", (hash ^ (hash >> 32)) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_the_same_for_ever() {
        assert_eq!(tag(Path::new("/data/queue.jsonl")), "dispatch-d1bde7e0");
        assert_ne!(tag(Path::new("/data/queue.jsonl")), tag(Path::new("/data/jobs.jsonl")));
    }

    #[test]
    fn options_above_a_line_go_over_those_of_all() {
        let text = "#@ vram=2G priority=1 tags=x\ntrain\n#@ hold\ntrain\n#@ on=x\ntrain\nplain\n";
        let read = job_file::read(text.as_bytes(), Some(Format::Lines)).unwrap();
        let base = JobSpec::new(Command::Shell("true".into()), "/".into());
        let specs: Vec<_> = read.entries.iter().map(|entry| spec(base.clone(), entry)).collect();
        let first = specs[0].as_ref().unwrap();
        assert_eq!((first.priority, first.command.text().as_str()), (1, "train"));
        assert_eq!(specs[1].as_ref().unwrap_err(), "hold is not for commands of a dispatcher");
        assert_eq!(specs[2].as_ref().unwrap().command.text(), "plain");
        assert_eq!((specs.len(), read.refused.len()), (3, 1), "{:?}", read.refused);
    }
}
