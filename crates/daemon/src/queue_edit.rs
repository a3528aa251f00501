//! What an edited text of the queue means: compared with the text it was made from, and with the queue as it is.
//!
//! A job that neither its editor nor anybody else touched stays as it is; so does one that came meanwhile. Reads
//! nothing but its arguments.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use nexus_api::edit::{Change, LineError};
use nexus_api::jobs::{JobSpec, State};
use nexus_api::problem::Problem;
use nexus_api::queue_text::{self, Entry, Read, read};
use nexus_core::apply::{Edit, unmoved};
use nexus_core::event::Needs;
use nexus_core::ids::JobId;

use crate::engine::{Revision, Slot, fresh};
use crate::models::after_edit;
use crate::spec_changes::{changes, note};
use crate::store::{EditedRow, JobRow};

/// What those who serve clients and the one who keeps `jobs.txt` tell each other.
#[derive(Default)]
pub struct FileNotes {
    /// Comments of the file, whole lines.
    pub comments: Mutex<Vec<String>>,
    /// The file is to be written, changed or not.
    pub nudge: tokio::sync::Notify,
    /// With all jobs, however many.
    pub whole: AtomicBool,
    /// Why the file is not kept now: another user can write to it, or it cannot be written.
    pub trouble: Mutex<Option<String>>,
}

impl FileNotes {
    pub fn set_trouble(&self, error: Option<&str>) {
        *self.trouble.lock().expect("nobody panics with it in hand") = error.map(String::from);
    }
}

/// A job that waits.
pub struct Waiting {
    pub id: JobId,
    /// As it is now: its tags, and whether it is held.
    pub spec: JobSpec,
    pub secret_names: Vec<String>,
}

impl Waiting {
    pub fn of(row: JobRow) -> Option<Waiting> {
        let spec = JobSpec { tags: row.tags, hold: row.state == State::Held, ..row.spec };
        // Rows come from a store whose ids are ids.
        Some(Waiting { id: row.id.parse().ok()?, spec, secret_names: row.secret_names })
    }
}

/// Looks at a spec beside the one that it was before, if it was there before.
type Compare<'a> = dyn Fn(Option<&mut JobSpec>, &mut JobSpec) -> Result<(), Problem> + 'a;

/// What the texts are compared under.
pub struct Around<'a> {
    /// A new job before anything is said of it.
    pub usual: &'a JobSpec,
    /// The folder that goes without saying.
    pub home: &'a str,
    /// Takes what is not said from rules, and refuses what makes no sense.
    pub check: &'a dyn Fn(&mut JobSpec) -> Result<(), Problem>,
    /// Refuses what is new in a spec and makes no sense; both drop the jobs they came after that are gone.
    pub compare: &'a Compare<'a>,
}

#[derive(Default)]
pub struct Plan {
    pub errors: Vec<LineError>,
    pub add: Vec<JobSpec>,
    pub remove: Vec<JobId>,
    pub changed: Vec<Changed>,
    /// Empty where the order stays.
    pub order: Vec<Slot>,
    pub moved: Vec<JobId>,
    pub conflicts: Vec<JobId>,
    /// In the base, and no longer waiting.
    pub left: Vec<String>,
}

pub struct Changed {
    pub id: JobId,
    pub before: JobSpec,
    pub after: JobSpec,
    pub secret_names: Vec<String>,
}

impl Changed {
    pub fn changes(&self) -> Vec<Change> {
        changes(&self.before, &self.after)
    }

    /// What scheduling and the store are told of a job that waits.
    fn edit(self) -> (Edit, EditedRow) {
        let Changed { id, before, after, secret_names } = self;
        let edit = Edit {
            job: id,
            // The engine works them out.
            needs: Some(Needs::default()),
            priority: (after.priority != before.priority).then_some(after.priority),
            held: (after.hold != before.hold).then_some(after.hold),
        };
        (edit, EditedRow { spec: after, secret_names, env: None })
    }
}

