//! `[import]`, `[ssh]`, `[web]`: how nexus meets files, machines and browsers.

use std::ops::RangeInclusive;
use std::time::Duration;

use nexus_api::values::option_name;

use super::given::shown::{duration, number, text, words};
use super::key::{Key, key};

/// From a minute to 30 days.
const WEB_SESSIONS: RangeInclusive<Duration> = Duration::from_secs(60)..=Duration::from_secs(30 * 24 * 3600);

pub const KEYS: &[Key] = &[
    key("import", "csv_gpu_arg", "\"--cuda\"", "the argument that job files give GPUs by; \"\" leaves it alone")
        .of_config(
            |config, given| {
                let option = given.text()?;
                if !option.is_empty() {
                    option_name(&option).map_err(|_| "an option of a program in quotes, as in \"--cuda\", or \"\"")?;
                }
                config.csv_gpu_arg = option;
                Ok(())
            },
            |config| text(&config.csv_gpu_arg),
        ),
    key("ssh", "args", "[]", "further arguments of ssh")
        .of_config(|config, given| given.words().map(|it| config.ssh_args = it), |config| words(&config.ssh_args)),
    key("web", "port", "4004", "of the web page, if nexus web --port says no other").of_config(
        |config, given| given.number(1, 65535).map(|it| config.web_port = it as u16),
        |config| number(config.web_port.into()),
    ),
    key("web", "session", "\"12h\"", "how long a browser that was closed is let in again, up to \"30d\"").of_config(
        |config, given| {
            let want = "a duration in quotes from \"1m\" to \"30d\"";
            let session = given.duration().ok().filter(|it| WEB_SESSIONS.contains(it)).ok_or(want)?;
            config.web_session = session;
            Ok(())
        },
        |config| duration(config.web_session),
    ),
];
