//! What each form of webhook is sent: the body of a POST, as JSON.

use nexus_api::notify::{About, Notice};
use serde_json::{Value, json};

use super::template::Template;
use super::webhook::{Form, Webhook};

/// Letters that Discord takes, less a few.
const DISCORD_LETTERS: usize = 1900;

/// Slack cuts a message that is longer into several.
const SLACK_LETTERS: usize = 3900;

/// Bytes that ntfy takes; more become an attachment.
const NTFY_BYTES: usize = 4000;

pub fn body(webhook: &Webhook, notice: &Notice, template: Option<&Template>) -> Value {
    let text = notice.text.as_str();
    match webhook.form {
        Form::Json => match template {
            Some(template) => template.filled(notice),
            None => serde_json::to_value(notice).expect("a notice is plain data"),
        },
        Form::Slack => json!({"text": for_slack(&shortened(text, SLACK_LETTERS))}),
        // A command may have @everyone in it, and means nobody.
        Form::Discord => json!({"content": shortened(text, DISCORD_LETTERS), "allowed_mentions": {"parse": []}}),
        Form::Ntfy => json!({
            "topic": webhook.topic().unwrap_or_default(),
            "title": format!("nexus on {}", notice.host),
            "message": in_bytes(text, NTFY_BYTES),
            "priority": if is_bad(notice) { 4 } else { 3 },
            "tags": [if is_bad(notice) { "warning" } else { "white_check_mark" }],
        }),
    }
}

fn is_bad(notice: &Notice) -> bool {
    let failed = notice.digest.as_ref().is_some_and(|digest| digest.failed > 0);
    let in_sweep = notice.sweep.as_ref().is_some_and(|sweep| sweep.failed > 0);
    let is_blocked = notice.digest.as_ref().is_some_and(|digest| digest.standstill.is_some());
    matches!(notice.event, About::Failure | About::Blocked) || failed || in_sweep || is_blocked
}

/// The three that mean something there: `<!channel>` would call everybody.
fn for_slack(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// At most so many letters, and a sign where there were more.
pub fn shortened(text: &str, letters: usize) -> String {
    match text.char_indices().nth(letters) {
        None => text.into(),
        Some(_) => text.chars().take(letters.saturating_sub(1)).chain(['…']).collect(),
    }
}

fn in_bytes(text: &str, most: usize) -> String {
    match head(text, most) {
        whole if whole.len() == text.len() => text.into(),
        cut => format!("{cut}…"),
    }
}

/// At most so many bytes, cut where a letter ends.
pub fn head(text: &str, most: usize) -> &str {
    let fits = |end: &usize| *end <= most && text.is_char_boundary(*end);
    (0..=text.len().min(most)).rev().find(fits).map_or("", |end| &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notify::sample;

    fn sent(webhook: &str, text: &str) -> Value {
        let notice = Notice { text: text.into(), ..sample::failure() };
        body(&Webhook::read(webhook).unwrap(), &notice, None)
    }

    #[test]
    fn each_form_is_what_its_server_takes() {
        let text = "[box] job abc failed\necho \"<!channel>\" & @everyone";
        assert_eq!(
            sent("slack:https://x.org/", text),
            json!({"text": "[box] job abc failed\necho \"&lt;!channel&gt;\" &amp; @everyone"})
        );
        assert_eq!(sent("discord:https://x.org/", text), json!({"content": text, "allowed_mentions": {"parse": []}}));
        assert_eq!(
            sent("ntfy:https://x.org/night", text),
            json!({"topic": "night", "title": "nexus on box", "message": text, "priority": 4, "tags": ["warning"]})
        );
        let whole = sent("https://x.org/", text);
        assert_eq!((&whole["format"], &whole["event"], &whole["text"]), (&json!(1), &json!("failure"), &json!(text)));
        assert_eq!((&whole["job"]["id"], &whole["job"]["exit_code"]), (&json!("abc"), &json!(1)));
        assert_eq!((&whole["sweep"], &whole["digest"]), (&Value::Null, &Value::Null));
    }

    #[test]
    fn a_template_is_for_json_alone() {
        let template = Template::read(r#"{"say": "{text}"}"#).unwrap();
        let notice = Notice { text: "a\"b".into(), ..sample::failure() };
        let with = |webhook: &str| body(&Webhook::read(webhook).unwrap(), &notice, Some(&template));
        assert_eq!(with("https://x.org/"), json!({"say": "a\"b"}));
        assert_eq!(with("slack:https://x.org/"), json!({"text": "a\"b"}));
    }

    #[test]
    fn long_texts_are_cut_where_a_letter_ends() {
        let long = "é".repeat(5000);
        assert_eq!(sent("discord:https://x.org/", &long)["content"].as_str().unwrap().chars().count(), 1900);
        assert_eq!(sent("slack:https://x.org/", &long)["text"].as_str().unwrap().chars().count(), 3900);
        assert!(sent("ntfy:https://x.org/t", &long)["message"].as_str().unwrap().len() <= NTFY_BYTES + 3);
        assert_eq!(shortened("ab", 2), "ab");
        assert_eq!(shortened("abc", 2), "a…");
    }
}
