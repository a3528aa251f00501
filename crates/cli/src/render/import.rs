//! What became of a file of jobs.

use std::collections::BTreeMap;

use nexus_api::edit::{Change, LineError};
use nexus_api::import::{Fate, ImportReport, Taken, Watched};
use nexus_api::jobs::JobSpec;
use nexus_api::queue_text;

use super::paint::Paint;
use super::table::Table;
use super::text::{counted, first_line};

/// Ids that are named on a terminal; more are counted.
const NAMED: usize = 20;

/// Options that are shown where they stand by themselves.
const APART: &[&str] = &["cwd", "argv"];

/// New jobs: ids alone, or in a line.
pub fn queued(report: &ImportReport, ids_alone: bool, paint: Paint) -> String {
    let ids: Vec<&str> = new_ids(report).collect();
    if ids_alone {
        return ids.iter().flat_map(|id| [*id, "\n"]).collect();
    }
    let named: Vec<String> = ids.iter().take(NAMED).map(|id| paint.id(id)).collect();
    match ids.len() {
        0 => String::new(),
        count if count > NAMED => {
            format!("{} queued: {} … {}\n", counted(count as u64, "job"), named.join(" "), paint.id(ids[count - 1]))
        }
        count => format!("{} queued: {}\n", counted(count as u64, "job"), named.join(" ")),
    }
}

pub fn new_ids(report: &ImportReport) -> impl Iterator<Item = &str> {
    report.entries.iter().filter_map(|one| match &one.fate {
        Fate::Queued { id } => Some(id.as_str()),
        _ => None,
    })
}

/// Whether something of the file was not taken that should have been.
pub fn failed(report: &ImportReport) -> bool {
    !report.refused.is_empty() || report.entries.iter().any(|one| matches!(one.fate, Fate::Refused { .. }))
}

/// Lines for whoever imports; `short`: what went wrong alone; `planned`: what would be done is told elsewhere.
pub fn talk(report: &ImportReport, short: bool, planned: bool) -> Vec<String> {
    let mut lines: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    let mut say = |line: u64, text: String| lines.entry(line).or_default().push(text);
    for LineError { line, error } in &report.refused {
        say(*line, format!("line {line} is not taken: {error}"));
    }
    for LineError { line, error } in report.doubtful.iter().filter(|_| !short) {
        say(*line, format!("line {line}: {error}"));
    }
    let mut known: BTreeMap<&str, u64> = BTreeMap::new();
    let mut repeated = 0;
    for Taken { line, fate } in &report.entries {
        match fate {
            Fate::Refused { error } => say(*line, format!("line {line} is not taken: {error}")),
            Fate::Changed { id, changes } if !short && !planned => {
                say(*line, format!("line {line} changes {id}: {}", told(changes)))
            }
            Fate::Known { id, state, differs } if !differs.is_empty() && !short => {
                let state = state.word();
                say(*line, format!("line {line} is {id}, which is {state} and stays as it is: {}", told(differs)));
            }
            Fate::Known { state, .. } => *known.entry(state.word()).or_default() += 1,
            Fate::Repeated { of, changes } if !changes.is_empty() && !short && !planned => {
                say(*line, format!("line {line} is line {of} again, and changes it: {}", told(changes)));
            }
            Fate::Repeated { .. } => repeated += 1,
            _ => {}
        }
    }
    let mut talk: Vec<String> = lines.into_values().flatten().collect();
    if !short {
        talk.extend(summary(report, &known, repeated));
        talk.extend(report.notes.iter().map(|note| format!("note: {note}")));
    }
    talk.extend(report.stopped.as_ref().map(|problem| {
        let (title, why) = (problem.title(), problem.why().map(|why| format!(": {why}")).unwrap_or_default());
        format!("stopped after {} of its entries: {title}{why}; import it again for the rest", report.entries.len())
    }));
    talk
}

fn summary(report: &ImportReport, known: &BTreeMap<&str, u64>, repeated: u64) -> Vec<String> {
    let mut lines = Vec::new();
    let total: u64 = known.values().sum();
    if total > 0 {
        let words: Vec<String> = known.iter().map(|(word, count)| format!("{count} {word}")).collect();
        lines.push(format!("{} known already: {}", counted(total, "line"), words.join(", ")));
    }
    if repeated > 0 {
        lines.push(match repeated {
            1 => "1 line stands in the file twice; --again queues it again".into(),
            more => format!("{more} lines repeat others of the file; --again queues each"),
        });
    }
    if let Some(history) = &report.history {
        lines.push(format!("{} taken over as history", counted(history.taken, "ended job")));
        if history.known > 0 {
            lines.push(format!("{} known already", counted(history.known, "ended job")));
        }
    }
    if report.ended > 0 {
        lines.push(format!("{} left out: ended; --as-history takes them over", counted(report.ended, "job")));
    }
    if !report.running.is_empty() {
        lines.push(format!("left out, since they ran when this was exported: {}", report.running.join(" ")));
    }
    let nothing = report.entries.is_empty()
        && report.refused.is_empty()
        && report.ended == 0
        && report.running.is_empty()
        && report.history.is_none();
    if nothing && report.format.is_some() {
        lines.push(format!("there is no job in {}", report.file));
    }
    lines
}

fn told(changes: &[Change]) -> String {
    let word = |Change { what, from, to }: &Change| match from.is_empty() {
        true => format!("{what} {to}"),
        false => format!("{what} {} -> {}", first_line(from), first_line(to)),
    };
    changes.iter().map(word).collect::<Vec<_>>().join(", ")
}

/// Each entry as it would be.
pub fn plan(report: &ImportReport, paint: Paint) -> String {
    let mut text = String::new();
    for Taken { line, fate } in &report.entries {
        let (what, more) = match fate {
            Fate::Planned { spec } => (paint.command(&first_line(&spec.command.text())), options(spec)),
            Fate::Known { id, state, .. } => (format!("known as {}, {}", paint.id(id), state.word()), String::new()),
            Fate::Changed { id, changes } => {
                (format!("would change {}: {}", paint.id(id), told(changes)), String::new())
            }
            Fate::Repeated { of, .. } => (format!("line {of} again"), String::new()),
            Fate::Queued { .. } | Fate::Refused { .. } => continue,
        };
        text.push_str(&format!("line {line}: {what}\n"));
        if !more.is_empty() {
            text.push_str(&format!("    {more}\n"));
        }
    }
    text
}

/// What is not as usual, in the words of `jobs.txt`.
fn options(spec: &JobSpec) -> String {
    let said = queue_text::said(spec).filter(|(name, _)| !APART.contains(name));
    said.map(|(name, value)| format!("{name}={}", nexus_api::command::quote(&value))).collect::<Vec<_>>().join(" ")
}

/// Files that are watched.
pub fn watched(watched: &[Watched], paint: Paint) -> String {
    let cell = |of: fn(&Watched) -> String| watched.iter().map(of).collect::<Vec<_>>();
    let trouble = |one: &Watched| match (&one.trouble, &one.shared_with) {
        (Some(why), _) => first_line(why),
        (None, Some(group)) => format!("watched, shared with group {group}"),
        (None, None) => "watched".into(),
    };
    Table::new()
        .column("FILE", Paint::command, cell(|one| one.file.clone()))
        .column("FORMAT", Paint::plain, cell(|one| one.format.map_or("?".into(), |format| format.word().to_string())))
        .column("TAKEN", Paint::plain, cell(|one| one.taken.to_string()))
        .column("STATE", Paint::plain, cell(trouble))
        .render(true, paint)
}
