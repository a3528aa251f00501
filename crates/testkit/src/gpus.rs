//! GPUs that a test makes up: the library of `crates/fake-nvml` and the file it reads.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

/// What cargo calls the library.
const BUILT: &str = "libnvidia_ml.so";

/// A copy of the fake library with GPUs of its own: what is `set` is there from the next call on.
pub struct FakeGpus {
    dir: TempDir,
}

/// One GPU, as it is written to the file. The words are those of `crates/fake-nvml/src/lib.rs`.
#[derive(Clone, Debug)]
pub struct FakeGpu(Value);

impl FakeGpus {
    pub fn new(gpus: &[FakeGpu]) -> FakeGpus {
        let dir = tempfile::Builder::new().prefix("nx-gpus-").tempdir().expect("a temporary folder");
        // Services of other users see them too.
        std::fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).expect("a folder of its own");
        let fake = FakeGpus { dir };
        // A copy, not a link: the loader takes two names of one file for one library, with one state.
        std::fs::copy(built(), fake.library()).expect("the fake library is built with the testkit");
        fake.set(gpus);
        fake
    }

    /// These GPUs are there now, and no others.
    pub fn set(&self, gpus: &[FakeGpu]) {
        self.set_with_fault(None, gpus);
    }

    /// The same with a fault of the whole driver: `init-fails`, `driver-gone`, `hang`, `old`.
    pub fn set_fault(&self, fault: &str, gpus: &[FakeGpu]) {
        self.set_with_fault(Some(fault), gpus);
    }

    fn set_with_fault(&self, fault: Option<&str>, gpus: &[FakeGpu]) {
        let gpus: Vec<&Value> = gpus.iter().map(|gpu| &gpu.0).collect();
        let text = json!({ "driver": "580.65.06", "fault": fault, "gpus": gpus }).to_string();
        let part = self.dir.path().join("gpus.json.part");
        std::fs::write(&part, text).and_then(|()| std::fs::rename(part, self.file())).expect("a folder of its own");
    }

    /// The library to load.
    pub fn library(&self) -> PathBuf {
        self.dir.path().join("libnvidia-ml.so.1")
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("gpus.json")
    }

    /// A folder for the locks of these GPUs.
    pub fn locks(&self) -> PathBuf {
        self.dir.path().join("locks")
    }

    /// Puts a shell script in the place of `nvidia-smi`. Without it there is none.
    pub fn set_smi(&self, script: &str) {
        let part = self.dir.path().join("nvidia-smi.part");
        std::fs::write(&part, format!("#!/bin/sh\n{script}\n"))
            .and_then(|()| std::fs::set_permissions(&part, Permissions::from_mode(0o755)))
            .and_then(|()| std::fs::rename(part, self.smi()))
            .expect("a folder of its own");
    }

    pub fn smi(&self) -> PathBuf {
        self.dir.path().join("nvidia-smi")
    }

    /// What a service needs to see them.
    pub fn env(&self) -> [(&'static str, String); 4] {
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        [
            ("NEXUS_NVML", text(self.library())),
            ("FAKE_NVML", text(self.file())),
            ("NEXUS_NVIDIA_SMI", text(self.smi())),
            ("NEXUS_GPU_LOCKS", text(self.locks())),
        ]
    }
}

impl FakeGpu {
    /// An RTX 3090 that does nothing. The UUID is made of the letter.
    pub fn new(letter: char) -> FakeGpu {
        FakeGpu(json!({
            "uuid": FakeGpu::uuid_of(letter),
            "name": "NVIDIA GeForce RTX 3090", "memory_mib": 24576, "used_mib": 1,
            "load": 0, "temperature": 30, "power_w": 20, "mig": null, "fault": null, "processes": [],
        }))
    }

    pub fn uuid_of(letter: char) -> String {
        format!("GPU-{}-0000-0000-0000-000000000000", letter.to_string().repeat(8))
    }

    /// Sets a field by its name in the file.
    pub fn with(mut self, field: &str, value: impl Into<Value>) -> FakeGpu {
        self.0[field] = value.into();
        self
    }

    /// `lost`, `unknown` or `hang`.
    pub fn fault(self, fault: &str) -> FakeGpu {
        self.with("fault", fault)
    }

    /// A process that computes; its memory is used.
    pub fn computes(self, pid: u32, memory_mib: u64) -> FakeGpu {
        self.process(json!({ "pid": pid, "memory_mib": memory_mib }))
    }

    pub fn draws(self, pid: u32, memory_mib: u64) -> FakeGpu {
        self.process(json!({ "pid": pid, "memory_mib": memory_mib, "graphics": true }))
    }

    /// Any process in the file's words.
    pub fn process(mut self, process: Value) -> FakeGpu {
        let used = self.0["used_mib"].as_u64().unwrap_or(0) + process["memory_mib"].as_u64().unwrap_or(0);
        self.0["used_mib"] = used.into();
        self.0["processes"].as_array_mut().expect("a list").push(process);
        self
    }
}

/// The library as cargo builds it for everybody who uses this crate: beside the test program, without a mark in its
/// name, since it is a cdylib.
fn built() -> PathBuf {
    let program = std::env::current_exe().expect("a test program has a path");
    let folders = program.ancestors().skip(1).take(2);
    let found = folders.map(|folder| folder.join(BUILT)).find(|path| Path::is_file(path));
    found.unwrap_or_else(|| panic!("no {BUILT} beside {}; cargo build -p nexus-fake-nvml", program.display()))
}
