//! `[log]`: service.log.

use super::given::shown::{number, size, word};
use super::key::{Key, key};
use crate::service_log::Level;

const LEVELS: &[(&str, Level)] =
    &[("error", Level::Error), ("warn", Level::Warn), ("info", Level::Info), ("debug", Level::Debug)];

pub const KEYS: &[Key] = &[
    key(
        "log",
        "level",
        "\"info\"",
        "of service.log: \"error\", \"warn\" (what fails), \"info\" (all), \"debug\" (its times)",
    )
    .of_config(
        |config, given| given.one_of(LEVELS).map(|it| config.log.level = it),
        |config| word(LEVELS, config.log.level),
    ),
    key("log", "max_size", "\"50MB\"", "of service.log, then it is rotated")
        .of_config(|config, given| given.size().map(|it| config.log.max_size = it), |config| size(config.log.max_size)),
    key("log", "keep", "5", "rotated files kept").of_config(
        |config, given| given.number(0, 1000).map(|it| config.log.keep = it),
        |config| number(config.log.keep),
    ),
];
