//! Jobs that run, wait or have ended, in columns.

use nexus_api::jobs::{Job, State};
use ratatui_core::style::Style;
use ratatui_core::text::Line;

use super::Sight;
use super::columns::{Column, Columns, cell};
use crate::render::reason::{self, Capacity};
use crate::render::{expected, outcome, place, time};

/// Letters of names that somebody gave.
const NAME: usize = 20;
const PROJECT: usize = 14;

/// From so many columns on what is nice to know is shown as well.
const WIDE: u16 = 100;

pub fn running(sight: &Sight, jobs: &[&Job]) -> Columns {
    let (look, now) = (sight.look, sight.now);
    let each = |of: &dyn Fn(&Job) -> String, style| texts(jobs, of, style);
    let pid = |job: &Job| job.pid.filter(|_| sight.width >= WIDE).map(|pid| pid.to_string()).unwrap_or_default();
    let ends = |job: &Job| expected::end(job, now).unwrap_or_default();
    Columns::new(vec![
        Column::new("ID", each(&|job| job.id.clone(), look.id())),
        Column::new("ON", each(&on, look.plain())).most(24),
        Column::new("STATE", each(&|job| not_running(job, sight), look.state())).most(30),
        Column::new("TIME", each(&|job| ran(job, sight), look.time())).right(),
        Column::new("ENDS", each(&ends, look.time())).spare(4),
        Column::new("PID", each(&pid, look.plain())).right().spare(1),
        Column::new("PROJECT", each(&|job| job.project.clone().unwrap_or_default(), look.plain()))
            .most(PROJECT)
            .spare(2),
        Column::new("NAME", each(&|job| job.name.clone().unwrap_or_default(), look.plain())).most(NAME),
        Column::new("COMMAND", each(&|job| job.command.clone(), look.plain())),
    ])
}

pub fn queue(sight: &Sight, jobs: &[&Job]) -> Columns {
    let (look, now) = (sight.look, sight.now);
    let each = |of: &dyn Fn(&Job) -> String, style| texts(jobs, of, style);
    let prioritised = jobs.iter().any(|job| job.priority != 0);
    let priority = |job: &Job| if prioritised { job.priority.to_string() } else { String::new() };
    let position = |job: &Job| job.position.map(|position| position.to_string()).unwrap_or_default();
    Columns::new(vec![
        Column::new("POS", each(&position, look.queue())).right(),
        Column::new("ID", each(&|job| job.id.clone(), look.id())),
        Column::new("PRIO", each(&priority, look.plain())).right(),
        Column::new("WAITS BECAUSE", each(&|job| waits(job, sight), look.state()))
            .most(usize::from(sight.width) * 45 / 100),
        Column::new("START", each(&|job| expected::start(job, now), look.time())).spare(4),
        Column::new("PROJECT", each(&|job| job.project.clone().unwrap_or_default(), look.plain()))
            .most(PROJECT)
            .spare(2),
        Column::new("NAME", each(&|job| job.name.clone().unwrap_or_default(), look.plain())).most(NAME).spare(3),
        Column::new("COMMAND", each(&|job| job.command.clone(), look.plain())),
    ])
}

pub fn ended(sight: &Sight, jobs: &[&Job]) -> Columns {
    let look = sight.look;
    let each = |of: &dyn Fn(&Job) -> String, style| texts(jobs, of, style);
    let state = jobs.iter().map(|job| cell(&outcome::state_words(job), look.of_state(job))).collect::<Vec<_>>();
    let at = |job: &Job| job.ended_at.as_ref().map(|at| time::clock(at, sight.now)).unwrap_or_default();
    Columns::new(vec![
        Column::new("ID", each(&|job| job.id.clone(), look.id())),
        Column::new("STATE", state).most(28),
        Column::new("TIME", each(&|job| ran(job, sight), look.time())).right(),
        Column::new("ENDED", each(&at, look.time())),
        Column::new("ON", each(&on, look.plain())).most(24).spare(1),
        Column::new("PROJECT", each(&|job| job.project.clone().unwrap_or_default(), look.plain()))
            .most(PROJECT)
            .spare(2),
        Column::new("NAME", each(&|job| job.name.clone().unwrap_or_default(), look.plain())).most(NAME).spare(3),
        Column::new("COMMAND", each(&|job| job.command.clone(), look.plain())),
    ])
}

fn texts(jobs: &[&Job], of: &dyn Fn(&Job) -> String, style: Style) -> Vec<Line<'static>> {
    jobs.iter().map(|job| cell(&of(job), style)).collect()
}

/// `GPU 0`, `CPU`. That GPUs are simulated stands with the GPUs.
fn on(job: &Job) -> String {
    place::of_job(job).map(|place| place.replace(" (simulated)", "")).unwrap_or_default()
}

/// What is to be said of one that is on and does not run.
fn not_running(job: &Job, sight: &Sight) -> String {
    match (&job.waiting, job.state) {
        (Some(_), _) => waits(job, sight),
        (None, State::Running) => String::new(),
        (None, state) => state.word().into(),
    }
}

/// How long it runs, or ran.
fn ran(job: &Job, sight: &Sight) -> String {
    let seconds = match job.runtime_seconds.filter(|_| job.state.has_ended()) {
        Some(seconds) => Some(seconds.max(0.0) as u64),
        None if job.state.has_ended() => None,
        None => job.started_at.as_ref().and_then(|started| time::seconds_since(started, sight.now)),
    };
    seconds.map(time::span).unwrap_or_default()
}

/// The words of `nexus queue`; what to type about it is a key here.
fn waits(job: &Job, sight: &Sight) -> String {
    let capacity = Capacity::of_machines(sight.state.known.machines());
    match &job.waiting {
        Some(waiting) => reason::sentence(waiting, capacity, sight.now),
        None if job.state == State::Held => "held".into(),
        None => String::new(),
    }
}
