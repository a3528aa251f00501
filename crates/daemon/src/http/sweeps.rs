//! Sweeps: made, and as they stand.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use nexus_api::command::Command;
use nexus_api::env::Env;
use nexus_api::jobs::{JobSpec, Note};
use nexus_api::problem::Problem;
use nexus_api::sweeps::{BadPlan, NewSweep, PlannedPoint, Points, States, Sweep, SweepPlanned, SweepQueued};
use nexus_api::template;
use nexus_core::ids::SweepId;
use nexus_core::request::Same;
use nexus_core::sweep::Counts;
use nexus_node::threads;
use serde::Deserialize;
use utoipa::IntoParams;

use super::cursor;
use super::extract::{Asked, Path, Sent, once};
use super::jobs::{code_is_kept, fill_env};
use super::problem::Failed;
use super::{App, Shared};
use crate::engine::{Message, SweepJob, SweepOrder};
use crate::identity::identity;
use crate::models::Rules;
use crate::same::same;
use crate::store::{JobEnv, NewSpec, Reader, StoreError, SweepRow};
use crate::{blocking, checks, clock, words};

/// So many jobs of a sweep that is only tried out are shown.
const PLANNED_SHOWN: usize = 100;

/// What ended a moment ago is on disk, and told, after this.
const A_MOMENT: Duration = Duration::from_millis(50);

#[derive(Deserialize, IntoParams)]
pub struct CreateQuery {
    /// Only say what it would come to.
    #[serde(default)]
    dry_run: bool,
    /// As of `POST /v1/jobs`.
    env: Option<String>,
}

/// `POST /v1/sweeps`
pub async fn create(
    State(app): State<Shared>,
    Asked(query): Asked<CreateQuery>,
    headers: HeaderMap,
    Sent(mut new): Sent<NewSweep>,
) -> Result<Response, Failed> {
    let once = once(&headers, "sweeps", &new)?;
    fill_env(query.env.as_deref(), std::slice::from_mut(&mut new.spec))?;
    app.can_tell(&new.spec)?;
    blocking::in_place(|| code_is_kept(&app.home, None, &new.spec))?;
    let maker = app.clone();
    let (order, notes) = blocking::answer(move || made(new, &maker.reload.rules())).await??;
    if query.dry_run {
        return Ok(Json(planned(order, notes)).into_response());
    }
    let (name, ids) = app.order(|reply| Message::Sweep { order: Box::new(order), once, reply }).await?;
    // Before the engine is asked again: it still tells the others.
    let ids = ids.iter().map(ToString::to_string).collect();
    let sweep = app.sweep(name).await?;
    Ok(Json(SweepQueued { sweep, ids, notes }).into_response())
}

fn planned(order: SweepOrder, notes: Vec<Note>) -> SweepPlanned {
    let point =
        |job: &SweepJob| PlannedPoint { params: job.spec.whole().params, command: job.spec.command().to_string() };
    let first = order.jobs.iter().take(PLANNED_SHOWN).map(point).collect();
    SweepPlanned { jobs: order.jobs.len() as u64, params: order.params, first, notes }
}

/// `GET /v1/sweeps`
pub async fn list(State(app): State<Shared>) -> Result<Json<Vec<Sweep>>, Failed> {
    Ok(Json(app.sweeps(|reader| reader.sweeps().map_err(|error| error.problem())).await?))
}

/// `GET /v1/sweeps/NAME`
pub async fn show(State(app): State<Shared>, Path(name): Path<String>) -> Result<Json<Sweep>, Failed> {
    Ok(Json(app.sweep(name).await?))
}

#[derive(Deserialize, IntoParams)]
pub struct JobsQuery {
    /// As of `GET /v1/jobs`, in the order of the points.
    cursor: Option<String>,
    /// Jobs of a page; counts beside a cursor alone.
    limit: Option<u64>,
}

