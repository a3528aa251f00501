//! The words and signs of a condition.

use super::Wrong;
use crate::sweeps::decimal::fraction;

#[derive(Clone, Debug, PartialEq)]
pub enum Token {
    Number(f64),
    Text(String),
    Word(String),
    Sign(&'static str),
}

impl Token {
    pub fn shown(&self) -> String {
        match self {
            Token::Number(number) => number.to_string(),
            Token::Text(text) => format!("{text:?}"),
            Token::Word(word) => word.clone(),
            Token::Sign(sign) => sign.to_string(),
        }
    }
}

/// Longer ones first.
const SIGNS: &[&str] = &["**", "<=", ">=", "==", "!=", "&&", "||", "<", ">", "+", "-", "*", "/", "%", "!", "(", ")"];

/// Each with its character, from 1.
pub fn read(text: &str) -> Result<Vec<(usize, Token)>, Wrong> {
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        let at = text[..text.len() - rest.len()].chars().count() + 1;
        let Some(first) = rest.chars().next() else { return Ok(tokens) };
        let (token, length) = match first {
            '"' | '\'' => quoted(rest, first, at)?,
            'a'..='z' | 'A'..='Z' | '_' => {
                let length = length_of(rest, |letter| letter.is_ascii_alphanumeric() || letter == '_');
                (Token::Word(rest[..length].to_string()), length)
            }
            '0'..='9' | '.' => number(rest, at)?,
            _ => match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
                Some(sign) => (Token::Sign(sign), sign.len()),
                None if first == '=' => return Err(Wrong::new(at, "= is no comparison: == is")),
                None => return Err(Wrong::new(at, format!("{first} has no meaning here"))),
            },
        };
        tokens.push((at, token));
        rest = &rest[length..];
    }
}

fn length_of(text: &str, belongs: impl Fn(char) -> bool) -> usize {
    text.find(|letter: char| !belongs(letter)).unwrap_or(text.len())
}

fn quoted(rest: &str, quote: char, at: usize) -> Result<(Token, usize), Wrong> {
    let inside = &rest[1..];
    match inside.find(quote) {
        Some(end) => Ok((Token::Text(inside[..end].to_string()), end + 2)),
        None => Err(Wrong::new(at, "this quote is not closed")),
    }
}

fn number(rest: &str, at: usize) -> Result<(Token, usize), Wrong> {
    let mut length = length_of(rest, |letter| letter.is_ascii_alphanumeric() || letter == '.' || letter == '_');
    // The sign of an exponent.
    if rest[..length].ends_with(['e', 'E']) && rest[length..].starts_with(['-', '+']) {
        length += 1 + length_of(&rest[length + 1..], |letter| letter.is_ascii_digit());
    }
    match fraction(&rest[..length]) {
        Some(number) => Ok((Token::Number(number), length)),
        None => Err(Wrong::new(at, format!("{} is no number", &rest[..length]))),
    }
}
