//! Selectors: how a user names jobs.

use std::str::FromStr;

use nexus_core::ids::JobId;

/// Words that mean something where an id may stand, or a verb; no job is ever called so. In order.
pub const RESERVED: &[&str] = &[
    "add", "all", "any", "argv", "attach", "cancel", "config", "cpu", "demo", "doctor", "edit", "ended", "export",
    "first", "forget", "gpu", "gpus", "history", "hold", "import", "job", "jobs", "kill", "last", "local", "logs",
    "machine", "mcp", "name", "new", "none", "notify", "now", "pause", "project", "queue", "remove", "report", "rerun",
    "restart", "resume", "run", "screens", "service", "show", "start", "stat", "status", "stop", "sweep", "tag", "top",
    "var", "wait", "web", "why", "yes",
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    Id(JobId),
    /// The newest `n` jobs.
    Last(u64),
    /// What runs on a GPU; of `local` unless a machine is named.
    Gpu {
        machine: Option<String>,
        index: u16,
    },
    Tag(String),
    Sweep(String),
    Name(String),
    Project(String),
    /// Over the command.
    Regex(String),
}

/// Text that is no selector, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadSelector(pub String);

impl std::fmt::Display for BadSelector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadSelector {}

impl FromStr for Selector {
    type Err = BadSelector;

    fn from_str(text: &str) -> Result<Selector, BadSelector> {
        if let Some(inside) = text.strip_prefix('/') {
            return match inside.strip_suffix('/') {
                Some(regex) if !regex.is_empty() => Ok(Selector::Regex(regex.into())),
                _ => Err(BadSelector("a regular expression stands between two slashes: /train.*/".into())),
            };
        }
        if text == "last" {
            return Ok(Selector::Last(1));
        }
        if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
            return Ok(Selector::Gpu { machine: None, index: gpu_index(text)? });
        }
        if let Some((kind, rest)) = text.split_once(':') {
            if rest.is_empty() {
                return Err(BadSelector(format!("nothing stands after {kind}:")));
            }
            let rest_text = rest.to_string();
            return match kind {
                "last" => match rest.parse() {
                    Ok(n) if n > 0 => Ok(Selector::Last(n)),
                    _ => Err(BadSelector("a number stands after last: as in last:3".into())),
                },
                "tag" => Ok(Selector::Tag(rest_text)),
                "sweep" => Ok(Selector::Sweep(rest_text)),
                "name" => Ok(Selector::Name(rest_text)),
                "project" => Ok(Selector::Project(rest_text)),
                machine => Ok(Selector::Gpu { machine: Some(machine.into()), index: gpu_index(rest)? }),
            };
        }
        text.parse().map(Selector::Id).map_err(|_| {
            BadSelector(
                "a job is named by its id (letters, as in abc), a GPU number, last, tag:x, sweep:x, name:x, project:x or \
                 /regex/"
                    .into(),
            )
        })
    }
}

fn gpu_index(text: &str) -> Result<u16, BadSelector> {
    text.parse()
        .ok()
        .filter(|index| *index < nexus_core::request::MAX_GPUS)
        .ok_or_else(|| BadSelector(format!("{text} is no GPU number")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_words_are_in_order() {
        assert!(RESERVED.is_sorted());
    }

    #[test]
    fn every_form_is_read() {
        let read = |text: &str| text.parse::<Selector>();
        assert_eq!(read("abc"), Ok(Selector::Id("abc".parse().unwrap())));
        assert_eq!(read("last"), Ok(Selector::Last(1)));
        assert_eq!(read("last:3"), Ok(Selector::Last(3)));
        assert_eq!(read("0"), Ok(Selector::Gpu { machine: None, index: 0 }));
        assert_eq!(read("box:1"), Ok(Selector::Gpu { machine: Some("box".into()), index: 1 }));
        assert_eq!(read("tag:a:b"), Ok(Selector::Tag("a:b".into())));
        assert_eq!(read("/a.*b/"), Ok(Selector::Regex("a.*b".into())));
        for bad in ["", "A", "ab", "last:0", "tag:", "/x", "/", "//", "999", "box:x", "a b"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
