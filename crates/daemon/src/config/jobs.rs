//! `[jobs]`: how jobs are run.

use nexus_api::jobs::Session;
use toml::Value;

use super::given::Given;
use super::given::shown::{duration, limit, number, optional, path, text, word, words};
use super::key::{Key, key};

const SESSIONS: &[(&str, Session)] = &[("builtin", Session::Builtin), ("screen", Session::Screen)];

pub const KEYS: &[Key] = &[
    key("jobs", "session", "\"builtin\"", "or \"screen\": jobs run in GNU screen").of_config(
        |config, given| given.one_of(SESSIONS).map(|it| config.session = it),
        |config| word(SESSIONS, config.session),
    ),
    key("jobs", "shell", "\"bash\"", "runs a job's command; sh where it is missing")
        .of_config(|config, given| given.filled_text().map(|it| config.shell = it), |config| text(&config.shell)),
    key("jobs", "prelude", "\"\"", "shell lines before every command").of_config(
        |config, given| given.optional_text().map(|it| config.prelude = it),
        |config| optional(&config.prelude),
    ),
    key("jobs", "runner", "\"\"", "a program to run every command with, as in \"nice -n 10\"")
        .of_config(|config, given| given.argv().map(|it| config.runner = it), runner),
    key("jobs", "env_file", "\"\"", "NAME=value lines for every job, read when it starts")
        .of_config(|config, given| given.path().map(|it| config.env_file = it), |config| path(&config.env_file)),
    key("jobs", "pass_env", "[]", "variables that jobs on other machines get too")
        .of_config(|config, given| names(given).map(|it| config.pass_env = it), |config| words(&config.pass_env)),
    key("jobs", "grace", "\"10s\"", "between TERM and KILL")
        .of_config(|config, given| given.duration().map(|it| config.grace = it), |config| duration(config.grace)),
    key("jobs", "retry_wait", "\"5s\"", "before the first retry; doubles with each").of_config(
        |config, given| given.duration().map(|it| config.policy.retry_wait = it),
        |config| duration(config.policy.retry_wait),
    ),
    key("jobs", "retry_wait_max", "\"10m\"", "and never gets longer than this").of_config(
        |config, given| given.duration().map(|it| config.policy.retry_wait_max = it),
        |config| duration(config.policy.retry_wait_max),
    ),
    key("jobs", "start_attempts", "5", "starts that the machine may fail before the job fails").of_config(
        |config, given| given.number(1, 1000).map(|it| config.policy.start_attempts = it),
        |config| number(config.policy.start_attempts),
    ),
    key("jobs", "tty", "true", "jobs see a terminal, so progress bars work")
        .of_config(|config, given| given.flag().map(|it| config.tty = it), |config| Value::Boolean(config.tty)),
    key("jobs", "nofile", "\"\"", "open files a job may have: a number, or \"unlimited\"").of_config(
        |config, given| given.limit(false).map(|it| config.limits.nofile = it),
        |config| limit(config.limits.nofile, false),
    ),
    key("jobs", "memlock", "\"\"", "memory a job may lock: \"8GB\", or \"unlimited\"").of_config(
        |config, given| given.limit(true).map(|it| config.limits.memlock = it),
        |config| limit(config.limits.memlock, true),
    ),
];

/// One text, as it is usually written, where that says the same.
fn runner(config: &super::Config) -> Value {
    let line = config.runner.join(" ");
    match nexus_api::shell_words::split(&line, "") {
        Ok(split) if split == config.runner => text(&line),
        _ => words(&config.runner),
    }
}

fn names(given: &Given) -> Result<Vec<String>, String> {
    let is_name = |name: &String| !name.contains(|letter: char| letter == '=' || letter.is_whitespace());
    let want = "a list of names: [\"HF_HOME\", \"WANDB_PROJECT\"]";
    given.words().ok().filter(|names| names.iter().all(is_name)).ok_or_else(|| want.into())
}
