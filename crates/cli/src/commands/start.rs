//! `nexus start`: the service.

use std::path::{Path, PathBuf};

use nexus_api::problem::Problem;
use nexus_api::values::gpu_list;
use nexus_daemon::config::{NotChanged, Overrides};

use crate::app::App;
use crate::commands::import;
use crate::error::{CliError, Usage};
use crate::process::ExitCode;
use crate::start::{Began, StartOptions};

/// Start the service
///
/// Returns when it answers; a success too when it runs already. Options that stand for a key of the configuration go
/// over it until the service starts anew, or start is given other ones; they count for a service that runs already
/// too. nexus restart and a start by itself know nothing of them.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nexus start
  nexus start --gpus 4 --llm-config llm_config.json
  nexus start --simulate-gpus 2     (remembered; 0 ends it)")]
pub struct StartArgs {
    /// Pretends to have this many GPUs, remembered until it is 0
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=128))]
    pub simulate_gpus: Option<u16>,
    /// Shows service.log in a session of GNU screen: screen -r nexus; closing that stops the service, jobs go on
    #[arg(long)]
    pub screen: bool,
    /// Takes over a home that was made under another host name
    #[arg(long)]
    pub adopt_home: bool,
    /// Begins with an empty database where the old one is damaged or gone; what is left of the old one is kept
    #[arg(long)]
    pub new_database: bool,
    /// GPUs to use: the first N, a list as in 0-2,5, or all (gpus.use)
    #[arg(long, value_name = "N|LIST", allow_hyphen_values = true)]
    pub gpus: Option<String>,
    /// What models need (models.file)
    #[arg(long, value_name = "FILE")]
    pub llm_config: Option<PathBuf>,
    /// A view of the GPUs in JSON, in which others may pause them (paths.state_file)
    #[arg(long, value_name = "FILE")]
    pub state_file: Option<PathBuf>,
    /// Part of its memory in use over which a GPU is shared no further (gpus.mem_threshold)
    #[arg(long, value_name = "PART", allow_hyphen_values = true)]
    pub mem_threshold: Option<String>,
    /// The same for its load (gpus.load_threshold)
    #[arg(long, value_name = "PART", allow_hyphen_values = true)]
    pub load_threshold: Option<String>,
    /// Starts that the machine may fail before the job fails (jobs.start_attempts)
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub max_assign_attempts: Option<String>,
    /// Seconds before the first retry; doubles with each (jobs.retry_wait)
    #[arg(long, value_name = "SECONDS", allow_hyphen_values = true)]
    pub assign_retry_wait: Option<String>,
    /// Needless: changes are seen at once
    #[arg(long, value_name = "SECONDS")]
    pub monitor_interval: Option<String>,
    /// Needless: changes are seen at once
    #[arg(long, value_name = "SECONDS")]
    pub state_interval: Option<String>,
    /// A file of jobs whose new entries are queued, from now on (import --watch)
    #[arg(long, value_name = "FILE")]
    pub jobs_file: Option<String>,
}

pub async fn run(args: StartArgs, app: &App) -> Result<ExitCode, CliError> {
    let here = std::env::current_dir().map_err(CliError::io("the folder this was typed in cannot be found"))?;
    let overrides = overrides(&args, &here).map_err(|usage| usage.of("start"))?;
    let needless = [("--monitor-interval", &args.monitor_interval), ("--state-interval", &args.state_interval)];
    for (option, _) in needless.iter().filter(|(_, given)| given.is_some()) {
        app.ui.note(&format!("{option} is not needed: changes are seen at once"));
    }
    if args.new_database {
        begin_anew(app).await?;
    }
    let options =
        StartOptions { simulate_gpus: args.simulate_gpus, adopt_home: args.adopt_home, overrides: overrides.clone() };
    let began = app.start(options).await?;
    let client = app.reader();
    if let (Began::Before, Some(count)) = (began, args.simulate_gpus) {
        client.simulate_gpus(count).await?;
    }
    if began == Began::Before && !overrides.is_empty() {
        client.override_config(&overrides).await?;
    }
    if args.screen {
        client.open_screen().await?;
    }
    let service = client.service().await?;
    let word = match began {
        Began::Now => "started",
        Began::Before => "runs already",
    };
    app.ui.say(&format!("service {word} (pid {}) in {}", service.pid, service.home));
    if let Some(refused) = client.config().await?.models_refused {
        app.ui.warn(&format!("{}: jobs go without it", refused.title()));
        refused.why().into_iter().for_each(|why| app.ui.warn(&why));
    }
    for (key, value) in &overrides {
        app.ui.say(&format!("{key} is {value} until the next start"));
    }
    if let Some(screen) = &service.screen {
        app.ui.say(&format!("to see it: {}", screen.to_type()));
    }
    match &args.jobs_file {
        Some(file) => import::watch_file(file, app).await,
        None => Ok(ExitCode::SUCCESS),
    }
}

