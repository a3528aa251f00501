//! What the file says: made from what the service knows, and read as far as others may change it.

use nexus_core::ids::MachineId;
use nexus_core::machine::Gpu;
use nexus_core::request::{GpuSet, MAX_GPUS, WHOLE_MILLI};
use nexus_core::run::Lease;
use nexus_core::world::World;
use serde::Serialize;
use serde_json::Value;

use crate::gpus::Gpus;

/// The GPUs of the service's own host.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// Whether the GPUs have been read: before that nothing can be said of them.
    pub known: bool,
    /// Those there are.
    pub gpus: GpuSet,
    pub paused: GpuSet,
    /// What jobs hold of each, by its number.
    status: Vec<f64>,
}

#[derive(Serialize)]
struct Written<'a> {
    gpu_status: &'a [f64],
    paused_gpus: Vec<u16>,
}

impl View {
    pub fn of(world: &World, gpus: &Gpus) -> View {
        let here = MachineId::LOCAL;
        let none = Vec::new();
        let cards = world.machines().find(|machine| machine.id == here).map_or(&none, |machine| &machine.gpus);
        let leases: Vec<&Lease> =
            world.active_runs().map(|run| &run.lease).filter(|lease| lease.machine == here).collect();
        let there: GpuSet = cards.iter().map(|gpu| gpu.index).collect();
        let named = leases.iter().fold(there, |named, lease| named.union(lease.gpus));
        let highest = named.iter().last();
        let held = |index: u16| -> f64 {
            let card = cards.iter().find(|gpu| gpu.index == index);
            let on_it = leases.iter().filter(|lease| lease.gpus.contains(index));
            // The sum of nothing would be -0.0.
            on_it.fold(0.0, |held, lease| held + part(lease, card))
        };
        View {
            known: gpus.are_known(),
            gpus: there,
            paused: world.paused_gpus(here),
            status: highest.map_or_else(Vec::new, |highest| (0..=highest).map(|index| rounded(held(index))).collect()),
        }
    }

    /// The file, whole.
    pub fn text(&self) -> String {
        let written = Written { gpu_status: &self.status, paused_gpus: self.paused.iter().collect() };
        let mut text = serde_json::to_string(&written).expect("numbers are plain data");
        text.push('\n');
        text
    }
}

/// What a lease takes of a GPU: its part of it, or of its memory where that is more.
fn part(lease: &Lease, card: Option<&Gpu>) -> f64 {
    let Some(share) = lease.share else { return 1.0 };
    let of_memory = share.vram_mib.map_or(0.0, |mib| match card.map_or(0, |card| card.memory_mib) {
        0 => 1.0,
        all => f64::from(mib) / all as f64,
    });
    of_memory.max(f64::from(share.milli) / f64::from(WHOLE_MILLI))
}

fn rounded(part: f64) -> f64 {
    ((part * 10_000.0).round() / 10_000.0).min(1.0)
}

/// `paused_gpus` of a text, and nothing else of it; or what is wrong.
pub fn paused(text: &str) -> Result<GpuSet, String> {
    if text.trim().is_empty() {
        return Err("it is empty".into());
    }
    let value: Value = serde_json::from_str(text).map_err(|error| format!("it is no JSON: {error}"))?;
    let Some(list) = value.as_object().and_then(|object| object.get("paused_gpus")) else {
        return Err("it has no paused_gpus".into());
    };
    let wrong = || "paused_gpus is no list of GPU numbers, such as [0, 2]".to_string();
    let index = |value: &Value| match value.as_u64().map(u16::try_from) {
        Some(Ok(index)) if index < MAX_GPUS => Ok(index),
        Some(_) => Err(no_gpu(value)),
        None => Err(wrong()),
    };
    list.as_array().ok_or_else(wrong)?.iter().map(index).collect()
}

/// What somebody wants who wrote the file.
pub struct Change {
    /// As they left it.
    pub paused: GpuSet,
    pub pause: GpuSet,
    pub resume: GpuSet,
}

impl Change {
    /// `known`: what stood there before.
    pub fn between(known: GpuSet, paused: GpuSet, view: &View) -> Result<Change, String> {
        let pause = paused.minus(known);
        match pause.minus(view.gpus).iter().next() {
            Some(missing) => Err(no_gpu(missing)),
            // A card that is gone since is nobody's to resume.
            None => Ok(Change { paused, pause, resume: known.minus(paused).and(view.gpus) }),
        }
    }
}

/// Why a text that names such a GPU is not taken.
fn no_gpu(number: impl std::fmt::Display) -> String {
    format!("there is no GPU {number}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_read_and_nothing_else() {
        let read = |text| paused(text).map(|set| set.iter().collect::<Vec<_>>());
        for (text, list) in [
            ("{\"gpu_status\":[0.5,1.0],\"paused_gpus\":[1]}\n", &[1][..]),
            ("{\"paused_gpus\": []}", &[]),
            (" {\n \"paused_gpus\": [127, 3, 3],\n \"jobs\": {\"gpu_status\": null}}", &[3, 127]),
        ] {
            assert_eq!(read(text).unwrap(), list, "{text}");
        }
        for (text, why) in [
            ("", "it is empty"),
            (" \n", "it is empty"),
            ("{\"paused_gpus\": [1", "it is no JSON: EOF while parsing a list at line 1 column 18"),
            ("{\"paused_gpus\": [1]} x", "it is no JSON: trailing characters at line 1 column 22"),
            ("[1]", "it has no paused_gpus"),
            ("{}", "it has no paused_gpus"),
            ("{\"paused_gpus\": 1}", "paused_gpus is no list of GPU numbers, such as [0, 2]"),
            ("{\"paused_gpus\": null}", "paused_gpus is no list of GPU numbers, such as [0, 2]"),
            ("{\"paused_gpus\": [\"1\"]}", "paused_gpus is no list of GPU numbers, such as [0, 2]"),
            ("{\"paused_gpus\": [-1]}", "paused_gpus is no list of GPU numbers, such as [0, 2]"),
            ("{\"paused_gpus\": [1.5]}", "paused_gpus is no list of GPU numbers, such as [0, 2]"),
            ("{\"paused_gpus\": [128]}", "there is no GPU 128"),
            ("{\"paused_gpus\": [70000]}", "there is no GPU 70000"),
        ] {
            assert_eq!(read(text).unwrap_err(), why, "{text}");
        }
    }

    #[test]
    fn parts_are_those_of_the_gpu_or_of_its_memory() {
        let card = Gpu { memory_mib: 24_576, ..Gpu::default() };
        let lease = |milli, vram_mib| Lease {
            machine: MachineId::LOCAL,
            gpus: GpuSet::EMPTY,
            beside: vec![],
            share: Some(nexus_core::run::HeldShare { milli, vram_mib }),
            cpus: 0,
            ram_mib: 0,
            driver: false,
        };
        assert_eq!(part(&Lease { share: None, ..lease(0, None) }, Some(&card)), 1.0);
        assert_eq!(part(&lease(250, None), Some(&card)), 0.25);
        assert_eq!(rounded(part(&lease(0, Some(8192)), Some(&card))), 0.3333);
        assert_eq!(part(&lease(250, Some(12_288)), Some(&card)), 0.5);
        assert_eq!(part(&lease(500, Some(1024)), Some(&card)), 0.5);
        assert_eq!(part(&lease(0, Some(1024)), None), 1.0);
        assert_eq!(rounded(0.5 + 0.8333), 1.0);
    }
}
