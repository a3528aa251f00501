//! The scheduler's table: `priority,script,conda_env,arguments,allowed_gpus` in each line, or with the launcher before
//! the arguments: `python`, `torchrun`, `torchrun-8gpu`.
//!
//! A line in which a field begins with a quote is read by RFC 4180. In any other the first three commas part the first
//! fields, and the longest list of GPUs at the end is what follows the arguments: these may have commas too. Where the
//! border between them could lie elsewhere, that is said.

use std::borrow::Cow;
use std::collections::BTreeMap;

use nexus_core::request::MAX_GPUS;

use super::line::{Text, lines};
use super::{Entry, Format, Read, Said, checks};
use crate::command::Command;
use crate::edit::LineError;
use crate::shell_words;
use crate::values::{environment, gpu_list, gpu_list_text};

mod border;
mod quoted;

const FIELDS: &str = "priority,script,conda_env,arguments,allowed_gpus";

/// What parts the fields, and what they are.
struct Fields<'a> {
    priority: Cow<'a, str>,
    script: Cow<'a, str>,
    conda: Cow<'a, str>,
    launcher: Launcher,
    arguments: Cow<'a, str>,
    /// None: any.
    gpus: Vec<u16>,
    doubt: Option<String>,
}

#[derive(Clone, Copy, PartialEq)]
enum Launcher {
    Python,
    /// With so many processes.
    Torchrun(u16),
}

pub fn read(bytes: &[u8]) -> Read {
    let mut read = Read::of(Format::Csv);
    for line in lines(bytes) {
        let Some(said) = line.said() else { continue };
        match said.and_then(|text| Ok((entry(&text)?, text))) {
            Ok((None, _)) => {}
            Ok((Some((entry, doubt)), text)) => {
                read.entries.push(entry);
                read.doubtful.extend(doubt.map(|error| LineError { line: text.number, error }));
            }
            Err(error) => read.refused.push(LineError { line: line.number, error }),
        }
    }
    read.unfinished = !bytes.is_empty() && !bytes.ends_with(b"\n");
    read
}

/// Whether a line begins as one of this table does.
pub fn begins_like_one(text: &str) -> bool {
    let mut parts = text.splitn(4, ',').map(bare);
    let (Some(priority), Some(script)) = (parts.next(), parts.next()) else { return false };
    parts.nth(1).is_some() && !script.is_empty() && (priority.parse::<i64>().is_ok() || is_header(priority, script))
}

/// Whether a line among those of this table is one of them, whatever is wrong with it: a word before the first of its
/// commas, where a command would have blanks.
pub fn could_be_one(text: &str) -> bool {
    let first = text.split(',').next().map(str::trim).unwrap_or_default();
    text.matches(',').count() >= 3 && !first.contains(char::is_whitespace)
}

fn bare(field: &str) -> &str {
    field.trim().trim_matches('"')
}

fn is_header(priority: &str, script: &str) -> bool {
    let is = |field: &str, name: &str| field.eq_ignore_ascii_case(name);
    is(priority, "priority") && (is(script, "script") || is(script, "script_path"))
}

