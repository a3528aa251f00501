//! Puts the lines that are not written down yet into the queue, and the jobs of before in order.

use std::collections::{HashMap, HashSet};

use nexus_api::job_file::Entry;
use nexus_api::jobs::{Action, Job, JobSpec, OnJobs, State, Waiting};
use nexus_api::problem::Problem;
use tokio::time::{Instant, sleep};

use super::plan::{self, Plan};
use super::record::Record;
use crate::app::App;
use crate::client::Client;
use crate::ends::{RESTART_LIMIT, RESTART_LOOK, is_away};
use crate::error::{CliError, Refused};
use crate::render::reason::{self, Capacity};
use crate::render::text;

/// Jobs of one submission, each with the whole environment.
const TOGETHER: usize = 200;

/// Ids of one question.
const ASKED_TOGETHER: usize = 500;

/// The jobs that are followed to their end, as they were written down last.
pub struct Queued {
    pub records: Vec<Record>,
    pub refused: usize,
}

/// Those of these jobs that the service knows.
pub async fn known(client: &Client, ids: &[String]) -> Result<Vec<Job>, CliError> {
    let mut jobs = Vec::new();
    for some in ids.chunks(ASKED_TOGETHER) {
        let mut some = some.to_vec();
        while !some.is_empty() {
            match client.jobs_by_id(&some).await {
                Err(CliError::Problem(Problem::NoSuchJob { id } | Problem::BadSelector { selector: id, .. })) => {
                    some.retain(|other| *other != id);
                }
                found => {
                    jobs.extend(found?);
                    break;
                }
            }
        }
    }
    Ok(jobs)
}

pub async fn queue(app: &App, plan: &mut Plan, base: JobSpec, quiet: bool) -> Result<Queued, CliError> {
    let mut queue = Queue { app, plan, quiet, refused: 0, notes: HashSet::new() };
    let mut records = queue.past().await?;
    let (fresh, known) = queue.fresh(&mut records);
    let mut base = base;
    base.hold = true;
    base.out_dir = Some(path_text(&queue.plan.settings.log_dir)?);
    (base.request.on, base.request.vram) =
        (queue.plan.settings.gpu_ids.clone().or(base.request.on), queue.plan.settings.vram.or(base.request.vram));
    if !quiet {
        queue.tell(fresh.len(), known);
    }
    for batch in batches(&fresh) {
        let jobs = queue.put(&base, batch).await?;
        records.extend(jobs);
    }
    let refused = queue.refused;
    Ok(Queued { records, refused })
}

/// One after the other: lines with options of their own alone, since they can be wrong alone.
fn batches(entries: &[Entry]) -> Vec<&[Entry]> {
    entries
        .chunk_by(|one, next| one.options.is_empty() && next.options.is_empty())
        .flat_map(|alike| alike.chunks(TOGETHER))
        .collect()
}

struct Queue<'a> {
    app: &'a App,
    plan: &'a mut Plan,
    quiet: bool,
    refused: usize,
    notes: HashSet<String>,
}