/// `GET /v1/sweeps/NAME/jobs`: those that count.
pub async fn jobs(
    State(app): State<Shared>,
    Path(name): Path<String>,
    Asked(query): Asked<JobsQuery>,
) -> Result<Response, Failed> {
    let fail = |error: StoreError| error.problem();
    let after: Option<i64> =
        query.cursor.as_deref().filter(|cursor| !cursor.is_empty()).map(cursor::number).transpose()?;
    let limit = query.cursor.is_some().then(|| cursor::limit(query.limit)).transpose()?;
    let mut rows = app
        .read(move |reader| {
            reader.sweep(&name).map_err(fail)?.ok_or_else(|| no_such(&name))?;
            reader.points_of_sweep(&name, after, limit.map(|limit| limit + 1)).map_err(fail)
        })
        .await?;
    let next = cursor::cut(&mut rows, limit, |row| row.n.to_string());
    Ok(cursor::answer(app.view(rows, false).await?, next))
}

impl App {
    async fn sweep(self: &Shared, name: String) -> Result<Sweep, Problem> {
        let row = move |reader: &Reader| {
            let row = reader.sweep(&name).map_err(|error| error.problem())?;
            Ok(vec![row.ok_or_else(|| no_such(&name))?])
        };
        Ok(self.sweeps(row).await?.remove(0))
    }

    /// Live jobs are counted by the engine, ended ones on disk: one that ends in between would count twice or not at
    /// all, so one looks again.
    async fn sweeps<F>(self: &Shared, rows_of: F) -> Result<Vec<Sweep>, Problem>
    where
        F: Fn(&Reader) -> Result<Vec<SweepRow>, Problem> + Clone + Send + 'static,
    {
        let mut told = self.events.subscribe();
        for last in [false, false, false, false, true] {
            let rows = self.read(rows_of.clone()).await?;
            let ids: Vec<SweepId> = rows.iter().map(|row| row.id).collect();
            let counts: Vec<Counts> = self
                .ask(move |world| {
                    ids.iter().map(|id| world.sweep(*id).map(|sweep| sweep.counts).unwrap_or_default()).collect()
                })
                .await?;
            let adds_up = |(row, counts): (&SweepRow, &Counts)| {
                row.completed + row.failed + row.killed + counts.live() == row.jobs
            };
            if last || rows.iter().zip(&counts).all(adds_up) {
                return Ok(rows.into_iter().zip(counts).map(|(row, counts)| view(row, counts)).collect());
            }
            // However it ends, one looks again.
            let _ = tokio::time::timeout(A_MOMENT, told.recv()).await;
        }
        unreachable!("the last look counts")
    }
}

fn no_such(name: &str) -> Problem {
    Problem::NothingMatches { selector: format!("sweep:{name}") }
}

fn view(row: SweepRow, counts: Counts) -> Sweep {
    let expected_end = expected(&row, counts).map(|left| clock::rfc3339(clock::now().after(left)));
    Sweep {
        states: States {
            held: counts.held,
            queued: counts.queued,
            running: counts.active,
            copying: counts.copying,
            completed: row.completed,
            failed: row.failed,
            killed: row.killed,
        },
        stopped: row.stopped.as_ref().map(words::stopped_sentence),
        submitted_at: clock::rfc3339(row.submitted_at),
        expected_end,
        name: row.name,
        project: row.project,
        command: row.command,
        params: row.params,
        extract: row.extract,
        plan: row.plan,
        copies: row.copies,
        jobs: row.jobs,
        max_running: row.max_running,
        stop_after: row.stop_after,
    }
}

/// How long it will be on, if its jobs go on as those that completed, as many at once as now. Those that run are
/// halfway, on average.
fn expected(row: &SweepRow, counts: Counts) -> Option<Duration> {
    if row.completed == 0 || counts.active == 0 {
        return None;
    }
    let mean = row.completed_time.as_secs_f64() / row.completed as f64;
    let left = counts.queued as f64 + counts.active as f64 / 2.0;
    Some(Duration::from_secs_f64(mean * left / counts.active as f64))
}

