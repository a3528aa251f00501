//! Machines and their GPUs, as far as scheduling needs them: what is read of them, and what was decided about them.

use crate::ids::{ClassId, JobId, MachineId};
use crate::request::{GpuSet, Model};
use crate::time::Time;

/// As it was read last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    pub id: MachineId,
    pub name: String,
    /// Whether there is a line to it. While there is none, the rest is as it was read before.
    pub reachable: bool,
    pub cpus: u32,
    pub ram_mib: u64,
    pub gpus: Vec<Gpu>,
    /// Indices of GPUs that are taken first, in this order.
    pub prefer: Vec<u16>,
    pub sharing: Sharing,
    /// A cluster whose own scheduler places what it is given: it has no GPUs of its own here.
    pub cluster: Option<Cluster>,
}

/// What a cluster takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cluster {
    /// So many runs at once.
    pub most_runs: u32,
    /// GPUs of one node by their kind, which may have no name: of each the most that a node has.
    pub kinds: Vec<(String, u16)>,
}

impl Cluster {
    /// The kind of GPU that a request is for, on a node that has as many.
    pub fn kind(&self, gpus: u16, model: Option<Model>) -> Option<&str> {
        let fits = |(name, most): &&(String, u16)| *most >= gpus && model.is_none_or(|model| model.fits(name));
        self.kinds.iter().find(fits).map(|(name, _)| name.as_str())
    }

    /// GPUs that one node has at most, for a request.
    pub fn most_gpus(&self, model: Option<Model>) -> u16 {
        let fits = |(name, _): &&(String, u16)| model.is_none_or(|model| model.fits(name));
        self.kinds.iter().filter(fits).map(|(_, most)| *most).max().unwrap_or(0)
    }
}

impl Default for Machine {
    fn default() -> Machine {
        Machine {
            id: MachineId::LOCAL,
            name: String::new(),
            reachable: true,
            cpus: 0,
            ram_mib: 0,
            gpus: vec![],
            prefer: vec![],
            sharing: Sharing::default(),
            cluster: None,
        }
    }
}

/// What was decided about a machine: on disk, unlike what is read of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// None while it is set up: it takes only jobs that name it.
    pub class: Option<ClassId>,
    /// Kept after a set-up that failed, until it is moved or set up again.
    pub set_up: Option<SetUp>,
    /// Somebody paused it: what runs there goes on.
    pub paused: bool,
    pub quarantine: Option<Quarantine>,
    /// It is removed when its last run has ended.
    pub leaving: bool,
}

impl Default for Standing {
    fn default() -> Standing {
        Standing { class: Some(ClassId::DEFAULT), set_up: None, paused: false, quarantine: None, leaving: false }
    }
}

/// Jobs make a machine ready for a class, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetUp {
    /// It joins this class when the last of them has completed.
    pub class: ClassId,
    pub last: JobId,
}

/// Different jobs failed there one after another, while others completed elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quarantine {
    pub since: Time,
    /// So many jobs.
    pub failures: u32,
    pub last: JobId,
}

/// How GPUs are shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharing {
    pub order: Shares,
    /// A GPU with more of its memory in use takes no further job that does not say how much it needs.
    pub mem_threshold_percent: u8,
}

impl Default for Sharing {
    fn default() -> Sharing {
        Sharing { order: Shares::Auto, mem_threshold_percent: 80 }
    }
}

/// Which GPU a job that shares one goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shares {
    /// The least loaded, unless somebody waits for a whole one: then as with `Pack`.
    Auto,
    /// The fullest that has room: whole GPUs stay free.
    Pack,
    /// The least loaded.
    Spread,
}

impl Machine {
    pub fn gpu_set(&self) -> GpuSet {
        self.gpus.iter().map(|gpu| gpu.index).collect()
    }

    /// Place of a GPU among the preferred ones; the others come after them.
    pub fn rank(&self, index: u16) -> usize {
        self.prefer.iter().position(|preferred| *preferred == index).unwrap_or(usize::MAX)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gpu {
    /// The number `nvidia-smi` shows.
    pub index: u16,
    pub uuid: String,
    pub name: String,
    pub memory_mib: u64,
    /// As read last, in coarse steps: noise is no event.
    pub free_mib: u64,
    /// Memory that jobs of ours have taken, as read last, in coarse steps.
    pub used: Vec<(JobId, u32)>,
    /// Somebody else computes on it, and its load is over what sharing allows. What our own jobs do was given to them.
    pub busy: bool,
    /// Made up by `--simulate-gpus`: no such card exists.
    pub simulated: bool,
    /// Why it takes no job, whoever holds it.
    pub obstacle: Option<Obstacle>,
}

impl Gpu {
    /// Memory that a job of ours has taken.
    pub fn used_by(&self, job: JobId) -> u32 {
        self.used.iter().find(|(user, _)| *user == job).map_or(0, |(_, mib)| *mib)
    }
}

/// What keeps a GPU from taking a job. Who and why in detail is for those who show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// Somebody else's processes compute on it. Jobs that share it go by what is left of it.
    InUse,
    /// Another nexus service holds it.
    Locked,
    /// It hangs, fell off the bus, or vanished.
    Unreadable,
    /// Cut into instances, which are not used as GPUs.
    Mig,
    /// The configuration does not list it.
    LeftOut,
}
