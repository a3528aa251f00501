//! The GPUs of a machine: as they were read last, what of it counts, and how that is told.
//!
//! Nothing here is on disk. Decisions are made on the [`Machine`] that [`Gpus::look`] works out; the rest, that
//! changes with every reading, is only shown.

mod change;
mod sight;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use nexus_api::service::{self, Obstacle as Shown};
use nexus_core::ids::{JobId, MachineId};
use nexus_core::machine::{Gpu, Machine, Obstacle, Sharing};
use nexus_core::request::{GpuSet, MAX_GPUS};
use nexus_node::gpu::{GpuSeen, GpuState, LockHolder, Reading, Source, Vitals};
use nexus_node::system_file;

use crate::config::GpuConfig;
use crate::service_log::Line;
pub use nexus_node::gpu::{Watcher, WatcherConfig};
use sight::Around;

/// Memory a simulated GPU claims to have.
const SIMULATED_MEMORY_MIB: u64 = 24 * 1024;

/// Memory in use is rounded up to whole steps before anything is decided on it.
const MEMORY_STEP_MIB: u64 = 64;

/// What of the GPUs is known beside the World. Lost with the process, and read again.
pub struct Gpus {
    /// So many that do not exist stand in for the real ones; 0: none do.
    simulated: u16,
    /// GPUs as read last, and those missing in that reading that are remembered.
    seen: Vec<GpuSeen>,
    source: Option<Source>,
    driver: Option<String>,
    error: Option<String>,
    was_read: bool,
    /// What runs of ours held at the last reading; and then or at the one before. Their locks and processes may
    /// show for a moment after their end.
    held_then: GpuSet,
    held_lately: GpuSet,
    /// Locks that a run of ours found held since the last reading, by UUID.
    locked: BTreeMap<String, LockHolder>,
    /// GPUs that other services hold, as those who read GPUs were told last.
    awaited: BTreeSet<String>,
    /// GPUs that nobody holds take no run of ours: it is another user's turn.
    kept_for_another: bool,
    /// As clients see them, but for what the World knows; None until they were found.
    shown: Option<Vec<service::Gpu>>,
    told_error: bool,
}

/// What came of a look.
pub struct Look {
    pub machine: Machine,
    /// For service.log: what is different now.
    pub lines: Vec<Line>,
}

impl Gpus {
    pub fn new(simulated: u16) -> Gpus {
        Gpus {
            simulated,
            seen: vec![],
            source: None,
            driver: None,
            error: None,
            was_read: false,
            held_then: GpuSet::EMPTY,
            held_lately: GpuSet::EMPTY,
            locked: BTreeMap::new(),
            awaited: BTreeSet::new(),
            kept_for_another: false,
            shown: None,
            told_error: false,
        }
    }

    pub fn are_simulated(&self) -> bool {
        self.simulated > 0
    }

    /// Whether a look would find what there is.
    pub fn are_known(&self) -> bool {
        self.are_simulated() || self.was_read
    }

    /// From the next look on there are this many that do not exist, or the real ones for 0.
    pub fn simulate(&mut self, count: u16) {
        self.simulated = count;
        self.shown = None;
    }

    /// Takes in a reading; `held` are the GPUs that runs of this service hold now.
    pub fn take(&mut self, reading: Reading, held: GpuSet) {
        self.held_lately = self.held_then.union(held);
        self.held_then = held;
        self.locked.clear();
        let missing = |gpu: &GpuSeen| reading.gpus.iter().all(|seen| seen.uuid != gpu.uuid && seen.index != gpu.index);
        let lost = |gpu: GpuSeen| match &reading.error {
            Some(error) => Some(GpuSeen { state: GpuState::Unreadable { error: error.clone() }, ..gpu }),
            // A job that runs there goes on, and is shown there.
            None if held.contains(gpu.index) => {
                Some(GpuSeen { state: GpuState::Unreadable { error: "it vanished".into() }, ..gpu })
            }
            None => None,
        };
        let mut seen: Vec<GpuSeen> =
            std::mem::take(&mut self.seen).into_iter().filter(missing).filter_map(lost).collect();
        seen.extend(reading.gpus.into_iter().filter(|gpu| gpu.index < MAX_GPUS));
        seen.sort_by_key(|gpu| gpu.index);
        self.seen = seen;
        (self.source, self.driver, self.error) = (reading.source, reading.driver, reading.error);
        self.was_read = true;
    }

