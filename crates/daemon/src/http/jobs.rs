//! Jobs: list, show, submit, rerun.

use std::collections::{BTreeMap, BTreeSet};

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use nexus_api::env::{Env, looks_secret};
use nexus_api::jobs::{
    Code, Few, Job, JobDetail, JobQuery, JobSpec, Note, Rerun, State as Word, Submitted, Waiting as WaitingWord,
};
use nexus_api::paths::Home;
use nexus_api::problem::Problem;
use nexus_core::event::Needs;
use nexus_core::ids::JobId;
use nexus_core::run::{Lease, Run};
use nexus_core::waiting::Waiting;
use serde::Deserialize;
use utoipa::IntoParams;

use super::extract::{Asked, Path, Sent, once};
use super::problem::Failed;
use super::{App, Shared};
use crate::engine::{FEW, Message, Once, fresh};
use crate::identity::identity;
use crate::in_queue::InQueue;
use crate::same::same;
use crate::select::select;
use crate::store::{Filter, JobRow, Narrow, Reader, StoreError, parents};
use crate::{blocking, checks, clock, own_env, view, words};

/// Jobs of one submission.
const MOST_JOBS: usize = 1_000_000;

/// Of so many jobs that are only tried out it is said when they would start, each by itself.
const EXPECTED_AT_ONCE: usize = 8;

pub async fn list(State(app): State<Shared>, Asked(query): Asked<JobQuery>) -> Result<Response, Failed> {
    if let Some(cursor) = &query.cursor {
        return app.page(cursor, &query).await;
    }
    let filter = filter(&query)?;
    let all_waiting = filter.states.is_empty() || [Word::Held, Word::Queued].iter().all(|s| filter.states.contains(s));
    let all = query.select.is_none() && query.limit.is_none() && query.since.is_none();
    let whole_queue = all_waiting && all && filter.narrow == Narrow::default();
    let rows = match query.select {
        None => app.read(move |reader| reader.list(&filter).map_err(|error| error.problem())).await?,
        Some(texts) => {
            let texts: Vec<String> = texts.split('\n').map(String::from).collect();
            let mut rows = app.selected(texts, filter.states).await?;
            rows.retain(|row| filter.narrow.fits(row));
            rows
        }
    };
    let mut jobs = app.view(rows, whole_queue).await?;
    if query.expected {
        app.expect(&mut jobs).await?;
    }
    Ok(Json(jobs).into_response())
}

#[derive(Deserialize, IntoParams)]
pub struct ShowQuery {
    /// With the values of its environment, not the names alone.
    #[serde(default)]
    env: bool,
}

/// One job and what became of it so far.
pub(super) struct InFull<T> {
    pub row: JobRow,
    /// As clients see it.
    pub job: Job,
    pub runs: Vec<nexus_api::jobs::Run>,
    pub more: T,
}

pub async fn show(
    State(app): State<Shared>,
    Path(id): Path<String>,
    Asked(query): Asked<ShowQuery>,
) -> Result<Json<JobDetail>, Failed> {
    let InFull { row, mut job, runs, more: env } = app.in_full(id, |reader, row| reader.env(&row.id)).await?;
    let mut env_names: Vec<String> = env.keys().cloned().collect();
    env_names.extend(row.secret_names.iter().filter(|name| !env.contains_key(*name)).cloned());
    env_names.sort();
    let JobSpec { conda, venv, gpu_arg, code, by_rule, after, after_any, retry_on, unique, notify, extract, .. } =
        row.spec.clone();
    let (results_folder, results_error) = (app.own_results(&row), row.left.error.clone());
    let results_copy = app.copy_of(&row).filter(|copy| !copy.ended);
    let checkpoints = app.checkpoints_of(&row).filter(|folder| folder.is_dir());
    let checkpoint_dir = checkpoints.map(|folder| folder.display().to_string());
    app.expect(std::slice::from_mut(&mut job)).await?;
    let env = query.env.then_some(env);
    Ok(Json(JobDetail {
        job,
        runs,
        conda,
        venv,
        gpu_arg,
        code,
        env_names,
        env,
        checkpoint_dir,
        by_rule,
        after,
        after_any,
        retry_on,
        unique,
        notify,
        extract,
        results_folder,
        results_error,
        results_copy,
    }))
}

