//! `[notify]`: who is told, of what, and when.

use std::time::Duration;

use nexus_api::notify::About;

use super::template::Template;
use super::webhook::Webhook;

#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    pub webhooks: Vec<Webhook>,
    /// For a shell.
    pub command: Option<String>,
    pub on: Vec<About>,
    /// Notices are collected for so long; none = each is told at once.
    pub digest: Option<Duration>,
    /// Of webhooks that take JSON.
    pub template: Option<Template>,
}

impl Default for Settings {
    fn default() -> Settings {
        let on = vec![About::Failure, About::SweepEnd, About::Blocked];
        Settings { webhooks: vec![], command: None, on, digest: None, template: None }
    }
}

impl Settings {
    /// There is nobody to be told.
    pub fn is_off(&self) -> bool {
        self.webhooks.is_empty() && self.command.is_none()
    }

    /// Whether it is told. `asked`: by the job itself, with `--notify`, which means its end.
    pub fn tells(&self, about: About, asked: bool) -> bool {
        let on = |about| self.on.contains(&about);
        match about {
            About::Start | About::QueueEmpty | About::Blocked => on(about),
            About::End | About::SweepEnd => asked || on(about),
            // An end is one in whichever way.
            About::Failure => asked || on(About::Failure) || on(About::End),
            About::Digest | About::Test => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_what_was_asked_for() {
        let told = |on: &[About], asked| -> Vec<&'static str> {
            let settings = Settings { on: on.to_vec(), ..Settings::default() };
            About::ASKED.into_iter().filter(|about| settings.tells(*about, asked)).map(About::word).collect()
        };
        assert_eq!(told(&[], false), [""; 0]);
        assert_eq!(told(&[About::Failure], false), ["failure"]);
        assert_eq!(told(&[About::End], false), ["end", "failure"]);
        assert_eq!(
            told(&[About::Start, About::QueueEmpty, About::SweepEnd], false),
            ["start", "sweep-end", "queue-empty"]
        );
        assert_eq!(told(&[About::Failure], true), ["end", "failure", "sweep-end"]);
        assert_eq!(told(&[], true), ["end", "failure", "sweep-end"]);
    }
}
