//! Machines and their GPUs, as far as scheduling needs them.

use crate::ids::MachineId;
use crate::request::GpuSet;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    pub id: MachineId,
    pub name: String,
    pub cpus: u16,
    pub gpus: Vec<Gpu>,
}

impl Machine {
    pub fn gpu_set(&self) -> GpuSet {
        self.gpus.iter().map(|gpu| gpu.index).collect()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// The number `nvidia-smi` shows.
    pub index: u16,
    pub uuid: String,
    pub name: String,
    pub memory_mib: u64,
    /// Made up by `--simulate-gpus`: no such card exists.
    pub simulated: bool,
}