#[derive(Deserialize, IntoParams)]
pub struct SubmitQuery {
    /// Only say what would become of them.
    #[serde(default)]
    dry_run: bool,
    /// Each spec this many times.
    copies: Option<usize>,
    /// Say when they are expected to start.
    #[serde(default)]
    expected: bool,
    /// `service`: the environment of the service's owner, below what the job sets itself.
    env: Option<String>,
}

/// A client that has no environment of its own asks for that of the service's owner: `env=service`. What a job sets
/// itself stays.
pub(super) fn fill_env(asked: Option<&str>, specs: &mut [JobSpec]) -> Result<(), Problem> {
    match asked {
        None => return Ok(()),
        Some("service") => {}
        Some(other) => {
            let want = "service, or nothing at all".into();
            return Err(Problem::BadField { field: "env".into(), value: other.into(), want });
        }
    }
    let own = own_env::env();
    for spec in specs {
        let given = std::mem::replace(&mut spec.env, own.clone());
        let names: BTreeSet<String> = spec.env_given.drain(..).chain(given.keys().cloned()).collect();
        spec.env_given = names.into_iter().collect();
        spec.env.extend(given);
    }
    Ok(())
}

pub async fn submit(
    State(app): State<Shared>,
    Asked(query): Asked<SubmitQuery>,
    headers: HeaderMap,
    Sent(mut specs): Sent<Vec<JobSpec>>,
) -> Result<Json<Submitted>, Failed> {
    let once = once(&headers, "jobs", &(&specs, query.copies))?;
    fill_env(query.env.as_deref(), &mut specs)?;
    let copies = query.copies.unwrap_or(1);
    let (specs, notes) = app.meant(specs, copies)?;
    if query.dry_run {
        let specs = specs.into_iter().flat_map(|spec| std::iter::repeat_n(spec, copies)).collect();
        return Ok(Json(Submitted { jobs: app.try_out(specs).await?, notes }));
    }
    let mut jobs = app.submit(specs, copies, once).await?;
    if query.expected {
        app.expect(&mut jobs).await?;
    }
    if !notes.is_empty() {
        let lines = notes.iter().map(|note| format!("Note: {note}").into()).collect();
        // The jobs are taken, whatever becomes of the service.
        let _ = app.post(Message::Log(lines));
    }
    Ok(Json(Submitted { jobs, notes }))
}

