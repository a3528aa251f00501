//! What is done to jobs by id: kill, remove, cancel, hold, release, first, forget.

use std::collections::BTreeSet;
use std::path::PathBuf;

use axum::Json;
use axum::extract::State;
use nexus_api::jobs::{Action, Job, OnJobs};
use nexus_api::problem::Problem;
use nexus_api::run_dir;
use nexus_core::apply::Command;
use nexus_core::ids::{JobId, RunId};

use super::extract::{Path, Sent};
use super::problem::Failed;
use super::{App, Shared};
use crate::blocking;
use crate::engine::{Forgetter, Message, Remnant};
use crate::store::{JobRow, RunRow, StoreError};

/// `POST /v1/jobs/kill` and its like: the jobs it was done to, as they are afterwards.
pub async fn act(
    State(app): State<Shared>,
    Path(word): Path<String>,
    Sent(on): Sent<OnJobs>,
) -> Result<Json<Vec<Job>>, Failed> {
    let action = action(&word)?;
    let ids = on.ids.iter().map(|id| id.parse().map_err(|_| Problem::NoSuchJob { id: id.clone() }));
    let ids: Vec<JobId> = ids.collect::<Result<_, _>>()?;
    let OnJobs { ids: words, skip_unfit } = on;
    let command = match action {
        Action::Forget => return Ok(Json(app.forget(ids, words, Forgetter::User).await?)),
        Action::Kill => Command::Kill(ids),
        Action::Remove => Command::Remove(ids),
        Action::Cancel => Command::Cancel(ids),
        Action::Hold => Command::Hold(ids),
        Action::Release => Command::Release(ids),
        Action::First => Command::First(ids),
    };
    let verb = action.word();
    let done_to = app.order(|reply| Message::Command { command, verb, skip_unfit, reply }).await?;
    Ok(Json(app.by_ids(done_to.iter().map(JobId::to_string).collect()).await?))
}

fn action(word: &str) -> Result<Action, Problem> {
    let quoted = serde_json::Value::String(word.to_string());
    serde_json::from_value(quoted)
        .map_err(|_| Problem::BadRequest { error: format!("there is nothing called {word} to do to jobs") })
}

/// What belongs to jobs that are to be forgotten.
#[derive(Default)]
pub(super) struct Belongings {
    /// Their runs, with directories on this machine.
    runs: Vec<RunId>,
    pub dirs: Vec<PathBuf>,
    /// Jobs by which checkpoints are named.
    checkpoints: BTreeSet<String>,
    /// Of these, those that may be on other machines.
    checkpoints_away: BTreeSet<String>,
    /// What is on other machines, by their names.
    away: Vec<(String, Remnant)>,
}

impl Belongings {
    fn add(&mut self, row: &JobRow, id: JobId, runs: Vec<RunRow>, results: &std::path::Path) {
        let machines: BTreeSet<&str> = runs.iter().map(|run| run.machine.as_str()).collect();
        let away = machines.into_iter().filter(|name| *name != "local" && !row.spec.request.driver);
        let before = self.away.len();
        self.away.extend(away.map(|name| (name.to_string(), Remnant::Job(id.to_string()))));
        // What is no id leads elsewhere.
        if let Ok(of) = row.checkpoints_of().parse::<JobId>() {
            // Another job may have kept them on another machine.
            if self.away.len() > before || of != id {
                self.checkpoints_away.insert(of.to_string());
            }
            self.checkpoints.insert(of.to_string());
        }
        self.runs.extend(runs.iter().map(|run| RunId { job: id, number: run.number }));
        self.dirs.extend(runs.into_iter().map(|run| run.dir));
        self.dirs.push(results.join(id.as_str()));
    }
}

impl App {
    pub(super) async fn belongings_of(self: &Shared, ids: Vec<String>) -> Result<Belongings, Problem> {
        let results = self.home.results();
        self.read(move |reader| {
            let mut all = Belongings::default();
            for id in ids {
                let fail = |error: StoreError| error.problem();
                let Some(row) = reader.job(&id).map_err(fail)? else { continue };
                let runs = reader.runs(row.n).map_err(fail)?;
                if let Ok(id) = row.id.parse() {
                    all.add(&row, id, runs, &results);
                }
            }
            Ok(all)
        })
        .await
    }

