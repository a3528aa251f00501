//! The queue as text, given out and taken back; one job changed.

use std::cell::RefCell;
use std::sync::atomic::Ordering;

use axum::Json;
use axum::extract::State;
use nexus_api::edit::{Change, EditedJob, JobEdit, JobEdited, QueueEdit, QueueEdited, QueueText};
use nexus_api::env::{is_reserved, split_secrets};
use nexus_api::jobs::{JobSpec, Note, State as Word};
use nexus_api::problem::Problem;
use nexus_api::queue_text::{Header, read, set, write};
use nexus_core::apply::Edit;
use nexus_core::event::Needs;
use nexus_core::ids::JobId;
use serde::Deserialize;
use utoipa::IntoParams;

use super::extract::{Asked, Path, Sent};
use super::problem::Failed;
use super::time_limit::LimitChange;
use super::{App, Shared};
use crate::checks;
use crate::engine::{Message, Revision};
use crate::models::{Rules, after_edit};
use crate::queue_edit::{Around, Plan, Waiting, plan};
use crate::service_log::Line;
use crate::spec_changes::{changes, note};
use crate::store::{EditedRow, JobRow, Reader, StoreError};

/// A job may start between the look at the queue and the change of it: then one looks again, so often.
const ATTEMPTS: usize = 5;

/// Options of a job that has started.
const OF_A_RUNNING_JOB: &[&str] = &["priority", "tags", "time"];

#[derive(Deserialize, IntoParams)]
pub struct TextQuery {
    /// This job alone.
    id: Option<String>,
}

pub async fn text(State(app): State<Shared>, Asked(query): Asked<TextQuery>) -> Result<Json<QueueText>, Failed> {
    let comments = app.notes.comments.lock().expect("nobody panics with the comments").clone();
    let home = app.user_home.clone();
    let text = app
        .read(move |reader| {
            let (header, rows, comments) = match query.id {
                None => (Header::Editor, reader.waiting().map_err(fail)?, comments),
                Some(id) => {
                    let row = reader.job(&id).map_err(fail)?.ok_or(Problem::NoSuchJob { id })?;
                    if !matches!(row.state, Word::Held | Word::Queued) {
                        return Err(wrong_state(&row, "edit"));
                    }
                    (Header::OneJob, vec![row], vec![])
                }
            };
            let jobs: Vec<Waiting> = rows.into_iter().filter_map(Waiting::of).collect();
            Ok(write(header, &comments, jobs.iter().map(|job| (job.id.as_str(), &job.spec)), &home))
        })
        .await?;
    Ok(Json(QueueText { text }))
}

/// Does what a changed text says, as one change.
pub async fn take_text(State(app): State<Shared>, Sent(edit): Sent<QueueEdit>) -> Result<Json<QueueEdited>, Failed> {
    let _turn = app.edits.lock().await;
    for _ in 0..ATTEMPTS {
        let (plan, mut answer) = app.planned(edit.clone()).await?;
        if !plan.errors.is_empty() || (!plan.remove.is_empty() && !edit.remove) {
            return Ok(Json(answer));
        }
        if !plan.is_empty() {
            let mut revision = plan.revision();
            revision.notes.extend(answer.notes.iter().map(|note| Line::from(format!("Note: {note}"))));
            let added = match app.order(|reply| Message::Revise { revision, reply }).await {
                Err(Problem::WrongState { .. } | Problem::NoSuchJob { .. }) => continue,
                added => added?,
            };
            answer.added = app.by_ids(added.iter().map(JobId::to_string).collect()).await?;
        }
        answer.done = true;
        app.keep_comments(&edit);
        return Ok(Json(answer));
    }
    Err(Failed(Problem::Internal { error: "the queue changes faster than it can be edited".into() }))
}

