//! Sets or unsets a key in the text of `config.toml`, and leaves every other byte as it was. What comes out is read
//! again before anybody gets it: it says what was asked for, and all else that it said before.

use std::ops::Range;
use std::path::Path;

use toml::Value;

use super::entries::{Entry, Fault, entries};
use super::given::Given;
use super::key::{Access, Key};
use super::read::read;
use super::{Config, keys};

/// Column of the comments beside keys.
const COMMENTS: usize = 33;

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotChanged {
    #[error("{0}")]
    NoKey(String),
    #[error("{key} cannot be {typed}")]
    BadValue { key: String, typed: String, want: String },
    /// The file was wrong before, or is with the change.
    #[error("the file is wrong: {}", .0.error)]
    BadFile(Fault),
    /// It is written in a way that cannot be changed by name.
    #[error("{0} stands in the file in a form that only an editor can change")]
    TooClever(String),
}

/// A key, and the table it stands in: `["jobs"]`, `["machine", "box", "gpus"]`.
struct Target {
    table: Vec<String>,
    key: &'static Key,
}

impl Target {
    fn find(name: &str) -> Result<Target, NotChanged> {
        let parts: Vec<&str> = name.split('.').collect();
        let (table, section, key) = match parts.as_slice() {
            ["machine", machine @ .., "gpus", key] if !machine.is_empty() => {
                (vec!["machine".into(), machine.join("."), "gpus".into()], "gpus", *key)
            }
            ["rule", ..] => return Err(NotChanged::NoKey("rules are changed with nexus config edit".into())),
            [section, key] if keys::sections().contains(section) => (vec![section.to_string()], *section, *key),
            [section, _] => return Err(NotChanged::NoKey(keys::no_section(section))),
            _ => return Err(NotChanged::NoKey(no_such(name))),
        };
        let known = keys::find(section, key).ok_or_else(|| NotChanged::NoKey(no_such(name)))?;
        Ok(Target { table, key: known })
    }

    fn path(&self) -> Vec<String> {
        [self.table.as_slice(), &[self.key.name.to_string()]].concat()
    }

    fn header(&self) -> String {
        let part = |part: &String| match part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_') {
            true => part.clone(),
            false => quoted(part),
        };
        format!("[{}]", self.table.iter().map(part).collect::<Vec<_>>().join("."))
    }
}

/// Whole names are compared too: `grace` alone means `jobs.grace`.
fn no_such(name: &str) -> String {
    let names: Vec<String> = keys::all().map(Key::full_name).collect();
    let same = keys::all().find(|key| name.rsplit('.').next() == Some(key.name)).map(Key::full_name);
    match same.as_deref().or_else(|| keys::nearest(name, names.iter().map(String::as_str))) {
        Some(near) => format!("there is no key {name}; did you mean {near}?"),
        None => format!("there is no key {name}"),
    }
}

/// Whether there is such a key.
pub fn known(name: &str) -> Result<(), NotChanged> {
    Target::find(name).map(drop)
}

/// The key of this name, which is that of no machine alone.
pub(super) fn plain_key(name: &str) -> Result<&'static Key, NotChanged> {
    match Target::find(name)? {
        Target { table, key } if table.len() == 1 => Ok(key),
        _ => Err(NotChanged::NoKey(no_such(name))),
    }
}

/// The text with `name` set to what was typed.
pub fn set(text: &str, name: &str, typed: &str, user_home: Option<&Path>) -> Result<String, NotChanged> {
    let target = Target::find(name)?;
    let value = meant(target.key, typed, user_home).map_err(|want| NotChanged::BadValue {
        key: name.into(),
        typed: match typed {
            "" => "empty".into(),
            _ if target.key.secret.is_some() => "what was typed".into(),
            typed => typed.into(),
        },
        want,
    })?;
    let before = entries(text).map_err(NotChanged::BadFile)?;
    let literal = literal(&value);
    let attempts = match before.iter().find(|entry| entry.path == target.path() && entry.value.is_some()) {
        Some(entry) => vec![replaced(text, &entry.place, &literal)],
        None => [over_comment(text, &target, &literal), Some(inserted(text, &target, &literal))]
            .into_iter()
            .flatten()
            .collect(),
    };
    checked(attempts, &before, &target, Some(&value), user_home)
}

/// The text in which `name` is at its default.
pub fn unset(text: &str, name: &str, user_home: Option<&Path>) -> Result<String, NotChanged> {
    let target = Target::find(name)?;
    let before = entries(text).map_err(NotChanged::BadFile)?;
    let Some(entry) = before.iter().find(|entry| entry.path == target.path() && entry.value.is_some()) else {
        return Ok(text.into());
    };
    let lines = whole_lines(text, entry.key.start..entry.place.end);
    let rest = text[entry.place.end..lines.end].to_string();
    let has_comment = comment_line(text, &target).is_some() || target.table.len() > 1;
    let line = match has_comment {
        true => String::new(),
        false => beside(&format!("# {} = {}", target.key.name, target.key.default), &rest),
    };
    checked(vec![replaced(text, &lines, &line)], &before, &target, None, user_home)
}

