//! Reads the words of a scenario: jobs, machines, GPUs, ends.

use std::time::Duration;

use nexus_core::event::{Needs, NewJob, Parent};
use nexus_core::ids::{ClassId, JobId, MachineId, SweepId};
use nexus_core::machine::{Cluster, Gpu, Machine, Obstacle, Shares, Sharing};
use nexus_core::request::{Model, Request, Same, Share, Target, Vram};
use nexus_core::run::{Memory, Outcome};
use nexus_core::sweep::InSweep;
use nexus_core::time::Time;

const MEMORY_MIB: u64 = 1024;
const RAM_MIB: u64 = 4096;

pub fn indices(list: &str) -> impl Iterator<Item = u16> {
    list.split(',').map(|index| index.parse().expect("a GPU number"))
}

/// Jobs that it comes after are named, whatever became of them.
pub fn new_job(words: &[&str], now: Time) -> NewJob {
    let number = |name| number(words, name).unwrap_or(0);
    let id: JobId = words[0].parse().expect("an id");
    let needs = Needs {
        request: request(words),
        // Without one, a command of its own.
        same: Same(
            value(words, "same").map_or_else(|| -1 - id.number() as i64, |same| same.parse().expect("a number")),
        ),
        limit: value(words, "limit").map(span),
        retries: number("retries") as u32,
        retry_on_timeout: words.contains(&"retry-on-timeout"),
        copies: words.contains(&"results"),
        after: parents(words),
        failed_parent: None,
    };
    NewJob {
        id,
        needs: needs.into(),
        sweep: value(words, "sweep").map(|id| InSweep {
            id: SweepId(id.parse().expect("a number")),
            max_running: value(words, "max").map(|most| most.parse().expect("a number")),
            stop_after: number("stop") as u32,
        }),
        priority: number("priority") as i32,
        held: words.contains(&"hold"),
        at: now,
    }
}

fn request(words: &[&str]) -> Request {
    let (gpus, milli) = match value(words, "gpus").unwrap_or("1").strip_prefix("0.") {
        Some(part) => (1, Some(format!("{part:0<3}").parse().expect("a part, as in 0.5"))),
        None => (number(words, "gpus").unwrap_or(1) as u16, None),
    };
    let vram = match value(words, "vram") {
        None => None,
        Some("auto") => Some(Vram::Learned(Same(number(words, "same").expect("auto goes with same=7")))),
        Some(mib) => Some(Vram::Mib(mib.parse().expect("MiB"))),
    };
    let shares = milli.is_some() || vram.is_some();
    Request {
        gpus,
        share: shares.then(|| Share { milli: milli.unwrap_or(0), vram: vram.unwrap_or(Vram::Unsaid) }),
        cpus: number(words, "cpus").unwrap_or(0) as u32,
        ram_mib: number(words, "ram").unwrap_or(0) as u32,
        on: value(words, "on").map(|list| indices(list).collect()),
        model: value(words, "model").map(|name| Model::new(name).expect("a model")),
        force: words.contains(&"force"),
        target: target(words),
        driver: words.contains(&"driver"),
        within: None,
    }
}

/// `class=2`, `machine=m1`
fn target(words: &[&str]) -> Target {
    match (value(words, "class"), value(words, "machine")) {
        (None, None) => Target::Default,
        (Some(number), _) => Target::Class(ClassId(number.parse().expect("the number of a class"))),
        (None, Some(machine)) => Target::Machine(machine_id(machine).expect("a machine, as in m1")),
    }
}

/// `local`, `m1`
pub fn machine_id(word: &str) -> Option<MachineId> {
    match word {
        "local" => Some(MachineId::LOCAL),
        other => Some(MachineId(other.strip_prefix('m')?.parse().ok()?)),
    }
}

pub fn machine_ids(words: &[&str]) -> Vec<MachineId> {
    words.iter().filter_map(|word| machine_id(word)).collect()
}

/// Of a machine: `class=2`, `class=none`; the default one where nothing is said.
pub fn class(words: &[&str]) -> Option<ClassId> {
    match value(words, "class") {
        None => Some(ClassId::DEFAULT),
        Some("none") => None,
        Some(number) => Some(ClassId(number.parse().expect("the number of a class"))),
    }
}

fn parents(words: &[&str]) -> Vec<Parent> {
    let named = |name, any_end| {
        let ids = value(words, name).into_iter().flat_map(|list| list.split(','));
        ids.map(move |id| Parent { job: id.parse::<JobId>().expect("an id"), any_end })
    };
    named("after", false).chain(named("after-any", true)).collect()
}

pub fn value<'a>(words: &[&'a str], name: &str) -> Option<&'a str> {
    words.iter().filter_map(|word| word.split_once('=')).find(|(key, _)| *key == name).map(|(_, value)| value)
}