    /// Where a job keeps its checkpoints.
    pub(super) fn checkpoints_of(&self, row: &JobRow) -> Option<PathBuf> {
        // What is no id leads elsewhere.
        let of: JobId = row.checkpoints_of().parse().ok()?;
        Some(self.home.checkpoints().join(of.as_str()))
    }

    /// Of jobs by which checkpoints are named those that hold something, or may on another machine, and that no job is
    /// left to go on from.
    async fn unused_checkpoints(
        self: &Shared,
        named: BTreeSet<String>,
        away: BTreeSet<String>,
    ) -> Result<BTreeSet<String>, Problem> {
        let folder = self.home.checkpoints();
        self.read(move |reader| {
            let is_there = |id: &String| away.contains(id) || folder.join(id).is_dir();
            let mut left: BTreeSet<String> = named.into_iter().filter(is_there).collect();
            // All jobs have to be looked through, so only where there is something to delete.
            if !left.is_empty() {
                for used in reader.checkpoints_used().map_err(|error| error.problem())? {
                    left.remove(&used);
                }
                let mut gone = BTreeSet::new();
                for id in left {
                    if reader.job(&id).map_err(|error| error.problem())?.is_none() {
                        gone.insert(id);
                    }
                }
                left = gone;
            }
            Ok(left)
        })
        .await
    }

    /// The jobs as they were. Their folders go behind the scenes: the record is what counts.
    pub(super) async fn forget(
        self: &Shared,
        ids: Vec<JobId>,
        words: Vec<String>,
        by: Forgetter,
    ) -> Result<Vec<Job>, Problem> {
        // Nobody begins to go on from what is being deleted.
        let _turn = self.edits.lock().await;
        let jobs = self.by_ids(words).await?;
        let Belongings { runs, mut dirs, checkpoints, checkpoints_away, mut away } =
            self.belongings_of(jobs.iter().map(|job| job.id.clone()).collect()).await?;
        let links: Vec<PathBuf> = jobs.iter().filter_map(project_link).collect();
        self.order(|reply| Message::Forget { ids, by, reply }).await?;
        let machines = self.lines.names();
        let checkpoints_away = if machines.is_empty() { BTreeSet::new() } else { checkpoints_away };
        for id in self.unused_checkpoints(checkpoints, checkpoints_away.clone()).await? {
            dirs.push(self.home.checkpoints().join(&id));
            let there = machines.iter().filter(|_| checkpoints_away.contains(&id));
            away.extend(there.map(|machine| (machine.clone(), Remnant::Checkpoints(id.clone()))));
        }
        if !away.is_empty() {
            self.lines.mirrors.let_go(&runs).await;
            self.post(Message::Remnants(away))?;
        }
        blocking::answer(move || {
            links.iter().for_each(|link| unlink(link));
            for dir in dirs {
                // A folder that is gone already, or in use by its reader, is no reason to keep the record.
                let _ = std::fs::remove_dir_all(dir);
            }
        })
        .await?;
        Ok(jobs)
    }
}

/// Where a job of a project is linked from.
fn project_link(job: &Job) -> Option<PathBuf> {
    let log_dir = run_dir::log_dir_of(std::path::Path::new(&job.log_dir), &job.id)?;
    let name = job.name.as_deref().or(job.sweep.as_deref());
    Some(run_dir::project_link(log_dir, job.project.as_deref()?, name, &job.id))
}

/// With the folders that are empty then: of its name, and of its project.
fn unlink(link: &std::path::Path) {
    if std::fs::symlink_metadata(link).is_ok_and(|found| found.is_symlink()) && std::fs::remove_file(link).is_ok() {
        for folder in link.ancestors().skip(1).take(3) {
            if std::fs::remove_dir(folder).is_err() {
                return;
            }
        }
    }
}
