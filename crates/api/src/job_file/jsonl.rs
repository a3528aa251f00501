//! A JSON object in each line: `command` or `argv`, `env`, and the options of `jobs.txt` by their names; or a job as
//! `nexus export` and `nexus show --json` print it, known by its `state`.

use std::collections::{BTreeMap, BTreeSet};

use nexus_core::ids::JobId;
use serde::Deserialize;
use serde_json::Value;

use super::line::{Text, lines};
use super::{Entry, Format, Past, Read, Said, checks};
use crate::command::Command;
use crate::edit::LineError;
use crate::env::{self, Env};
use crate::nearest::nearest;
use crate::queue_text::{ARGV, SET, is_flag, names};

mod exported;
mod object;

use object::Object;

/// The newest format of exports that is read.
const FORMAT: u64 = 1;

/// Keys beside the options.
const OTHER_KEYS: [&str; 5] = ["command", "argv", "env", "id", "format"];

/// Options that have more than one value.
const LISTS: [&str; 5] = ["tags", "on", "after", "after-any", "retry-on"];

/// What a line says.
enum Meant {
    Job(Entry),
    Past(Past),
}

pub fn read(bytes: &[u8]) -> Read {
    let mut read = Read::of(Format::Jsonl);
    let mut ignored = BTreeSet::new();
    for line in lines(bytes) {
        let Some(said) = line.said() else { continue };
        match said.and_then(|text| meant(&text, &mut ignored)) {
            Ok((Meant::Job(entry), doubt)) => {
                read.entries.push(entry);
                read.doubtful.extend(doubt.map(|error| LineError { line: line.number, error }));
            }
            Ok((Meant::Past(past), _)) => read.past.push(past),
            Err(error) => read.refused.push(LineError { line: line.number, error }),
        }
    }
    read.unfinished = !bytes.is_empty() && !bytes.ends_with(b"\n");
    read
}

/// An object, or the begin of a list of them, which is refused with a word on it.
pub fn begins_like_one(text: &str) -> bool {
    text.starts_with('{') || begins_a_list(text)
}

fn begins_a_list(text: &str) -> bool {
    text.strip_prefix('[').map(str::trim_start).is_some_and(|rest| rest.is_empty() || rest.starts_with('{'))
}

/// `ignored`: keys that were told already.
fn meant(text: &Text, ignored: &mut BTreeSet<String>) -> Result<(Meant, Option<String>), String> {
    if begins_a_list(text.text) {
        return Err("a list begins here, and each object has a line of its own: jq -c '.[]' makes it so".into());
    }
    if let Some(entry) = plain(text) {
        return entry.map(|entry| (Meant::Job(entry), None));
    }
    let object = object::read(text.text)?;
    match object.get("format") {
        None | Some(Value::Null) => {}
        Some(format) => match format.as_u64().ok_or_else(|| format!("format: {format} is no number of a format"))? {
            ..=FORMAT => {}
            newer => return Err(format!("it has format {newer}, and this nexus reads {FORMAT}: a newer one wrote it")),
        },
    }
    match object.get("state") {
        None => by_hand(&object, text).map(|entry| (Meant::Job(entry), None)),
        Some(state) => exported::meant(&object, state, text, ignored),
    }
}

/// A line that says its command and nothing else, as most do of those that come in thousands: no need to look for what
/// else it could say. One that cannot be read so is looked at as a whole, and told what is wrong with it.
fn plain(text: &Text) -> Option<Result<Entry, String>> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Plain {
        argv: Option<Vec<String>>,
        command: Option<String>,
    }
    let command = match serde_json::from_str(text.text).ok().filter(|_| text.text.starts_with('{'))? {
        Plain { argv: Some(words), command: None } => Command::Argv(words),
        Plain { argv: None, command: Some(text) } => Command::Shell(text),
        _ => return None,
    };
    let (options, env, written) = (BTreeMap::new(), Env::new(), text.written.clone());
    let checked = checks::command(&command);
    let entry =
        Entry { line: text.number, command: Said::Command(command), options, env, id: None, carried: None, written };
    Some(checked.map(|()| entry))
}

fn by_hand(object: &Object, text: &Text) -> Result<Entry, String> {
    let mut options = BTreeMap::new();
    for (key, value) in object.iter().filter(|(key, _)| !OTHER_KEYS.contains(&key.as_str())) {
        let name = option(key).ok_or_else(|| unknown(key))?;
        options.extend(value_text(name, value)?.map(|value| (name.to_string(), value)));
    }
    let env = variables(object.get("env"))?;
    for (name, value) in &env {
        env::variable(&format!("{name}={value}")).map_err(|error| format!("env: {error}"))?;
    }
    entry(object, text, options, env)
}

