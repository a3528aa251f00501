//! `[log]`: service.log.

use super::given::shown::{number, size, word};
use super::key::{Key, key};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogLevel {
    Error,
    Warn,
    #[default]
    Info,
    Debug,
}

const LEVELS: &[(&str, LogLevel)] =
    &[("error", LogLevel::Error), ("warn", LogLevel::Warn), ("info", LogLevel::Info), ("debug", LogLevel::Debug)];

pub const KEYS: &[Key] = &[
    key("log", "level", "\"info\"", "of service.log: \"error\", \"warn\", \"info\", \"debug\"")
        .of_config(
            |config, given| given.one_of(LEVELS).map(|it| config.log_level = it),
            |config| word(LEVELS, config.log_level),
        )
        .not_yet(),
    key("log", "max_size", "\"50MB\"", "of service.log, then it is rotated")
        .of_config(|config, given| given.size().map(|it| config.log_max_size = it), |config| size(config.log_max_size)),
    key("log", "keep", "5", "rotated files kept").of_config(
        |config, given| given.number(0, 1000).map(|it| config.log_keep = it),
        |config| number(config.log_keep),
    ),
];
