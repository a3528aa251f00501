//! Who computes on a GPU outside nexus keeps jobs off it, for as long as that lasts.

use nexus_testkit::{FakeGpu, FakeGpus, until};
use serde_json::json;

use super::{LONG, Outsider, clear, ended, gpus, obstructed, service, takes_a_job, told_once, two, waits};
use crate::said;

#[test]
fn jobs_keep_off_a_gpu_in_use_and_say_why() {
    let outsider = Outsider::new();
    let (pid, words) = (outsider.pid(), outsider.words(642));
    let fake = FakeGpus::new(&[FakeGpu::new('a').computes(pid, 642), FakeGpu::new('b')]);
    let nexus = service(&fake);
    let status = nexus.ok(&["status"]);
    let line = format!("GPU 0 (RTX 3090, 24GB): in use outside nexus ({words})");
    assert!(status.contains(&format!("\n{line}\nGPU 1 (RTX 3090, 24GB): Available")), "{status}");
    assert!(nexus.ok(&["gpus"]).contains(&format!("| {}:sleep/{pid}(642M)", outsider.user)));
    assert_eq!(gpus(&nexus)[0]["obstacle"], json!({ "kind": "in-use", "pids": [pid] }));

    takes_a_job(&nexus, 1);
    let runs = nexus.add(LONG);
    assert_eq!(nexus.in_state(&runs, "running")["gpus"], json!([1]));
    let next = nexus.add(LONG);
    let told = waits(&nexus, &next, "needs 1 GPU: 1 held by jobs, 1 in use outside nexus");
    let expected = json!({"kind": "gpus", "need": 1, "exist": 2, "held": 1, "outside": 1});
    assert_eq!(said(&told), said(&expected));
    let why = nexus.ok(&["why", &next]);
    assert!(why.contains(&format!("\n  Not free: GPU 0: in use outside nexus ({words})\n")), "{why}");
    assert!(why.contains("nexus config set gpus.ignore "), "{why}");

    drop(outsider);
    fake.set(&two());
    assert_eq!(nexus.in_state(&next, "running")["gpus"], json!([0]));
    told_once(
        &nexus,
        &[&format!("] GPU 0 in use outside nexus ({words})\n"), "] GPU 0 is free again\n", &format!("job {next} on")],
    );
}

#[test]
fn one_that_comes_to_a_jobs_gpu_takes_nothing_from_the_job() {
    let outsider = Outsider::new();
    let fake = FakeGpus::new(&[FakeGpu::new('a')]);
    let nexus = service(&fake);
    let runs = nexus.add("until [ -e gate ]; do sleep 0.02; done");
    nexus.in_state(&runs, "running");
    let next = nexus.add("true");
    fake.set(&[FakeGpu::new('a').computes(outsider.pid(), 642)]);
    obstructed(&nexus, 0, "in-use");
    let status = nexus.ok(&["status"]);
    assert!(status.contains(&format!("\n  Job ID: {runs}\n")), "{status}");
    assert!(status.contains(&format!("\n  in use outside nexus ({})", outsider.words(642))), "{status}");
    waits(&nexus, &next, "needs 1 GPU: 1 held by jobs");

    nexus.file("gate", "");
    assert_eq!(ended(&nexus, &runs)["state"], "completed");
    waits(&nexus, &next, "needs 1 GPU: 1 in use outside nexus");
    fake.set(&[FakeGpu::new('a')]);
    assert_eq!(ended(&nexus, &next)["state"], "completed");
}

#[test]
fn r25_small_and_drawing_processes_block_no_gpu() {
    let (small, desktop) = (Outsider::new(), Outsider::new());
    let fake = FakeGpus::new(&[FakeGpu::new('a').computes(small.pid(), 150).draws(desktop.pid(), 2000)]);
    let nexus = service(&fake);
    takes_a_job(&nexus, 0);
    let told = gpus(&nexus)[0].clone();
    let shown: Vec<_> =
        told["processes"].as_array().unwrap().iter().map(|one| (&one["pid"], &one["foreign"])).collect();
    assert!(told["obstacle"].is_null() && shown.len() == 2 && shown.iter().all(|one| one.1 == false), "{told}");
    assert!(nexus.ok(&["status"]).ends_with("\nGPU 0 (RTX 3090, 24GB): Available"));

    // One that grows counts from then on, and one that shrinks no more.
    fake.set(&[FakeGpu::new('a').computes(small.pid(), 256).draws(desktop.pid(), 2000)]);
    let told = obstructed(&nexus, 0, "in-use");
    assert_eq!(told["obstacle"]["pids"], json!([small.pid()]), "the other one draws");
    let next = nexus.add("true");
    waits(&nexus, &next, "needs 1 GPU: 1 in use outside nexus");
    fake.set(&[FakeGpu::new('a').computes(small.pid(), 255).draws(desktop.pid(), 2000)]);
    assert_eq!(ended(&nexus, &next)["state"], "completed");
}

#[test]
fn more_memory_is_no_change_of_what_is_in_the_way() {
    let outsider = Outsider::new();
    let fake = FakeGpus::new(&[FakeGpu::new('a').computes(outsider.pid(), 642)]);
    let nexus = service(&fake);
    fake.set(&[FakeGpu::new('a').computes(outsider.pid(), 900)]);
    until("it is read again", || (gpus(&nexus)[0]["used_mib"] == 901).then_some(()));
    assert!(nexus.ok(&["status"]).contains(&outsider.words(900)));
    fake.set(&[FakeGpu::new('a')]);
    clear(&nexus, 0);
    told_once(&nexus, &["] GPU 0 in use outside nexus (", "] GPU 0 is free again\n"]);
}
