//! `nexus history`: what has ended.

use jiff::{SignedDuration, Timestamp, Zoned};
use nexus_api::jobs::{JobQuery, State};

use crate::app::App;
use crate::error::{CliError, Usage};
use crate::narrow::NarrowArgs;
use crate::process::ExitCode;
use crate::{render, values};

/// Show ended jobs, newest last
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nexus history
  nexus history --since 2d --state failed
  nexus history --project paper --tag night")]
pub struct HistoryArgs {
    /// How many
    #[arg(short, long, value_name = "N", default_value_t = 25, allow_negative_numbers = true)]
    pub number: u64,
    /// All of them
    #[arg(long)]
    pub all: bool,
    /// Only those that ended within this time, as in 30m, 2d, or since a time, as in 2024-10-24
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Only those in this state: completed, failed, killed
    #[arg(long, value_name = "STATE")]
    pub state: Vec<String>,
    #[command(flatten)]
    pub narrow: NarrowArgs,
    /// Prints the jobs as JSON
    #[arg(long)]
    pub json: bool,
}

pub async fn run(args: HistoryArgs, app: &App) -> Result<ExitCode, CliError> {
    let now = Zoned::now();
    let query = query(&args, &now).map_err(|usage| usage.of("history"))?;
    let jobs = app.reader().jobs(&query).await?;
    if args.json {
        app.ui.json(&jobs)?;
    } else if jobs.is_empty() {
        app.ui.say(if args.state.is_empty() && args.since.is_none() && args.narrow.is_none() {
            "no job has ended yet"
        } else {
            "no such job has ended"
        });
    } else {
        app.ui.data(&render::history::history(&jobs, &now, app.ui.out_is_terminal(), app.ui.paint()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn query(args: &HistoryArgs, now: &Zoned) -> Result<JobQuery, Usage> {
    let states = match args.state.is_empty() {
        true => "ended".to_string(),
        false => states(&args.state)?,
    };
    let since = args.since.as_deref().map(|text| since(text, now)).transpose()?;
    let limit = (!args.all).then_some(args.number);
    let since = since.map(|time| time.to_string());
    Ok(args.narrow.clone().of(JobQuery { state: Some(states), since, limit, ..JobQuery::default() }))
}

fn states(typed: &[String]) -> Result<String, Usage> {
    let mut words = Vec::new();
    for word in typed.iter().flat_map(|list| list.split(',')) {
        let states = State::from_filter(word).unwrap_or_default();
        if states.is_empty() || !states.iter().all(|state| state.has_ended()) {
            return Err(Usage::new(
                format!("--state {} is no way to end", if word.is_empty() { "\"\"" } else { word }),
                "--state completed, failed or killed; nexus ls shows what is alive",
            ));
        }
        words.extend(states.iter().map(|state| state.word()));
    }
    Ok(words.join(","))
}

/// A while ago, or a point in time.
pub(super) fn since(text: &str, now: &Zoned) -> Result<Timestamp, Usage> {
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time);
    }
    if let Ok(time) = text.parse::<jiff::civil::DateTime>() {
        let zoned = time.to_zoned(now.time_zone().clone());
        return zoned.map(|zoned| zoned.timestamp()).map_err(|error| Usage::new(error.to_string(), "--since 2d"));
    }
    let seconds = values::duration("--since", text)?;
    let back = SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX));
    now.timestamp().checked_sub(back).map_err(|error| Usage::new(error.to_string(), "--since 2d"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::samples;

    #[test]
    fn since_is_a_while_or_a_time() {
        let read = |text: &str| since(text, &samples::now()).map(|time| time.to_string());
        assert_eq!(read("2d").unwrap(), "2024-10-22T15:45:00Z");
        assert_eq!(read("2024-10-24").unwrap(), "2024-10-23T22:00:00Z");
        assert_eq!(read("2024-10-24T10:00").unwrap(), "2024-10-24T08:00:00Z");
        assert!(read("2").unwrap_err().hint.unwrap().contains("2d"));
        assert!(read("yesterday").is_err());
    }

    #[test]
    fn states_are_ends() {
        let words = |words: &[&str]| states(&words.iter().map(|word| word.to_string()).collect::<Vec<_>>());
        assert_eq!(words(&["failed", "done"]).unwrap(), "failed,completed");
        assert_eq!(words(&["failed,canceled"]).unwrap(), "failed,killed");
        assert!(words(&["running"]).is_err());
        assert!(words(&["nonsense"]).is_err());
    }
}
