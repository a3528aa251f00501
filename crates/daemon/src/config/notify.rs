//! `[notify]`: who is told what became of jobs.

use nexus_api::notify::About;
use toml::Value;

use super::Config;
use super::given::Given;
use super::given::shown::{duration, optional, text, words};
use super::key::{Key, key};
use crate::notify::{Template, Webhook};

pub const KEYS: &[Key] = &[
    key(
        "notify",
        "webhooks",
        "[]",
        "who is told: [\"slack:https://…\"], \"discord:\", \"ntfy:\", \"json:\"; shown shortened",
    )
    .of_config(|config, given| webhooks(given).map(|it| config.notify.webhooks = it), shortened)
    .secret(|config| {
        words(&config.notify.webhooks.iter().map(|webhook| webhook.written().to_string()).collect::<Vec<_>>())
    }),
    key("notify", "command", "\"\"", "a shell command that is told too: $NEXUS_TEXT and more, JSON on its stdin")
        .of_config(
            |config, given| given.optional_text().map(|it| config.notify.command = it),
            |config| optional(&config.notify.command),
        ),
    key(
        "notify",
        "on",
        "[\"failure\", \"sweep-end\", \"blocked\"]",
        "or \"start\", \"end\", \"queue-empty\"; add --notify tells of a job anyway",
    )
    .of_config(
        |config, given| on(given).map(|it| config.notify.on = it),
        |config| words(&config.notify.on.iter().map(|about| about.word().to_string()).collect::<Vec<_>>()),
    ),
    key("notify", "digest", "\"\"", "collects notices for so long, as in \"10m\", and tells them in one").of_config(
        |config, given| digest(given).map(|it| config.notify.digest = it),
        |config| config.notify.digest.map_or(text(""), duration),
    ),
    key(
        "notify",
        "template",
        "\"\"",
        "JSON for json: webhooks, with {text}, {job.id} and the like; \"\" = all there is",
    )
    .of_config(
        |config, given| template(given).map(|it| config.notify.template = it),
        |config| text(config.notify.template.as_ref().map_or("", Template::text)),
    ),
];

/// More would be a slip.
const MOST_WEBHOOKS: usize = 20;

fn webhooks(given: &Given) -> Result<Vec<Webhook>, String> {
    let want = || {
        "a list of addresses, each behind the form that it takes: [\"slack:https://hooks.slack.com/…\"], or discord:, \
         ntfy: with a topic, json:"
            .to_string()
    };
    let read: Option<Vec<Webhook>> =
        given.words().map_err(|_| want())?.iter().map(|text| Webhook::read(text)).collect();
    read.filter(|webhooks| webhooks.len() <= MOST_WEBHOOKS).ok_or_else(want)
}

fn shortened(config: &Config) -> Value {
    words(&config.notify.webhooks.iter().map(Webhook::to_string).collect::<Vec<_>>())
}

fn on(given: &Given) -> Result<Vec<About>, String> {
    let want = || {
        let quoted: Vec<String> = About::ASKED.iter().map(|about| format!("{:?}", about.word())).collect();
        format!("a list of {}", quoted.join(", "))
    };
    let about = |word: &String| About::ASKED.into_iter().find(|about| about.word() == word);
    let read: Option<Vec<About>> = given.words().map_err(|_| want())?.iter().map(about).collect();
    read.ok_or_else(want)
}

fn digest(given: &Given) -> Result<Option<std::time::Duration>, String> {
    if given.value.as_str() == Some("") {
        return Ok(None);
    }
    let time = given.duration().ok().filter(|time| !time.is_zero()).map(Some);
    time.ok_or_else(|| "a duration in quotes, with its unit: \"10m\", or \"\" to tell at once".into())
}

fn template(given: &Given) -> Result<Option<Template>, String> {
    given.optional_text()?.map(|text| Template::read(&text)).transpose()
}
