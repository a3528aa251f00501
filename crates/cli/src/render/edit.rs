//! What an edit of the queue did, and what it did not.

use nexus_api::edit::{Change, EditedJob, JobEdited, QueueEdited};

use super::paint::Paint;
use super::{outcome, text};

/// Ids of moved jobs that are named.
const NAMED: usize = 10;

/// `abc: priority 0 -> 2`
pub fn changes(edited: &JobEdited, paint: Paint) -> String {
    let line = |Change { what, from, to }: &Change| match from.is_empty() {
        true => format!("{}: {what} {to}\n", paint.id(&edited.id)),
        false => {
            format!("{}: {what} {} -> {}\n", paint.id(&edited.id), text::first_line(from), text::first_line(to))
        }
    };
    match edited.changes.is_empty() {
        true => format!("{}: nothing changed\n", paint.id(&edited.id)),
        false => edited.changes.iter().map(line).collect(),
    }
}

/// What was done, a line each.
pub fn done(edited: &QueueEdited, paint: Paint) -> String {
    let mut told = String::new();
    for job in &edited.added {
        told.push_str(&format!("{}\n", outcome::done("added", job, paint)));
    }
    for job in &edited.removed {
        told.push_str(&format!("removed {}\n", named(job, paint)));
    }
    for job in &edited.changed {
        told.push_str(&changes(job, paint));
    }
    match edited.moved.as_slice() {
        [] => {}
        few if few.len() <= NAMED => {
            let ids: Vec<String> = few.iter().map(|id| paint.id(id)).collect();
            told.push_str(&format!("moved {}\n", ids.join(" ")));
        }
        many => told.push_str(&format!("moved {}\n", text::counted(many.len() as u64, "job"))),
    }
    told
}

/// Jobs that could not be edited any more.
pub fn left(edited: &QueueEdited, paint: Paint) -> Vec<String> {
    let line = |job: &EditedJob| match job.state {
        Some(state) => format!("{} is {} by now and was left alone", paint.id(&job.id), state.word()),
        None => format!("{} is gone by now", paint.id(&job.id)),
    };
    edited.left.iter().map(line).collect()
}

/// `abc: python train.py`
pub fn named(job: &EditedJob, paint: Paint) -> String {
    format!("{}: {}", paint.id(&job.id), paint.command(&text::first_line(&job.command)))
}

#[cfg(test)]
mod tests {
    use nexus_api::jobs::State;

    use super::*;
    use crate::render::paint::PLAIN;

    #[test]
    fn every_change_is_told() {
        let change = |what: &str, from: &str, to: &str| Change { what: what.into(), from: from.into(), to: to.into() };
        let changed = JobEdited {
            id: "abc".into(),
            changes: vec![
                change("priority", "0", "2"),
                change("command", "a\nb", "c"),
                change("env HF_TOKEN", "", "set"),
            ],
        };
        assert_eq!(changes(&changed, PLAIN), "abc: priority 0 -> 2\nabc: command a … -> c\nabc: env HF_TOKEN set\n");
        let job = |id: &str, state| EditedJob { id: id.into(), command: "true".into(), state };
        let edited = QueueEdited {
            removed: vec![job("bcd", Some(State::Queued))],
            moved: vec!["cde".into(), "def".into()],
            left: vec![job("efg", Some(State::Running)), job("fgh", None)],
            ..QueueEdited::default()
        };
        assert_eq!(done(&edited, PLAIN), "removed bcd: true\nmoved cde def\n");
        assert_eq!(left(&edited, PLAIN), ["efg is running by now and was left alone", "fgh is gone by now"]);
    }
}
