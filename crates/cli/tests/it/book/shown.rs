//! Whether a command showed what a page says it shows.
//!
//! In what a page shows, `…` stands for anything in a line, a line `…` for any lines; `abc` and its like for an id, the
//! same one on the whole page; a clock or a run time for any other; blanks for any number of them; `/home/ann` for the
//! home of whoever types.

use std::collections::BTreeMap;

use regex::Regex;

/// Words that are ids on a page.
const IDS: [&str; 6] = ["abc", "bcd", "cde", "def", "efg", "xyz"];

const ID: &str = "[a-z]{3,6}";
const CLOCK: &str = r"\d{1,2}:\d\d";
const SPAN: &str = r"(?:\d+(?:\.\d+)?(?:ms|s|m|h|d)(?: \d+[smh])?|starting)";

/// Which id each word stands for, as far as a page has come.
#[derive(Default)]
pub struct Shown {
    ids: BTreeMap<String, String>,
    home: String,
}

impl Shown {
    pub fn at(home: &str) -> Shown {
        Shown { ids: BTreeMap::new(), home: home.into() }
    }

    /// A command, with the ids that were really given.
    pub fn typed(&self, command: &str) -> String {
        let mut typed = command.to_string();
        for (word, id) in &self.ids {
            typed = whole(word).replace_all(&typed, id.as_str()).into_owned();
        }
        typed
    }

    /// Panics where it is something else; takes the ids that are new.
    #[track_caller]
    pub fn check(&mut self, place: &str, expected: &str, found: &str) {
        let found: String = found.lines().flat_map(|line| [line.trim_end(), "\n"]).collect();
        let (pattern, new) = self.pattern(expected);
        let pattern = Regex::new(&pattern).expect("made of parts that are right");
        let Some(parts) = pattern.captures(&found) else {
            panic!("{place} shows something else.\n-- the page:\n{expected}-- the program:\n{found}");
        };
        for word in new {
            self.ids.insert(word.clone(), parts[word.as_str()].to_string());
        }
    }

    fn pattern(&self, expected: &str) -> (String, Vec<String>) {
        let parts = Regex::new(&format!(r"…|/home/ann\b|\b{SPAN}\b|\b{CLOCK}\b|\b(?:{})\b| +", IDS.join("|")));
        let parts = parts.expect("made of parts that are right");
        let (mut pattern, mut new) = (String::from("^"), Vec::new());
        for line in expected.lines().map(str::trim_end) {
            if line.trim() == "…" {
                pattern.push_str("(?:.*\n)*?");
                continue;
            }
            let mut end = 0;
            for part in parts.find_iter(line) {
                pattern.push_str(&regex::escape(&line[end..part.start()]));
                end = part.end();
                pattern.push_str(&self.stands_for(part.as_str(), &mut new));
            }
            pattern.push_str(&regex::escape(&line[end..]));
            pattern.push('\n');
        }
        (pattern + "$", new)
    }

    fn stands_for(&self, part: &str, new: &mut Vec<String>) -> String {
        match part {
            "…" => ".*?".into(),
            "/home/ann" => regex::escape(&self.home),
            _ if part.starts_with(' ') => " +".into(),
            id if IDS.contains(&id) => match self.ids.get(id) {
                Some(known) => regex::escape(known),
                // The pattern has no way to say "as before": the first place tells, others of the same text are any id.
                None if new.iter().any(|word| word == id) => ID.into(),
                None => {
                    new.push(id.into());
                    format!("(?<{id}>{ID})")
                }
            },
            // With its day, where midnight is in between.
            clock if clock.contains(':') => format!(r"(?:\d{{4}}-\d\d-\d\d )?{CLOCK}"),
            _ => SPAN.into(),
        }
    }
}

fn whole(word: &str) -> Regex {
    Regex::new(&format!(r"\b{word}\b")).expect("a word")
}

#[test]
fn what_is_shown_is_compared() {
    let mut shown = Shown::at("/tmp/x");
    shown.check("a", "abc  starts now on GPU 0\n", "qwe  starts now on GPU 0\n");
    assert_eq!(shown.typed("nexus logs abc --path"), "nexus logs qwe --path");
    shown.check(
        "b",
        "abc ended after 2h 15m at 15:30 in /home/ann/logs\n…\nend\n",
        "qwe ended after 1s at 9:05 in /tmp/x/logs\na\nb\nend\n",
    );
    shown.check(
        "c",
        "START     COMMAND\nby 14:32  true\n",
        "START                COMMAND\nby 2026-01-31 00:09  true\n",
    );
    for (expected, found) in [
        ("by 14:32\n", "by tomorrow\n"),
        ("abc\n", "asd\n"),
        ("exit 1\n", "exit 2\n"),
        ("one\n", "one\ntwo\n"),
        ("one …\n", "one\ntwo\n"),
        ("after 1s\n", "after a while\n"),
    ] {
        let wrong = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| shown.check("d", expected, found)));
        assert!(wrong.is_err(), "{expected} {found}");
    }
}