/// An empty database for the service that is started then.
async fn begin_anew(app: &App) -> Result<(), CliError> {
    let home = app.home.clone();
    if app.reader().answers().await? {
        return Err(Problem::ServiceRuns { home: home.dir.display().to_string() }.into());
    }
    // Nothing else goes on meanwhile: no thread of its own is needed.
    match nexus_daemon::begin_anew(&home)? {
        Some(aside) => app.ui.say(&format!("the database is empty; the old one is kept as {}", aside.display())),
        None => app.ui.say("the database is empty"),
    }
    Ok(())
}

/// Keys of the configuration, and what they are to be; each is known to be right.
fn overrides(args: &StartArgs, here: &Path) -> Result<Vec<(String, String)>, Usage> {
    let llm_config = args.llm_config.as_ref().map(|file| absolute(file, here)).transpose()?;
    let state_file = args.state_file.as_ref().map(|file| absolute(file, here)).transpose()?;
    let wait = args.assign_retry_wait.as_ref().map(|text| match text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => format!("{text}s"),
        false => text.clone(),
    });
    let given = [
        ("--gpus", "gpus.use", args.gpus.as_deref().map(gpus).transpose()?),
        ("--llm-config", "models.file", llm_config),
        ("--state-file", "paths.state_file", state_file),
        ("--mem-threshold", "gpus.mem_threshold", args.mem_threshold.clone()),
        ("--load-threshold", "gpus.load_threshold", args.load_threshold.clone()),
        ("--max-assign-attempts", "jobs.start_attempts", args.max_assign_attempts.clone()),
        ("--assign-retry-wait", "jobs.retry_wait", wait),
    ];
    let mut overrides = Vec::new();
    for (option, key, value) in given {
        let Some(value) = value else { continue };
        Overrides::default().set(key, &value, None).map_err(|error| match error {
            NotChanged::BadValue { want, .. } => {
                Usage::new(format!("{option} cannot be {value}"), format!("it is {want}"))
            }
            other => Usage::new(format!("{option} cannot be {value}"), other.to_string()),
        })?;
        overrides.push((key.to_string(), value));
    }
    Ok(overrides)
}

/// `4` is the first four, `0-2,5` are these.
fn gpus(text: &str) -> Result<String, Usage> {
    let wrong = || Usage::new(format!("--gpus cannot be {text}"), "the first N as in 4, a list as in 0-2,5, or all");
    if text == "all" {
        return Ok(text.into());
    }
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse::<u16>() {
        Ok(0) => {
            Err(Usage::new("--gpus 0 would use none", "--gpus 0-0 for GPU 0 alone; nexus pause keeps jobs waiting"))
        }
        Ok(1) if is_number => Ok("0".into()),
        Ok(count @ 2..=128) if is_number => Ok(format!("0-{}", count - 1)),
        _ if is_number => Err(wrong()),
        _ => gpu_list(text).map(|_| text.to_string()).map_err(|_| wrong()),
    }
}

fn absolute(file: &Path, here: &Path) -> Result<String, Usage> {
    let joined = here.join(file);
    let whole = std::path::absolute(&joined).unwrap_or(joined);
    let bad = |path| Usage::new(format!("the path {path:?} is not valid UTF-8"), "another path");
    whole.into_os_string().into_string().map_err(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_the_first_so_many_and_a_list_is_itself() {
        for (typed, meant) in
            [("1", "0"), ("4", "0-3"), ("0-2,5", "0-2,5"), ("3-3", "3-3"), ("1,2", "1,2"), ("all", "all")]
        {
            assert_eq!(gpus(typed).unwrap(), meant, "{typed}");
        }
        for wrong in ["", "0", "129", "x", "-1", "2-1", "1.5", "999999"] {
            gpus(wrong).expect_err(wrong);
        }
    }
}