/// `POST /v1/jobs/{id}/edit`
pub async fn job(
    State(app): State<Shared>,
    Path(id): Path<String>,
    Sent(edit): Sent<JobEdit>,
) -> Result<Json<JobEdited>, Failed> {
    let _turn = app.edits.lock().await;
    for _ in 0..ATTEMPTS {
        let (id, edit, rules_of) = (id.clone(), edit.clone(), app.clone());
        let JobChange { edit, row, changes, limit, rounded } =
            app.read(move |reader| changed_job(reader, &id, &edit, &rules_of.reload.rules())).await?;
        let id = edit.job.to_string();
        if changes.is_empty() {
            return Ok(Json(JobEdited { id, changes }));
        }
        let mut notes = vec![Line::from(note(&id, &changes))];
        notes.extend(rounded.map(|note| Line::from(format!("Note: {note}"))));
        let revision = Revision { edits: vec![(edit, row)], notes, ..Revision::default() };
        let revised = match limit {
            None => app.order(|reply| Message::Revise { revision, reply }).await.map(drop),
            Some(limit) => app.revise_with_limit(&id, limit, revision).await,
        };
        match revised {
            // It started, or one that it comes after was forgotten.
            Err(Problem::WrongState { .. } | Problem::NoSuchJob { .. }) => continue,
            done => done?,
        }
        return Ok(Json(JobEdited { id, changes }));
    }
    Err(Failed(Problem::Internal { error: "the job changes faster than it can be edited".into() }))
}

/// A change of one job, worked out.
struct JobChange {
    edit: Edit,
    row: EditedRow,
    changes: Vec<Change>,
    /// Of a job that has started, if its time limit is to be another.
    limit: Option<LimitChange>,
    /// What a rule says and is not quite so.
    rounded: Option<Note>,
}

fn changed_job(reader: &Reader, id: &str, edit: &JobEdit, rules: &Rules) -> Result<JobChange, Problem> {
    let row = reader.job(id).map_err(fail)?.ok_or_else(|| Problem::NoSuchJob { id: id.into() })?;
    let waits = matches!(row.state, Word::Held | Word::Queued);
    if row.state.has_ended() {
        return Err(wrong_state(&row, "edit"));
    }
    if let Some(option) = unfit(edit).filter(|_| !waits) {
        return Err(wrong_state(&row, &format!("edit {option}")));
    }
    let mut secret_names = row.secret_names.clone();
    let mut job = Waiting::of(row).ok_or_else(|| Problem::NoSuchJob { id: id.into() })?;
    let mut after = job.spec.clone();
    for (name, value) in &edit.options {
        set(&mut after, name, value).map_err(|want| Problem::BadField {
            field: name.clone(),
            value: value.clone(),
            want,
        })?;
    }
    after.command = edit.command.clone().unwrap_or(after.command);
    after.env = edit.env.iter().filter(|(name, _)| !is_reserved(name)).map(|(n, v)| (n.clone(), v.clone())).collect();
    after_edit(&job.spec, &mut after);
    let rounded = rules.fill(&mut after);
    checks::parents(reader, Some(&mut job.spec), &mut after)?;
    if waits {
        checks::signal(Some(&job.spec), &after)?;
    }
    checks::spec(&mut after)?;
    let typed = std::mem::take(&mut after.env);
    let mut changes = changes(&job.spec, &after);
    let mut env = None;
    if !typed.is_empty() {
        changes.extend(typed.keys().map(|name| Change {
            what: format!("env {name}"),
            from: "".into(),
            to: "set".into(),
        }));
        after.env_given.extend(typed.keys().filter(|name| !job.spec.env_given.contains(name)).cloned());
        let mut whole = reader.env(id).map_err(fail)?;
        whole.extend(typed);
        let (open, secret) = split_secrets(whole);
        secret_names = secret.keys().cloned().collect();
        env = Some((open, secret));
    }
    let core_edit = Edit {
        job: job.id,
        // The engine works them out.
        needs: waits.then(Needs::default),
        priority: (after.priority != job.spec.priority).then_some(after.priority),
        held: (waits && after.hold != job.spec.hold).then_some(after.hold),
    };
    let (from, to) = (job.spec.request.time_seconds, after.request.time_seconds);
    let limit = (!waits && from != to).then_some(LimitChange { from, to });
    Ok(JobChange { edit: core_edit, row: EditedRow { spec: after, secret_names, env }, changes, limit, rounded })
}

