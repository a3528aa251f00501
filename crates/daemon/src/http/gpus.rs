//! GPUs as they are, and their pause.

use axum::Json;
use axum::extract::State;
use nexus_api::amount::GpuAmount;
use nexus_api::problem::Problem;
use nexus_api::service::{Gpu, GpuPast, GpuShare, Machine, OnGpus};
use nexus_core::apply::Command;
use nexus_core::ids::MachineId;
use nexus_core::machine::Machine as Known;
use nexus_core::request::{GpuSet, MAX_GPUS};
use nexus_core::run::Run;
use nexus_core::world::World;

use super::extract::{Path, Sent};
use super::problem::Failed;
use super::{App, Shared};
use crate::engine::Message;
use crate::pool::{Member, Pool};

/// `GET /v1/gpus`
pub async fn list(State(app): State<Shared>) -> Result<Json<Vec<Machine>>, Failed> {
    Ok(Json(app.ask_pool(machines).await?))
}

/// `GET /v1/gpus/readings`
pub async fn readings(State(app): State<Shared>) -> Json<Vec<GpuPast>> {
    Json(app.readings.past())
}

/// `POST /v1/gpus/pause` and `/v1/gpus/resume`: the GPUs as they are afterwards.
pub async fn act(
    State(app): State<Shared>,
    Path(word): Path<String>,
    Sent(on): Sent<OnGpus>,
) -> Result<Json<Vec<Gpu>>, Failed> {
    let machine = app.machine_named(&on.machine).await?;
    if let Some(index) = on.gpus.iter().find(|index| **index >= MAX_GPUS) {
        let want = format!("GPU numbers go up to {}", MAX_GPUS - 1);
        return Err(Failed(Problem::BadField { field: "gpus".into(), value: index.to_string(), want }));
    }
    let gpus: GpuSet = on.gpus.into_iter().collect();
    let (command, verb) = match word.as_str() {
        "pause" => (Command::PauseGpus { machine, gpus }, "pause"),
        "resume" => (Command::ResumeGpus { machine, gpus }, "resume"),
        other => {
            let error = format!("there is nothing called {other} to do to GPUs");
            return Err(Failed(Problem::BadRequest { error }));
        }
    };
    app.order(|reply| Message::Command { command, verb, skip_unfit: false, reply }).await?;
    let all = app.ask_pool(machines).await?.into_iter().filter(|found| found.name == on.machine);
    Ok(Json(all.flat_map(|machine| machine.gpus).filter(|gpu| gpus.contains(gpu.index)).collect()))
}

impl App {
    pub(super) async fn machine_named(&self, name: &str) -> Result<MachineId, Problem> {
        let name = name.to_string();
        self.ask_pool(move |_, pool| pool.named(&name)).await?
    }
}

/// All machines, with what was read of their GPUs and what the World knows.
pub fn machines(world: &World, pool: &Pool) -> Vec<Machine> {
    let view = |member: &Member| Machine {
        name: member.name.clone(),
        cpus: member.machine.cpus,
        gpus: gpus_of(&member.machine, world, member),
        error: member.gpus.error().filter(|_| member.machine.reachable && member.cluster.is_none()),
        pool: pool.is_more_than_one().then(|| super::machines::standing(member, world, pool)),
    };
    pool.members.values().map(view).collect()
}

fn gpus_of(machine: &Known, world: &World, member: &Member) -> Vec<Gpu> {
    let paused = world.paused_gpus(machine.id);
    let runs = |index| {
        world.active_runs().filter(move |run| run.lease.machine == machine.id && run.lease.gpus.contains(index))
    };
    let share = |run: &Run| {
        let share = run.lease.share?;
        let part = GpuAmount::part(share.milli).filter(|part| !part.is_none());
        Some(GpuShare { job: run.id.job.to_string(), part, vram_mib: share.vram_mib.map(u64::from) })
    };
    let known = |gpu: &nexus_core::machine::Gpu| Gpu {
        index: gpu.index,
        uuid: gpu.uuid.clone(),
        name: gpu.name.clone(),
        memory_mib: gpu.memory_mib,
        simulated: gpu.simulated,
        ..Gpu::default()
    };
    let here = |index| member.gpus.shown(index);
    let view = |gpu: &nexus_core::machine::Gpu| Gpu {
        jobs: runs(gpu.index).map(|run| run.id.job.to_string()).collect(),
        shares: runs(gpu.index).filter_map(share).collect(),
        paused: paused.contains(gpu.index),
        ..here(gpu.index).unwrap_or_else(|| known(gpu))
    };
    machine.gpus.iter().map(view).collect()
}
