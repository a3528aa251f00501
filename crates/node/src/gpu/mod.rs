//! The GPUs of this machine as they are right now. They are read on threads of their own with a deadline, since a
//! sick driver hangs.
//!
//! ```text
//!   watcher ── a thread for each call ──> nvml ──┐ where that fails: smi
//!      └──> a Reading at every poll              └──> owners (whose process), locks (whose GPU)
//! ```

mod combine;

pub mod locks;
mod nvml;
mod owners;
pub mod peers;
mod smi;
mod watcher;

use serde::{Deserialize, Serialize};

pub use watcher::{Drivers, Watcher, WatcherConfig};

/// One look at all GPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// By index.
    pub gpus: Vec<GpuSeen>,
    /// None where there is no driver at all.
    pub source: Option<Source>,
    pub driver: Option<String>,
    /// Why the driver could not be asked. The GPUs known from before are then unreadable.
    pub error: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    Nvml,
    Smi,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuSeen {
    /// The number `nvidia-smi` shows.
    pub index: u16,
    /// Empty for one that could not be read since the service began.
    pub uuid: String,
    /// As the driver says it: `NVIDIA GeForce RTX 3090`.
    pub name: String,
    pub memory_mib: u64,
    pub state: GpuState,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GpuState {
    Read(Vitals),
    /// Cut into instances, which are not used as GPUs yet.
    Mig,
    /// It hangs, fell off the bus, or vanished.
    Unreadable {
        error: String,
    },
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vitals {
    pub used_mib: u64,
    pub load_percent: Option<u8>,
    pub temperature_c: Option<u16>,
    pub power_w: Option<u32>,
    pub processes: Vec<GpuProcess>,
    /// Who holds its lock, if somebody does.
    pub lock: Option<LockHolder>,
    /// Why no run can lock it against other services.
    #[serde(default)]
    pub lock_error: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuProcess {
    pub pid: u32,
    /// None where the process cannot be seen from here (another pid namespace), or is gone.
    pub user: Option<String>,
    pub name: Option<String>,
    pub memory_mib: Option<u64>,
    /// Draws; does not compute.
    pub graphics: bool,
    /// The run directory of the nexus run it belongs to, of whichever service.
    pub run_dir: Option<std::path::PathBuf>,
    /// On its way out: its memory is given back, and whose it was cannot be read any more.
    pub ending: bool,
}

/// The shim that holds a GPU for its run, of whichever user's service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockHolder {
    pub pid: Option<u32>,
    pub user: Option<String>,
}