pub async fn rerun(
    State(app): State<Shared>,
    headers: HeaderMap,
    Sent(rerun): Sent<Rerun>,
) -> Result<Json<Submitted>, Failed> {
    let once = once(&headers, "rerun", &rerun)?;
    let Rerun { ids, secrets, resume } = rerun;
    // Checkpoints that are to be gone on from are not forgotten meanwhile.
    let _turn = app.edits.lock().await;
    let home = app.home.clone();
    let (specs, dropped) = app
        .read(move |reader| {
            let (mut specs, mut dropped) = (Vec::new(), Vec::new());
            let together: BTreeSet<String> = ids.iter().cloned().collect();
            for id in ids {
                let fail = |error: StoreError| error.problem();
                let row = reader.job(&id).map_err(fail)?.ok_or_else(|| Problem::NoSuchJob { id: id.clone() })?;
                if resume && !row.state.has_ended() {
                    let (verb, state) = ("rerun --resume".into(), row.state);
                    return Err(Problem::WrongState { id, verb, state, gpus: row.gpus });
                }
                let checkpoint_of = resume.then(|| row.checkpoints_of().to_string());
                if let Some(of) = &checkpoint_of {
                    checkpoints_are_free(reader, &id, of, &specs)?;
                }
                code_is_kept(&home, Some(&id), &row.spec)?;
                let env = env_again(reader, &row, &secrets).map_err(fail)?;
                dropped.push(row.secret_names.iter().filter(|name| !env.contains_key(*name)).cloned().collect());
                // A sweep of its name that is here is another one.
                let sweep = row.spec.sweep.clone().filter(|_| !row.is_past());
                let (tags, rerun_of) = (row.tags, Some(id));
                let mut spec = JobSpec { env, tags, hold: false, rerun_of, checkpoint_of, sweep, ..row.spec };
                // Who asks for it again means it.
                spec.unique = false;
                for parents in [&mut spec.after, &mut spec.after_any] {
                    *parents = still_parents(reader, std::mem::take(parents), &together)?;
                }
                specs.push(spec);
            }
            Ok((specs, dropped))
        })
        .await?;
    // What the old job asked for holds for the new one; rules have no word in it.
    let specs = app.checked(specs, 1)?;
    let jobs = app.submit(specs, 1, once).await?;
    let notes = secrets_dropped(&jobs, dropped);
    Ok(Json(Submitted { jobs, notes }))
}

/// The environment of a job that is repeated. Secrets were dropped when it ended: the caller's values take their place.
fn env_again(reader: &Reader, row: &JobRow, of_caller: &Env) -> Result<Env, StoreError> {
    let mut env = if row.is_past() { own_env::env() } else { Env::new() };
    env.extend(reader.env(&row.id)?);
    let from_caller = of_caller.iter().filter(|(name, _)| looks_secret(name) && row.secret_names.contains(name));
    env.extend(from_caller.map(|(name, value)| (name.clone(), value.clone())));
    Ok(env)
}

/// `dropped`: for each of the jobs the names whose values nobody has any more.
fn secrets_dropped(jobs: &[Job], dropped: Vec<Vec<String>>) -> Vec<Note> {
    let mut by_names: BTreeMap<Vec<String>, Few> = BTreeMap::new();
    for (job, names) in jobs.iter().zip(dropped).filter(|(_, names)| !names.is_empty()) {
        by_names.entry(names).or_default().add(&job.id);
    }
    by_names.into_iter().map(|(names, jobs)| Note::SecretsDropped { names, jobs }).collect()
}

/// A job that runs in a copy of a folder needs that copy: any other code would not be what it was added with. `id`: the job
/// that is repeated.
pub(super) fn code_is_kept(home: &Home, id: Option<&str>, spec: &JobSpec) -> Result<(), Problem> {
    let Some(code) = spec.code.as_ref().filter(|code| Code::is_content(&code.content)) else { return Ok(()) };
    let kept = [home.snapshots(), home.code()].map(|folder| folder.join(&code.content));
    match kept.iter().find(|folder| !folder.is_dir()) {
        None => Ok(()),
        Some(missing) => Err(Problem::CodeGone {
            id: id.map(String::from),
            of: code.of.clone(),
            missing: missing.display().to_string(),
        }),
    }
}

/// Two jobs at once would write over each other's checkpoints. `specs`: those that are repeated together.
fn checkpoints_are_free(reader: &Reader, id: &str, of: &str, specs: &[JobSpec]) -> Result<(), Problem> {
    if let Some((by, state)) = reader.live_on_checkpoints(of).map_err(|error| error.problem())? {
        return Err(Problem::CheckpointsInUse { id: id.into(), by, state });
    }
    if specs.iter().any(|spec| spec.checkpoint_of.as_deref() == Some(of)) {
        let want = "jobs with checkpoints of their own, and another of these goes on from the same".into();
        return Err(Problem::BadField { field: "resume".into(), value: id.into(), want });
    }
    Ok(())
}