impl Queue<'_> {
    /// The jobs that are written down, as they are now. Held ones are released, those that are not written down removed.
    async fn past(&mut self) -> Result<Vec<Record>, CliError> {
        let alive = self.plan.past.records.iter().filter(|record| !record.status.has_ended());
        let ids: Vec<String> = alive.map(|record| record.id.clone()).collect();
        let client = self.app.started().await?;
        let jobs = known(&client, &ids).await?;
        let known: HashSet<&str> = jobs.iter().map(|job| job.id.as_str()).collect();
        let lost: Vec<&String> = ids.iter().filter(|id| !known.contains(id.as_str())).collect();
        for id in &lost {
            self.app.ui.warn(&format!(
                "{id} of {} is unknown here; its command is queued anew if a line still has it",
                self.plan.file.path.display()
            ));
        }
        let records = self.plan.past.records.iter().filter(|record| !lost.contains(&&record.id)).cloned().collect();
        self.remove_leftovers().await?;
        let held: Vec<String> = jobs.iter().filter(|job| job.state == State::Held).map(|job| job.id.clone()).collect();
        if !held.is_empty() {
            self.act(Action::Release, &held).await?;
        }
        Ok(records)
    }

    /// Jobs of a dispatcher that was killed before it could write them down.
    async fn remove_leftovers(&self) -> Result<(), CliError> {
        let selector = vec![format!("tag:{}", self.plan.tag)];
        let client = self.app.started().await?;
        let held = match client.selected(&selector, Some(State::Held.word().into())).await {
            Err(CliError::Problem(Problem::NothingMatches { .. })) => return Ok(()),
            found => found?,
        };
        let known: HashSet<&str> = self.plan.past.records.iter().map(|record| record.id.as_str()).collect();
        // A job that somebody repeated by hand has the tag too, and is his.
        let leftovers = held.iter().filter(|job| job.rerun_of.is_none() && !known.contains(job.id.as_str()));
        let ids: Vec<String> = leftovers.map(|job| job.id.clone()).collect();
        match ids.is_empty() {
            true => Ok(()),
            false => self.act(Action::Remove, &ids).await.map(drop),
        }
    }

    /// Lines that are not written down, and how many are: each command as often as it stands in both. Jobs that ended
    /// and stand for no line are another file's, and left out.
    fn fresh(&self, records: &mut Vec<Record>) -> (Vec<Entry>, usize) {
        let mut known: HashMap<String, usize> = HashMap::new();
        for record in records.iter() {
            *known.entry(record.command.clone()).or_default() += 1;
        }
        let mut fresh = Vec::new();
        for entry in &self.plan.entries {
            match known.get_mut(plan::text(entry).as_str()) {
                Some(left) if *left > 0 => *left -= 1,
                _ => fresh.push(entry.clone()),
            }
        }
        // What is left over of a command is the oldest of its jobs.
        records.retain(|record| match known.get_mut(&record.command) {
            Some(left) if *left > 0 && record.status.has_ended() => {
                *left -= 1;
                false
            }
            _ => true,
        });
        let known = self.plan.entries.len() - fresh.len();
        (fresh, known)
    }

    fn tell(&self, fresh: usize, known: usize) {
        let file = self.plan.file.path.display();
        let commands = text::counted(fresh as u64, "command");
        match (fresh, known) {
            (_, 0) => self.app.ui.say(&format!("queueing {commands}; {file} tells what becomes of them")),
            (0, _) => self.app.ui.say(&format!("going on with {file}: no new commands")),
            _ => self.app.ui.say(&format!("going on with {file}: queueing {commands}, {known} stand there already")),
        }
    }

    /// Held, written down, on disk, released.
    async fn put(&mut self, base: &JobSpec, batch: &[Entry]) -> Result<Vec<Record>, CliError> {
        let made = batch.iter().map(|entry| plan::spec(base.clone(), entry));
        let mut specs: Vec<JobSpec> =
            made.collect::<Result<_, _>>().map_err(|error| Refused { error, why: None, hint: None })?;
        specs.iter_mut().for_each(|spec| spec.tags.push(self.plan.tag.clone()));
        let jobs = match self.submit(&specs).await {
            Ok(jobs) => jobs,
            Err(CliError::Problem(problem)) if is_of_the_line(&problem, batch) => {
                let file = self.plan.settings.commands_file.display();
                let why = problem.why().map(|why| format!(": {why}")).unwrap_or_default();
                self.app.ui.warn(&format!("{file}, line {}: {}{why} (left out)", batch[0].line, problem.title()));
                self.refused += 1;
                return Ok(vec![]);
            }
            Err(error) => return Err(error),
        };
        let records: Vec<Record> = jobs.iter().map(|job| Record::of(job, None)).collect();
        let file = &mut self.plan.file;
        let written = records.iter().try_for_each(|record| file.append(record)).and_then(|()| file.sync());
        if let Err(source) = written {
            let doing = format!("{} cannot be written; what is not written down is not started", file.path.display());
            let ids: Vec<String> = jobs.iter().map(|job| job.id.clone()).collect();
            // They are found and removed at the next start too.
            let _ = self.act(Action::Remove, &ids).await;
            return Err(CliError::Io { doing, source });
        }
        self.plan.past.records.extend(records.iter().cloned());
        let ids: Vec<String> = jobs.iter().map(|job| job.id.clone()).collect();
        let released = self.act(Action::Release, &ids).await?;
        self.warn_if_hopeless(&released);
        Ok(records)
    }

    /// A service that goes away meanwhile may have taken them or not: those are leftovers like others.
    async fn submit(&mut self, specs: &[JobSpec]) -> Result<Vec<Job>, CliError> {
        let deadline = Instant::now() + RESTART_LIMIT;
        loop {
            let tried = self.app.started().await?.submit_all(specs).await;
            match tried {
                Ok(submitted) => {
                    for note in submitted.notes.iter().map(|note| note.to_string()) {
                        if !self.quiet && self.notes.insert(note.clone()) {
                            self.app.ui.note(&note);
                        }
                    }
                    return Ok(submitted.jobs);
                }
                Err(error) if is_away(&error) && Instant::now() < deadline => {
                    sleep(RESTART_LOOK).await;
                    self.remove_leftovers().await?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Those that it does not fit any more are left alone.
    async fn act(&self, action: Action, ids: &[String]) -> Result<Vec<Job>, CliError> {
        act(self.app, action, ids).await
    }

    fn warn_if_hopeless(&mut self, jobs: &[Job]) {
        let never = |job: &&Job| {
            let never = |waiting: &Waiting| {
                matches!(waiting, Waiting::NoSuchGpus(_) | Waiting::NoSuchCpus { .. } | Waiting::NoSuchRam { .. })
            };
            job.waiting.as_ref().is_some_and(never)
        };
        let Some(job) = jobs.iter().find(never) else { return };
        let why = reason::of_job(job, Capacity { gpus: 0, cpus: 0 }, &jiff::Zoned::now());
        if self.notes.insert(why.clone()) {
            self.app.ui.warn(&format!("{} cannot start here: it {why}; nexus why {}", job.id, job.id));
        }
    }
}

/// With patience for a service that restarts.
pub async fn act(app: &App, action: Action, ids: &[String]) -> Result<Vec<Job>, CliError> {
    let deadline = Instant::now() + RESTART_LIMIT;
    loop {
        let on = OnJobs { ids: ids.to_vec(), skip_unfit: true };
        match app.started().await?.act(action, on).await {
            Err(error) if is_away(&error) && Instant::now() < deadline => sleep(RESTART_LOOK).await,
            done => return done,
        }
    }
}

/// Whether a line with options of its own is what is wrong, and others may be fine.
fn is_of_the_line(problem: &Problem, batch: &[Entry]) -> bool {
    let own = batch.len() == 1 && !batch[0].options.is_empty();
    own && matches!(problem, Problem::BadField { .. } | Problem::NoSuchFolder { .. } | Problem::NoSuchJob { .. })
}

fn path_text(path: &std::path::Path) -> Result<String, CliError> {
    let refused = || Refused { error: format!("the path {path:?} is not valid UTF-8"), why: None, hint: None };
    Ok(path.to_str().ok_or_else(refused)?.to_string())
}

#[cfg(test)]
mod tests {
    use nexus_api::job_file::{self, Format};

    use super::*;

    #[test]
    fn lines_with_options_go_alone_and_the_order_stays() {
        let plain = "a\n".repeat(TOGETHER + 1);
        let text = format!("{plain}#@ priority=1\nb\n#@ priority=1\nc\nd\ne\n");
        let entries = job_file::read(text.as_bytes(), Some(Format::Lines)).unwrap().entries;
        let sizes: Vec<usize> = batches(&entries).into_iter().map(<[Entry]>::len).collect();
        assert_eq!(sizes, [TOGETHER, 1, 1, 1, 2]);
        assert_eq!(batches(&entries).concat(), entries);
    }
}
