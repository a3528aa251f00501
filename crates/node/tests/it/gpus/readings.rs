//! What a healthy driver says is read as it is.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use nexus_node::gpu::{GpuProcess, GpuState, Reading, Source};
use nexus_testkit::{FakeGpu, FakeGpus};
use serde_json::{Value, json};

use super::{NOBODY, Sleeper, Watch, is_root, vitals};

#[test]
fn names_memory_and_vitals_are_read() {
    let busy = FakeGpu::new('b').with("name", "NVIDIA H200").with("memory_mib", 143_771).with("used_mib", 642);
    let busy = busy.with("load", 97).with("temperature", 71).with("power_w", 650);
    let fake = FakeGpus::new(&[FakeGpu::new('a'), busy]);
    let reading = Watch::over(&fake).next();
    assert_eq!((reading.source, reading.driver.as_deref()), (Some(Source::Nvml), Some("580.65.06")));
    assert_eq!(reading.error, None);
    let [first, second] = &reading.gpus[..] else { panic!("{reading:?}") };
    assert_eq!((first.index, &first.uuid), (0, &FakeGpu::uuid_of('a')));
    assert_eq!((second.index, &second.uuid), (1, &FakeGpu::uuid_of('b')));
    assert_eq!((second.name.as_str(), second.memory_mib), ("NVIDIA H200", 143_771));
    let read = vitals(second);
    assert_eq!((read.used_mib, read.load_percent), (642, Some(97)));
    assert_eq!((read.temperature_c, read.power_w), (Some(71), Some(650)));
    assert_eq!((read.processes.len(), &read.lock), (0, &None));
}

#[test]
fn what_a_gpu_does_not_support_is_unknown_and_no_fault() {
    let plain = ["load", "temperature", "power_w", "mig", "memory_mib"];
    let gpu = plain.iter().fold(FakeGpu::new('a'), |gpu, field| gpu.with(field, Value::Null));
    let fake = FakeGpus::new(&[gpu]);
    let reading = Watch::over(&fake).next();
    let read = vitals(&reading.gpus[0]);
    assert_eq!((read.load_percent, read.temperature_c, read.power_w), (None, None, None));
    assert_eq!((reading.gpus[0].memory_mib, read.used_mib), (0, 0));
}

#[test]
fn drivers_of_before_510_are_read() {
    let fake = FakeGpus::new(&[]);
    fake.set_fault("old", &[FakeGpu::new('a').computes(std::process::id(), 300)]);
    let reading = Watch::over(&fake).next();
    assert_eq!(reading.source, Some(Source::Nvml));
    let read = vitals(&reading.gpus[0]);
    assert_eq!((reading.gpus[0].memory_mib, read.used_mib, read.processes.len()), (24_576, 301, 1));
}

#[test]
fn a_gpu_in_mig_mode_is_told_as_such() {
    let fake = FakeGpus::new(&[FakeGpu::new('a').with("mig", true), FakeGpu::new('b').with("mig", false)]);
    let reading = Watch::over(&fake).next();
    assert_eq!(reading.gpus[0].state, GpuState::Mig);
    assert_eq!(reading.gpus[0].name, "NVIDIA GeForce RTX 3090");
    vitals(&reading.gpus[1]);
}

fn processes(reading: &Reading) -> &[GpuProcess] {
    &vitals(&reading.gpus[0]).processes
}

#[test]
fn processes_are_told_with_program_memory_and_run() {
    let own = Sleeper::start(Command::new("sleep").arg("600").env("NEXUS_RUN_DIR", "/logs/job_abc/attempt_2"));
    let other = Sleeper::start(Command::new("sleep").arg0("/opt/x/python3").arg("600"));
    let server = Sleeper::start(Command::new("sleep").arg0("nvidia-cuda-mps-server").arg("600"));
    let gpu = FakeGpu::new('a').computes(own.pid(), 700).draws(other.pid(), 40).computes(other.pid(), 50);
    let gpu = gpu.computes(server.pid(), 66).process(json!({ "pid": u32::MAX - 1, "mps": true }));
    let fake = FakeGpus::new(&[gpu]);
    let watch = Watch::over(&fake);
    let named = |reading: &Reading| processes(reading).iter().any(|one| one.name.as_deref() == Some("sleep"));
    let reading = watch.until("the child has become its program", named);
    let find = |pid| processes(&reading).iter().find(|one| one.pid == pid);
    let job = find(own.pid()).expect("the job's process");
    assert_eq!((job.memory_mib, job.graphics), (Some(700), false));
    assert_eq!(job.run_dir.as_deref(), Some("/logs/job_abc/attempt_2".as_ref()));
    assert!(job.user.is_some());
    let other = find(other.pid()).expect("the other process");
    assert_eq!((other.name.as_deref(), other.memory_mib), (Some("python3"), Some(50)));
    assert!(!other.graphics, "who draws and computes, computes");
    assert_eq!(find(server.pid()), None, "the MPS server works for others");
    let unseen = find(u32::MAX - 1).expect("a client of MPS that is not of this pid namespace");
    assert_eq!((&unseen.user, &unseen.name, unseen.memory_mib, &unseen.run_dir), (&None, &None, None, &None));
    assert_eq!(processes(&reading).len(), 3);
}

#[test]
fn r25_foreign_processes_have_what_is_needed_to_ignore_them() {
    if !is_root() {
        return;
    }
    let desktop = Sleeper::start(Command::new("sleep").arg0("/usr/lib/xorg/Xorg").arg("600"));
    let idle = Sleeper::start(Command::new("sleep").arg0("python").arg("600").uid(NOBODY));
    let fake = FakeGpus::new(&[FakeGpu::new('a').draws(desktop.pid(), 150).computes(idle.pid(), 642)]);
    let watch = Watch::over(&fake);
    let named = |reading: &Reading| processes(reading).iter().all(|one| one.name.as_deref() != Some("it"));
    let reading = watch.until("the children have become their programs", named);
    let find = |pid| processes(&reading).iter().find(|one| one.pid == pid).expect("listed");
    let desktop = find(desktop.pid());
    assert_eq!((desktop.name.as_deref(), desktop.memory_mib, desktop.graphics), (Some("Xorg"), Some(150), true));
    let idle = find(idle.pid());
    assert_eq!((idle.name.as_deref(), idle.memory_mib, idle.graphics), (Some("python"), Some(642), false));
    assert_eq!((idle.user.as_deref(), &idle.run_dir), (Some("nobody"), &None));
}

#[test]
fn polls_can_be_changed_and_a_look_asked_for() {
    let fake = FakeGpus::new(&[FakeGpu::new('a')]);
    let watch = Watch::with_poll(&fake, Duration::from_secs(3600));
    assert_eq!(vitals(&watch.next().gpus[0]).used_mib, 1);
    fake.set(&[FakeGpu::new('a').with("used_mib", 2)]);
    watch.watcher.look_now();
    assert_eq!(vitals(&watch.next().gpus[0]).used_mib, 2);
    fake.set(&[FakeGpu::new('a').with("used_mib", 3)]);
    watch.watcher.set_poll(Duration::from_millis(1));
    watch.until("the new poll", |reading| vitals(&reading.gpus[0]).used_mib == 3);
}
