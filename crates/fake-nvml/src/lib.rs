//! A `libnvidia-ml.so.1` of our own, whose GPUs stand in a file that a test writes: so the real NVML path is tested
//! without a GPU. Loaded with dlopen, never linked.
//!
//! The file is the one that the environment variable `FAKE_NVML` names, or else `gpus.json` beside the library
//! itself (a test that copies the library has GPUs of its own, even where several tests share a process). It is read
//! anew at every call; write it under another name and rename it. All fields but `uuid` may be left out:
//!
//! ```json
//! {
//!   "driver": "580.65.06",
//!   "fault": null,
//!   "gpus": [
//!     {
//!       "uuid": "GPU-0f1e2d3c-0000-0000-0000-000000000000",
//!       "name": "NVIDIA GeForce RTX 3090",
//!       "memory_mib": 24576, "used_mib": 512,
//!       "load": 35, "temperature": 41, "power_w": 120,
//!       "mig": false,
//!       "fault": null,
//!       "processes": [{ "pid": 4312, "memory_mib": 500, "graphics": false, "mps": false }]
//!     }
//!   ]
//! }
//! ```
//! The place in `gpus` is the index. `load`, `temperature`, `power_w`, `mig`, `memory_mib` and the memory of a process
//! may be null: not supported. A process that computes and draws stands there twice. `mps` is a client of MPS, which
//! the driver lists apart.
//!
//! | fault | of a GPU | of all |
//! |---|---|---|
//! | `lost` | it is there, and every question about it fails with GPU_IS_LOST | – |
//! | `unknown` | questions about memory and processes fail with UNKNOWN | – |
//! | `hang` | every question blocks until the file says otherwise | every call blocks so |
//! | `init-fails` | – | the library cannot be initialised; what is initialised works on |
//! | `driver-gone` | – | every call fails with DRIVER_NOT_LOADED, and the library must be initialised anew afterwards |
//! | `old` | – | functions of drivers from 510 on say that they do not exist |
//!
//! A file that is missing or cannot be read is `driver-gone`.

#![allow(clippy::disallowed_methods, reason = "tests make and read what they like")]

mod calls;
mod code;
mod world;

pub use calls::*;
