//! Machines and their GPUs, as far as scheduling needs them.

use crate::ids::MachineId;
use crate::request::GpuSet;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    pub id: MachineId,
    pub name: String,
    pub cpus: u16,
    pub gpus: Vec<Gpu>,
    /// Indices of GPUs that are taken first, in this order.
    pub prefer: Vec<u16>,
}

impl Machine {
    pub fn gpu_set(&self) -> GpuSet {
        self.gpus.iter().map(|gpu| gpu.index).collect()
    }

    /// Indices in the order in which GPUs are taken: the preferred ones, then those with most free memory,
    /// then the lowest.
    pub fn order(&self) -> Vec<u16> {
        let rank = |gpu: &Gpu| self.prefer.iter().position(|index| *index == gpu.index).unwrap_or(usize::MAX);
        let mut gpus: Vec<&Gpu> = self.gpus.iter().collect();
        gpus.sort_by_key(|gpu| (rank(gpu), std::cmp::Reverse(gpu.free_mib), gpu.index));
        gpus.into_iter().map(|gpu| gpu.index).collect()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// The number `nvidia-smi` shows.
    pub index: u16,
    pub uuid: String,
    pub name: String,
    pub memory_mib: u64,
    /// As read last, in coarse steps: noise is no event.
    pub free_mib: u64,
    /// Made up by `--simulate-gpus`: no such card exists.
    pub simulated: bool,
    /// Why it takes no job, whoever holds it.
    pub obstacle: Option<Obstacle>,
}

/// What keeps a GPU from taking a job. Who and why in detail is for those who show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// Somebody else's processes compute on it.
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
