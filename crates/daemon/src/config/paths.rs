//! `[paths]`: where things lie.

use super::given::shown::path;
use super::key::{Key, key};

pub const KEYS: &[Key] = &[
    key("paths", "log_dir", "\"~/.nexus/logs\"", "where jobs leave their output")
        .of_config(|config, given| given.path().map(|it| config.log_dir = it), |config| path(&config.log_dir))
        .at_restart(),
    key("paths", "jobs_file", "\"~/.nexus/jobs.txt\"", "the queue as text")
        .of_config(|config, given| given.path().map(|it| config.jobs_file = it), |config| path(&config.jobs_file))
        .at_restart(),
    key("paths", "state_file", "\"\"", "a view of the GPUs in JSON, for other programs")
        .of_config(|config, given| given.path().map(|it| config.state_file = it), |config| path(&config.state_file)),
];