/// The first thing, as it is typed, that a job cannot change once it has started.
fn unfit(edit: &JobEdit) -> Option<String> {
    let option = edit.options.keys().find(|name| !OF_A_RUNNING_JOB.contains(&name.as_str()));
    let option = option.map(|name| format!("--{name}"));
    option.or(edit.command.as_ref().map(|_| "the command".into())).or((!edit.env.is_empty()).then(|| "--env".into()))
}

fn wrong_state(row: &JobRow, verb: &str) -> Problem {
    Problem::WrongState { id: row.id.clone(), verb: verb.into(), state: row.state, gpus: row.gpus.clone() }
}

fn fail(error: StoreError) -> Problem {
    error.problem()
}

impl App {
    /// What a text means now, and the answer that tells of it.
    async fn planned(self: &Shared, edit: QueueEdit) -> Result<(Plan, QueueEdited), Problem> {
        let (home, app) = (self.user_home.clone(), self.clone());
        self.read(move |reader| {
            let rows = reader.waiting().map_err(fail)?;
            let queue = rows.into_iter().filter_map(Waiting::of).collect();
            let usual = new_spec(&edit);
            let (rules, notes) = (app.reload.rules(), RefCell::new(Vec::new()));
            let check = |spec: &mut JobSpec| {
                let note = rules.fill(spec).filter(|note| !notes.borrow().contains(note));
                notes.borrow_mut().extend(note);
                checks::spec(spec)
            };
            let compare = |before: Option<&mut JobSpec>, after: &mut JobSpec| {
                checks::signal(before.as_deref(), after)?;
                checks::parents(reader, before, after)
            };
            let around = Around { usual: &usual, home: &home, check: &check, compare: &compare };
            let plan = plan(&read(edit.base.as_bytes()), &read(edit.text.as_bytes()), queue, &around);
            let of_ids = |ids: Vec<String>| ids.into_iter().map(|id| edited_job(reader, id)).collect::<Result<_, _>>();
            let texts = |ids: &[JobId]| ids.iter().map(JobId::to_string).collect::<Vec<_>>();
            let answer = QueueEdited {
                done: false,
                errors: plan.errors.clone(),
                added: vec![],
                removed: of_ids(texts(&plan.remove))?,
                changed: plan
                    .changed
                    .iter()
                    .map(|changed| JobEdited { id: changed.id.to_string(), changes: changed.changes() })
                    .collect(),
                moved: texts(&plan.moved),
                conflicts: of_ids(texts(&plan.conflicts))?,
                left: of_ids(plan.left.clone())?,
                notes: notes.into_inner(),
            };
            Ok((plan, answer))
        })
        .await
    }

    /// Comments of the text take the place of those it was made with; the file shows them.
    fn keep_comments(&self, edit: &QueueEdit) {
        let (before, after) = (read(edit.base.as_bytes()).comments, read(edit.text.as_bytes()).comments);
        let mut comments = self.notes.comments.lock().expect("nobody panics with the comments");
        comments.retain(|comment| !before.contains(comment));
        comments.extend(after);
        self.notes.whole.store(true, Ordering::Relaxed);
        self.notes.nudge.notify_one();
    }
}

/// A new line before anything is said in it.
fn new_spec(edit: &QueueEdit) -> JobSpec {
    let command = nexus_api::command::Command::Shell(String::new());
    JobSpec { env: edit.env.clone(), window: edit.window, ..JobSpec::new(command, edit.cwd.clone()) }
}

fn edited_job(reader: &Reader, id: String) -> Result<EditedJob, Problem> {
    Ok(match reader.job(&id).map_err(fail)? {
        Some(row) => EditedJob { id, command: row.command, state: Some(row.state) },
        None => EditedJob { id, command: String::new(), state: None },
    })
}
