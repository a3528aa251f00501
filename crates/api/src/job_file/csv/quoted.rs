//! Lines with quotes, by RFC 4180; a field does not go on in the next line.

use std::borrow::Cow;

use super::{FIELDS, Fields, Launcher, launcher as known, list, too_few};

struct Field {
    text: String,
    quoted: bool,
}

/// Whether a field begins with a quote.
pub fn has_quotes(text: &str) -> bool {
    text.split(',').any(|field| field.trim_start().starts_with('"'))
}

pub fn fields(text: &str) -> Result<Fields<'static>, String> {
    let mut all = parted(text)?;
    if all.len() < 4 {
        return Err(too_few(all.len()));
    }
    let mut rest = all.split_off(3);
    let (launcher, doubt) = launcher(&mut rest)?;
    let gpus = gpus(&rest)?;
    let mut texts = all.into_iter().chain(rest).map(|field| Cow::Owned(field.text));
    let mut next = || texts.next().unwrap_or_default();
    Ok(Fields { priority: next(), script: next(), conda: next(), launcher, arguments: next(), gpus, doubt })
}

/// Takes the launcher away, where the fourth field is one.
fn launcher(rest: &mut Vec<Field>) -> Result<(Launcher, Option<String>), String> {
    let Some(kind) = known(&rest[0].text) else { return Ok((Launcher::Python, None)) };
    // With five fields the fourth is the arguments, unless no list follows.
    if rest.len() == 1 || rest.len() == 2 && list(&rest[1].text).is_ok() {
        let doubt = format!("{} is read as the argument of the script, not as what starts it", rest[0].text);
        return Ok((Launcher::Python, (!rest[0].quoted).then_some(doubt)));
    }
    rest.remove(0);
    Ok((kind?, None))
}

/// The list behind the arguments. Behind quoted arguments it needs no quotes: nothing else can be meant.
fn gpus(rest: &[Field]) -> Result<Vec<u16>, String> {
    match rest {
        [] | [_] => Ok(vec![]),
        [_, one] => list(&one.text),
        [arguments, parts @ ..] => {
            let joined: Vec<&str> = parts.iter().map(|part| part.text.as_str()).collect();
            match list(&joined.join(",")) {
                Ok(gpus) if arguments.quoted && parts.iter().all(|part| !part.quoted) => Ok(gpus),
                _ => Err(format!(
                    "it has too many fields; a line is {FIELDS}, and where one of them has quotes, so must all have \
                     that have commas"
                )),
            }
        }
    }
}

fn parted(text: &str) -> Result<Vec<Field>, String> {
    let mut fields = Vec::new();
    let mut left = Some(text);
    while let Some(rest) = left {
        let (field, after) = match rest.trim_start().strip_prefix('"') {
            Some(inside) => closed(inside)?,
            None => plain(rest)?,
        };
        fields.push(field);
        left = after;
    }
    Ok(fields)
}

fn plain(rest: &str) -> Result<(Field, Option<&str>), String> {
    let (text, after) = rest.split_once(',').map_or((rest, None), |(text, after)| (text, Some(after)));
    if text.contains('"') {
        return Err("a quote stands inside a field without quotes: put the whole field in quotes, and write \"\" for \
                    one inside"
            .into());
    }
    Ok((Field { text: text.trim().to_string(), quoted: false }, after))
}

/// What follows the first quote of a field, up to the quote that closes it.
fn closed(inside: &str) -> Result<(Field, Option<&str>), String> {
    let mut text = String::new();
    let mut rest = inside;
    loop {
        let (part, after) = rest.split_once('"').ok_or("a quote is not closed in this line")?;
        text.push_str(part);
        match after.strip_prefix('"') {
            Some(more) => {
                text.push('"');
                rest = more;
            }
            None => {
                rest = after.trim_start();
                break;
            }
        }
    }
    let field = Field { text, quoted: true };
    match rest.strip_prefix(',') {
        Some(after) => Ok((field, Some(after))),
        None if rest.is_empty() => Ok((field, None)),
        None => {
            Err("text follows a quote that closes: put the whole field in quotes, and write \"\" for one inside".into())
        }
    }
}
