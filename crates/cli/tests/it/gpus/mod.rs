//! Real services that read made-up GPUs through NVIDIA's library as it is loaded, or through `nvidia-smi`.

mod coming;
mod drivers;
mod foreign;
mod seen;
mod services;
mod settings;
mod sharing;
mod troubles;

use std::process::{Child, Command, Stdio};

use nexus_testkit::{FakeGpu, FakeGpus, Nexus, until};
use serde_json::Value;

use crate::NEXUS;

/// Runs until it is ended.
const LONG: &str = "sleep 1000";

fn two() -> [FakeGpu; 2] {
    [FakeGpu::new('a'), FakeGpu::new('b')]
}

/// A home whose service has these GPUs.
fn service(fake: &FakeGpus) -> Nexus {
    let nexus = Nexus::fresh(NEXUS).fake_gpus(fake);
    nexus.config("[gpus]\npoll = \"1s\"\n");
    nexus.ok(&["start"]);
    nexus
}

/// What there is at this moment. A service that hangs fails the test.
#[track_caller]
fn gpus(nexus: &Nexus) -> Vec<Value> {
    let told = nexus.run_limited(&["gpus", "--json"]).expect_code(0).stdout;
    let machines: Value = serde_json::from_str(&told).expect("JSON");
    machines[0]["gpus"].as_array().expect("a list").clone()
}

/// Waits until a GPU's obstacle is of this kind; the GPU as it is then.
#[track_caller]
fn obstructed(nexus: &Nexus, index: usize, kind: &str) -> Value {
    let is_so = |gpu: &Value| gpu["obstacle"]["kind"] == kind;
    until(&format!("GPU {index} is {kind}"), || gpus(nexus).get(index).filter(|gpu| is_so(gpu)).cloned())
}

/// Waits until nothing is in the way of a GPU.
#[track_caller]
fn clear(nexus: &Nexus, index: usize) {
    until(&format!("GPU {index} is clear"), || gpus(nexus).get(index)?["obstacle"].is_null().then_some(()));
}

/// Why a job waits, which must be the same in all views; as JSON.
#[track_caller]
fn waits(nexus: &Nexus, id: &str, reason: &str) -> Value {
    let job = nexus.job(id);
    assert_eq!(job["state"], "queued", "{job}");
    for (args, expected) in [
        (&["queue"][..], format!("  {reason}  ")),
        (&["show", id], format!("\nWaiting:     {reason}\n")),
        (&["why", id], format!("{id}: {reason}\n")),
    ] {
        let told = nexus.run_limited(args).expect_code(0);
        assert!(told.stdout.contains(&expected), "{expected}\nis not in\n{told}");
    }
    job["waiting"].clone()
}

/// The job when it has ended. One that never does fails the test.
#[track_caller]
fn ended(nexus: &Nexus, id: &str) -> Value {
    let waited = nexus.run_limited(&["wait", id]);
    assert!(matches!(waited.code, 0 | 1), "{waited}");
    nexus.job(id)
}

/// A job runs on this GPU and completes.
#[track_caller]
fn takes_a_job(nexus: &Nexus, index: u16) {
    let job = ended(nexus, &nexus.add("true"));
    assert_eq!((&job["state"], &job["gpus"]), (&"completed".into(), &vec![index].into()), "{job}");
}

/// Each of these stands in service.log exactly once, in this order.
#[track_caller]
fn told_once(nexus: &Nexus, lines: &[&str]) {
    let log = nexus.service_log();
    let mut rest = log.as_str();
    for line in lines {
        assert_eq!(log.matches(line).count(), 1, "{line}\n{log}");
        let (_, after) = rest.split_once(line).unwrap_or_else(|| panic!("{line} stands before others\n{log}"));
        rest = after;
    }
}

/// A process of somebody else's, ended with the test.
struct Outsider {
    process: Child,
    user: String,
}

impl Outsider {
    fn new() -> Outsider {
        let process = Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().expect("sleep is there");
        let told = Command::new("id").arg("-un").output().expect("id is there").stdout;
        // Until then it has the name of this test.
        until("it is sleep", || nexus_testkit::cmdline(process.id()).starts_with("sleep").then_some(()));
        Outsider { process, user: String::from_utf8_lossy(&told).trim_end().into() }
    }

    fn pid(&self) -> u32 {
        self.process.id()
    }

    /// As it is told to users.
    fn words(&self, memory_mib: u64) -> String {
        format!("pid {} {} sleep, {memory_mib}MB", self.pid(), self.user)
    }
}

impl Drop for Outsider {
    fn drop(&mut self) {
        // It is gone already, or goes now.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
