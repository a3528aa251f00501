//! What stands between commas, and what stands in quotes.

use super::{BadValues, shown};

pub enum Item<'a> {
    Plain(&'a str),
    /// Text, whatever it looks like.
    Quoted(String),
}

pub fn split(text: &str) -> Result<Vec<Item<'_>>, BadValues> {
    if text.is_empty() {
        return Err(BadValues::new("it has no values", "as in 1,2,3 or 1..5; \"\" is one that is empty"));
    }
    if text.contains('\0') {
        return Err(BadValues::new("a value has a NUL byte", "values without it"));
    }
    let mut items = Vec::new();
    let mut left = Some(text);
    while let Some(rest) = left {
        let (item, after) = match rest.strip_prefix('"') {
            Some(inside) => quoted(inside)?,
            None => match rest.split_once(',') {
                Some((item, after)) => (Item::Plain(item), Some(after)),
                None => (Item::Plain(rest), None),
            },
        };
        if matches!(item, Item::Plain("")) {
            let hint = "\"\" for a value that is empty; no comma at an end, no blank behind a comma";
            return Err(BadValues::new(format!("value {} is empty", items.len() + 1), hint));
        }
        items.push(item);
        left = after;
    }
    Ok(items)
}

/// What follows a quote, up to the one that closes it.
fn quoted(inside: &str) -> Result<(Item<'_>, Option<&str>), BadValues> {
    let mut text = String::new();
    let mut rest = inside;
    loop {
        let Some((part, after)) = rest.split_once('"') else {
            let hint = "a quote at the end of the value; \"\" for a quote inside of it";
            return Err(BadValues::new(format!("a quote is not closed: \"{}", shown(inside)), hint));
        };
        text.push_str(part);
        match after.strip_prefix('"') {
            Some(more) => {
                text.push('"');
                rest = more;
            }
            None if after.is_empty() => return Ok((Item::Quoted(text), None)),
            None => match after.strip_prefix(',') {
                Some(next) => return Ok((Item::Quoted(text), Some(next))),
                None => {
                    let error = format!("{} follows a quote that closes", shown(after));
                    return Err(BadValues::new(error, "the whole value in quotes, and \"\" for a quote inside of it"));
                }
            },
        }
    }
}
