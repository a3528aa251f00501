//! `nexus export`: queue and history, to keep or to take elsewhere.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::Zoned;
use nexus_api::jobs::{JobQuery, State};
use nexus_api::shown::Stream;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::history::since;
use crate::app::App;
use crate::client::Body;
use crate::error::{CliError, Refused, Usage};
use crate::narrow::NarrowArgs;
use crate::process::ExitCode;
use crate::ui::Ui;
use crate::whole_file::WholeFile;

mod missing;

use missing::Missing;

/// How often the number of jobs is told anew.
const TOLD_EVERY: Duration = Duration::from_millis(200);

/// Exit code of a command that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

/// Write queue and history, in the order of submission
///
/// As jsonl, one job a line with all that is known of it, it can be imported again; as csv it is a table. Left out are
/// values that look like secrets, values of variables, the code of --sync, and the environment but for what --env and
/// --env-file gave. A note names the waiting jobs that lack something of it.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nexus export -o jobs.jsonl
  nexus export --format csv --state ended --since 30d -o month.csv
  nexus export | jq -r 'select(.state == \"failed\") | .id'")]
pub struct ExportArgs {
    /// How it is written
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Format::Jsonl)]
    pub format: Format,
    /// Only jobs in this state: queued, running, failed, …, ended or alive
    #[arg(long, value_name = "STATE")]
    pub state: Vec<String>,
    /// Only jobs that ended, or wait or run and were submitted, within this time, as in 2d, or since 2024-10-24
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    #[command(flatten)]
    pub narrow: NarrowArgs,
    /// Where to [default: standard output]; the file is there when all is written
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    Jsonl,
    Csv,
}

pub async fn run(args: ExportArgs, app: &App) -> Result<ExitCode, CliError> {
    let usage = |usage: Usage| usage.of("export");
    let state = states(&args.state).map_err(usage)?;
    let since = args.since.as_deref().map(|text| since(text, &Zoned::now())).transpose().map_err(usage)?;
    let since = since.map(|time| time.to_string());
    let format = match args.format {
        Format::Jsonl => "jsonl",
        Format::Csv => "csv",
    };
    let query = args.narrow.of(JobQuery { state, since, ..JobQuery::default() });
    let mut export = Export { app, format, query, count: Count::new(args.format), missing: Missing::default() };
    let code = match args.output.as_deref().filter(|path| *path != Path::new("-")) {
        None => export.print().await,
        Some(path) => {
            // Before the service is asked: a place that cannot be written to is told at once.
            let file = WholeFile::create(path).map_err(|error| not_written(path, &error))?;
            export.save(file, path).await
        }
    }?;
    for note in export.missing.notes(&app.home) {
        app.ui.note(&format!("exported {note}"));
    }
    Ok(code)
}

/// Words as the service takes them; none for all jobs.
pub(super) fn states(typed: &[String]) -> Result<Option<String>, Usage> {
    let words: Vec<&str> = typed.iter().flat_map(|list| list.split(',')).collect();
    let wrong = |word: &&&str| !matches!(**word, "ended" | "alive") && State::from_filter(word).is_none();
    if let Some(word) = words.iter().find(wrong) {
        return Err(Usage::new(
            format!("--state {} is no state", if word.is_empty() { "\"\"" } else { word }),
            "--state held, queued, starting, running, completed, failed, killed, ended or alive",
        ));
    }
    Ok((!words.is_empty()).then(|| words.join(",")))
}

/// An export on its way.
struct Export<'a> {
    app: &'a App,
    format: &'static str,
    query: JobQuery,
    count: Count,
    missing: Missing,
}

