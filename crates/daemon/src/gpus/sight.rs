//! What a reading of a GPU means: whose its processes are, and what keeps jobs off it.

use std::collections::BTreeMap;
use std::path::Path;

use nexus_api::service::{Gpu, GpuProcess, Obstacle};
use nexus_core::ids::JobId;
use nexus_core::request::GpuSet;
use nexus_node::gpu::{self as node, GpuSeen, GpuState, LockHolder, Vitals};

use crate::config::{GpuConfig, GpuUse};

/// What the meaning depends on.
pub struct Around<'a> {
    pub config: &'a GpuConfig,
    /// GPUs that runs of this service hold, or held a moment ago.
    pub ours: GpuSet,
    /// Locks that runs of this service found held since the last reading, by UUID.
    pub locked: &'a BTreeMap<String, LockHolder>,
    /// The job of this service whose run directory it is.
    pub job_of: &'a dyn Fn(&Path) -> Option<JobId>,
}

/// A GPU as clients see it, but for what the World knows.
pub fn of(seen: &GpuSeen, around: &Around) -> Gpu {
    let vitals = match &seen.state {
        GpuState::Read(vitals) => Some(vitals),
        GpuState::Mig | GpuState::Unreadable { .. } => None,
    };
    let processes: Vec<GpuProcess> = vitals
        .into_iter()
        .flat_map(|vitals| &vitals.processes)
        .map(|found| process(found, seen.index, around))
        .collect();
    Gpu {
        index: seen.index,
        uuid: seen.uuid.clone(),
        name: seen.name.clone(),
        memory_mib: seen.memory_mib,
        used_mib: vitals.map(|vitals| vitals.used_mib),
        load_percent: vitals.and_then(|vitals| vitals.load_percent),
        temperature_c: vitals.and_then(|vitals| vitals.temperature_c),
        power_w: vitals.and_then(|vitals| vitals.power_w),
        obstacle: obstacle(seen, &processes, around),
        lock_error: vitals.and_then(|vitals| vitals.lock_error.clone()),
        processes,
        ..Gpu::default()
    }
}

/// The first of what is in the way, the most lasting before the passing.
fn obstacle(seen: &GpuSeen, processes: &[GpuProcess], around: &Around) -> Option<Obstacle> {
    if let GpuUse::Only(listed) = around.config.using
        && !listed.contains(seen.index)
    {
        return Some(Obstacle::LeftOut);
    }
    let vitals: &Vitals = match &seen.state {
        GpuState::Mig => return Some(Obstacle::Mig),
        GpuState::Unreadable { error } => return Some(Obstacle::Unreadable { error: error.clone() }),
        GpuState::Read(vitals) => vitals,
    };
    let lock = around.locked.get(&seen.uuid).or(vitals.lock.as_ref());
    if let Some(holder) = lock.filter(|_| !around.ours.contains(seen.index)) {
        return Some(Obstacle::Locked { user: holder.user.clone(), pid: holder.pid });
    }
    let pids: Vec<u32> = processes.iter().filter(|process| process.foreign).map(|process| process.pid).collect();
    (!pids.is_empty()).then_some(Obstacle::InUse { pids })
}

fn process(found: &node::GpuProcess, index: u16, around: &Around) -> GpuProcess {
    let job = found.run_dir.as_deref().and_then(around.job_of);
    let name = found.name.as_deref().map(file_name);
    GpuProcess {
        pid: found.pid,
        user: found.user.clone(),
        name: name.map(String::from),
        memory_mib: found.memory_mib,
        graphics: found.graphics,
        foreign: job.is_none() && counts(found, name, index, around),
        job: job.map(|job| job.to_string()),
    }
}

/// Whether a process that is not known as ours keeps jobs off the GPU.
fn counts(found: &node::GpuProcess, name: Option<&str>, index: u16, around: &Around) -> bool {
    let config = around.config;
    if found.ending || found.graphics || found.memory_mib.is_some_and(|memory| memory < config.ignore_below_mib) {
        return false;
    }
    let (user, ignore) = (found.user.as_deref(), |word: &str| config.ignore.iter().any(|entry| entry == word));
    if user.is_some_and(ignore) || name.is_some_and(ignore) {
        return false;
    }
    // Of another pid namespace: where a job of ours runs in a container, it is that job's.
    let unknown = user.is_none() && name.is_none() && found.run_dir.is_none();
    !(unknown && around.ours.contains(index))
}

fn file_name(program: &str) -> &str {
    program.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(program)
}