    /// A run that was to have these could not start: a lock or a process that was seen there meanwhile is not its own.
    pub fn never_held(&mut self, gpus: GpuSet) {
        (self.held_then, self.held_lately) = (self.held_then.minus(gpus), self.held_lately.minus(gpus));
    }

    /// A run of ours found this GPU locked: that holds until the next reading, which looks at all locks.
    pub fn locked(&mut self, uuid: String, holder: LockHolder) {
        self.locked.insert(uuid, holder);
    }

    /// GPUs that other services hold, by UUID, if these are others than at the last call.
    pub fn locks_to_await(&mut self) -> Option<&BTreeSet<String>> {
        let locked = |gpu: &&service::Gpu| matches!(gpu.obstacle, Some(Shown::Locked { .. }));
        let awaited = self.all_shown().iter().filter(locked).map(|gpu| gpu.uuid.clone()).collect();
        let before = std::mem::replace(&mut self.awaited, awaited);
        (before != self.awaited).then_some(&self.awaited)
    }

    /// From the next look on GPUs that nobody holds take no run of ours, or do again.
    pub fn keep_for_another(&mut self, is_kept: bool) {
        self.kept_for_another = is_kept;
    }

    /// Whether nothing but another user's turn keeps runs of ours off a GPU.
    pub fn is_kept(&self, index: u16) -> bool {
        self.kept_for_another && self.shown(index).is_some_and(|gpu| gpu.obstacle.is_none())
    }

    /// Somebody else reads the GPUs from now on, who was told nothing.
    pub fn awaits_no_lock(&mut self) {
        self.awaited.clear();
    }

    /// The machine as the last reading and the settings make it of what it was `before`. `held` are the GPUs that runs of this service hold
    /// now, `job_of` knows which job's a run directory is.
    pub fn look(
        &mut self,
        before: &Machine,
        config: &GpuConfig,
        held: GpuSet,
        job_of: &dyn Fn(&Path) -> Option<JobId>,
    ) -> Look {
        let around = Around { config, ours: self.held_lately.union(held), locked: &self.locked, job_of };
        let shown: Vec<service::Gpu> = match self.simulated {
            0 => self.seen.iter().map(|seen| sight::of(seen, &around)).collect(),
            count => (0..count).map(|index| simulated(index, &around)).collect(),
        };
        let mut lines = match &self.shown {
            _ if !self.are_known() => vec![],
            Some(before) if !before.is_empty() || shown.is_empty() => change::lines(before, &shown),
            _ => change::found(&shown),
        };
        // Where GPUs are known each of them says it.
        let error = self.error.as_ref().filter(|_| shown.is_empty() && !self.are_simulated());
        lines.extend(
            error.filter(|_| !self.told_error).map(|error| Line::warn(format!("GPUs cannot be read: {error}"))),
        );
        self.told_error = error.is_some();
        let mut gpus: Vec<Gpu> = shown.iter().map(|gpu| for_decisions(gpu, config)).collect();
        if self.kept_for_another {
            let free = gpus.iter_mut().filter(|gpu| gpu.obstacle.is_none() && !held.contains(gpu.index));
            free.for_each(|gpu| gpu.obstacle = Some(Obstacle::Locked));
        }
        let sharing = Sharing { order: config.shares, mem_threshold_percent: percent(config.mem_threshold) };
        let machine = Machine { gpus, prefer: config.prefer.clone(), sharing, ..before.clone() };
        self.shown = self.are_known().then_some(shown);
        Look { machine, lines }
    }

