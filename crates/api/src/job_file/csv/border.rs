//! Where the arguments of an unquoted line end and its list of GPUs begins.

use super::{Launcher, launcher as known, no_list};
use crate::job_file::checks::head;
use crate::values::gpu_list;

pub struct Border<'a> {
    pub arguments: &'a str,
    /// None: any.
    pub gpus: Vec<u16>,
    /// It could lie elsewhere.
    pub doubtful: bool,
}

pub struct Found {
    pub kind: Launcher,
    pub doubt: Option<String>,
}

/// A launcher where one stands before the arguments, and what is left then.
pub fn launcher(rest: &str) -> Result<(Found, &str), String> {
    let (word, after) = rest.split_once(',').map_or((rest.trim(), None), |(word, after)| (word.trim(), Some(after)));
    let as_argument = |doubt: Option<String>| Ok((Found { kind: Launcher::Python, doubt }, rest));
    let Some(kind) = known(word) else {
        let doubt = format!("{} is read as an argument; python, torchrun and torchrun-8gpu start a script", head(word));
        return as_argument((after.is_some() && nearly_one(word)).then_some(doubt));
    };
    match after.map(str::trim) {
        // Five fields, and the fourth is the arguments.
        None => as_argument(Some(either(word, ""))),
        Some(list) if list.is_empty() || is_part(list) => as_argument(Some(either(word, list))),
        Some(_) => Ok((Found { kind: kind?, doubt: None }, after.unwrap_or_default())),
    }
}

fn either(word: &str, list: &str) -> String {
    format!("{word} is read as the argument of the script; write {word},,{list} if it is what starts it")
}

fn nearly_one(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    (word.starts_with("python") || word.starts_with("torchrun")) && !word.contains(char::is_whitespace)
}

/// The longest list of GPUs at the end, behind a comma: what stands before that comma is an argument and stays one.
pub fn find(rest: &str) -> Result<Border<'_>, String> {
    let Some((front, last)) = rest.rsplit_once(',') else {
        return Ok(any(rest, looks_like_one(rest.trim())));
    };
    if last.trim().is_empty() {
        let previous = front.rsplit_once(',').map(|(_, previous)| previous.trim());
        let doubtful = previous.is_some_and(|previous| previous.is_empty() || looks_like_one(previous));
        return Ok(any(front, doubtful));
    }
    let (mut end, mut parts) = (rest.len(), Vec::new());
    while let Some(comma) = rest[..end].rfind(',') {
        let part = rest[comma + 1..end].trim();
        if !is_part(part) {
            break;
        }
        parts.push(part);
        end = comma;
    }
    if parts.is_empty() {
        return match looks_like_one(last.trim()) {
            true => Err(no_list(last.trim())),
            false => Ok(any(rest, true)),
        };
    }
    let arguments = rest[..end].trim();
    let previous = arguments.rsplit(',').next().unwrap_or_default().trim();
    let odd = looks_like_one(previous) || arguments.ends_with(',');
    let doubtful = !arguments.is_empty() && (parts.len() > 1 || odd);
    let gpus = gpu_list(&parts.join(",")).map_err(|_| no_list(last))?;
    Ok(Border { arguments, gpus, doubtful })
}

fn any(arguments: &str, doubtful: bool) -> Border<'_> {
    Border { arguments: arguments.trim(), gpus: vec![], doubtful }
}

/// `3`, `0-3`
fn is_part(text: &str) -> bool {
    !text.is_empty() && !text.contains(',') && gpu_list(text).is_ok()
}

/// Digits and dashes: nobody means anything else.
fn looks_like_one(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_digit())
        && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
}