impl Export<'_> {
    async fn ask(&self) -> Result<Body, CliError> {
        self.app.reader().export(self.format, &self.query).await
    }

    fn take(&mut self, bytes: &[u8]) {
        self.count.take(bytes);
        if !self.count.has_header {
            self.missing.take(bytes);
        }
    }

    async fn print(&mut self) -> Result<ExitCode, CliError> {
        let (mut body, mut shown) = (self.ask().await?, Stream::default());
        while let Some(bytes) = body.next().await.map_err(|error| self.broke_off(error))? {
            self.take(&bytes);
            self.app.ui.stream(&mut shown, &bytes)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Ends early, and leaves nothing behind, when it is told to.
    async fn save(&mut self, file: WholeFile, path: &Path) -> Result<ExitCode, CliError> {
        let app = self.app;
        if !file.leaves_something() {
            return self.fill(file, path).await;
        }
        let mut stops = Stops::new()?;
        tokio::select! {
            done = self.fill(file, path) => done,
            () = stops.next() => {
                app.ui.say(&format!("interrupted: {} was not written", path.display()));
                Ok(ExitCode::from(INTERRUPTED))
            }
        }
    }

    async fn fill(&mut self, mut file: WholeFile, path: &Path) -> Result<ExitCode, CliError> {
        let failed = |error: std::io::Error| not_written(path, &error);
        let mut body = self.ask().await?;
        let mut progress = Progress::new(&self.app.ui);
        while let Some(bytes) = body.next().await.map_err(|error| self.broke_off(error))? {
            self.take(&bytes);
            file.write(&bytes).map_err(failed)?;
            progress.tell(self.count.jobs());
        }
        file.finish().map_err(failed)?;
        progress.clear();
        self.app.ui.say(&format!("wrote {} to {}", jobs(self.count.jobs()), path.display()));
        Ok(ExitCode::SUCCESS)
    }

    fn broke_off(&self, error: CliError) -> CliError {
        let CliError::ServiceLeft { .. } = error else { return error };
        let log = self.app.home.dir.join("service.log");
        Refused {
            error: format!("the export broke off after {}", jobs(self.count.jobs())),
            why: Some(format!("the service went away, or could not read on: {} tells which", log.display())),
            hint: Some("nexus doctor; then export again, since what there is of it is not all".into()),
        }
        .into()
    }
}

fn not_written(path: &Path, error: &std::io::Error) -> CliError {
    let text = error.to_string();
    let why = text.split(" (os error").next().unwrap_or(&text).to_string();
    let hint = Some("-o FILE names another place".into());
    Refused { error: format!("{} was not written", path.display()), why: Some(why), hint }.into()
}

fn jobs(count: u64) -> String {
    if count == 1 { "1 job".into() } else { format!("{count} jobs") }
}

/// Jobs in the bytes that went by.
struct Count {
    lines: u64,
    has_header: bool,
    /// Inside the quotes of a table, where a newline is none.
    quoted: bool,
}

impl Count {
    fn new(format: Format) -> Count {
        Count { lines: 0, has_header: format == Format::Csv, quoted: false }
    }

    fn take(&mut self, bytes: &[u8]) {
        for byte in bytes {
            match byte {
                b'"' if self.has_header => self.quoted = !self.quoted,
                b'\n' if !self.quoted => self.lines += 1,
                _ => {}
            }
        }
    }

    fn jobs(&self) -> u64 {
        self.lines.saturating_sub(self.has_header.into())
    }
}

/// The number of jobs so far, on a terminal.
struct Progress<'a> {
    ui: &'a Ui,
    told: Option<Instant>,
    shown: bool,
}

impl Progress<'_> {
    fn new(ui: &Ui) -> Progress<'_> {
        Progress { ui, told: None, shown: false }
    }

    fn tell(&mut self, count: u64) {
        let due = self.told.is_none_or(|told| told.elapsed() >= TOLD_EVERY);
        if self.ui.err_is_terminal() && due {
            self.ui.draw_line(&jobs(count));
            (self.told, self.shown) = (Some(Instant::now()), true);
        }
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            self.ui.draw_line("");
        }
    }
}

/// However it ends, what is said next has a line of its own.
impl Drop for Progress<'_> {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Signals that ask for an end.
struct Stops([Signal; 3]);

impl Stops {
    fn new() -> Result<Stops, CliError> {
        let listen = |kind| signal(kind).map_err(CliError::io("signals cannot be listened to"));
        let kinds = (SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup());
        Ok(Stops([listen(kinds.0)?, listen(kinds.1)?, listen(kinds.2)?]))
    }

    async fn next(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_words_of_every_filter() {
        let words = |words: &[&str]| states(&words.iter().map(|word| word.to_string()).collect::<Vec<_>>());
        assert_eq!(words(&[]).unwrap(), None);
        assert_eq!(words(&["failed,pending", "ended"]).unwrap().unwrap(), "failed,pending,ended");
        for wrong in ["", "nonsense", "failed,", "Ended "] {
            assert!(words(&[wrong]).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn jobs_are_counted_however_the_bytes_are_cut() {
        let table = "id,command\nabc,\"two\nlines \"\"q\"\"\n\"\ndef,true\n";
        let mut count = Count::new(Format::Csv);
        assert_eq!(count.jobs(), 0);
        table.bytes().for_each(|byte| count.take(&[byte]));
        assert_eq!(count.jobs(), 2);
        let mut count = Count::new(Format::Jsonl);
        count.take(b"{\"a\":\"\\\"\"}\n{}\n");
        assert_eq!(count.jobs(), 2);
    }
}