/// Jobs that a repeated one comes after: those that are repeated with it, and those that have not ended.
fn still_parents(reader: &Reader, old: Vec<String>, together: &BTreeSet<String>) -> Result<Vec<String>, Problem> {
    let mut parents = Vec::new();
    for id in old {
        let is_live = || Ok(reader.job(&id)?.is_some_and(|row| !row.state.has_ended()));
        if together.contains(&id) || is_live().map_err(|error: StoreError| error.problem())? {
            parents.push(id);
        }
    }
    Ok(parents)
}

pub(super) fn filter(query: &JobQuery) -> Result<Filter, Problem> {
    let mut states = Vec::new();
    for word in query.state.iter().flat_map(|text| text.split(',')).filter(|word| !word.is_empty()) {
        match word {
            "alive" => states.extend(Word::ALL.into_iter().filter(|state| !state.has_ended())),
            "ended" => states.extend(Word::ALL.into_iter().filter(|state| state.has_ended())),
            word => states.extend(Word::from_filter(word).ok_or_else(|| Problem::BadField {
                field: "state".into(),
                value: word.to_string(),
                want: "one of held, queued, starting, running, copying, completed, failed, killed".into(),
            })?),
        }
    }
    let since = query.since.as_deref().map(|text| {
        clock::parse(text).ok_or_else(|| Problem::BadField {
            field: "since".into(),
            value: text.to_string(),
            want: "a time as in 2026-01-31T12:00:00Z".into(),
        })
    });
    let JobQuery { project, tag, sweep, name, contains, .. } = query.clone();
    let narrow = Narrow { project, tag, sweep, name, contains: contains.filter(|text| !text.is_empty()) };
    Ok(Filter { states, since: since.transpose()?, limit: query.limit, narrow })
}

impl App {
    /// The rows that selectors name.
    pub async fn selected(self: &Shared, texts: Vec<String>, states: Vec<Word>) -> Result<Vec<JobRow>, Problem> {
        let on_gpus: Vec<(String, u16, JobId)> = self
            .ask_pool(|world, pool| {
                let on = |run: &Run| {
                    let (machine, job) = (pool.names.machine_name(run.lease.machine).to_string(), run.id.job);
                    run.lease.gpus.iter().map(move |gpu| (machine.clone(), gpu, job)).collect::<Vec<_>>()
                };
                world.active_runs().flat_map(on).collect()
            })
            .await?;
        self.read(move |reader| {
            let on_gpu = move |machine: Option<&str>, index: u16| {
                let machine = machine.unwrap_or("local");
                let there = on_gpus.iter().filter(|(on, gpu, _)| on == machine && *gpu == index);
                there.map(|(_, _, job)| *job).collect()
            };
            select(reader, &texts, &states, &on_gpu)
        })
        .await
    }

    /// The numbers of the jobs that selectors name, one in a line.
    pub async fn selected_numbers(self: &Shared, texts: &str) -> Result<Vec<i64>, Problem> {
        let texts = texts.split('\n').map(String::from).collect();
        Ok(self.selected(texts, vec![]).await?.into_iter().map(|row| row.n).collect())
    }

    /// Rows as clients see them, with the live facts.
    pub async fn view(self: &Shared, rows: Vec<JobRow>, whole_queue: bool) -> Result<Vec<Job>, Problem> {
        // One that has begun here may be in the hands of a cluster.
        let is_on = |row: &&JobRow| matches!(row.state, Word::Starting | Word::Running);
        let may_wait = |row: &&JobRow| is_waiting(row) || is_on(row) && row.is_away();
        let waiting_ids = rows.iter().filter(may_wait).map(|row| row.id.clone()).collect();
        let waiting = self.waiting(waiting_ids).await?;
        let app = self.clone();
        self.read(move |reader| app.jobs(reader, rows, &waiting, whole_queue)).await
    }

