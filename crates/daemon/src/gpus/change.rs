//! Lines of service.log on GPUs that come, go, fail and return: what is different from before, and nothing else.

use nexus_api::service::{Gpu, Obstacle};

use crate::service_log::Line;

/// The first look.
pub fn found(now: &[Gpu]) -> Vec<Line> {
    let mark = if now.iter().any(|gpu| gpu.simulated) { " (simulated)" } else { "" };
    let plural = if now.len() == 1 { "" } else { "s" };
    let mut lines = vec![Line::from(format!("Found {} GPU{plural}{mark}", now.len()))];
    lines.extend(now.iter().filter_map(obstructed));
    lines.extend(now.iter().filter_map(unlocked));
    lines
}

pub fn lines(before: &[Gpu], now: &[Gpu]) -> Vec<Line> {
    let mut lines = Vec::new();
    for old in before.iter().filter(|old| !now.iter().any(|gpu| same(old, gpu))) {
        lines.push(Line::warn(format!("GPU {} is gone", old.index)));
    }
    for gpu in now {
        match before.iter().find(|old| same(old, gpu)) {
            None => {
                lines.push(format!("GPU {} appeared", gpu.index).into());
                lines.extend(obstructed(gpu));
            }
            Some(old) if old.index != gpu.index => {
                lines.push(format!("GPU {} is GPU {} now", old.index, gpu.index).into());
            }
            Some(old) if kind(old) == kind(gpu) => {}
            Some(old) => lines.extend(obstructed(gpu).or_else(|| cleared(old))),
        }
        let before = before.iter().find(|old| same(old, gpu)).and_then(|old| old.lock_error.as_ref());
        match (before, &gpu.lock_error) {
            (Some(_), None) if gpu.used_mib.is_some() => {
                lines.push(format!("GPU {} can be locked again", gpu.index).into())
            }
            (was, Some(error)) if was != Some(error) => lines.extend(unlocked(gpu)),
            _ => {}
        }
    }
    lines
}

/// One that could not be read since the service began has no UUID: its number must do.
fn same(old: &Gpu, gpu: &Gpu) -> bool {
    match old.uuid.is_empty() || gpu.uuid.is_empty() {
        true => old.index == gpu.index,
        false => old.uuid == gpu.uuid,
    }
}

fn kind(gpu: &Gpu) -> Option<std::mem::Discriminant<Obstacle>> {
    gpu.obstacle.as_ref().map(std::mem::discriminant)
}

fn obstructed(gpu: &Gpu) -> Option<Line> {
    let index = gpu.index;
    Some(match gpu.obstacle.as_ref()? {
        Obstacle::InUse { .. } | Obstacle::Locked { .. } => {
            format!("GPU {index} in use outside nexus ({})", gpu.used_by().unwrap_or_default()).into()
        }
        Obstacle::Unreadable { error } => Line::warn(format!("GPU {index} cannot be read: {error}; it takes no job")),
        Obstacle::Mig => format!("GPU {index} is in MIG mode; it takes no job").into(),
        Obstacle::LeftOut => format!("GPU {index} is left out by gpus.use; it takes no job").into(),
    })
}

/// Jobs run on it all the same, and so may those of others.
fn unlocked(gpu: &Gpu) -> Option<Line> {
    let error = gpu.lock_error.as_ref()?;
    let index = gpu.index;
    Some(Line::warn(format!("GPU {index}: {error}; services of other users may start jobs on it at the same time")))
}

/// What was in the way is gone.
fn cleared(old: &Gpu) -> Option<Line> {
    let index = old.index;
    let text = match old.obstacle.as_ref()? {
        Obstacle::InUse { .. } | Obstacle::Locked { .. } => format!("GPU {index} is free again"),
        Obstacle::Unreadable { .. } => format!("GPU {index} is back"),
        Obstacle::Mig => format!("GPU {index} is out of MIG mode"),
        Obstacle::LeftOut => format!("GPU {index} is used again"),
    };
    Some(text.into())
}
