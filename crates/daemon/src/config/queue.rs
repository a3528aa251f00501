//! `[queue]`: how long jobs stand back, and when the queue stops by itself.

use super::given::shown::{duration, number};
use super::key::{Key, key};

pub const KEYS: &[Key] = &[
    key("queue", "patience", "\"30m\"", "a wide job waits this long before GPUs are kept for it").of_config(
        |config, given| given.duration().map(|it| config.policy.patience = it),
        |config| duration(config.policy.patience),
    ),
    key("queue", "pause_after_failures", "0", "failed jobs in a row that pause the queue; 0 = never").of_config(
        |config, given| given.number(0, 1_000_000).map(|it| config.policy.pause_after_failures = it),
        |config| number(config.policy.pause_after_failures),
    ),
];