/// What both kinds of lines have.
fn entry(object: &Object, text: &Text, options: BTreeMap<String, String>, env: Env) -> Result<Entry, String> {
    let command = command(object)?;
    checks::command(&command)?;
    checks::options(&options)?;
    let (id, written) = (id(object)?, text.written.clone());
    Ok(Entry { line: text.number, command: Said::Command(command), options, env, id, carried: None, written })
}

/// The option that a key means. Whether a command is an argv is seen from the command.
fn option(key: &str) -> Option<&'static str> {
    let name = key.replace('_', "-");
    names().find(|known| *known == name && *known != ARGV)
}

fn unknown(key: &str) -> String {
    let known = || names().chain(OTHER_KEYS);
    let shown = checks::head(key);
    match nearest(&key.replace('_', "-"), known()) {
        Some(near) => format!("there is no key {shown}; did you mean {near}?"),
        None => {
            let known: BTreeSet<&str> = known().collect();
            format!("there is no key {shown}; there are {}", known.into_iter().collect::<Vec<_>>().join(", "))
        }
    }
}

fn command(object: &Object) -> Result<Command, String> {
    let missing = "it has no command, as in {\"command\": \"python train.py\"}";
    match (object.get(ARGV), object.get("command")) {
        (Some(Value::Array(words)), _) => argv(ARGV, words),
        (None | Some(Value::Null), Some(Value::Array(words))) => argv("command", words),
        (None | Some(Value::Null), Some(Value::String(text))) => Ok(Command::Shell(text.clone())),
        (None | Some(Value::Null), None | Some(Value::Null)) => Err(missing.into()),
        (None | Some(Value::Null), Some(_)) => Err("command: a text for the shell, or a list of words".into()),
        (Some(_), _) => Err("argv: a list of words, as in [\"python\", \"train.py\"]".into()),
    }
}

fn argv(key: &str, words: &[Value]) -> Result<Command, String> {
    let word = |word: &Value| match word {
        Value::String(word) => Ok(word.clone()),
        other => Err(format!("{key}: {} is no text; write it in quotes", checks::head(&other.to_string()))),
    };
    words.iter().map(word).collect::<Result<_, _>>().map(Command::Argv)
}

fn id(object: &Object) -> Result<Option<String>, String> {
    let wrong = |id: &str| format!("id: {} is no id of a job; name is for names of your own", checks::head(id));
    match object.get("id") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(id)) => id.parse::<JobId>().map(|id| Some(id.to_string())).map_err(|_| wrong(id)),
        Some(other) => Err(wrong(&other.to_string())),
    }
}

/// As `jobs.txt` has it; none where nothing is said.
fn value_text(name: &str, value: &Value) -> Result<Option<String>, String> {
    match value {
        Value::Null | Value::Bool(false) => Ok(None),
        Value::Bool(true) if is_flag(name) => Ok(Some(SET.into())),
        Value::Bool(true) => Err(format!("{name}: true says nothing of it")),
        Value::Number(number) => Ok(Some(number.to_string())),
        Value::String(text) => Ok(Some(text.clone())),
        Value::Array(items) if LISTS.contains(&name) => {
            let items: Result<Vec<String>, String> = items.iter().map(|item| list_item(name, item)).collect();
            Ok(Some(items?.join(",")))
        }
        Value::Array(_) if name == "gpus" => Err("gpus: how many, not a list; on says which".into()),
        Value::Array(_) => Err(format!("{name}: one value, not a list")),
        Value::Object(_) => Err(format!("{name}: a text or a number, not an object")),
    }
}

fn list_item(name: &str, item: &Value) -> Result<String, String> {
    match item {
        Value::String(text) if !text.is_empty() && !text.contains(',') => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        other => Err(format!("{name}: {} cannot stand in a list", checks::head(&other.to_string()))),
    }
}

fn variables(env: Option<&Value>) -> Result<Env, String> {
    let text = |(name, value): (&String, &Value)| match value {
        _ if name.is_empty() || name.contains(['=', '\0']) => {
            Err(format!("env: {:?} cannot be the name of a variable", checks::head(name)))
        }
        Value::String(value) if value.contains('\0') => Err(format!("env: {} has a NUL byte", checks::head(name))),
        Value::String(value) => Ok((name.clone(), value.clone())),
        _ => Err(format!("env: the value of {} is no text; write it in quotes", checks::head(name))),
    };
    match env {
        None | Some(Value::Null) => Ok(Env::new()),
        Some(Value::Object(variables)) => variables.iter().map(text).collect(),
        Some(_) => Err("env: an object, as in {\"SEED\": \"1\"}".into()),
    }
}