pub fn number(words: &[&str], name: &str) -> Option<i64> {
    value(words, name).map(|value| value.parse().expect("a number"))
}

pub fn span(text: &str) -> Duration {
    Duration::from_secs(text.strip_suffix('s').and_then(|seconds| seconds.parse().ok()).expect("seconds, as in 5s"))
}

pub fn machine(words: &[&str]) -> Machine {
    let sharing = Sharing::default();
    let memory_mib = number(words, "memory").map_or(MEMORY_MIB, |mib| mib as u64);
    let gpus = (0..number(words, "gpus").unwrap_or(0) as u16).map(|index| gpu(index, memory_mib));
    let name = words.iter().find(|word| machine_id(word).is_some()).copied().unwrap_or("local");
    Machine {
        id: machine_id(name).expect("just looked at"),
        name: name.into(),
        reachable: true,
        cpus: number(words, "cpus").unwrap_or(8) as u32,
        ram_mib: number(words, "ram").map_or(RAM_MIB, |mib| mib as u64),
        gpus: gpus.collect(),
        prefer: value(words, "prefer").into_iter().flat_map(indices).collect(),
        sharing: Sharing {
            order: match value(words, "shares") {
                None | Some("auto") => Shares::Auto,
                Some("pack") => Shares::Pack,
                Some("spread") => Shares::Spread,
                Some(other) => panic!("no such order of shares: {other}"),
            },
            mem_threshold_percent: number(words, "threshold")
                .map_or(sharing.mem_threshold_percent, |percent| percent as u8),
        },
        cluster: value(words, "cluster").map(cluster),
    }
}

/// So many runs at once, on nodes with GPUs of these kinds: `5:a100:4,v100:2`.
fn cluster(text: &str) -> Cluster {
    let (most, kinds) = text.split_once(':').unwrap_or((text, ""));
    let kind = |text: &str| {
        let (name, count) = text.split_once(':').expect("a kind and how many of it");
        (name.to_string(), count.parse().expect("a number"))
    };
    let kinds = kinds.split(',').filter(|text| !text.is_empty()).map(kind).collect();
    Cluster { most_runs: most.parse().expect("a number"), kinds }
}

fn gpu(index: u16, memory_mib: u64) -> Gpu {
    let (uuid, name) = (uuid(index), "Pretend".into());
    Gpu { index, uuid, name, memory_mib, free_mib: memory_mib, simulated: true, ..Gpu::default() }
}

pub fn uuid(index: u16) -> String {
    format!("GPU-{index}")
}

/// `1 unreadable`, `1 fine free=512`
pub fn change_gpu(gpus: &mut Vec<Gpu>, words: &[&str]) {
    let index: u16 = words[0].parse().expect("a GPU number");
    if words[1] == "gone" {
        return gpus.retain(|gpu| gpu.index != index);
    }
    if gpus.iter().all(|gpu| gpu.index != index) {
        gpus.push(gpu(index, MEMORY_MIB));
    }
    let gpu = gpus.iter_mut().find(|gpu| gpu.index == index).expect("it is there now");
    if let Some(memory) = number(words, "memory") {
        (gpu.memory_mib, gpu.free_mib) = (memory as u64, memory as u64);
    }
    gpu.free_mib = number(words, "free").map_or(gpu.free_mib, |free| free as u64);
    gpu.name = value(words, "model").map_or(std::mem::take(&mut gpu.name), ToString::to_string);
    gpu.busy = words[1] == "busy";
    gpu.obstacle = match words[1] {
        "fine" => None,
        "in-use" | "busy" => Some(Obstacle::InUse),
        "locked" => Some(Obstacle::Locked),
        "unreadable" => Some(Obstacle::Unreadable),
        "mig" => Some(Obstacle::Mig),
        "left-out" => Some(Obstacle::LeftOut),
        other => panic!("no such state of a GPU: {other}"),
    };
}

pub fn outcome(words: &[&str]) -> Outcome {
    let out_of = |of| Outcome::OutOfMemory { of, code: Some(1), signal: None };
    match words {
        ["preempted"] => Outcome::Preempted,
        ["cancelled"] => Outcome::Cancelled { code: None, signal: Some(15) },
        ["exit", code] => Outcome::Exited { code: code.parse().expect("an exit code") },
        ["signal", signal] => Outcome::Signaled { signal: signal.parse().expect("a signal") },
        ["stopped"] => Outcome::Stopped { code: None, signal: Some(15) },
        ["timed-out"] => Outcome::TimedOut { code: None, signal: Some(15) },
        ["never-started"] => Outcome::NeverStarted,
        ["gpu-oom"] => out_of(Memory::Gpu),
        ["host-oom"] => out_of(Memory::Host),
        other => panic!("no such end: {other:?}"),
    }
}
