//! Reads GPUs by NVIDIA's own library, which is loaded when it is there and never linked. Every call here may hang
//! for as long as the driver does: callers use threads of their own.

use std::ffi::OsStr;

use nvml_wrapper::enum_wrappers::device::TemperatureSensor;
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;
use nvml_wrapper::{Device, Nvml};

use super::locks::{Locks, Look};
use super::owners::{self, Listed};
use super::{GpuState, Vitals};

const MIB: u64 = 1 << 20;

/// How often a list of processes that grew while it was read is asked for.
const LIST_ATTEMPTS: usize = 3;

/// The library, initialised; shut down when the last holder lets go.
pub struct Library {
    nvml: Nvml,
}

/// Why nothing at all can be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// There is no such library here.
    Absent,
    /// It has to be initialised anew.
    Library(String),
}

/// What could be learned of one GPU.
#[derive(Debug, PartialEq, Eq)]
pub struct CardRead {
    pub uuid: Option<String>,
    pub name: Option<String>,
    pub memory_mib: Option<u64>,
    pub state: Result<GpuState, Fault>,
}

/// Why a GPU cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    Card(String),
    /// Not its own fault: the same would come of any other.
    Library(String),
}

impl CardRead {
    pub fn failed(fault: Fault) -> CardRead {
        CardRead { uuid: None, name: None, memory_mib: None, state: Err(fault) }
    }
}

impl Library {
    pub fn open(path: &OsStr) -> Result<Library, Trouble> {
        match Nvml::builder().lib_path(path).init() {
            Ok(nvml) => Ok(Library { nvml }),
            Err(NvmlError::LibloadingError(_)) => Err(Trouble::Absent),
            Err(error) => Err(Trouble::Library(error.to_string())),
        }
    }

    pub fn count(&self) -> Result<u16, Trouble> {
        let count = self.nvml.device_count().map_err(|error| Trouble::Library(error.to_string()))?;
        Ok(u16::try_from(count).unwrap_or(u16::MAX))
    }

    pub fn driver(&self) -> Option<String> {
        self.nvml.sys_driver_version().ok()
    }

    pub fn read(&self, index: u16, locks: &Locks) -> CardRead {
        let mut read = CardRead::failed(Fault::Card(String::new()));
        read.state = self.read_into(&mut read, index, locks);
        read
    }

    /// Keeps what was learned before a question failed.
    fn read_into(&self, read: &mut CardRead, index: u16, locks: &Locks) -> Result<GpuState, Fault> {
        let device = self.nvml.device_by_index(u32::from(index))?;
        let uuid = device.uuid()?;
        read.uuid = Some(uuid.clone());
        read.name = Some(device.name()?);
        let (memory_mib, used_mib) = self.memory(&device)?;
        read.memory_mib = Some(memory_mib);
        if further(device.mig_mode())?.is_some_and(|mode| mode.current == MIG_ENABLED) {
            return Ok(GpuState::Mig);
        }
        let load = further(device.utilization_rates())?.map(|rates| rates.gpu.min(100) as u8);
        let temperature = further(device.temperature(TemperatureSensor::Gpu))?;
        let power = further(device.power_usage())?;
        let Look { holder, error } = locks.look(&uuid);
        Ok(GpuState::Read(Vitals {
            used_mib,
            load_percent: load,
            temperature_c: temperature.and_then(|degrees| u16::try_from(degrees).ok()),
            power_w: power.map(|milliwatts| milliwatts.div_ceil(1000)),
            processes: owners::describe(processes(&device)?),
            lock: holder,
            lock_error: error.map(|error| error.to_string()),
        }))
    }

    /// All and used. Both are nothing where the GPU has no memory of its own (it shares the machine's).
    fn memory(&self, device: &Device) -> Result<(u64, u64), Fault> {
        match device.memory_info() {
            Ok(memory) => Ok((memory.total / MIB, memory.used.div_ceil(MIB))),
            Err(NvmlError::NotSupported) => Ok((0, 0)),
            Err(error) if is_missing(&error) => self.memory_of_old_driver(device),
            Err(error) => Err(error.into()),
        }
    }