    /// `more`: what else is read of it in the same moment.
    pub(super) async fn in_full<T: Send + 'static>(
        self: &Shared,
        id: String,
        more: impl FnOnce(&Reader, &JobRow) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<InFull<T>, Problem> {
        // Before its row: what it waits for came of the runs that are read then.
        let waiting = self.waiting(vec![id.clone()]).await?;
        let app = self.clone();
        self.read(move |reader| {
            let fail = |error: StoreError| error.problem();
            let row = reader.job(&id).map_err(fail)?.ok_or(Problem::NoSuchJob { id })?;
            let runs = reader.runs(row.n).map_err(fail)?.into_iter().map(view::run).collect();
            let more = more(reader, &row).map_err(fail)?;
            let job = app.jobs(reader, vec![row.clone()], &waiting, false)?.remove(0);
            Ok(InFull { row, job, runs, more })
        })
        .await
    }

    pub async fn by_ids(self: &Shared, ids: Vec<String>) -> Result<Vec<Job>, Problem> {
        let waiting = self.waiting(ids.clone()).await?;
        let app = self.clone();
        self.read(move |reader| {
            let mut rows = Vec::with_capacity(ids.len());
            for id in ids {
                rows.extend(reader.job(&id).map_err(|error| error.problem())?);
            }
            app.jobs(reader, rows, &waiting, false)
        })
        .await
    }

    pub(super) fn jobs(
        &self,
        reader: &Reader,
        rows: Vec<JobRow>,
        waiting: &InQueue,
        whole_queue: bool,
    ) -> Result<Vec<Job>, Problem> {
        let around = view::Surroundings { log_dir: &self.log_dir, now: clock::now(), waiting: &waiting.why };
        // The places of many are left out unless it is the whole queue.
        let few = rows.iter().filter(|row| is_waiting(row)).count() <= FEW;
        let mut jobs = Vec::with_capacity(rows.len());
        let mut next = 0;
        for row in rows {
            let position = match is_waiting(&row) {
                false => None,
                true if whole_queue => {
                    next += 1;
                    Some(next)
                }
                true if few => reader.position(&row, waiting.length).map_err(|error| error.problem())?,
                true => None,
            };
            jobs.push(view::job(row, position, &around));
        }
        Ok(jobs)
    }

    /// New jobs with what rules say of them, checked.
    pub(super) fn meant(&self, mut specs: Vec<JobSpec>, copies: usize) -> Result<(Vec<JobSpec>, Vec<Note>), Problem> {
        let rules = match self.reload.reads_models() {
            true => blocking::in_place(|| self.reload.rules()),
            false => self.reload.rules(),
        };
        let mut notes = Vec::new();
        for spec in &mut specs {
            // What the service alone says of a job.
            (spec.by_rule, spec.sweep, spec.variables) = (None, None, vec![]);
            spec.params.clear();
            notes.extend(rules.fill(spec).filter(|note| !notes.contains(note)));
            checks::signal(None, spec)?;
            self.can_tell(spec)?;
        }
        blocking::in_place(|| specs.iter().try_for_each(|spec| code_is_kept(&self.home, None, spec)))?;
        Ok((self.checked(specs, copies)?, notes))
    }

    /// Whoever goes away to be told must be told.
    pub(super) fn can_tell(&self, spec: &JobSpec) -> Result<(), Problem> {
        match spec.notify && !self.reload.tells() {
            true => Err(Problem::NobodyToTell),
            false => Ok(()),
        }
    }

    /// Specs that make sense, of which so many copies may be made.
    fn checked(&self, mut specs: Vec<JobSpec>, copies: usize) -> Result<Vec<JobSpec>, Problem> {
        self.near.check(&mut specs)?;
        if copies == 0 || copies.saturating_mul(specs.len()) > MOST_JOBS {
            let want = format!("at least 1 and at most {MOST_JOBS} jobs at a time");
            return Err(Problem::BadField { field: "copies".into(), value: copies.to_string(), want });
        }
        Ok(specs)
    }