/// Nothing of a header.
fn entry(text: &Text) -> Result<Option<(Entry, Option<String>)>, String> {
    let mut first = text.text.splitn(3, ',').map(bare);
    if is_header(first.next().unwrap_or_default(), first.next().unwrap_or_default()) {
        return Ok(None);
    }
    let fields = match quoted::has_quotes(text.text) {
        true => quoted::fields(text.text)?,
        false => unquoted(text.text)?,
    };
    let priority: i32 = fields.priority.trim().parse().map_err(|_| {
        let said = checks::head(fields.priority.trim());
        format!("its priority, \"{said}\", is no whole number, as in -1, 0 or 2; a line is {FIELDS}")
    })?;
    if fields.script.trim().is_empty() {
        return Err(format!("it names no script; a line is {FIELDS}"));
    }
    let arguments = shell_words::split(&fields.arguments, "").map_err(|error| format!("its arguments: {error}"))?;
    // Said in any case: a line that lost its list is open to all GPUs again.
    let mut options =
        BTreeMap::from([("on".into(), gpu_list_text(&fields.gpus)), ("priority".into(), priority.to_string())]);
    if !fields.conda.is_empty() {
        let conda = environment(&fields.conda).map_err(|error| format!("conda_env: {error}"))?;
        options.insert("conda".into(), conda);
    }
    let torchrun = match fields.launcher {
        Launcher::Python => None,
        Launcher::Torchrun(count) => Some(count),
    };
    options.extend(torchrun.map(|count| ("gpus".into(), count.to_string())));
    let script = fields.script.to_string();
    let words = Command::Argv(std::iter::once(script).chain(arguments).collect());
    checks::command(&words)?;
    let Command::Argv(mut words) = words else { unreachable!("it was made one") };
    let script = words.remove(0);
    let command = Said::Script { script, torchrun, arguments: words };
    let entry = Entry {
        line: text.number,
        command,
        options,
        env: Default::default(),
        id: None,
        carried: None,
        written: text.written.clone(),
    };
    Ok(Some((entry, fields.doubt)))
}

fn unquoted(text: &str) -> Result<Fields<'_>, String> {
    let parts: Vec<&str> = text.splitn(4, ',').map(str::trim).collect();
    let &[priority, script, conda, rest] = parts.as_slice() else {
        return Err(too_few(parts.len()));
    };
    let (launcher, rest) = border::launcher(rest)?;
    let border = border::find(rest)?;
    let doubt = border.doubtful.then(|| {
        let gpus = gpus_text(&border.gpus);
        match border.arguments {
            "" => format!("read as no arguments and {gpus}; quote the list if that is wrong"),
            some => {
                format!("read as arguments \"{}\" and {gpus}; quote the arguments if that is wrong", checks::tail(some))
            }
        }
    });
    Ok(Fields {
        priority: priority.into(),
        script: script.into(),
        conda: conda.into(),
        launcher: launcher.kind,
        arguments: border.arguments.into(),
        gpus: border.gpus,
        doubt: launcher.doubt.or(doubt),
    })
}

fn too_few(count: usize) -> String {
    format!("it has {count} of the fields {FIELDS}, and the last alone may be missing")
}

fn gpus_text(gpus: &[u16]) -> String {
    match gpus {
        [] => "any GPU".into(),
        [one] => format!("GPU {one}"),
        more => format!("GPUs {}", gpu_list_text(more)),
    }
}

/// A word before the arguments that says what starts the script; none if it is none of these.
fn launcher(word: &str) -> Option<Result<Launcher, String>> {
    match word {
        "python" => return Some(Ok(Launcher::Python)),
        "torchrun" => return Some(Ok(Launcher::Torchrun(1))),
        _ => {}
    }
    let number = word.strip_prefix("torchrun-")?.strip_suffix("gpu")?;
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let count = number.parse().ok().filter(|count| (1..=MAX_GPUS).contains(count));
    Some(count.map(Launcher::Torchrun).ok_or_else(|| format!("{}: from 1 to {MAX_GPUS} GPUs", checks::head(word))))
}

/// A list, or nothing for any; or why it is none.
fn list(text: &str) -> Result<Vec<u16>, String> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(vec![]);
    }
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    gpu_list(&parts.join(",")).map_err(|_| {
        let wrong = parts.iter().find(|part| gpu_list(part).is_err()).copied().unwrap_or_default();
        no_list(wrong)
    })
}

fn no_list(part: &str) -> String {
    let numbers: Option<Vec<u64>> = part.split('-').map(|number| number.parse().ok()).collect();
    let why = match numbers.as_deref() {
        Some(numbers) if numbers.iter().any(|number| *number >= u64::from(MAX_GPUS)) => {
            format!("; GPUs have numbers from 0 to {}", MAX_GPUS - 1)
        }
        Some([first, last]) if first > last => format!("; from {last} to {first} is {last}-{first}"),
        _ => String::new(),
    };
    format!("\"{}\" is no list of GPUs, as in 0-3,5{why}", checks::head(part))
}