    fn memory_of_old_driver(&self, device: &Device) -> Result<(u64, u64), Fault> {
        // SAFETY: three numbers.
        let mut memory = unsafe { std::mem::zeroed() };
        // SAFETY: the handle is of this library, which lives on, and the structure is ours.
        let code = unsafe { self.nvml.lib().nvmlDeviceGetMemoryInfo(device.handle(), &mut memory) };
        nvml_wrapper::error::nvml_try(code)?;
        Ok((memory.total / MIB, memory.used.div_ceil(MIB)))
    }
}

const MIG_ENABLED: u32 = 1;

/// Those that compute, those that do so through MPS, and those that draw.
fn processes(device: &Device) -> Result<Vec<Listed>, Fault> {
    let computing = list(|| device.running_compute_processes(), || device.running_compute_processes_v2())?;
    // Older drivers have no such list.
    let through_mps = further(device.mps_running_compute_processes())?.unwrap_or_default();
    let drawing = further(list(|| device.running_graphics_processes(), || device.running_graphics_processes_v2()))?;
    let listed = |one: ProcessInfo, graphics| Listed {
        pid: one.pid,
        memory_mib: match one.used_gpu_memory {
            UsedGpuMemory::Used(bytes) => Some(bytes.div_ceil(MIB)),
            UsedGpuMemory::Unavailable => None,
        },
        graphics,
    };
    let computing = computing.into_iter().chain(through_mps).map(|one| listed(one, false));
    Ok(computing.chain(drawing.unwrap_or_default().into_iter().map(|one| listed(one, true))).collect())
}

fn list(
    ask: impl Fn() -> Result<Vec<ProcessInfo>, NvmlError>,
    ask_old: impl Fn() -> Result<Vec<ProcessInfo>, NvmlError>,
) -> Result<Vec<ProcessInfo>, NvmlError> {
    let mut attempt = 1;
    loop {
        let answer = match ask() {
            Err(error) if is_missing(&error) => ask_old(),
            other => other,
        };
        match answer {
            Err(NvmlError::NotSupported) => return Ok(Vec::new()),
            Err(NvmlError::InsufficientSize(_)) if attempt < LIST_ATTEMPTS => attempt += 1,
            other => return other,
        }
    }
}

/// The answer to a question that need not have one. A GPU or driver that is gone is no such answer.
fn further<T>(answer: Result<T, NvmlError>) -> Result<Option<T>, Fault> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error) if is_of_library(&error) || matches!(error, NvmlError::GpuLost | NvmlError::ResetRequired) => {
            Err(error.into())
        }
        Err(_) => Ok(None),
    }
}

/// Whether the driver is too old to know the question.
fn is_missing(error: &NvmlError) -> bool {
    matches!(error, NvmlError::FailedToLoadSymbol(_) | NvmlError::FunctionNotFound)
}

fn is_of_library(error: &NvmlError) -> bool {
    matches!(
        error,
        NvmlError::Uninitialized
            | NvmlError::DriverNotLoaded
            | NvmlError::LibRmVersionMismatch
            | NvmlError::LibraryNotFound
    )
}

impl From<NvmlError> for Fault {
    fn from(error: NvmlError) -> Fault {
        match error {
            // A library that lacks what every reading needs is of no use for any GPU.
            error if is_of_library(&error) || is_missing(&error) => Fault::Library(error.to_string()),
            NvmlError::GpuLost => {
                Fault::Card("it fell off the bus (GPU is lost); a restart of the machine may bring it back".into())
            }
            NvmlError::ResetRequired => Fault::Card("it must be reset: nvidia-smi --gpu-reset".into()),
            NvmlError::Unknown => Fault::Card("the driver answers with an unknown error".into()),
            error => Fault::Card(error.to_string()),
        }
    }
}
