//! The JSON that a webhook of one's own gets: a text of JSON in whose strings `{job.id}` and the like are filled in.
//!
//! It is taken apart as JSON before anything is filled in, so that no command can break out of its quotes. A string that
//! is one name and nothing else becomes what that is: a number stays one, and what is unknown is null.

use nexus_api::notify::{About, Digest, EndedSweep, FORMAT, Notice};
use nexus_api::standstill::Standstill;
use serde_json::{Map, Value};

use super::sample;

#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    /// As it stands in the configuration.
    text: String,
    value: Value,
}

impl Template {
    /// The error says what is wrong with it.
    pub fn read(text: &str) -> Result<Template, String> {
        let value: Value = serde_json::from_str(text).map_err(|error| format!("JSON ({error})"))?;
        let known = serde_json::to_value(known()).expect("a notice is plain data");
        let mut unknown = None;
        each_text(&value, &mut |text| {
            let wrong = names(text).find(|name| found(&known, name).is_none());
            if unknown.is_none() {
                unknown = wrong.map(String::from);
            }
        });
        match unknown {
            Some(name) => Err(format!("JSON with fields of a notice, and {{{name}}} is none: {{text}}, {{job.id}}, …")),
            None => Ok(Template { text: text.into(), value }),
        }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn filled(&self, notice: &Notice) -> Value {
        filled(&self.value, &serde_json::to_value(notice).expect("a notice is plain data"))
    }
}

/// A notice in which every field is known, whatever it is about.
fn known() -> Notice {
    Notice {
        format: FORMAT,
        event: About::Test,
        text: String::new(),
        host: String::new(),
        at: String::new(),
        job: Some(sample::job()),
        last_line: None,
        sweep: Some(EndedSweep {
            name: String::new(),
            command: String::new(),
            jobs: 0,
            completed: 0,
            failed: 0,
            killed: 0,
        }),
        digest: Some(Digest::default()),
        standstill: Some(Standstill::new(String::new(), 0, None, vec![])),
    }
}

fn each_text(value: &Value, look: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => look(text),
        Value::Array(list) => list.iter().for_each(|one| each_text(one, look)),
        Value::Object(fields) => fields.values().for_each(|one| each_text(one, look)),
        _ => {}
    }
}

fn filled(value: &Value, notice: &Value) -> Value {
    match value {
        Value::String(text) => filled_text(text, notice),
        Value::Array(list) => list.iter().map(|one| filled(one, notice)).collect(),
        Value::Object(fields) => {
            let field = |(name, one): (&String, &Value)| (name.clone(), filled(one, notice));
            Value::Object(fields.iter().map(field).collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}

fn filled_text(text: &str, notice: &Value) -> Value {
    let mut names = places(text);
    if let (Some((0, name)), None) = (names.next(), names.next())
        && text.len() == name.len() + 2
    {
        return found(notice, name).unwrap_or(&Value::Null).clone();
    }
    let (mut new, mut from) = (String::new(), 0);
    for (start, name) in places(text) {
        new.push_str(&text[from..start]);
        new.push_str(&found(notice, name).map(in_words).unwrap_or_default());
        from = start + name.len() + 2;
    }
    new.push_str(&text[from..]);
    Value::String(new)
}

/// What stands in the middle of a text.
fn in_words(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().map(in_words).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

/// A field by its path. Of a part that is not there at all it is nothing.
fn found<'a>(notice: &'a Value, name: &str) -> Option<&'a Value> {
    name.split('.').try_fold(notice, |inside, part| inside.get(part))
}

fn names(text: &str) -> impl Iterator<Item = &str> {
    places(text).map(|(_, name)| name)
}

/// Where names stand in braces. Braces around anything else are the text's own.
fn places(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.match_indices('{').filter_map(|(start, _)| {
        let inside = &text[start + 1..];
        let name = &inside[..inside.find('}')?];
        let is_letter = |letter: char| letter.is_ascii_lowercase() || matches!(letter, '_' | '.');
        (name.starts_with(|first: char| first.is_ascii_lowercase()) && name.chars().all(is_letter))
            .then_some((start, name))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn filled_with(template: &str, notice: &Notice) -> Value {
        Template::read(template).unwrap_or_else(|why| panic!("{template}: {why}")).filled(notice)
    }

    #[test]
    fn names_are_filled_in_and_nothing_breaks_out() {
        let mut notice = sample::failure();
        notice.job.as_mut().unwrap().command = "echo \"}, {job.id} \\ \n {\"".into();
        for (template, filled) in [
            (r#"{"id": "{job.id}"}"#, json!({"id": "abc"})),
            (r#"{"exit": "{job.exit_code}", "words": "exit {job.exit_code}"}"#, json!({"exit": 1, "words": "exit 1"})),
            (r#"["{job.command}"]"#, json!(["echo \"}, {job.id} \\ \n {\""])),
            (r#"["{job.tags}", "{job.tags}!", "{job.name}", "x{job.name}"]"#, json!([["a", "b"], "a,b!", null, "x"])),
            (r#"["{sweep.name}", "<{sweep.name}>"]"#, json!([null, "<>"])),
            (
                r#"{"{event}": 1, "n": 2.5, "b": "{} {X} {event} {"}"#,
                json!({"{event}": 1, "n": 2.5, "b": "{} {X} failure {"}),
            ),
        ] {
            assert_eq!(filled_with(template, &notice), filled, "{template}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_when_it_is_read() {
        for (template, why) in
            [("{", "JSON"), (r#"{"a": "{job.di}"}"#, "{job.di} is none"), (r#"["{sweep.naem}"]"#, "{sweep.naem}")]
        {
            let told = Template::read(template).unwrap_err();
            assert!(told.contains(why), "{told}");
        }
        for name in ["digest.failed", "digest.failures", "sweep.completed", "job.stdout_path", "last_line", "host"] {
            Template::read(&format!("[\"{{{name}}}\"]")).unwrap_or_else(|why| panic!("{why}"));
        }
    }
}