    /// So many jobs of each spec.
    async fn submit(
        self: &Shared,
        specs: Vec<JobSpec>,
        copies: usize,
        once: Option<Once>,
    ) -> Result<Vec<Job>, Problem> {
        let jobs = fresh(specs).into_iter().flat_map(|job| std::iter::repeat_n(job, copies)).collect();
        let taken = self.order(|reply| Message::Submit { jobs, note: None, once, reply }).await?;
        let Some(waiting) = taken.waiting else {
            return self.by_ids(taken.ids.iter().map(JobId::to_string).collect()).await;
        };
        let why = &waiting.in_queue.why;
        let around = view::Surroundings { log_dir: &self.log_dir, now: clock::now(), waiting: why };
        Ok(waiting.rows.into_iter().map(|(row, position)| view::job(row, position, &around)).collect())
    }

    /// The jobs as they would be, without an id: why each would wait, or where it would start.
    async fn try_out(self: &Shared, specs: Vec<JobSpec>) -> Result<Vec<Job>, Problem> {
        let asked = specs.iter().filter(|spec| spec.unique).cloned().collect::<Vec<_>>();
        self.read(move |reader| asked.iter().try_for_each(|spec| no_twin(reader, spec))).await?;
        let names = self.names().await?;
        let asked: Vec<_> = specs
            .iter()
            .map(|spec| {
                let before: Vec<JobId> = parents(spec).filter_map(|(id, _)| id.parse().ok()).collect();
                (words::needs(spec, same(spec), &names), before)
            })
            .collect();
        let answers: Vec<(Waiting, Option<Lease>)> = self
            .explain(move |world, _, explainer| {
                let mut answer = |(needs, before): &(Needs, Vec<JobId>)| {
                    let live: Vec<JobId> = before.iter().copied().filter(|id| world.job(*id).is_some()).collect();
                    if !live.is_empty() {
                        return (Waiting::After { count: live.len() as u64, jobs: live }, None);
                    }
                    let place = explainer.place(&needs.request);
                    let longest = needs.limit.or_else(|| world.learned(needs.same).longest());
                    (explainer.request(&needs.request, longest), place)
                };
                asked.iter().map(&mut answer).collect()
            })
            .await?;
        let around = view::Surroundings { log_dir: &self.log_dir, now: clock::now(), waiting: &Default::default() };
        let job = |(spec, (answer, place)): (JobSpec, (Waiting, Option<Lease>))| {
            let mut job = view::job(JobRow::planned(String::new(), spec, around.now), None, &around);
            let answer = if job.state == Word::Held { Waiting::Held } else { answer };
            if let (Waiting::Next, Some(place)) = (&answer, place) {
                job.gpus = place.gpus.iter().collect();
                job.machine = Some(names.machine_name(place.machine).to_string());
            }
            job.waiting = Some(words::waiting(&answer, &names));
            job
        };
        let firsts: Vec<(Needs, i32)> = specs
            .iter()
            .take(EXPECTED_AT_ONCE)
            .map(|spec| (words::needs(spec, same(spec), &names), spec.priority))
            .collect();
        let mut jobs: Vec<Job> = specs.into_iter().zip(answers).map(job).collect();
        for (job, (needs, priority)) in jobs
            .iter_mut()
            .zip(firsts)
            .filter(|(job, _)| job.state == Word::Queued && !matches!(job.waiting, Some(WaitingWord::After { .. })))
        {
            job.expected = self.expect_new(needs, priority).await?;
        }
        Ok(jobs)
    }
}

/// As the engine would say.
fn no_twin(reader: &Reader, spec: &JobSpec) -> Result<(), Problem> {
    match reader.twins(identity(spec), spec).map_err(|error| error.problem())?.into_iter().next() {
        Some(row) => Err(Problem::NotUnique { id: row.id, state: row.state }),
        None => Ok(()),
    }
}

pub(super) fn is_waiting(row: &JobRow) -> bool {
    matches!(row.state, Word::Held | Word::Queued)
}