/// Its jobs, each with what rules say of it, checked: one that makes no sense and there are none.
fn made(new: NewSweep, rules: &Rules) -> Result<(SweepOrder, Vec<Note>), Problem> {
    let NewSweep { name, spec, plan, copies, max_running, stop_after } = new;
    if let Some(name) = &name {
        checks::sweep_name(name)?;
    }
    if max_running == Some(0) {
        let want = "at least 1 job at once".into();
        return Err(Problem::BadField { field: "max-running".into(), value: "0".into(), want });
    }
    let points = plan.points(copies).map_err(bad_plan)?;
    points.check_used(&spec).map_err(bad_plan)?;
    let command = spec.command.text();
    let (project, extract) = (spec.project.clone(), spec.extract.iter().map(|it| it.name.clone()).collect());
    let same = marked(&spec, &points);
    let (jobs, notes) = jobs_of(spec, &points, rules)?;
    let params = points.names;
    let order =
        SweepOrder { name, project, command, params, extract, plan, copies, max_running, stop_after, jobs, same };
    Ok((order, notes))
}

fn jobs_of(mut spec: JobSpec, points: &Points, rules: &Rules) -> Result<(Vec<SweepJob>, Vec<Note>), Problem> {
    (spec.by_rule, spec.name) = (None, None);
    (spec.rerun_of, spec.variables) = (None, vec![]);
    checks::signal(None, &spec)?;
    let env = std::mem::take(&mut spec.env);
    let own_env = spec.env_given.iter().any(|name| env.get(name).is_some_and(|value| value.contains('{')));
    let shared = Arc::new(JobEnv::of(env.clone()));
    let half = |rows: &[Vec<String>], is_first: bool| -> Result<(Vec<SweepJob>, Vec<Note>), Problem> {
        let (mut jobs, mut notes) = (Vec::<SweepJob>::with_capacity(rows.len()), Vec::new());
        for row in rows {
            let (mut job, env) = match own_env {
                false => (points.job(&spec, row), shared.clone()),
                true => {
                    let mut job = points.job(&JobSpec { env: env.clone(), ..spec.clone() }, row);
                    let env: Env = std::mem::take(&mut job.env);
                    (job, Arc::new(JobEnv::of(env)))
                }
            };
            notes.extend(rules.fill(&mut job).filter(|note| !notes.contains(note)));
            match is_first && jobs.is_empty() {
                true => checks::spec(&mut job)?,
                // Its folder is that of the first.
                false => checks::past_spec(&mut job)?,
            }
            let identity = identity(&job);
            let spec = NewSpec::of(job, jobs.last().map(|last| &last.spec.common));
            jobs.push(SweepJob { spec, env, identity });
        }
        Ok((jobs, notes))
    };
    // Those of a large sweep take a while: two go about it.
    let (one, other) = points.rows.split_at(points.rows.len().div_ceil(2));
    let (one, other) = std::thread::scope(|scope| {
        let thread = threads::start_scoped(scope, "nexus-sweep", || half(other, false));
        let first = half(one, true);
        let second = match thread {
            Ok(thread) => thread.join().expect("whoever makes jobs does not panic"),
            // No thread is to be had.
            Err(_) => half(other, false),
        };
        (first, second)
    });
    let ((mut jobs, mut notes), (more, more_notes)) = (one?, other?);
    jobs.extend(more);
    notes.extend(more_notes.into_iter().filter(|note| !notes.contains(note)).collect::<Vec<_>>());
    Ok((jobs, notes))
}

/// One command, whatever the values are.
fn marked(spec: &JobSpec, points: &Points) -> Same {
    let mark = |name: &str| points.names.iter().any(|known| known == name).then_some("#");
    let command = match &spec.command {
        Command::Shell(text) => Command::Shell(template::fill(text, mark)),
        Command::Argv(words) => Command::Argv(words.iter().map(|word| template::fill(word, mark)).collect()),
    };
    same(&JobSpec::new(command, spec.cwd.clone()))
}

fn bad_plan(bad: BadPlan) -> Problem {
    Problem::BadField { field: "plan".into(), value: bad.error(), want: bad.hint() }
}
