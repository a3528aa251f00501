//! `[retention]`: what is deleted by itself. No job, unless this says so; of copies of the database all but the newest few.

use std::time::Duration;

use toml::Value;

use super::given::Given;
use super::given::shown::{duration, number};
use super::key::{Key, key};

const FOREVER: &str = "forever";

/// Shorter is a slip: jobs that one has not even looked at would go.
const LEAST: Duration = Duration::from_secs(3600);

pub const KEYS: &[Key] = &[
    key("retention", "jobs", "\"forever\"", "ended jobs are forgotten after this, with logs and results: \"90d\"")
        .of_config(
            |config, given| age(given).map(|it| config.keep_jobs = it),
            |config| config.keep_jobs.map_or_else(|| Value::String(FOREVER.into()), duration),
        ),
    key("retention", "backups", "5", "so many copies of nexus backup are kept; older ones are deleted").of_config(
        |config, given| given.number(1, 100_000).map(|it| config.keep_backups = it),
        |config| number(config.keep_backups),
    ),
];

/// None for ever.
fn age(given: &Given) -> Result<Option<Duration>, String> {
    let want = || "\"forever\", or a duration of an hour at least: \"30d\", \"90d\"".to_string();
    match given.text().map_err(|_| want())?.as_str() {
        FOREVER => Ok(None),
        _ => given.duration().ok().filter(|age| *age >= LEAST).map(Some).ok_or_else(want),
    }
}
