//! Variables: values that commands name as `{TOKEN}`. A value crosses the socket when it is set, and never comes back.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Body of `PUT /v1/variables/NAME`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SetVariable {
    pub value: String,
}

/// Whoever prints it prints no secret.
impl std::fmt::Debug for SetVariable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SetVariable { .. }")
    }
}

/// A variable of a run and its value, which is shown nowhere.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hidden {
    pub name: String,
    pub value: String,
}

/// Whoever prints it prints no secret.
impl std::fmt::Debug for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Hidden {{ {} }}", self.name)
    }
}

/// Shorter values stand in ordinary words by chance, and are no secrets.
const SHORTEST_HIDDEN: usize = 4;

/// Larger ones fit into no argument.
pub const LONGEST_VALUE: usize = 64 << 10;

/// Names that nexus itself puts in.
const OWN_NAMES: &[&str] = &["MACHINE"];

/// The text with `{NAME}` wherever a value stands. Of values that overlap the longest goes first. A value of several
/// lines is hidden line by line too, since texts are shown so.
pub fn masked(text: &str, hidden: &[Hidden]) -> String {
    let mut parts: Vec<(&str, &str)> = Vec::new();
    for Hidden { name, value } in hidden {
        parts.push((value, name));
        parts.extend(value.lines().map(|line| (line.trim(), name.as_str())));
    }
    parts.retain(|(value, _)| value.len() >= SHORTEST_HIDDEN);
    parts.sort_by_key(|(value, _)| std::cmp::Reverse(value.len()));
    parts.iter().fold(text.to_string(), |text, (value, name)| match text.contains(value) {
        true => text.replace(value, &format!("{{{name}}}")),
        false => text,
    })
}

/// Whether this can be a variable; why not.
pub fn check_name(name: &str) -> Result<(), String> {
    if !crate::template::is_name(name) {
        return Err("a name of letters, digits and _ that does not begin with a digit".into());
    }
    match OWN_NAMES.contains(&name) {
        true => Err("another name: nexus puts this one in itself".into()),
        false => Ok(()),
    }
}

/// Whether a program can be given this value; why not.
pub fn check_value(value: &str) -> Result<(), String> {
    if value.is_empty() {
        return Err("it is empty".into());
    }
    if value.contains('\0') {
        return Err("it has a NUL byte, which no program can be given".into());
    }
    match value.len() > LONGEST_VALUE {
        true => Err(format!("it is longer than {} KiB", LONGEST_VALUE >> 10)),
        false => Ok(()),
    }
}

/// A variable in `GET /v1/variables`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Variable {
    pub name: String,
    /// False once it was taken back: its value stays until the last job that needs it has ended.
    pub is_set: bool,
    pub set_at: String,
    /// Jobs that need it and have not ended.
    pub jobs: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_hidden_behind_their_names() {
        let hidden = [("SHORT", "abc"), ("TOKEN", "hf-123"), ("LONG", "hf-123456"), ("TWO", "first line\nsecond")];
        let hidden = hidden.map(|(name, value)| Hidden { name: name.into(), value: value.into() });
        for (text, expected) in [
            ("bash: hf-123: command not found", "bash: {TOKEN}: command not found"),
            ("hf-123456 hf-1234", "{LONG} {TOKEN}4"),
            ("abc", "abc"),
            ("only the first line of it", "only the {TWO} of it"),
        ] {
            assert_eq!(masked(text, &hidden), expected);
        }
        assert!(!format!("{hidden:?}").contains("123"));
    }

    #[test]
    fn names_and_values_are_looked_at() {
        assert!(check_name("HF_TOKEN").is_ok() && check_name("1A").is_err() && check_name("MACHINE").is_err());
        assert!(check_value("a\nb").is_ok());
        for bad in ["", "a\0b", &"x".repeat(LONGEST_VALUE + 1)] {
            assert!(check_value(bad).is_err());
        }
    }
}
