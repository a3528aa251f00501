//! What the file says there is, and whether the library is initialised.

use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde::Deserialize;

use crate::code::Code;

/// How often a call that hangs looks whether it still should.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct World {
    pub driver: Option<String>,
    fault: Option<Fault>,
    gpus: Vec<Gpu>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Fault {
    InitFails,
    DriverGone,
    Hang,
    Old,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gpu {
    pub uuid: String,
    #[serde(default = "usual_name")]
    pub name: String,
    #[serde(default = "usual_memory")]
    pub memory_mib: Option<u64>,
    #[serde(default)]
    pub used_mib: u64,
    #[serde(default)]
    pub load: Option<u32>,
    #[serde(default)]
    pub temperature: Option<u32>,
    #[serde(default)]
    pub power_w: Option<u32>,
    #[serde(default)]
    pub mig: Option<bool>,
    #[serde(default)]
    fault: Option<GpuFault>,
    #[serde(default)]
    pub processes: Vec<Process>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum GpuFault {
    Lost,
    Unknown,
    Hang,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Process {
    pub pid: u32,
    #[serde(default)]
    pub memory_mib: Option<u64>,
    #[serde(default)]
    pub graphics: bool,
    #[serde(default)]
    pub mps: bool,
}

fn usual_name() -> String {
    "NVIDIA GeForce RTX 3090".to_owned()
}

fn usual_memory() -> Option<u64> {
    Some(24_576)
}

/// How often the library was initialised and not shut down again.
static INITIALISED: AtomicU32 = AtomicU32::new(0);

pub fn initialise() -> Result<(), Code> {
    let world = settled()?;
    if world.fault == Some(Fault::InitFails) {
        return Err(Code::DriverNotLoaded);
    }
    INITIALISED.fetch_add(1, Ordering::SeqCst);
    Ok(())
}

pub fn shut_down() -> Result<(), Code> {
    let less = |count: u32| count.checked_sub(1);
    INITIALISED.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).map(drop).map_err(|_| Code::Uninitialized)
}

/// The world, for an initialised library.
pub fn world() -> Result<World, Code> {
    let world = settled().inspect_err(|_| INITIALISED.store(0, Ordering::SeqCst))?;
    if INITIALISED.load(Ordering::SeqCst) == 0 {
        return Err(Code::Uninitialized);
    }
    Ok(world)
}

impl World {
    pub fn count(&self) -> u32 {
        self.gpus.len() as u32
    }

    /// Whether the driver is one of before release 510.
    pub fn is_old(&self) -> bool {
        self.fault == Some(Fault::Old)
    }
}

/// A GPU about which anything at all can be asked.
pub fn gpu(index: u32) -> Result<Gpu, Code> {
    loop {
        let mut world = world()?;
        let index = usize::try_from(index).map_err(|_| Code::InvalidArgument)?;
        if index >= world.gpus.len() {
            return Err(Code::InvalidArgument);
        }
        let gpu = world.gpus.swap_remove(index);
        match gpu.fault {
            Some(GpuFault::Hang) => std::thread::sleep(LOOK_AGAIN),
            Some(GpuFault::Lost) => return Err(Code::GpuIsLost),
            Some(GpuFault::Unknown) | None => return Ok(gpu),
        }
    }
}

/// A GPU whose memory and processes can be asked for.
pub fn sound_gpu(index: u32) -> Result<Gpu, Code> {
    gpu(index).and_then(|gpu| if gpu.fault == Some(GpuFault::Unknown) { Err(Code::Unknown) } else { Ok(gpu) })
}

/// The file as soon as it does not say `hang`.
fn settled() -> Result<World, Code> {
    loop {
        let world = read().ok_or(Code::DriverNotLoaded)?;
        match world.fault {
            Some(Fault::Hang) => std::thread::sleep(LOOK_AGAIN),
            Some(Fault::DriverGone) => return Err(Code::DriverNotLoaded),
            _ => return Ok(world),
        }
    }
}

fn read() -> Option<World> {
    let path = match std::env::var_os("FAKE_NVML") {
        Some(path) => PathBuf::from(path),
        None => own_folder()?.join("gpus.json"),
    };
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

/// Where this library lies.
fn own_folder() -> Option<PathBuf> {
    // SAFETY: the structure holds pointers only, for which null is a value.
    let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
    let own: fn() -> Option<PathBuf> = own_folder;
    // SAFETY: the address is one of this library's code, and the structure is ours.
    if unsafe { libc::dladdr(own as *const libc::c_void, &mut found) } == 0 || found.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader keeps the name, which ends with a zero byte, for as long as this code is loaded.
    let file = unsafe { CStr::from_ptr(found.dli_fname) };
    Path::new(OsStr::from_bytes(file.to_bytes())).parent().map(Path::to_owned)
}
