//! NVML's return codes, as far as they are used here, and its words for them.

use std::ffi::CStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Code {
    Success = 0,
    Uninitialized = 1,
    InvalidArgument = 2,
    NotSupported = 3,
    InsufficientSize = 7,
    DriverNotLoaded = 9,
    FunctionNotFound = 13,
    GpuIsLost = 15,
    ArgumentVersionMismatch = 25,
    Unknown = 999,
}

pub fn words(code: u32) -> &'static CStr {
    match code {
        0 => c"Success",
        1 => c"Uninitialized",
        2 => c"Invalid Argument",
        3 => c"Not Supported",
        7 => c"Insufficient Size",
        9 => c"Driver Not Loaded",
        13 => c"Function Not Found",
        15 => c"GPU is lost",
        25 => c"Argument Version Mismatch",
        _ => c"Unknown Error",
    }
}