    /// All of them, as far as they were found.
    pub fn all_shown(&self) -> &[service::Gpu] {
        self.shown.as_deref().unwrap_or_default()
    }

    /// The GPU as clients see it, but for what the World knows.
    pub fn shown(&self, index: u16) -> Option<service::Gpu> {
        self.shown.iter().flatten().find(|gpu| gpu.index == index).cloned()
    }

    /// How they are read.
    pub fn source(&self) -> Option<&'static str> {
        match self.source.filter(|_| !self.are_simulated())? {
            Source::Nvml => Some("nvml"),
            Source::Smi => Some("nvidia-smi"),
        }
    }

    pub fn driver(&self) -> Option<String> {
        self.driver.clone().filter(|_| !self.are_simulated())
    }

    /// Why they cannot be read.
    pub fn error(&self) -> Option<String> {
        match self.are_known() {
            true => self.error.clone().filter(|_| !self.are_simulated()),
            false => Some("they have not answered yet".into()),
        }
    }
}

/// A GPU that does not exist.
fn simulated(index: u16, around: &Around) -> service::Gpu {
    let seen = GpuSeen {
        index,
        uuid: format!("SIMULATED-{index}"),
        name: "Simulated GPU".into(),
        memory_mib: SIMULATED_MEMORY_MIB,
        state: GpuState::Read(Vitals::default()),
    };
    service::Gpu { simulated: true, used_mib: None, ..sight::of(&seen, around) }
}

/// The service's own host before its GPUs were read.
pub fn unread() -> Machine {
    let cpus = std::thread::available_parallelism().map_or(1, |count| count.get());
    let cpus = u32::try_from(cpus).unwrap_or(u32::MAX);
    Machine { id: MachineId::LOCAL, name: "local".into(), cpus, ram_mib: ram_mib(), ..Machine::default() }
}

/// All of the machine's memory. Where it cannot be told nothing is kept from jobs.
fn ram_mib() -> u64 {
    let text = system_file::read_text("/proc/meminfo").unwrap_or_default();
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.parse().ok());
    total.map_or(u64::MAX, |kib: u64| kib / 1024)
}

fn percent(part: f64) -> u8 {
    (part * 100.0).round().clamp(0.0, 100.0) as u8
}

/// What decisions need of a GPU.
fn for_decisions(gpu: &service::Gpu, config: &GpuConfig) -> Gpu {
    let in_steps = |mib: u64| mib.next_multiple_of(MEMORY_STEP_MIB);
    let mut used: BTreeMap<JobId, u64> = BTreeMap::new();
    for process in &gpu.processes {
        if let Some((job, mib)) = process.job.as_deref().and_then(|id| id.parse().ok()).zip(process.memory_mib) {
            *used.entry(job).or_default() += mib;
        }
    }
    let in_use = matches!(gpu.obstacle, Some(Shown::InUse { .. }));
    Gpu {
        index: gpu.index,
        uuid: gpu.uuid.clone(),
        name: gpu.name.clone(),
        memory_mib: gpu.memory_mib,
        free_mib: gpu.memory_mib.saturating_sub(in_steps(gpu.used_mib.unwrap_or(0))),
        used: used.into_iter().map(|(job, mib)| (job, u32::try_from(in_steps(mib)).unwrap_or(u32::MAX))).collect(),
        busy: in_use && gpu.load_percent.is_some_and(|load| load > percent(config.load_threshold)),
        simulated: gpu.simulated,
        obstacle: gpu.obstacle.as_ref().map(|obstacle| match obstacle {
            Shown::InUse { .. } => Obstacle::InUse,
            Shown::Locked { .. } => Obstacle::Locked,
            Shown::Unreadable { .. } => Obstacle::Unreadable,
            Shown::Mig => Obstacle::Mig,
            Shown::LeftOut => Obstacle::LeftOut,
        }),
    }
}

#[cfg(test)]
mod tests;
