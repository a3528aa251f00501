//! Why a job waits, or how it came to its end: all the facts of it in one answer.

use axum::Json;
use axum::extract::State;
use nexus_api::jobs::{Job, JobRequest, Waiting};
use nexus_api::service::Machine;
use nexus_api::why::Why;
use nexus_core::world::World;

use super::extract::Path;
use super::jobs::InFull;
use super::problem::Failed;
use super::{Shared, gpus};
use crate::blocking;
use crate::home;
use crate::pool::{Member, Pool};
use crate::workplace::Workplace;

/// The end of a traceback is in them.
const LAST_LINES: usize = 10;

pub async fn why(State(app): State<Shared>, Path(id): Path<String>) -> Result<Json<Why>, Failed> {
    let InFull { row, job, runs, more: active } = app.in_full(id, |reader, _| reader.active()).await?;
    let (dir, failed_by, results_error) = (row.dir.clone(), row.failed_by.clone(), row.left.error.clone());
    let asked = row.spec.request.clone();
    let has_variables = !row.spec.variables.is_empty();
    let cwd = Workplace::here(&app.home).folder(&row.spec);
    let is_away = !row.spec.request.driver && row.is_away();
    let active = app.view(active, false).await?;
    let holders: Vec<Job> = active.into_iter().filter(|other| is_in_the_way(other, &job)).collect();
    let (machines, pending) = app.ask_pool(move |world, pool| (meant(world, pool, &asked), world.pending())).await?;
    let is_meant = |other: &Job| other.machine.iter().all(|name| machines.iter().any(|machine| machine.name == *name));
    let holders = holders.into_iter().filter(is_meant).collect();
    // A folder on a dead server may keep this waiting: others are answered meanwhile.
    let (last_lines, cwd_exists) = blocking::in_place(|| {
        let lines = match dir {
            None => vec![],
            // Which values its output may hold nobody but its shim can tell: what that kept has none.
            Some(dir) if has_variables => nexus_node::kept_said(&dir).unwrap_or_default().lines,
            Some(dir) => nexus_node::last_lines(&dir, LAST_LINES),
        };
        // What is here says nothing of another machine; a run that failed for it there said so itself.
        (lines, is_away || std::fs::metadata(&cwd).is_ok_and(|found| found.is_dir()))
    });
    Ok(Json(Why {
        runs,
        holders,
        machines,
        pending,
        last_lines,
        cwd_exists,
        disk_free_bytes: home::disk_free(&app.home.dir).unwrap_or(0),
        failed_by,
        results_error,
        job,
    }))
}

/// Machines that the job may run on; all of them where it may run on none.
fn meant(world: &World, pool: &Pool, request: &JobRequest) -> Vec<Machine> {
    let target = pool.names.target(request);
    let allowed = |member: &Member| target.allows(member.machine.id, world.standing(member.machine.id).class);
    let names: Vec<&str> = pool.members.values().filter(|it| allowed(it)).map(|it| it.name.as_str()).collect();
    let mut machines = gpus::machines(world, pool);
    machines.retain(|machine| names.is_empty() || names.contains(&machine.name.as_str()));
    machines
}

/// Whether a running job holds something of what the other waits for.
fn is_in_the_way(runs: &Job, waits: &Job) -> bool {
    match &waits.waiting {
        Some(Waiting::Gpus(missing)) => {
            runs.gpus.iter().any(|gpu| missing.on.as_ref().is_none_or(|allowed| allowed.contains(gpu)))
        }
        Some(Waiting::Cpus { .. }) => runs.request.cpus.unwrap_or(u16::from(runs.request.amount().is_none())) > 0,
        Some(Waiting::Ram { .. }) => runs.request.ram_mib.is_some(),
        _ => false,
    }
}
