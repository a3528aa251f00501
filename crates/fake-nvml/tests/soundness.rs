//! That the library answers bad pointers and small buffers as the real one does, and not by crashing. It is called
//! here as an ordinary crate; `crates/node` loads it as the driver's.

#![allow(clippy::disallowed_methods, reason = "tests make and read what they like")]

use std::ffi::c_char;
use std::ptr::null_mut;

use nvidia_ml::*;

/// One test, since all share the environment and the library's state.
#[test]
fn null_pointers_and_small_buffers_are_answered() {
    let file = std::env::temp_dir().join(format!("fake-nvml-{}.json", std::process::id()));
    std::fs::write(&file, r#"{"gpus":[{"uuid":"GPU-1","load":7,"processes":[{"pid":1},{"pid":2}]}]}"#).unwrap();
    // SAFETY: no other thread of this program reads the environment.
    unsafe { std::env::set_var("FAKE_NVML", &file) };
    let mut count = 0;
    // SAFETY: every pointer is null or to memory of ours that is as long as is said.
    unsafe {
        assert_eq!(nvmlDeviceGetCount_v2(&mut count), 1, "not initialised");
        assert_eq!(nvmlInit_v2(), 0);
        assert_eq!((nvmlDeviceGetCount_v2(&mut count), count), (0, 1));
        assert_eq!(nvmlDeviceGetCount_v2(null_mut()), 2);
        let mut device = null_mut();
        assert_eq!(nvmlDeviceGetHandleByIndex_v2(1, &mut device), 2, "there is one");
        assert_eq!(nvmlDeviceGetHandleByIndex_v2(0, null_mut()), 2);
        assert_eq!(nvmlDeviceGetHandleByIndex_v2(0, &mut device), 0);
        let mut text = [1 as c_char; 6];
        assert_eq!(nvmlDeviceGetUUID(device, text.as_mut_ptr(), 5), 7, "no room for the zero byte");
        assert_eq!(text, [1; 6], "nothing was written");
        assert_eq!(nvmlDeviceGetUUID(device, text.as_mut_ptr(), 6), 0);
        assert_eq!(nvmlDeviceGetUUID(device, null_mut(), 6), 2);
        assert_eq!(nvmlDeviceGetUUID(null_mut(), text.as_mut_ptr(), 6), 2);
        assert_eq!(nvmlDeviceGetUtilizationRates(device, null_mut()), 2);
        assert_eq!(nvmlDeviceGetMemoryInfo_v2(device, null_mut()), 2);
        assert_eq!(nvmlDeviceGetMigMode(device, &mut count, null_mut()), 3, "not supported");
        count = 0;
        assert_eq!((nvmlDeviceGetComputeRunningProcesses_v3(device, &mut count, null_mut()), count), (7, 2));
        assert_eq!(nvmlDeviceGetComputeRunningProcesses_v3(device, &mut count, null_mut()), 2);
        assert_eq!(nvmlDeviceGetComputeRunningProcesses_v3(device, null_mut(), null_mut()), 2);
        assert_eq!((nvmlShutdown(), nvmlShutdown()), (0, 1));
    }
    std::fs::remove_file(&file).unwrap();
}