/// What was typed, as the key takes it: a value as it would stand in the file, a text, or a list with commas.
pub(super) fn meant(key: &Key, typed: &str, user_home: Option<&Path>) -> Result<Value, String> {
    let as_written = |text: &str| format!("x = {text}").parse::<toml::Table>().ok()?.remove("x");
    let listed = || {
        let one = |part: &str| match part.parse::<i64>() {
            Ok(number) => Value::Integer(number),
            Err(_) => Value::String(part.into()),
        };
        Value::Array(typed.split(',').map(str::trim).filter(|part| !part.is_empty()).map(one).collect())
    };
    let written = as_written(typed).filter(|_| !typed.contains('\n'));
    let candidates = written.into_iter().chain([Value::String(typed.into()), listed()]);
    let mut wanted = None;
    for value in candidates {
        let given = Given { value: &value, user_home };
        let taken = match key.access {
            Access::Whole(set, _) => set(&mut Config::default(), &given),
            Access::Gpus(set, _) => set(&mut Config::default().gpus, &given),
        };
        match taken {
            Ok(()) => return Ok(value),
            // What was typed is told as it was typed.
            Err(want) => drop(wanted.get_or_insert(want)),
        }
    }
    Err(wanted.unwrap_or_default())
}

/// The first of the texts that says what it should and nothing else.
fn checked(
    attempts: Vec<String>,
    before: &[Entry],
    target: &Target,
    value: Option<&Value>,
    user_home: Option<&Path>,
) -> Result<String, NotChanged> {
    let path = target.path();
    let said = |entries: &[Entry]| -> Vec<(Vec<String>, Value)> {
        let others = entries.iter().filter(|entry| entry.path != path);
        let mut said: Vec<_> = others.filter_map(|entry| Some((entry.path.clone(), entry.value.clone()?))).collect();
        said.sort_by(|one, other| one.0.cmp(&other.0));
        said
    };
    for text in attempts {
        let Ok(after) = entries(&text) else { continue };
        let found = after.iter().find(|entry| entry.path == path).and_then(|entry| entry.value.as_ref());
        if found == value && said(&after) == said(before) {
            return read(&text, user_home).map(|_| text).map_err(NotChanged::BadFile);
        }
    }
    Err(NotChanged::TooClever(path.join(".")))
}

fn replaced(text: &str, place: &Range<usize>, with: &str) -> String {
    format!("{}{with}{}", &text[..place.start], &text[place.end..])
}

/// Takes the `#` away from the line that shows the default.
fn over_comment(text: &str, target: &Target, literal: &str) -> Option<String> {
    let line = comment_line(text, target)?;
    let setting = text[line.clone()].trim_start().trim_start_matches('#').trim_start();
    let end = entries(setting).ok().and_then(|found| Some(found.first()?.place.end)).unwrap_or(setting.len());
    let new = beside(&format!("{} = {literal}", target.key.name), &setting[end..]);
    Some(replaced(text, &line, &new))
}

/// The line of this key that is a comment, its newline included.
fn comment_line(text: &str, target: &Target) -> Option<Range<usize>> {
    let section = section(text, target)?;
    let is_it = |line: &&Range<usize>| {
        let comment = text[(*line).clone()].trim_start().strip_prefix('#').map(str::trim_start);
        let rest = comment.and_then(|comment| comment.strip_prefix(target.key.name)).map(str::trim_start);
        rest.is_some_and(|rest| rest.starts_with('='))
    };
    lines_of(text, section).iter().find(is_it).cloned()
}

/// From below the header to the next one.
fn section(text: &str, target: &Target) -> Option<Range<usize>> {
    let header = target.header();
    let lines = lines_of(text, 0..text.len());
    let is_header = |line: &Range<usize>| text[line.clone()].trim_start().starts_with('[');
    let is_ours = |line: &Range<usize>| {
        text[line.clone()].trim_start().strip_prefix(&header).is_some_and(|rest| {
            let rest = rest.trim();
            rest.is_empty() || rest.starts_with('#')
        })
    };
    let first = lines.iter().position(is_ours)?;
    let end = lines[first + 1..].iter().find(|line| is_header(line)).map_or(text.len(), |line| line.start);
    Some(lines[first].end..end)
}

/// A new line at the end of its section, or of the file.
fn inserted(text: &str, target: &Target, literal: &str) -> String {
    let line = format!("{} = {literal}\n", target.key.name);
    let Some(section) = section(text, target) else {
        let gap = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        return format!("{text}{gap}\n{}\n{line}", target.header());
    };
    let kept = text[section.clone()].trim_end();
    let at = section.start + kept.len();
    let gap = if text[..at].ends_with('\n') { "" } else { "\n" };
    let after = text[at..].strip_prefix('\n').filter(|_| gap == "\n").unwrap_or(&text[at..]);
    format!("{}{gap}{line}{after}", &text[..at])
}

fn lines_of(text: &str, range: Range<usize>) -> Vec<Range<usize>> {
    let mut start = range.start;
    let line = |line: &str| {
        let place = start..start + line.len();
        start = place.end;
        place
    };
    text[range].split_inclusive('\n').map(line).collect()
}

fn whole_lines(text: &str, range: Range<usize>) -> Range<usize> {
    let start = text[..range.start].rfind('\n').map_or(0, |at| at + 1);
    let end = text[range.end..].find('\n').map_or(text.len(), |at| range.end + at + 1);
    start..end
}

/// A setting and what stood behind it, comments in their column.
fn beside(setting: &str, rest: &str) -> String {
    match rest.trim() {
        "" => format!("{setting}\n"),
        comment => format!("{setting:<COMMENTS$} {comment}\n"),
    }
}

/// A value as it is written, always in one line.
fn literal(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Array(list) => format!("[{}]", list.iter().map(literal).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            letter if letter.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(letter))),
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}