/// What is to be done so that the queue is as `text` says, `text` having been made from `base`.
pub fn plan(base: &Read, text: &Read, queue: Vec<Waiting>, around: &Around) -> Plan {
    let mut plan = Plan::default();
    let known: BTreeMap<&str, (usize, &Entry)> =
        base.entries.iter().enumerate().filter_map(|(at, entry)| Some((entry.id.as_deref()?, (at, entry)))).collect();
    let mut queue: BTreeMap<String, Waiting> = queue.into_iter().map(|job| (job.id.to_string(), job)).collect();
    for refused in &text.refused {
        plan.errors.push(LineError { line: refused.line, error: refused.error.clone() });
    }
    let mut lines = Vec::new();
    let mut named = BTreeSet::new();
    for entry in &text.entries {
        let Some(id) = entry.id.as_deref() else {
            lines.push(Line { slot: Slot::New(plan.add.len()), base: None, new_priority: false });
            plan.add(entry, around);
            continue;
        };
        named.insert(id);
        let Some((at, before)) = known.get(id) else {
            let error = format!("no job {id} was there to edit; take the id away to queue it as a new one");
            plan.errors.push(LineError { line: entry.line, error });
            continue;
        };
        let Some(job) = queue.remove(id) else {
            plan.left.push(id.to_string());
            continue;
        };
        let mut line = Line { slot: Slot::Known(job.id), base: Some(*at), new_priority: false };
        if !entry.says_the_same(before) {
            line.new_priority = plan.change(entry, before, job, around);
        }
        lines.push(line);
    }
    for (id, (_, before)) in known.iter().filter(|(id, _)| !named.contains(*id)) {
        match queue.remove(*id) {
            Some(job) if differs(&job, before, around) => plan.conflicts.push(job.id),
            Some(job) => plan.remove.push(job.id),
            None => plan.left.push(id.to_string()),
        }
    }
    plan.arrange(&lines);
    plan.errors.sort_by_key(|error| error.line);
    plan
}

/// A line of the new text that stands for a job in the queue.
struct Line {
    slot: Slot,
    /// Its place in the base.
    base: Option<usize>,
    new_priority: bool,
}

impl Plan {
    fn add(&mut self, entry: &Entry, around: &Around) {
        let spec = entry.new_spec(around.usual.clone()).and_then(|spec| checked(None, spec, around));
        match spec {
            Ok(spec) => self.add.push(spec),
            Err(error) => self.errors.push(LineError { line: entry.line, error }),
        }
    }

    /// Whether its priority is another.
    fn change(&mut self, entry: &Entry, before: &Entry, job: Waiting, around: &Around) -> bool {
        if differs(&job, before, around) {
            // Both may have meant the same.
            if differs(&job, entry, around) {
                self.conflicts.push(job.id);
            }
            return false;
        }
        let Waiting { id, mut spec, secret_names } = job;
        let changed = entry.changed_spec(before, spec.clone()).and_then(|mut after| {
            after_edit(&spec, &mut after);
            checked(Some(&mut spec), after, around)
        });
        match changed {
            Ok(after) => {
                let new_priority = after.priority != spec.priority;
                self.changed.push(Changed { id, before: spec, after, secret_names });
                new_priority
            }
            Err(error) => {
                self.errors.push(LineError { line: entry.line, error });
                false
            }
        }
    }

    /// The order of the lines is the order wished for, if any was moved or put between others. One that got another
    /// priority and stayed where it was goes where that takes it.
    fn arrange(&mut self, lines: &[Line]) {
        let before: Vec<usize> = lines.iter().filter_map(|line| line.base).collect();
        let mut kept = unmoved(&before).into_iter();
        let stayed: Vec<bool> =
            lines.iter().map(|line| line.base.is_some() && kept.next().unwrap_or_default()).collect();
        let of_jobs = || lines.iter().zip(&stayed).filter(|(line, _)| line.base.is_some());
        let moved = of_jobs().filter(|(_, stayed)| !**stayed).map(|(line, _)| line.slot);
        self.moved = moved.filter_map(|slot| if let Slot::Known(id) = slot { Some(id) } else { None }).collect();
        let last_known = lines.iter().rposition(|line| line.base.is_some()).unwrap_or(0);
        let between = lines[..last_known].iter().any(|line| line.base.is_none());
        if !self.moved.is_empty() || between {
            let wished = lines.iter().zip(&stayed).filter(|(line, stayed)| !(line.new_priority && **stayed));
            self.order = wished.map(|(line, _)| line.slot).collect();
        }
    }

    pub fn is_empty(&self) -> bool {
        self.add.is_empty() && self.remove.is_empty() && self.changed.is_empty() && self.order.is_empty()
    }

    pub fn revision(self) -> Revision {
        let note = |changed: &Changed| note(changed.id.as_str(), &changed.changes()).into();
        let mut notes: Vec<_> = self.changed.iter().map(note).collect();
        if !self.order.is_empty() {
            notes.push("Queue put in order by user".into());
        }
        let edits = self.changed.into_iter().map(Changed::edit).collect();
        Revision { remove: self.remove, edits, add: fresh(self.add), order: self.order, notes }
    }
}

fn checked(before: Option<&mut JobSpec>, mut spec: JobSpec, around: &Around) -> Result<JobSpec, String> {
    let right = (around.compare)(before, &mut spec).and_then(|()| (around.check)(&mut spec));
    right.map_err(|problem| problem.to_string())?;
    Ok(spec)
}

/// Whether a job is something else now than `entry` says.
fn differs(job: &Waiting, entry: &Entry, around: &Around) -> bool {
    let now = read(queue_text::entry(job.id.as_str(), &job.spec, around.home).as_bytes());
    now.entries.first().is_none_or(|now| !now.says_the_same(entry))
}

#[cfg(test)]
mod tests;
