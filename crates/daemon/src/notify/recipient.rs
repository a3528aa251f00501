//! Who is told: a webhook, or a command. Tells once, within a time limit; whether to try again is another's to say.

use std::fmt;
use std::time::Duration;

use nexus_api::notify::Notice;

use super::settings::Settings;
use super::template::Template;
use super::trouble::Trouble;
use super::webhook::{Form, Webhook};
use super::{form, hook, post};

#[derive(Clone, Debug, PartialEq)]
pub enum Recipient {
    Webhook(Webhook, Option<Template>),
    Command(String),
}

impl Recipient {
    pub fn all(settings: &Settings) -> Vec<Recipient> {
        let template = |webhook: &Webhook| settings.template.clone().filter(|_| webhook.form == Form::Json);
        let webhooks = settings.webhooks.iter().map(|webhook| Recipient::Webhook(webhook.clone(), template(webhook)));
        webhooks.chain(settings.command.clone().map(Recipient::Command)).collect()
    }

    /// What it answered.
    pub fn tell(&self, notice: &Notice, limit: Duration) -> Result<String, Trouble> {
        match self {
            Recipient::Webhook(webhook, template) => {
                post::post(webhook, &form::body(webhook, notice, template.as_ref()), limit)
            }
            Recipient::Command(command) => hook::run(command, notice, limit),
        }
    }

    /// Servers want few messages; a command may count on one for each job.
    pub fn takes_digests(&self) -> bool {
        matches!(self, Recipient::Webhook(..))
    }
}

impl fmt::Display for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Recipient::Webhook(webhook, _) => webhook.fmt(f),
            Recipient::Command(_) => f.write_str("the command of notify.command"),
        }
    }
}
