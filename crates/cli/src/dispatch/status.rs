//! `nexus run --status`: the jobs of a file of jobs, one line each, as they are now. Starts nothing and writes nothing.

use std::collections::HashMap;
use std::path::Path;

use nexus_api::jobs::{Job, State};

use super::jobs_file;
use super::queue::known;
use super::record::{Record, Status};
use crate::app::App;
use crate::client::Client;
use crate::ends::is_away;
use crate::error::{CliError, Refused};
use crate::job_file::is_plain;
use crate::process::ExitCode;
use crate::render::text;

/// Longer commands stand out of the row.
const WIDEST: usize = 100;

/// A job as it is shown.
struct Shown {
    record: Record,
    /// Why it failed, where the service knows it.
    cause: Option<String>,
}

#[expect(clippy::disallowed_methods, reason = "is_plain refuses what is no file")]
pub async fn status(app: &App, path: &Path, json: bool) -> Result<ExitCode, CliError> {
    is_plain(path, "the file of jobs")?;
    let bytes = std::fs::read(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => CliError::from(Refused {
            error: format!("there is no file of jobs {}", path.display()),
            why: Some("the dispatcher makes it".into()),
            hint: Some("nexus run --commands-file FILE, or --status --jobs-file OTHER".into()),
        }),
        _ => CliError::io(format!("the file of jobs {} cannot be read", path.display()))(error),
    })?;
    let past = jobs_file::read(&bytes);
    for (line, error) in &past.wrong {
        app.ui.warn(&format!("{}, line {line}: {error} (left out)", path.display()));
    }
    let mut jobs: Vec<Shown> = past.records.into_iter().map(|record| Shown { record, cause: None }).collect();
    match live(&app.reader(), &mut jobs).await {
        Err(error) if is_away(&error) => {
            app.ui.note(&format!("no service runs: this is what {} says", path.display()));
        }
        looked => looked?,
    }
    match json {
        true => app.ui.json(&jobs.iter().map(|job| &job.record).collect::<Vec<_>>())?,
        false => app.ui.data(&lines(&jobs))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// What the service knows goes over what was written down. Ends never change; how a job failed it may know better.
async fn live(client: &Client, shown: &mut [Shown]) -> Result<(), CliError> {
    let open = |record: &Record| match record.status {
        Status::Pending | Status::Running => true,
        Status::Failed => record.exit_code.is_none_or(|code| code <= 0),
        Status::Completed => false,
    };
    let ids: Vec<String> = shown.iter().map(|job| &job.record).filter(|it| open(it)).map(|it| it.id.clone()).collect();
    client.service().await?;
    let jobs: HashMap<String, Job> = known(client, &ids).await?.into_iter().map(|job| (job.id.clone(), job)).collect();
    for one in shown.iter_mut() {
        let Some(job) = jobs.get(&one.record.id) else {
            if !one.record.status.has_ended() {
                (one.record.status, one.cause) = (Status::Failed, Some("unknown to nexus here".into()));
            }
            continue;
        };
        one.cause = cause(job);
        let mut now = Record::of(job, one.record.log_file.clone());
        if now.says_the_same(&one.record) {
            continue;
        }
        if now.status != Status::Pending {
            let detail = client.job(&job.id, false).await?;
            now = Record::of(&detail.job, detail.runs.into_iter().next_back().and_then(|run| run.out));
        }
        if !now.says_the_same(&one.record) {
            one.record = now;
        }
    }
    Ok(())
}

/// `exit 3`, `signal 9`, `killed`, else the reason word.
fn cause(job: &Job) -> Option<String> {
    match (job.state, job.reason.as_deref()) {
        (State::Killed, _) => Some("killed".into()),
        (State::Failed, Some("exit")) => job.exit_code.map(|code| format!("exit {code}")),
        (State::Failed, Some("signal")) => job.signal.map(|signal| format!("signal {signal}")),
        (State::Failed, reason) => reason.map(String::from),
        _ => None,
    }
}

fn lines(jobs: &[Shown]) -> String {
    let commands: Vec<String> = jobs.iter().map(|job| one_line(&job.record.command)).collect();
    let widths = commands.iter().map(|command| command.chars().count());
    let width = widths.filter(|width| *width <= WIDEST).max().unwrap_or(0);
    let line = |(job, command): (&Shown, &String)| {
        let gpu = job.record.gpu_id.map_or("N/A".to_string(), |gpu| gpu.to_string());
        format!("[{}] {command:width$} → GPU {gpu} → {}\n", mark(job.record.status), state(job))
    };
    jobs.iter().zip(&commands).map(line).collect()
}

fn one_line(command: &str) -> String {
    text::printable(command).replace('\n', "\\n")
}

fn mark(status: Status) -> char {
    match status {
        Status::Pending => ' ',
        Status::Running => '→',
        Status::Completed => '✓',
        Status::Failed => '!',
    }
}

fn state(job: &Shown) -> String {
    let record = &job.record;
    match (record.status, record.pid) {
        (Status::Pending, _) => "Pending".into(),
        (Status::Running, Some(pid)) => format!("Running (PID {pid})"),
        (Status::Running, None) => "Running".into(),
        (Status::Completed, _) => "Completed".into(),
        (Status::Failed, _) => {
            let written = record.exit_code.map(|code| match code {
                0.. => format!("exit {code}"),
                signal => format!("signal {}", -signal),
            });
            match job.cause.clone().or(written) {
                Some(cause) => format!("Failed ({cause})"),
                None => "Failed".into(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(command: &str, rest: &str, cause: Option<&str>) -> Shown {
        let command = serde_json::to_string(command).unwrap();
        let text = format!("{{\"id\":\"abc\",\"command\":{command},{rest}}}");
        Shown { record: serde_json::from_str(&text).unwrap(), cause: cause.map(String::from) }
    }

    #[test]
    fn lines_of_the_document() {
        let jobs = [
            job("python train.py", "\"status\":\"running\",\"pid\":1234,\"gpu_id\":0", None),
            job("python infer.py", "\"status\":\"completed\",\"pid\":1235,\"gpu_id\":1,\"exit_code\":0", None),
            job("eval.py", "\"status\":\"pending\"", None),
            job("a\nb\u{1b}", "\"status\":\"failed\",\"gpu_id\":1,\"exit_code\":3", Some("exit 3")),
            job("c", "\"status\":\"failed\",\"gpu_id\":1,\"exit_code\":-9", None),
            job("d", "\"status\":\"failed\"", Some("killed")),
            job("e", "\"status\":\"failed\"", None),
        ];
        let expected = "\
[→] python train.py → GPU 0 → Running (PID 1234)
[✓] python infer.py → GPU 1 → Completed
[ ] eval.py         → GPU N/A → Pending
[!] a\\nb\\x1b        → GPU 1 → Failed (exit 3)
[!] c               → GPU 1 → Failed (signal 9)
[!] d               → GPU N/A → Failed (killed)
[!] e               → GPU N/A → Failed
";
        assert_eq!(lines(&jobs), expected);
    }
}
