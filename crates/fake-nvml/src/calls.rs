//! NVML's functions by their C names, as far as a reader of GPUs needs them. Null pointers and small buffers are
//! answered as the real library answers them.
//!
//! # Safety
//! As in C: a pointer is null, or to memory of the type and length that the function's name stands for. A device is
//! never dereferenced: it is the index plus one.
#![allow(non_snake_case, clippy::missing_safety_doc)]

use std::ffi::{c_char, c_uint, c_ulonglong, c_void};

use crate::code::{Code, words};
use crate::world::{self, Gpu, Process, World};

const MIB: u64 = 1 << 20;

/// What NVML reports for a number it does not have.
const NOT_AVAILABLE: c_ulonglong = c_ulonglong::MAX;
const NO_INSTANCE: c_uint = c_uint::MAX;

/// `nvmlMemory_v2_t`, version 2.
const MEMORY_VERSION: c_uint = size_of::<MemoryV2>() as c_uint | 2 << 24;

pub type Device = *mut c_void;

#[repr(C)]
pub struct Memory {
    pub total: c_ulonglong,
    pub free: c_ulonglong,
    pub used: c_ulonglong,
}

#[repr(C)]
pub struct MemoryV2 {
    pub version: c_uint,
    pub total: c_ulonglong,
    pub reserved: c_ulonglong,
    pub free: c_ulonglong,
    pub used: c_ulonglong,
}

#[repr(C)]
pub struct Utilization {
    pub gpu: c_uint,
    pub memory: c_uint,
}

#[repr(C)]
pub struct ProcessSeen {
    pub pid: c_uint,
    pub used_gpu_memory: c_ulonglong,
    pub gpu_instance: c_uint,
    pub compute_instance: c_uint,
}

fn answer(result: Result<(), Code>) -> c_uint {
    match result {
        Ok(()) => Code::Success as c_uint,
        Err(code) => code as c_uint,
    }
}

/// # Safety
/// `place` is null or may be written.
unsafe fn put<T>(place: *mut T, value: T) -> Result<(), Code> {
    if place.is_null() {
        return Err(Code::InvalidArgument);
    }
    // SAFETY: not null, and so ours to write.
    unsafe { place.write(value) };
    Ok(())
}

/// # Safety
/// `place` is null or has room for `length` bytes.
unsafe fn put_text(place: *mut c_char, length: c_uint, text: &str) -> Result<(), Code> {
    if place.is_null() {
        return Err(Code::InvalidArgument);
    }
    if text.len() >= length as usize {
        return Err(Code::InsufficientSize);
    }
    // SAFETY: the text and a zero byte fit into the buffer.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), place, text.len());
        place.add(text.len()).write(0);
    }
    Ok(())
}

fn index_of(device: Device) -> Result<u32, Code> {
    u32::try_from(device as usize).ok().and_then(|number| number.checked_sub(1)).ok_or(Code::InvalidArgument)
}

fn gpu(device: Device) -> Result<Gpu, Code> {
    world::gpu(index_of(device)?)
}

