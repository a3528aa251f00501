//! Writes the queue as text.

use super::options::{is_flag, said};
use super::{MOST_IN_FILE, OPTIONS_MARK, OWN_MARK};
use crate::command::quote;
use crate::jobs::JobSpec;

/// What stands above the jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// Of `jobs.txt`.
    File,
    /// Of `jobs.txt` with more jobs than it is kept for; `whole`: all of them stand there.
    LargeFile { whole: bool },
    /// Of a text in an editor.
    Editor,
    /// Of one job in an editor.
    OneJob,
}

impl Header {
    fn lines(self) -> Vec<String> {
        match self {
            Header::File => vec![
                "The queue, first line first. Add a line and it becomes a job; nothing else done here counts.".into(),
                "nexus edit changes, moves and deletes jobs. More: nexus help edit".into(),
            ],
            Header::LargeFile { whole } => {
                let state = if whole { "The queue as nexus edit left it" } else { "The queue is not shown" };
                vec![
                    format!("{state}: with more than {MOST_IN_FILE} jobs this file is written by nexus edit alone."),
                    "A line that is added becomes a job all the same.".into(),
                ]
            }
            Header::Editor => vec![
                "The queue, first line first. Change, move and delete lines, add commands; then save and leave.".into(),
                "#@ carries a job's id and options; take it away from a copied line. More: nexus help edit".into(),
            ],
            Header::OneJob => vec!["Change the command and its options; then save and leave.".into()],
        }
    }
}

/// The whole text. `comments` are whole lines.
pub fn write<'a>(
    header: Header,
    comments: &[String],
    jobs: impl IntoIterator<Item = (&'a str, &'a JobSpec)>,
    home: &str,
) -> String {
    let mut text: String = header.lines().iter().map(|line| format!("{OWN_MARK} {line}\n")).collect();
    for comment in comments {
        text.push_str(comment);
        text.push('\n');
    }
    for (id, spec) in jobs {
        text.push_str(&entry(id, spec, home));
    }
    text
}

/// One job: its options, its command. A folder that is `home` goes without saying.
pub fn entry(id: &str, spec: &JobSpec, home: &str) -> String {
    let command = spec.command.text();
    let mut text = format!("{OPTIONS_MARK} {id}");
    for (name, value) in said(spec) {
        let untold = value.contains(char::is_control) || (name == "cwd" && value == home);
        if is_flag(name) {
            text.push_str(&format!(" {name}"));
        } else if !untold {
            text.push_str(&format!(" {name}={}", quote(&value)));
        }
    }
    let lines = command.split('\n').count();
    // What could be taken for something else, or lose its blanks, is counted.
    let plain = lines == 1 && command.trim() == command && !command.starts_with('#');
    if !plain {
        let looks_like_a_job = command.split('\n').any(|line| line.starts_with(OPTIONS_MARK));
        text.push_str(&format!(" lines={lines}{}", if looks_like_a_job { "!" } else { "" }));
    }
    format!("{text}\n{command}\n")
}
