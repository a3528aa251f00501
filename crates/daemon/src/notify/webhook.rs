//! A webhook: an address, and the form of what it understands. Whoever has the address can post there, so it is shown by
//! its scheme and host alone.

use std::fmt;

use axum::http::Uri;

/// What a webhook understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// All that is known, or what the template makes of it.
    Json,
    Slack,
    Discord,
    Ntfy,
}

const FORMS: [(&str, Form); 4] =
    [("json", Form::Json), ("slack", Form::Slack), ("discord", Form::Discord), ("ntfy", Form::Ntfy)];

/// Hosts that understand one form alone.
const HOSTS: [(&str, Form); 4] = [
    ("hooks.slack.com", Form::Slack),
    ("discord.com", Form::Discord),
    ("discordapp.com", Form::Discord),
    ("ntfy.sh", Form::Ntfy),
];

impl Form {
    pub fn word(self) -> &'static str {
        FORMS.iter().find(|(_, form)| *form == self).map_or("", |(word, _)| word)
    }
}

#[derive(Clone, PartialEq, Eq)]
pub struct Webhook {
    pub form: Form,
    uri: Uri,
    /// As it stands in the configuration.
    written: String,
}

impl Webhook {
    /// `slack:https://…`; without a form, that of a known host, else JSON.
    pub fn read(text: &str) -> Option<Webhook> {
        let text = text.trim();
        let (named, address) = FORMS
            .iter()
            .find_map(|(word, form)| Some((Some(*form), text.strip_prefix(word)?.strip_prefix(':')?)))
            .unwrap_or((None, text));
        let uri: Uri = address.parse().ok()?;
        let host = uri.host().filter(|host| !host.is_empty())?;
        let known = HOSTS.iter().find(|(name, _)| host.eq_ignore_ascii_case(name)).map(|(_, form)| *form);
        let form = named.or(known).unwrap_or(Form::Json);
        let is_web = matches!(uri.scheme_str(), Some("http" | "https"));
        let has_topic = form != Form::Ntfy || topic(&uri).is_some();
        (is_web && has_topic).then(|| Webhook { form, written: text.into(), uri: uri.clone() })
    }

    /// All of it, for those who compare.
    pub fn written(&self) -> &str {
        &self.written
    }

    /// Where notices are posted to. ntfy takes JSON at its root, which names the topic.
    pub fn address(&self) -> String {
        match (self.form, topic(&self.uri)) {
            (Form::Ntfy, Some(topic)) => {
                let whole = self.uri.to_string();
                let (path, query) =
                    whole.split_once('?').map_or((whole.as_str(), None), |(path, query)| (path, Some(query)));
                let root = path.trim_end_matches('/').strip_suffix(topic).unwrap_or(path);
                query.map_or(root.to_string(), |query| format!("{root}?{query}"))
            }
            _ => self.uri.to_string(),
        }
    }

    /// Of ntfy.
    pub fn topic(&self) -> Option<&str> {
        topic(&self.uri)
    }

    pub fn is_encrypted(&self) -> bool {
        self.uri.scheme_str() == Some("https")
    }
}

/// The last part of the path.
fn topic(uri: &Uri) -> Option<&str> {
    uri.path().trim_end_matches('/').rsplit('/').next().filter(|topic| !topic.is_empty())
}

impl fmt::Display for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.uri.scheme_str().unwrap_or_default();
        let port = self.uri.port_u16().map(|port| format!(":{port}")).unwrap_or_default();
        write!(f, "{}:{scheme}://{}{port}/…", self.form.word(), self.uri.host().unwrap_or_default())
    }
}

/// A configuration that somebody prints must not tell either.
impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_and_shown_without_what_is_secret() {
        for (text, shown) in [
            ("slack:https://hooks.slack.com/services/T0/B0/s3cret", "slack:https://hooks.slack.com/…"),
            ("https://hooks.slack.com/services/T0/B0/s3cret", "slack:https://hooks.slack.com/…"),
            ("https://discord.com/api/webhooks/1/s3cret", "discord:https://discord.com/…"),
            ("https://ntfy.sh/s3cret", "ntfy:https://ntfy.sh/…"),
            ("ntfy:http://me:s3cret@10.0.0.7:8080/alerts", "ntfy:http://10.0.0.7:8080/…"),
            ("https://example.org/hook?key=s3cret", "json:https://example.org/…"),
            ("json:https://ntfy.sh/s3cret", "json:https://ntfy.sh/…"),
            ("http://[::1]:9/s3cret", "json:http://[::1]:9/…"),
        ] {
            let webhook = Webhook::read(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!((webhook.to_string().as_str(), format!("{webhook:?}").as_str()), (shown, shown));
            assert_eq!(webhook.written(), text);
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
            "",
            "slack",
            "slack:",
            "slack:hooks.slack.com/x",
            "ftp://example.org/x",
            "teams:https://x.org/",
            "https://",
            "ntfy:https://ntfy.sh/",
            "https://a b/",
        ] {
            assert!(Webhook::read(text).is_none(), "{text}");
        }
    }

    #[test]
    fn ntfy_is_posted_to_at_its_root() {
        for (text, address, topic) in [
            ("https://ntfy.sh/night", "https://ntfy.sh/", "night"),
            ("ntfy:https://example.org/ntfy/night/?auth=x", "https://example.org/ntfy/?auth=x", "night"),
        ] {
            let webhook = Webhook::read(text).unwrap();
            assert_eq!((webhook.address().as_str(), webhook.topic()), (address, Some(topic)));
        }
    }
}