fn modern() -> Result<World, Code> {
    world::world().and_then(|world| if world.is_old() { Err(Code::FunctionNotFound) } else { Ok(world) })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlInit_v2() -> c_uint {
    answer(world::initialise())
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlInitWithFlags(_flags: c_uint) -> c_uint {
    nvmlInit_v2()
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlShutdown() -> c_uint {
    answer(world::shut_down())
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlErrorString(code: c_uint) -> *const c_char {
    words(code).as_ptr()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetDriverVersion(version: *mut c_char, length: c_uint) -> c_uint {
    let driver = world::world().map(|world| world.driver.unwrap_or_else(|| "580.65.06".to_owned()));
    // SAFETY: as this function's own.
    answer(driver.and_then(|driver| unsafe { put_text(version, length, &driver) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCount_v2(count: *mut c_uint) -> c_uint {
    // SAFETY: as this function's own.
    answer(world::world().and_then(|world| unsafe { put(count, world.count()) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, device: *mut Device) -> c_uint {
    let found = world::gpu(index).map(|_| (index as usize + 1) as Device);
    // SAFETY: as this function's own.
    answer(found.and_then(|found| unsafe { put(device, found) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetIndex(device: Device, index: *mut c_uint) -> c_uint {
    // SAFETY: as this function's own.
    answer(gpu(device).and_then(|_| unsafe { put(index, index_of(device)?) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetUUID(device: Device, uuid: *mut c_char, length: c_uint) -> c_uint {
    // SAFETY: as this function's own.
    answer(gpu(device).and_then(|gpu| unsafe { put_text(uuid, length, &gpu.uuid) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetName(device: Device, name: *mut c_char, length: c_uint) -> c_uint {
    // SAFETY: as this function's own.
    answer(gpu(device).and_then(|gpu| unsafe { put_text(name, length, &gpu.name) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMemoryInfo(device: Device, memory: *mut Memory) -> c_uint {
    let read = || {
        let (total, used) = memory_of(device)?;
        // SAFETY: as this function's own.
        unsafe { put(memory, Memory { total, free: total.saturating_sub(used), used }) }
    };
    answer(read())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMemoryInfo_v2(device: Device, memory: *mut MemoryV2) -> c_uint {
    let read = || {
        modern()?;
        // SAFETY: as this function's own.
        let version = unsafe { memory.as_ref() }.ok_or(Code::InvalidArgument)?.version;
        if version != MEMORY_VERSION {
            return Err(Code::ArgumentVersionMismatch);
        }
        let (total, used) = memory_of(device)?;
        // SAFETY: as above.
        unsafe { put(memory, MemoryV2 { version, total, reserved: 0, free: total.saturating_sub(used), used }) }
    };
    answer(read())
}

/// Bytes: all, and used.
fn memory_of(device: Device) -> Result<(u64, u64), Code> {
    let gpu = world::sound_gpu(index_of(device)?)?;
    let total = gpu.memory_mib.ok_or(Code::NotSupported)?;
    Ok((total * MIB, gpu.used_mib * MIB))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetUtilizationRates(device: Device, rates: *mut Utilization) -> c_uint {
    let load = gpu(device).and_then(|gpu| gpu.load.ok_or(Code::NotSupported));
    // SAFETY: as this function's own.
    answer(load.and_then(|load| unsafe { put(rates, Utilization { gpu: load, memory: load / 2 }) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetTemperature(device: Device, _sensor: c_uint, degrees: *mut c_uint) -> c_uint {
    let read = gpu(device).and_then(|gpu| gpu.temperature.ok_or(Code::NotSupported));
    // SAFETY: as this function's own.
    answer(read.and_then(|read| unsafe { put(degrees, read) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetPowerUsage(device: Device, milliwatts: *mut c_uint) -> c_uint {
    let read = gpu(device).and_then(|gpu| gpu.power_w.ok_or(Code::NotSupported));
    // SAFETY: as this function's own.
    answer(read.and_then(|watts| unsafe { put(milliwatts, watts * 1000) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMigMode(device: Device, current: *mut c_uint, pending: *mut c_uint) -> c_uint {
    let mode = gpu(device).and_then(|gpu| gpu.mig.ok_or(Code::NotSupported)).map(c_uint::from);
    // SAFETY: as this function's own.
    answer(mode.and_then(|mode| unsafe { put(current, mode).and_then(|()| put(pending, mode)) }))
}

/// # Safety
/// `count` is null or may be read and written; `list` is null or has room for as many as it says.
unsafe fn list(
    device: Device,
    count: *mut c_uint,
    list: *mut ProcessSeen,
    choose: fn(&Process) -> bool,
) -> Result<(), Code> {
    let mut processes = world::sound_gpu(index_of(device)?)?.processes;
    processes.retain(choose);
    // SAFETY: as this function's own.
    let room = *unsafe { count.as_ref() }.ok_or(Code::InvalidArgument)?;
    // SAFETY: as this function's own.
    unsafe { put(count, processes.len() as c_uint)? };
    if processes.len() > room as usize {
        return Err(Code::InsufficientSize);
    }
    if list.is_null() && !processes.is_empty() {
        return Err(Code::InvalidArgument);
    }
    for (place, process) in processes.iter().enumerate() {
        let seen = ProcessSeen {
            pid: process.pid,
            used_gpu_memory: process.memory_mib.map_or(NOT_AVAILABLE, |memory| memory * MIB),
            gpu_instance: NO_INSTANCE,
            compute_instance: NO_INSTANCE,
        };
        // SAFETY: `list` has room for `room`, and there are no more than that.
        unsafe { list.add(place).write(seen) };
    }
    Ok(())
}

fn computes(process: &Process) -> bool {
    !process.graphics && !process.mps
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetComputeRunningProcesses_v3(
    device: Device,
    count: *mut c_uint,
    processes: *mut ProcessSeen,
) -> c_uint {
    // SAFETY: as this function's own.
    answer(modern().and_then(|_| unsafe { list(device, count, processes, computes) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetComputeRunningProcesses_v2(
    device: Device,
    count: *mut c_uint,
    processes: *mut ProcessSeen,
) -> c_uint {
    // SAFETY: as this function's own.
    answer(unsafe { list(device, count, processes, computes) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetGraphicsRunningProcesses_v3(
    device: Device,
    count: *mut c_uint,
    processes: *mut ProcessSeen,
) -> c_uint {
    // SAFETY: as this function's own.
    answer(modern().and_then(|_| unsafe { list(device, count, processes, |process| process.graphics) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetGraphicsRunningProcesses_v2(
    device: Device,
    count: *mut c_uint,
    processes: *mut ProcessSeen,
) -> c_uint {
    // SAFETY: as this function's own.
    answer(unsafe { list(device, count, processes, |process| process.graphics) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMPSComputeRunningProcesses_v3(
    device: Device,
    count: *mut c_uint,
    processes: *mut ProcessSeen,
) -> c_uint {
    // SAFETY: as this function's own.
    answer(modern().and_then(|_| unsafe { list(device, count, processes, |process| process.mps) }))
}
